"""Tables as files, by the name's ending, and as frames."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ookg.errors import InputError
from ookg.graph.frames import Tabular
from ookg.graph.tables import read_table, write_table

TABLE = pa.table(
    {"entity": ["a", 'b "c", d', "é\tx"], "n": [1, None, 3], "vector": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.5]]}
)


class Frame(Tabular):
    def to_arrow(self) -> Any:
        return TABLE


def test_csv_gets_a_column_for_each_number_of_a_vector(tmp_path: Path) -> None:
    write_table(tmp_path / "x.csv", TABLE)
    back = read_table(tmp_path / "x.csv", ("entity", "vector_1", "vector_2"), ("n", "nothing"))
    assert back["entity"] == TABLE["entity"].to_pylist()
    assert back["n"] == ["1", None, "3"]
    assert [float(value) for value in back["vector_2"]] == [2.0, 4.0, 6.5]
    assert "nothing" not in back


def test_json_lines_and_parquet_keep_lists(tmp_path: Path) -> None:
    for ending in ("jsonl", "parquet"):
        write_table(tmp_path / f"x.{ending}", TABLE)
        back = read_table(tmp_path / f"x.{ending}", ("vector", "entity"), ("n",))
        assert back == {name: TABLE[name].to_pylist() for name in ("vector", "entity", "n")}
    assert json.loads((tmp_path / "x.jsonl").read_text().splitlines()[1])["n"] is None


def test_lists_of_different_lengths_are_no_csv(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"different lengths in column v; write .parquet"):
        write_table(tmp_path / "x.csv", pa.table({"v": [[1], [1, 2]]}))
    assert not (tmp_path / "x.csv").exists()


@pytest.mark.parametrize("name", ["x", "x.npz", "x.parquet.gz"])
def test_another_ending_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"end it with \.parquet or \.csv or \.tsv or \.jsonl"):
        write_table(tmp_path / name, TABLE)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("x.jsonl", '{"a": 1}\n[1]\n', "x.jsonl:2: not a JSON object with a;"),
        ("x.jsonl", "{", "x.jsonl:1: no JSON"),
        ("x.csv", "b\n1\n", r"no column a \(there are: b\); name columns a"),
        ("x.csv", 'a\n"1\n', "cannot be read as csv"),
        ("x.csv", "a,b,a\n1,2,3\n", "column a is there twice"),
        ("x.parquet", "no", "is not a Parquet file"),
    ],
)
def test_a_damaged_table_is_refused(tmp_path: Path, name: str, content: str, problem: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=problem):
        read_table(tmp_path / name, ("a",))


def test_a_line_that_is_no_object_is_refused_where_no_column_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('["a"]\n')
    with pytest.raises(InputError, match=r"x.jsonl:1: not a JSON object; give one on each line"):
        read_table(tmp_path / "x.jsonl", (), ("a",))


def test_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    assert isinstance(Frame().to_pandas(), pandas.DataFrame)
    assert Frame().to_polars().equals(polars.from_arrow(TABLE))
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(InputError, match="polars is not installed; install it, or take to_arrow"):
        Frame().to_polars()
