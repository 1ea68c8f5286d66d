"""pandas and polars frames, Arrow tables and the like wherever triples are taken in Python."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import ookg
from conftest import SMALL
from ookg.errors import FileError, InputError
from ookg.graph.triples import Triples, as_triples
from ookg.model.model import Model

Columns = dict[str, list[Any]]
Make = Callable[[Columns], Any]


class OnlyAStream:
    """A frame of some other library: it has Arrow's C interface and nothing else."""

    def __init__(self, columns: Columns) -> None:
        self.table = pa.table(columns)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.fixture(params=["pandas", "polars", "pyarrow", "reader", "other"])
def make(request: pytest.FixtureRequest) -> Make:
    constructors: dict[str, Make] = {
        "pyarrow": pa.table,
        "reader": lambda columns: pa.table(columns).to_reader(),
        "other": OnlyAStream,
    }
    if request.param in constructors:
        return constructors[request.param]
    constructor: Make = pytest.importorskip(request.param).DataFrame
    return constructor


@pytest.mark.parametrize("names", ["head relation tail", "Subject Predicate Object", "h r t", "s p o"])
def test_columns_are_found_by_name_in_any_order(make: Make, names: str) -> None:
    head, relation, tail = names.split()
    columns: Columns = {"when": [1, 2], tail: ["b", "NA"], head: ["a", "日本"], relation: ["r", "s"]}
    assert list(as_triples(make(columns))) == [("a", "r", "b"), ("日本", "s", "NA")]


def test_three_columns_are_taken_as_they_stand(make: Make) -> None:
    assert list(as_triples(make({"from": ["a"], "how": ["r"], "to": ["b"]}))) == [("a", "r", "b")]
    with pytest.raises(FileError, match="columns from, how, to, when; name three of them head, relation, tail"):
        as_triples(make({"from": ["a"], "how": ["r"], "to": ["b"], "when": [1]}))


def test_whole_numbers_are_labels(make: Make) -> None:
    assert list(as_triples(make({"h": [1, 2], "r": [7, 7], "t": [2, 30]}))) == [("1", "7", "2"), ("2", "7", "30")]


@pytest.mark.parametrize("label", [[1, 0], [1, -1], ["1", "0"], [True, False]])
def test_label_column(make: Make, label: list[Any]) -> None:
    for names in (("head", "relation", "tail", "label"), ("from", "how", "to", "label")):
        found = as_triples(make(dict(zip(names, (["a", "a"], ["r", "r"], ["b", "c"], label), strict=True))))
        assert found.truth is not None
        assert found.truth.tolist() == [True, False]


def test_duplicates_are_dropped_or_kept(make: Make) -> None:
    columns: Columns = {"head": ["a", "a"], "relation": ["r", "r"], "tail": ["b", "b"]}
    assert as_triples(make(columns)).duplicates == 1
    assert len(as_triples(make(columns), keep_duplicates=True)) == 2


def test_missing_and_empty_values_name_the_row(make: Make) -> None:
    with pytest.raises(FileError, match="row 2: no value in column 'tail'; drop or fill the row"):
        as_triples(make({"head": ["a", "b"], "relation": ["r", "r"], "tail": ["b", None]}))
    with pytest.raises(FileError, match="row 3: no value in column 'head'"):
        as_triples(make({"head": [1, 2, None], "relation": ["r", "r", "r"], "tail": ["b", "c", "d"]}))
    with pytest.raises(FileError, match="row 2: empty relation in "):
        as_triples(make({"head": ["a", "b"], "relation": ["r", " "], "tail": ["b", "c"]}))
    with pytest.raises(FileError, match="row 1: label value '2'"):
        as_triples(make({"head": ["a"], "relation": ["r"], "tail": ["b"], "label": [2]}))


def test_other_types_are_refused(make: Make) -> None:
    with pytest.raises(FileError, match="column 'tail' is double; give text or whole numbers"):
        as_triples(make({"head": ["a"], "relation": ["r"], "tail": [0.5]}))


def test_a_frame_without_rows_has_no_triples(make: Make) -> None:
    assert len(as_triples(make({"head": [], "relation": [], "tail": []}))) == 0


def test_categories_and_the_index_of_a_filtered_pandas_frame() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": ["a", "b", "c"], "y": ["r", "s", "r"], "z": ["b", "c", "a"]})
    frame["y"] = frame["y"].astype("category")
    assert list(as_triples(frame[frame["y"] == "r"])) == [("a", "r", "b"), ("c", "r", "a")]
    frame["z"] = ["b", 5, "a"]  # text and numbers in one column
    with pytest.raises(FileError, match=r"DataFrame: cannot be read \(.*\); give columns of text or whole numbers"):
        as_triples(frame)


def test_polars_categories_and_lazy_frames() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"x": ["a", "b"], "y": ["r", "r"], "z": ["b", "c"]})
    frame = frame.with_columns(polars.col("y").cast(polars.Categorical))
    assert list(as_triples(frame)) == [("a", "r", "b"), ("b", "r", "c")]
    with pytest.raises(InputError, match=r"LazyFrame is no source of triples; .* \(a lazy one collected\)"):
        as_triples(frame.lazy())


def test_two_columns_of_one_name_are_refused() -> None:
    table = pa.Table.from_arrays([pa.array(["a"])] * 4, ["head", "relation", "tail", "head"])
    with pytest.raises(FileError, match="two columns are called 'head'; rename one"):
        as_triples(table)


def test_text_is_no_row() -> None:
    with pytest.raises(InputError, match="'abc' is not a triple"):
        as_triples(["abc"])
    with pytest.raises(InputError, match="int is no source of triples"):
        as_triples(5)  # type: ignore[arg-type]


def test_a_model_takes_frames_everywhere(make: Make, graph: Triples) -> None:
    heads, relations, tails = (column.to_pylist() for column in graph.columns())
    trained = ookg.train(make({"head": heads, "relation": relations, "tail": tails}), SMALL, device="cpu")
    assert trained.entities == graph.entities
    new: Columns = {"head": ["x", "e2"], "relation": ["r0", "r1"], "tail": ["e1", "x"]}
    rows = list(zip(*new.values(), strict=True))
    assert (trained.embed(make(new)).vectors == trained.embed(rows).vectors).all()
    assert trained.predict(make(new), head="x", relation="r1") == trained.predict(rows, head="x", relation="r1")
    valid: Columns = {"h": ["e1", "e3"], "r": ["r0", "r0"], "t": ["e2", "e4"], "label": [1, 0]}
    judged = trained.classify(make(valid), valid=make(valid), given=make(new))
    assert judged == trained.classify(list(zip(*valid.values(), strict=True)), valid=make(valid), given=rows)
    assert isinstance(trained, Model)


def test_no_frame_library_is_needed() -> None:
    code = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in ("pandas", "polars", "pyoxigraph"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
import pyarrow as pa
from ookg.graph.triples import as_triples
assert list(as_triples([("a", "r", "b")])) == list(as_triples(pa.table({"h": ["a"], "r": ["r"], "t": ["b"]})))
"""
    subprocess.run([sys.executable, "-c", code], check=True)
