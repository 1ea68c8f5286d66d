from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ookg.errors import FileError, InputError
from ookg.graph.triples import TripleFormat, Triples, as_triples, first_occurrences, read_triples, write_triples
from ookg.graph.vocabulary import Vocabulary

ROWS = [("NA", "null", "1"), ("Zoë Z", "r s", "NA"), ("1", "null", "日本")]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def rows(triples: Triples) -> list[tuple[str, str, str]]:
    return list(triples)


def test_tsv_keeps_labels_as_they_are(tmp_path: Path) -> None:
    text = "".join("\t".join(row) + "\n" for row in ROWS)
    assert rows(read_triples(write(tmp_path / "a.tsv", text))) == ROWS


def test_quotes_are_text_in_tsv_and_meaningful_in_csv(tmp_path: Path) -> None:
    assert rows(read_triples(write(tmp_path / "a.tsv", 'a "b"\tr\t"c\n'))) == [('a "b"', "r", '"c')]
    assert rows(read_triples(write(tmp_path / "a.csv", '"a, ""b""",r,c\n'))) == [('a, "b"', "r", "c")]


@pytest.mark.parametrize(
    "name", ["a.tsv", "a.csv", "a.tsv.gz", "a.csv.zst", "a.tsv.zst", "a.tsv.bz2", "a.parquet", "a.txt"]
)
@pytest.mark.parametrize("labelled", [False, True])
def test_what_is_written_is_read(tmp_path: Path, name: str, labelled: bool) -> None:
    triples = as_triples([(*row, "1" if i else "0") for i, row in enumerate(ROWS)] if labelled else ROWS)
    write_triples(tmp_path / name, triples)
    found = read_triples(tmp_path / name)
    assert rows(found) == ROWS
    assert (found.truth is None) == (not labelled)
    if found.truth is not None:
        assert found.truth.tolist() == [False, True, True]


def test_tab_in_a_label_is_refused_in_tsv_and_leaves_the_old_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "old")
    with pytest.raises(FileError, match=r"'a\\tb' has a tab"):
        write_triples(path, as_triples([("a\tb", "r", "c")]))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    write_triples(tmp_path / "a.csv", as_triples([("a\tb", "r", "c")]))
    assert rows(read_triples(tmp_path / "a.csv")) == [("a\tb", "r", "c")]


@pytest.mark.parametrize("header", ["head\trelation\ttail", "Subject\tPredicate\tObject"])
def test_a_header_is_recognised(tmp_path: Path, header: str) -> None:
    assert rows(read_triples(write(tmp_path / "a.tsv", f"{header}\na\tr\tb\n"))) == [("a", "r", "b")]


def test_a_triple_of_single_letters_is_a_triple(tmp_path: Path) -> None:
    assert len(read_triples(write(tmp_path / "a.tsv", "h\tr\tt\na\tr\tb\n"))) == 2


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.parquet"])
def test_a_first_triple_that_reads_like_a_header_survives(tmp_path: Path, name: str) -> None:
    triples = [("head", "relation", "tail"), ("a", "r", "b")]
    write_triples(tmp_path / name, as_triples(triples))
    assert rows(read_triples(tmp_path / name)) == triples


@pytest.mark.parametrize(
    ("lines", "is_told"),
    [
        (["from,type,to", "a,likes,b", "c,likes,a"], True),
        (["a,likes,b", "c,likes,a", "c,likes,d"], False),
        (["from,type,to", "a,likes,b", "c,hates,d"], False),  # no two of these have anything in common
        (["head,relation,tail", "x,knows,y", "a,likes,b", "c,likes,a"], False),
        (["from,type,to"], False),
        ([], False),
        (["x,knows,y", *(f"e{n},likes,e{n + 1}" for n in range(5000)), "y,likes,z"], False),
        (["x,knows,y", *(f"e{n},likes,e{n + 1}" for n in range(5000))], True),
    ],
)
def test_what_may_be_a_header_is_told(tmp_path: Path, lines: list[str], is_told: bool) -> None:
    path = tmp_path / "graph.csv"
    path.write_text("".join(f"{line}\n" for line in lines))
    triples = read_triples(path)
    assert len(triples) == len(lines) - (lines[:1] == ["head,relation,tail"])
    first = ", ".join(lines[0].split(",")) if lines else ""
    told = f"the first triple, ({first}), shares no label with another; if it is a header, give `header=True`"
    assert triples.notes == ([told] if is_told else [])
    assert read_triples(path, TripleFormat(header=False)).notes == []
    if lines:
        assert read_triples(path, TripleFormat(header=True)).notes == []


def test_beside_a_graph_a_first_triple_that_shares_a_label_with_it_is_none(tmp_path: Path) -> None:
    path = write(tmp_path / "new.tsv", "n1\tr1\te5\nn0\tr0\te1\nn0\tr0\te2\n")
    triples = read_triples(path)
    assert len(triples.notes) == 1
    assert triples.beside(Vocabulary(["e5"]), Vocabulary([])).notes == []
    assert triples.beside(Vocabulary([]), Vocabulary(["r1"])).notes == []
    assert triples.beside(Vocabulary(["e1"]), Vocabulary(["r0"])).notes == triples.notes


def test_header_can_be_forced_either_way(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "head\trelation\ttail\na\tr\tb\n")
    assert len(read_triples(path, TripleFormat(header=False))) == 2
    path = write(tmp_path / "b.tsv", "x\ty\tz\na\tr\tb\n")
    assert rows(read_triples(path, TripleFormat(header=True))) == [("a", "r", "b")]


def test_columns_by_position_and_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "id,to,from,how\n7,b,a,r\n")
    assert rows(read_triples(path, TripleFormat(("from", "how", "to"), header=True))) == [("a", "r", "b")]
    assert rows(read_triples(path, TripleFormat(("3", "4", "2"), header=True))) == [("a", "r", "b")]
    with pytest.raises(FileError, match="no column 'who'; its columns are id, to, from, how"):
        read_triples(path, TripleFormat(("who", "how", "to"), header=True))
    with pytest.raises(InputError, match="2 columns selected"):
        TripleFormat(("1", "2"))
    with pytest.raises(InputError, match="1,1,2 selected; each column has one part"):
        TripleFormat(("1", "1", "2"))


@pytest.mark.parametrize(("values", "truth"), [("1 0", [True, False]), ("1 -1", [True, False])])
def test_both_ways_to_write_false(tmp_path: Path, values: str, truth: list[bool]) -> None:
    first, second = values.split()
    found = read_triples(write(tmp_path / "a.tsv", f"a\tr\tb\t{first}\na\tr\tc\t{second}\n"))
    assert found.truth is not None
    assert found.truth.tolist() == truth


def test_duplicates_are_dropped_in_order_and_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "b\tr\ta\na\tr\tb\nb\tr\ta\na\tr\tb\nc\tr\ta\n")
    found = read_triples(path)
    assert rows(found) == [("b", "r", "a"), ("a", "r", "b"), ("c", "r", "a")]
    assert found.duplicates == 2
    assert len(read_triples(path, keep_duplicates=True)) == 5


def test_the_same_triple_with_both_labels_is_no_duplicate(tmp_path: Path) -> None:
    assert len(read_triples(write(tmp_path / "a.tsv", "a\tr\tb\t1\na\tr\tb\t0\n"))) == 2


def test_empty_lines_line_ends_and_byte_order_mark_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes("\ufeff\na\tr\tb\r\n\nc\tr\td".encode())
    assert rows(read_triples(path)) == [("a", "r", "b"), ("c", "r", "d")]


def test_an_empty_file_has_no_triples(tmp_path: Path) -> None:
    assert len(read_triples(write(tmp_path / "a.tsv", ""))) == 0
    assert len(read_triples(write(tmp_path / "b.tsv", "head\trelation\ttail\n"))) == 0


@pytest.mark.parametrize(
    ("content", "line", "value"),
    [
        (b"a\tr\tb\nc\tr\n", 2, r"2 columns instead of 3: \['c', 'r'\]"),
        (b"a\tr\tb\n\nc\tr\td\te\n", 3, "4 columns instead of 3"),
        (b"a\tr\tb\nc\t\td\n", 2, "empty relation"),
        (b"a\tr\tb\n  \tr\td\n", 2, "empty head"),
        (b"a\tr\tb\t1\nc\tr\td\t2\n", 2, "label value '2'"),
        (b"a\tr\tb\nc\tr\t\xff\xfe\n", 2, "not UTF-8 text at byte 4"),
        (b"\x00\x01\x02binary\n", 1, "binary data"),
        (b"a r b\n", 1, "1 column separated by tab"),
        (b"head\trelation\ttail\na\tr\tb\nc\tr\n", 3, "2 columns instead of 3"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, content: bytes, line: int, value: str) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(content)
    with pytest.raises(FileError, match=f"a.tsv:{line}: {value}.*; "):
        read_triples(path)


def test_a_bad_line_far_in_a_large_compressed_file_is_found(tmp_path: Path) -> None:
    lines = [f"e{i}\tr\te{i + 1}" for i in range(60_000)]
    lines[45_678] = "e\tr"
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    with pytest.raises(FileError, match=r"a\.tsv\.gz:45679: 2 columns instead of 3"):
        read_triples(path)


def test_damaged_and_missing_files(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress(b"a\tr\tb\n" * 5000)[:-20])
    with pytest.raises(FileError, match="damaged gzip data"):
        read_triples(path)
    path.write_bytes(b"plain")
    with pytest.raises(FileError, match="is not gzip data"):
        read_triples(path)
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(FileError, match="damaged Parquet"):
        read_triples(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"a\tr\tb\n")
    with pytest.raises(FileError, match="not a Parquet file"):
        read_triples(tmp_path / "b.parquet")
    with pytest.raises(FileError, match="no such file"):
        read_triples(tmp_path / "nothing.tsv")
    with pytest.raises(FileError, match="is a folder"):
        read_triples(tmp_path)


def test_parquet_with_numbers_dictionaries_and_missing_values(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    head = pa.array(["a", "b"]).dictionary_encode()
    pq.write_table(pa.table({"when": [1, 2], "subject": head, "predicate": ["r", "r"], "object": [5, 6]}), path)
    assert rows(read_triples(path)) == [("a", "r", "5"), ("b", "r", "6")]
    pq.write_table(pa.table({"head": ["a", None], "relation": ["r", "r"], "tail": ["b", "c"]}), path)
    with pytest.raises(FileError, match=r"a\.parquet:2: no value in column 'head'"):
        read_triples(path)
    pq.write_table(pa.table({"head": ["a", ""], "relation": ["r", "r"], "tail": ["b", "c"]}), path)
    with pytest.raises(FileError, match=r"a\.parquet:2: empty head"):
        read_triples(path)
    pq.write_table(pa.table({"head": [0.5], "relation": ["r"], "tail": ["b"]}), path)
    with pytest.raises(FileError, match="column 'head' is double"):
        read_triples(path)


def test_label_column_where_it_is_required_or_refused(tmp_path: Path) -> None:
    plain, labelled = write(tmp_path / "a.tsv", "a\tr\tb\n"), write(tmp_path / "b.tsv", "a\tr\tb\t1\n")
    with pytest.raises(FileError, match="no label column"):
        read_triples(plain, labels="required")
    with pytest.raises(FileError, match="has a label column"):
        read_triples(labelled, labels="refused")
    assert len(read_triples(labelled, TripleFormat(("1", "2", "3")), labels="refused")) == 1


def test_rows_from_python() -> None:
    assert rows(as_triples([("a", "r", "b"), ("a", "r", "b")])) == [("a", "r", "b")]
    assert len(as_triples([])) == 0
    with pytest.raises(InputError, match="is not a triple"):
        as_triples([("a", "r")])
    with pytest.raises(InputError, match="empty label"):
        as_triples([("a", "", "b")])


def test_encoding_into_other_vocabularies() -> None:
    triples, other = as_triples([("a", "r", "b"), ("c", "s", "a")]), as_triples([("b", "s", "a")])
    encoded = triples.encoded(other.entities, other.relations)
    known = {label: other.entities.find(label) for label in "ab"}
    assert encoded.tolist() == [[known["a"], -1, known["b"]], [-1, 0, known["a"]]]


def test_first_occurrences_equals_a_slow_reference() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        ids = rng.integers(0, 4, size=(40, 3))
        seen: dict[tuple[int, ...], int] = {}
        for place, row in enumerate(map(tuple, ids.tolist())):
            seen.setdefault(row, place)
        found = first_occurrences(ids, 4, 4)
        assert (found is None and len(seen) == len(ids)) or (
            found is not None and found.tolist() == list(seen.values())
        )


def test_line_breaks_in_quotes_and_long_labels(tmp_path: Path) -> None:
    for number, text in ((2, 'a,r,b\n"c\nd",r,b\ne,,f\n'), (2, 'a,r,b\n"c\nd",r,b\n'), (1, '"c\nd",r,b\na,r,b\n')):
        with pytest.raises(FileError, match=rf"a.csv:{number}: a quote that the line does not close; write each"):
            read_triples(write(tmp_path / "a.csv", text))
    assert rows(read_triples(write(tmp_path / "c.csv", '5" disc,r,"a"b\n'))) == [('5" disc', "r", "ab")]
    label = "x" * 200_000
    assert rows(read_triples(write(tmp_path / "b.csv", f"{label},r,b\n"))) == [(label, "r", "b")]


def test_a_broken_page_of_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({name: [f"{name}{n}" for n in range(99)] for name in ("head", "relation", "tail")}), path)
    data = path.read_bytes()
    path.write_bytes(data[:4] + b"\xff" * 30 + data[34:])
    with pytest.raises(FileError, match=r"a.parquet: damaged Parquet data .*; write it again"):
        read_triples(path)


def test_the_same_triples_give_the_same_gzip(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        write_triples(tmp_path / name / "x.tsv.gz", as_triples([("a", "r", "b")]))
    first, second = ((tmp_path / name / "x.tsv.gz").read_bytes() for name in ("first", "second"))
    assert first == second


def test_half_a_character_is_no_label() -> None:
    with pytest.raises(InputError, match="is not Unicode text; rename it"):
        as_triples([("a\ud800", "r", "b")])


@pytest.mark.parametrize("value", [None, float("nan"), np.float32("nan"), b"b", np.array([1, 2])])
def test_rows_without_a_value_are_refused(value: Any) -> None:
    with pytest.raises(InputError, match="has no value at one of its places; drop the row"):
        as_triples([("a", "r", "b"), ("a", "r", value)])


@pytest.mark.parametrize("row", [{"head": "a", "relation": "r", "tail": "b"}, {"a", "r", "b"}, b"arb", "arb", 3])
def test_what_is_no_row_of_three_is_refused(row: Any) -> None:
    with pytest.raises(InputError, match="is not a triple"):
        as_triples([row])


def test_numbers_are_labels() -> None:
    given: list[Any] = [(1, "r", 2.5), np.array(["a", "r", "b"])]
    assert list(as_triples(given)) == [("1", "r", "2.5"), ("a", "r", "b")]
