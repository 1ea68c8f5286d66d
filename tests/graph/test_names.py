"""Names of ids: reading them, and asking for them."""

from __future__ import annotations

import gzip
from pathlib import Path
from random import Random
from typing import Any

import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fuzz.mutations import damage
from ookg.errors import InputError
from ookg.graph.names import Names, as_names, read_names

ROWS = [("Q2", "Berlin", "capital of Germany"), ("Q1", "Zürich", ""), ("P1", "capital", ""), ("Q3", "Berlin", "a town")]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def assert_right(names: Names) -> None:
    assert len(names) == 4
    assert [names.name(label) for label in ("Q1", "Q2", "P1", "Q", "Q11", "Berlin")] == [
        "Zürich", "Berlin", "capital", None, None, None,
    ]  # fmt: skip
    assert names.description("Q2") == "capital of Germany"
    assert names.description("Q1") is None
    assert names.description("Q9") is None
    assert names.find("Berlin") == ["Q2", "Q3"]
    assert names.find("Zürich") == ["Q1"]
    assert names.find("berlin") == names.find("Ber") == names.find("Berlin ") == names.find("\ud800") == []
    assert names.name("\ud800") is None


def test_rows_and_mappings() -> None:
    assert_right(as_names(ROWS))
    assert as_names({"Q1": "one"}).name("Q1") == "one"
    assert len(as_names([])) == 0
    assert Names.none().name("Q1") is None
    assert Names.none().find("") == []


@pytest.mark.parametrize("ending", ["tsv", "csv", "txt"])
@pytest.mark.parametrize("header", [None, ("id", "name", "description"), (" ID", "Name", "Description")])
def test_text(tmp_path: Path, ending: str, header: tuple[str, ...] | None) -> None:
    separator = "," if ending == "csv" else "\t"
    rows = [*([header] if header else []), *ROWS]
    text = "".join(separator.join(row) + "\n" for row in rows)
    assert_right(read_names(write(tmp_path / f"names.{ending}", text)))
    (tmp_path / f"names.{ending}.gz").write_bytes(gzip.compress(text.encode()))
    assert_right(read_names(str(tmp_path / f"names.{ending}.gz")))


def test_columns_in_any_order_and_without_descriptions(tmp_path: Path) -> None:
    names = read_names(write(tmp_path / "n.csv", 'name,views,id\n"Paris, Texas",7,Q5\n'))
    assert (names.name("Q5"), names.description("Q5")) == ("Paris, Texas", None)
    names = read_names(write(tmp_path / "n.tsv", 'Q5\tthe "big" one\n'))
    assert names.name("Q5") == 'the "big" one'
    assert len(read_names(write(tmp_path / "empty.tsv", ""))) == 0


def test_parquet_and_frames(tmp_path: Path) -> None:
    columns: dict[str, Any] = dict(zip(("id", "name", "description"), zip(*ROWS, strict=True), strict=True))
    columns["description"] = [text or None for text in columns["description"]]
    pq.write_table(pa.table(columns), tmp_path / "names.parquet")
    assert_right(read_names(tmp_path / "names.parquet"))
    assert_right(as_names(polars.DataFrame(columns)))
    assert_right(as_names(pandas.DataFrame(columns)))
    assert as_names(pa.table({"ID": [3], "name": ["three"], "description": pa.nulls(1)})).name("3") == "three"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("n.tsv", "Q1\n", "n.tsv:1: 1 column separated by tab: ['Q1']; expected id, name"),
        ("n.tsv", "a\tb\tc\td\n", "n.tsv:1: 4 columns"),
        ("n.tsv", "Q1\ta\nQ2\n", "n.tsv:2: 1 column instead of 2: ['Q2']; give every line as many columns"),
        ("n.tsv", "Q1\ta\nQ2\t \n", "n.tsv:2: an empty name for 'Q2'; give it one"),
        ("n.tsv", "Q1\ta\n\tb\n", "n.tsv:2: no id for the name 'b'; give it one"),
        ("n.tsv", "id\tname\nQ1\ta\n\nQ1\ta\n", "n.tsv:4: 'Q1' has a name in 2 already; give each id once"),
        ("n.csv", 'Q1,"a\nb"\n', "n.csv:1: a quote that the line does not close; write each name on one line"),
        ("n.csv.gz", "Q1,a\n", "n.csv.gz: is not gzip data"),
        ("n.parquet", "Q1,a\n", "n.parquet: is not a Parquet file"),
        (".", "", "is a folder, not a file of names"),
        ("nosuch.tsv", "", "nosuch.tsv: no such file"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    if text:
        write(tmp_path / name, text)
    with pytest.raises(InputError) as refusal:
        read_names(tmp_path / name)
    assert message in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"id": ["a"]}, "columns id; name them id, name"),
        ({"id": ["a", None], "name": ["x", "y"]}, ":2: no value in column 'id'"),
        ({"id": ["a", "b", "a"], "name": ["x", "y", "z"]}, ":3: 'a' has a name in 1 already"),
        ({"id": ["a"], "name": [1.5]}, "column 'name' is double"),
        ({"id": ["a"], "name": ["x"], "description": [1.5]}, "column 'description' is double"),
    ],
)
def test_bad_parquet_is_one_line(tmp_path: Path, table: dict[str, list[Any]], message: str) -> None:
    pq.write_table(pa.table(table), tmp_path / "n.parquet")
    with pytest.raises(InputError) as refusal:
        read_names(tmp_path / "n.parquet")
    assert message in str(refusal.value)


@pytest.mark.parametrize("rows", [["ab"], [("a",)], [("a", 1)], [("a", "b", "c", "d")], [("a", "\ud800")], ["abc"]])
def test_bad_rows_are_one_line(rows: Any) -> None:
    with pytest.raises(InputError):
        as_names(rows)


@pytest.mark.parametrize("ending", ["tsv", "csv.gz", "parquet"])
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"names.{ending}"
    if ending == "parquet":
        pq.write_table(pa.table({"id": ["Q1", "Q2"], "name": ["one", "two"], "description": ["", None]}), path)
    elif ending == "tsv":
        write(path, "".join("\t".join(row) + "\n" for row in ROWS))
    else:
        path.write_bytes(gzip.compress(b"id,name\nQ1,one\nQ2,two\n"))
    sound, outcomes = path.read_bytes(), []
    for number in range(60):
        path.write_bytes(sound)
        damage(path, Random(number))
        try:
            read_names(path)
        except InputError as refusal:
            outcomes.append(len(str(refusal).splitlines()))
    assert set(outcomes) == {1}
    assert len(outcomes) > 10


def test_later_names_win() -> None:
    both = as_names(ROWS).with_more(as_names([("Q3", "Bern", ""), ("Q9", "Rome", "")]))
    assert len(both) == 5
    assert both.find("Berlin") == ["Q2"]
    assert (both.name("Q3"), both.name("Q9"), both.description("Q3")) == ("Bern", "Rome", None)
    assert both.description("Q2") == "capital of Germany"


def test_many_names_agree_with_a_dictionary() -> None:
    rows = [(f"Q{(number * 7919) % 100_003}", f"name {number % 40_000}") for number in range(100_000)]
    names, meaning = as_names(rows), dict(rows)
    for label in ["Q0", "Q5", "Q77777", "Q100002", "Q100003"]:
        assert names.name(label) == meaning.get(label)
    wanted = [label for label, name in rows if name == "name 123"]
    assert names.find("name 123") == sorted(wanted)
    assert len(wanted) == 3
