"""RDF as input: every syntax, what is skipped and selected, errors, and Arrow's fast path against the parser's."""

from __future__ import annotations

import bz2
import gzip
import random
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ookg.cli import main
from ookg.errors import FileError, InputError
from ookg.graph import rdf
from ookg.graph.reading import TripleFormat, joined
from ookg.graph.triples import Triples, as_triples, read_triples, write_triples
from ookg.system.display import shortened

EX = "http://example.org/"
EXPECTED = [
    (f"{EX}a", f"{EX}knows", f"{EX}b"),
    (f"{EX}b", f"{EX}knows", "_:x"),
    (f"{EX}é", f"{EX}likes", f"{EX}a"),
]
N_TRIPLES = f"""# a comment
<{EX}a> <{EX}knows> <{EX}b> .

<{EX}b> <{EX}knows> _:x .
<{EX}\\u00e9> <{EX}likes> <{EX}a> .
<{EX}a> <{EX}name> "A \\"quoted\\" name"@en .
<{EX}a> <{EX}age> "42"^^<http://www.w3.org/2001/XMLSchema#integer> .
"""
N_QUADS = N_TRIPLES.replace(" .\n", f" <{EX}graph> .\n")
TURTLE = f"""@prefix ex: <{EX}> .
ex:a ex:knows ex:b .
ex:b ex:knows _:x .
ex:é ex:likes ex:a .
ex:a ex:name "A 'quoted' name"@en ;
  ex:age 42 .
"""
RDF_XML = f"""<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:ex="{EX}">
  <rdf:Description rdf:about="{EX}a"><ex:knows rdf:resource="{EX}b"/></rdf:Description>
  <rdf:Description rdf:about="{EX}b"><ex:knows rdf:nodeID="x"/></rdf:Description>
  <rdf:Description rdf:about="{EX}é"><ex:likes rdf:resource="{EX}a"/></rdf:Description>
  <rdf:Description rdf:about="{EX}a"><ex:name xml:lang="en">A</ex:name><ex:age>42</ex:age></rdf:Description>
</rdf:RDF>
"""
DOCUMENTS = {
    "a.nt": N_TRIPLES,
    "a.nq": N_QUADS,
    "a.ttl": TURTLE,
    "a.trig": TURTLE,
    "a.rdf": RDF_XML,
    "a.xml": RDF_XML,
    "a.owl": RDF_XML,
}
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda data: bytes(pa.Codec("zstd").compress(data, asbytes=True)),
}


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_syntax_reads_the_same_triples(tmp_path: Path, name: str, suffix: str) -> None:
    path = tmp_path / f"{name}{suffix}"
    path.write_bytes(COMPRESS[suffix](DOCUMENTS[name].encode()))
    found = read_triples(path)
    assert list(found) == EXPECTED
    assert found.skipped == {"literal": 2}
    assert found.notes == ["2 triples with a literal as object skipped"]


@pytest.mark.parametrize("name", ["a.nt", "a.nq", "a.ttl"])
def test_literals_are_kept_on_request(tmp_path: Path, name: str) -> None:
    found = read_triples(write(tmp_path / name, DOCUMENTS[name]), TripleFormat(literals="keep"))
    assert list(found)[:3] == EXPECTED
    quote = "'" if name == "a.ttl" else '\\"'
    assert list(found)[3:] == [
        (f"{EX}a", f"{EX}name", f'"A {quote}quoted{quote} name"@en'),
        (f"{EX}a", f"{EX}age", '"42"^^<http://www.w3.org/2001/XMLSchema#integer>'),
    ]
    assert found.notes == []


def test_named_graphs_are_ignored_and_what_repeats_is_counted(tmp_path: Path) -> None:
    line = f"<{EX}a> <{EX}r> <{EX}b>"
    path = write(tmp_path / "a.nq", f"{line} <{EX}g> .\n{line} _:h .\n{line} .\n<{EX}b> <{EX}r> <{EX}a> .\n")
    found = read_triples(path)
    assert len(found) == 2
    assert found.notes == ["2 duplicate triples dropped"]
    assert len(read_triples(path, keep_duplicates=True)) == 4
    with pytest.raises(FileError, match=r"b\.nt:1: not N-Triples: .*dot"):
        read_triples(write(tmp_path / "b.nt", path.read_text()))


def test_triples_about_triples_are_skipped_and_counted(tmp_path: Path) -> None:
    text = f"<{EX}a> <{EX}r> <<( <{EX}a> <{EX}r> <{EX}b> )>> .\n<{EX}a> <{EX}r> <{EX}b> .\n"
    for name in ("a.nt", "a.ttl"):
        found = read_triples(write(tmp_path / name, text))
        assert (len(found), found.skipped) == (1, {"triple": 1})


@pytest.mark.parametrize("name", DOCUMENTS)
def test_predicates_are_selected(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, DOCUMENTS[name])
    found = read_triples(path, TripleFormat(predicates=(f"{EX}likes", f"{EX}age")))
    assert list(found) == EXPECTED[2:]
    assert found.skipped == {"literal": 1}  # only what was selected counts
    with pytest.raises(FileError, match=r"no triple has a selected predicate \(likes\); give predicates as they stand"):
        read_triples(path, TripleFormat(predicates=("likes",)))


def test_predicates_are_selected_in_text_and_parquet_too(tmp_path: Path) -> None:
    triples = as_triples([("a", "r", "b"), ("a", "s", "c"), ("b", "r", "c")])
    for name in ("a.tsv", "a.csv.gz", "a.parquet"):
        write_triples(tmp_path / name, triples)
        found = read_triples(tmp_path / name, TripleFormat(predicates=("r", "q")))
        assert list(found) == [("a", "r", "b"), ("b", "r", "c")]
        assert len(found.entities) == 3
        with pytest.raises(FileError, match="no triple has a selected predicate"):
            read_triples(tmp_path / name, TripleFormat(predicates=("q",)))
    with pytest.raises(InputError, match="no predicate selected"):
        TripleFormat(predicates=())


def test_a_predicate_is_found_however_it_is_written(tmp_path: Path) -> None:
    text = f"<{EX}a>\t<{EX}\\u00E9> <{EX}b>.\r\n<{EX}a> <{EX}é> <{EX}c> .\r\n<{EX}é> <{EX}r> <{EX}é> .\r\n"
    found = read_triples(write(tmp_path / "a.nt", text), TripleFormat(predicates=(f"{EX}é",)))
    assert list(found) == [(f"{EX}a", f"{EX}é", f"{EX}b"), (f"{EX}a", f"{EX}é", f"{EX}c")]


def test_odd_iris_are_labels_like_any_other(tmp_path: Path) -> None:
    path = write(tmp_path / "a.nt", f"<{EX}%zz> <{EX}r> <{EX}a b> .\n<{EX}%zz> <{EX}r> <relative> .\n")
    assert [tail for _, _, tail in read_triples(path)] == [f"{EX}a b", "relative"]
    with pytest.raises(FileError, match="an empty IRI <>"):
        read_triples(write(tmp_path / "b.nt", f"<> <{EX}r> <{EX}a> .\n"))


def test_nameless_nodes_have_the_same_label_at_every_reading_and_another_in_each_file(tmp_path: Path) -> None:
    text = f"@prefix ex: <{EX}> .\nex:a ex:r [ ex:r ex:b ], [ ex:r ex:c ] ."
    first, second = write(tmp_path / "a.ttl", text), write(tmp_path / "b.ttl", text)
    assert list(read_triples(first)) == list(read_triples(first))
    assert {head for head, _, _ in read_triples(first)} == {f"{EX}a", "_:a.ttl#1", "_:a.ttl#2"}
    assert {head for head, _, _ in read_triples(second)} == {f"{EX}a", "_:b.ttl#1", "_:b.ttl#2"}


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("a.nt", f"<{EX}a> <{EX}r> <{EX}b> .\n\n<{EX}a> <{EX}r> .\n", "a.nt:3"),
        ("a.nt", f"<{EX}a> <{EX}r> <{EX}b> .\r\n# no\r\n<{EX}a> <{EX}r> <{EX}b>\r\n", "a.nt:3"),
        ("a.nt", f"<{EX}a> <{EX}r> <{EX}b> .\n<{EX}a> <{EX}r> <{EX}b> . <{EX}a> <{EX}r> <{EX}c> .\n", "a.nt:2"),
        ("a.nt", f'<{EX}a> <{EX}r> "x" .\n<{EX}a> <{EX}r> "x .\n', "a.nt:2"),
        ("a.nq", f"<{EX}a> <{EX}r> <{EX}b> <{EX}g> .\n_:a _:b _:c .\n", "a.nq:2"),
        ("a.ttl", f"@prefix ex: <{EX}> .\nex:a ex:r ex:b .\nex:a no:r ex:b .\n", "a.ttl:3"),
        ("a.rdf", "<rdf:RDF>\n<a></b>", "a.rdf"),
        ("a.rdf", "a\tr\tb\n", "a.rdf"),
        ("a.ttl", "a\tr\tb\n", "a.ttl:1"),
        ("a.nt", "a\tr\tb\n", "a.nt:1"),
    ],
)
def test_errors_of_syntax_name_the_line(tmp_path: Path, name: str, text: str, place: str) -> None:
    path = write(tmp_path / name, text)
    with pytest.raises(FileError, match=rf"{place}: not [^;\n]+: [^;\n]+; mend the file[^\n]*$"):
        read_triples(path)


def test_errors_in_selected_lines_and_in_later_blocks_have_the_right_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rdf, "BLOCK_BYTES", 100)
    lines = [f"<{EX}{number}> <{EX}{'rs'[number % 2]}> <{EX}b> ." for number in range(50)]
    lines[37] = f"<{EX}a> <{EX}s> <{EX}b> "
    path = write(tmp_path / "a.nt", "\n".join(lines))
    for form in (TripleFormat(), TripleFormat(predicates=(f"{EX}s",))):
        with pytest.raises(FileError, match=r"a\.nt:38: not N-Triples"):
            read_triples(path, form)
    assert len(read_triples(path, TripleFormat(predicates=(f"{EX}r",)))) == 25


def test_bytes_that_are_not_utf8_are_named_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "a.nt"
    path.write_bytes(f"<{EX}a> <{EX}r> <{EX}b> .\n<{EX}a> <{EX}r> <{EX}".encode() + b"\xff> .\n")
    with pytest.raises(FileError, match=r"a\.nt:2: not N-Triples: .*UTF-8"):
        read_triples(path)


def test_damaged_compression(tmp_path: Path) -> None:
    lines = "".join(f"<{EX}{random.Random(i).random()}> <{EX}r> <{EX}{i}> .\n" for i in range(5000))
    for name in ("a.nt.gz", "a.ttl.gz"):
        (tmp_path / name).write_bytes(gzip.compress(lines.encode())[:-2000])
        with pytest.raises(FileError, match="damaged gzip data"):
            read_triples(tmp_path / name)
        (tmp_path / name).write_text(lines)
        with pytest.raises(FileError, match="is not gzip data"):
            read_triples(tmp_path / name)


def test_empty_files(tmp_path: Path) -> None:
    for name, text in (("a.nt", ""), ("a.nq", "# nothing\n\n"), ("a.ttl", "")):
        assert len(read_triples(write(tmp_path / name, text))) == 0


def test_without_the_parser_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyoxigraph", None)
    with pytest.raises(InputError, match=r"pip install 'ookg\[rdf\]'"):
        read_triples(write(tmp_path / "a.nt", N_TRIPLES))


def test_rdf_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"a\.nt\.gz: RDF is read and not written; name it \.tsv"):
        write_triples(tmp_path / "a.nt.gz", as_triples([("a", "r", "b")]))
    assert not list(tmp_path.iterdir())


def random_line(rng: random.Random, quads: bool) -> str:
    """A line of N-Triples or N-Quads, most of them plain."""
    subjects = [f"<{EX}{rng.randrange(30)}>", f"_:b{rng.randrange(5)}", "_:é.1", f"<{EX}\\u00e9>", f"<{EX}日本>"]
    predicates = [f"<{EX}r{rng.randrange(4)}>", f"<{EX}\\u0072{rng.randrange(4)}>"]
    literals = ['"x"', '"x\\ny \\" z"@en', '"1"^^<http://e/t>', '"tab\there"', f'"<{EX}r1>"', '"\\u00e9 #"@de-AT', '""']
    weights = [20, 5, 1, 1, 2]
    subject, predicate = rng.choices(subjects, weights)[0], rng.choices(predicates, [9, 1])[0]
    tail = rng.choice(literals) if rng.random() < 0.4 else rng.choices(subjects, weights)[0]
    space = rng.choices([" ", "\t", "  ", ""], [12, 1, 1, 1])[0]
    graph = rng.choice(["", f" <{EX}g>", " _:g"]) if quads else ""
    end = rng.choices(["\n", "\r\n", "\n\n", "\r", " # so\n", "\n# <a> <b> <c> .\n"], [12, 1, 1, 1, 1, 1])[0]
    return f"{subject}{space}{predicate}{space}{tail}{graph}{space or ' '}.{end}"


@pytest.mark.parametrize("syntax", ["N_TRIPLES", "N_QUADS"])
@pytest.mark.parametrize("seed", range(6))
def test_the_fast_path_equals_the_parser_on_random_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, syntax: str, seed: int
) -> None:
    monkeypatch.setattr(rdf, "BLOCK_BYTES", 700)
    rng = random.Random(seed)
    lines = [random_line(rng, syntax == "N_QUADS") for _ in range(400)]
    path = tmp_path / "lines"
    path.write_bytes("".join(lines).encode())
    few = (f"{EX}r1", f"{EX}r3", f"{EX}absent")
    for form in (
        TripleFormat(),
        TripleFormat(literals="keep"),
        TripleFormat(predicates=few),
        TripleFormat(predicates=few, literals="keep"),
        TripleFormat(predicates=few + tuple(f"{EX}other{number}" for number in range(5000))),
    ):
        fast, slow = (kind(path, form, None, syntax) for kind in (rdf.RdfLines, rdf.RdfFile))
        columns, expected = joined(fast.batches()), joined(slow.batches())
        assert [column.to_pylist() for column in columns] == [column.to_pylist() for column in expected]
        assert fast.skipped == slow.skipped
        assert len(columns[0]) > 50


def test_ids_are_given_in_the_order_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rdf, "BLOCK_BYTES", 200)
    monkeypatch.setattr(rdf, "CHUNK_TRIPLES", 3)
    rows = [(f"{EX}{i % 7}", f"{EX}r{i % 3}", f"{EX}t{i}") for i in range(40)]
    text = "".join(f"<{h}> <{r}> <{t}> .\n" for h, r, t in rows)
    expected = as_triples(rows)
    for name in ("a.nt", "a.ttl"):
        found: Triples = read_triples(write(tmp_path / name, text))
        np.testing.assert_array_equal(found.ids, expected.ids)
        assert found.entities == expected.entities
        assert found.relations == expected.relations


def test_train_embed_predict_and_classify_take_rdf(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(0)
    rows = sorted({(rng.randrange(15), rng.randrange(3), rng.randrange(15)) for _ in range(80)})
    graph = "".join(f"<{EX}{h}> <{EX}r{r}> <{EX}{t}> .\n" for h, r, t in rows) + f'<{EX}1> <{EX}name> "one" .\n'
    (tmp_path / "graph.nt.gz").write_bytes(gzip.compress(graph.encode()))
    new = write(tmp_path / "new.ttl", f"@prefix : <{EX}> .\n:new :r0 :1 ; :name 'new' .\n:2 :r1 :new .\n")
    model, vectors = str(tmp_path / "model"), str(tmp_path / "new.parquet")
    options = ["--dim", "4", "--steps", "5", "--batch", "8", "--negatives", "2", "--device", "cpu"]
    chosen = write(tmp_path / "chosen.txt", f"<{EX}r0>\n{EX}r1\n\n")
    graph_file = str(tmp_path / "graph.nt.gz")
    assert main(["train", graph_file, "--out", model, "--predicates", str(chosen), *options]) == 0
    assert main(["embed", model, str(new), "--out", vectors]) == 0
    query = ["predict", model, "--given", str(new), "--head", f"{EX}new", "--relation", f"{EX}r1", "--device", "cpu"]
    capsys.readouterr()
    assert main([*query, "--explain"]) == 0
    assert f"{EX}" in capsys.readouterr().out
    assert main([*query[:-4], "--relation", f"{EX}r2"]) == 2  # was not selected, so it was not trained
    assert "unknown relation" in capsys.readouterr().err
    split = ["datasets", "split", graph_file, "--out", str(tmp_path / "split"), "--count", "3", "--literals"]
    assert main(split) == 0
    labelled = write(tmp_path / "valid.tsv", f"{EX}1\t{EX}r0\t{EX}2\t1\n{EX}1\t{EX}r0\t{EX}3\t0\n")
    capsys.readouterr()
    assert main(["classify", model, str(new), "--valid", str(labelled), "--given", str(new), "--device", "cpu"]) == 0
    assert f"{EX}new" in capsys.readouterr().out


def test_commands_say_what_was_skipped_and_show_iris_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wd, p1 = "http://www.wikidata.org/entity/", "http://www.wikidata.org/prop/direct/P1"
    lines = [f"<{wd}Q{head}> <{p1}> <{wd}Q{head + 1}> ." for head in range(6)] + [f'<{wd}Q1> <{p1}> "one" .']
    graph = write(tmp_path / "graph.nt", "\n".join(lines))
    new = write(tmp_path / "new.nt", f'<{EX}new> <{p1}> <{wd}Q1> .\n<{EX}new> <{p1}> "new" .\n')
    labelled = write(tmp_path / "valid.tsv", f"{wd}Q1\t{p1}\t{wd}Q2\t1\n{wd}Q1\t{p1}\t{wd}Q3\t0\n")
    model, note = str(tmp_path / "model"), "note: 1 triple with a literal as object skipped\n"
    options = ["--dim", "4", "--steps", "5", "--batch", "8", "--negatives", "2", "--device", "cpu"]
    assert main(["train", str(graph), "--out", model, *options]) == 0
    assert note in capsys.readouterr().err
    assert main(["embed", model, str(new), "--out", str(tmp_path / "new.parquet")]) == 0
    assert note in capsys.readouterr().err
    query = ["predict", model, "--given", str(new), "--head", f"{EX}new", "--relation", p1, "--explain"]
    assert main([*query, "--prefix", f"ex={EX}"]) == 0
    shown = capsys.readouterr()
    assert note in shown.err
    assert "(ex:new, wdt:P1, ?)" in shown.out
    assert "wd:Q1" in shown.out
    assert "http:" not in shown.out
    assert main([*query, "--json"]) == 0
    assert f'"entity": "{wd}Q1"' in capsys.readouterr().out
    assert main(["classify", model, str(new), "--valid", str(labelled), "--given", str(new)]) == 0
    shown = capsys.readouterr()
    assert note in shown.err
    assert f"{EX}new  wdt:P1    wd:Q1" in shown.out
    assert main([*query, "--prefix", "ex"]) == 2
    assert "give NAME=IRI" in capsys.readouterr().err


def test_a_syntax_error_is_one_line_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.nt", f"<{EX}a> <{EX}r> <{EX}b> .\n<{EX}a> oops\n")
    assert main(["train", str(path), "--out", str(tmp_path / "model")]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"ookg: {path}:2: not N-Triples: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("http://www.wikidata.org/entity/Q42", "wd:Q42"),
        ("http://www.wikidata.org/prop/direct/P31", "wdt:P31"),
        ("http://www.w3.org/1999/02/22-rdf-syntax-ns#type", "rdf:type"),
        ("http://www.wikidata.org/entity/statement/Q42-1", "http://www.wikidata.org/entity/statement/Q42-1"),
        ("http://www.wikidata.org/entity/", "http://www.wikidata.org/entity/"),
        ("TENET", "TENET"),
    ],
)
def test_labels_are_shown_short(label: str, shown: str) -> None:
    assert shortened(label) == shown


def test_the_longest_namespace_and_the_later_name_are_taken() -> None:
    prefixes = {"ex": EX, "part": f"{EX}part/", "mine": f"{EX}part/"}
    assert shortened(f"{EX}part/1", prefixes) == "mine:1"
    assert shortened(f"{EX}1", prefixes) == "ex:1"
