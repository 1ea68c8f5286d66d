"""Small files that would take far more memory or time than a graph of their size: each gets its line."""

from __future__ import annotations

import bz2
import gzip
import io
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from ookg.cli import main
from ookg.errors import FileError, InputError
from ookg.graph import reading
from ookg.graph.reading import TripleFormat, split_lines
from ookg.graph.triples import read_triples
from ookg.interchange.arrays import read as read_arrays
from ookg.interchange.foreign import ImportOptions, load_tensors, read_labels
from ookg.system import limits

MIB = 1 << 20
TRIPLE = b"one\tlikes\tanother\n"


def zstd(content: bytes) -> bytes:
    """As other tools write it."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is always allowed is 1 MiB here, so that the files of these tests are made quickly."""
    monkeypatch.setattr(limits, "FREE_BYTES", MIB)


def within(megabytes: int, code: str) -> str:
    """What code prints in a process that may take only so much memory beyond its imports."""
    start = f"""
        import resource
        from pathlib import Path
        from ookg.graph.triples import read_triples
        from ookg.interchange import pytorch_biggraph, pyg
        from ookg.interchange.foreign import ImportOptions, load_tensors
        from ookg.errors import OokgError
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + ({megabytes} << 20)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        """
    program = textwrap.dedent(start) + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


# Lines


def test_a_line_without_an_end_is_refused_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "long.tsv.gz"
    path.write_bytes(gzip.compress(b"a\tr\tb\nc\tr\t" + b"x" * (20 * MIB), 1))
    remedy = "if it is meant to be so, set the environment variable OOKG_MAX_LINE_BYTES above 8388608"
    with pytest.raises(FileError, match=rf"long.tsv.gz:2: a line of more than 8 MiB; {remedy}$"):
        read_triples(path)
    path.write_bytes(gzip.compress(b"x" * (20 * MIB), 1))
    with pytest.raises(FileError, match=rf"long.tsv.gz:1: a line of more than 8 MiB; {remedy}$"):
        read_triples(path)


def test_the_limit_of_a_line_can_be_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "long.tsv"
    path.write_bytes(b"a\tr\t" + b"x" * (17 * MIB) + b"\na\tr\tb\n")
    with pytest.raises(FileError, match=r"long.tsv:1: a line of more than 8 MiB"):
        read_triples(path)
    monkeypatch.setenv("OOKG_MAX_LINE_BYTES", str(18 * MIB))
    assert [len(label) for label in read_triples(path).entities.labels.to_pylist()] == [1, 17 * MIB, 1]


def test_a_line_of_n_triples_without_an_end_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyoxigraph")
    path = tmp_path / "long.nt.gz"
    path.write_bytes(gzip.compress(b"<http://a> <http://r> <http://b> .\n" + b"<http://a> " + b"x" * (20 * MIB), 1))
    with pytest.raises(FileError, match=r"long.nt.gz:2: a line of more than 8 MiB; .* OOKG_MAX_LINE_BYTES"):
        read_triples(path)


@pytest.mark.parametrize("seed", range(5))
def test_lines_are_those_of_the_whole_text(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LINE_BLOCK_BYTES", 5)
    content = bytes(np.random.default_rng(seed).choice(list(b"ab\n"), 200, p=[0.5, 0.3, 0.2]).astype(np.uint8))
    expected = content.split(b"\n")
    assert list(split_lines(io.BytesIO(content), Path("x"))) == (expected if expected[-1] else expected[:-1])


# Compressed text


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, zstd])
@pytest.mark.parametrize("name", ["repeated.tsv", "repeated.nt", "repeated.ttl"])
def test_a_file_of_one_repeated_triple_is_refused(
    compress: Callable[[bytes], bytes], name: str, tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not name.endswith("tsv"):
        pytest.importorskip("pyoxigraph")
    line = TRIPLE if name.endswith("tsv") else b"<http://a> <http://r> <http://b> .\n"
    path = tmp_path / name
    times = 3 * MIB // len(line)
    path.write_bytes(compress(line * times))
    with pytest.raises(FileError, match=rf"{name}: content of \S+ MiB from a file of .* more than 100 times as much; "):
        read_triples(path)
    monkeypatch.setenv("OOKG_MAX_EXPANSION", "1000000")
    found = read_triples(path)
    assert (len(found), found.duplicates) == (1, times - 1)


def test_a_repeated_triple_through_a_pipe_is_refused(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(TRIPLE * 200_000))))
    with pytest.raises(FileError, match=r"standard input: content of .* more than 100 times as much"):
        read_triples("-")


def test_the_command_line_prints_one_line(tmp_path: Path, small: None, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "repeated.tsv.gz"
    path.write_bytes(gzip.compress(TRIPLE * 200_000))
    assert main(["train", str(path), "--out", str(tmp_path / "model")]) == 2
    text = capsys.readouterr().err
    assert "OOKG_MAX_EXPANSION" in text
    assert len(text.splitlines()) == 1


def test_ordinary_compression_is_far_below_the_limit(tmp_path: Path, small: None) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 50_000, (100_000, 3))
    lines = [
        f"http://www.wikidata.org/entity/Q{h}\tP{r % 300}\thttp://www.wikidata.org/entity/Q{t}\n" for h, r, t in rows
    ]
    path = tmp_path / "ordinary.tsv.gz"
    path.write_bytes(gzip.compress("".join(sorted(lines)).encode()))
    assert len(read_triples(path)) == len(set(lines))


@pytest.mark.parametrize("text", ["0", "-1", "1e3", "many", "1" * 30])
def test_a_limit_that_is_no_number_is_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.tsv").write_bytes(TRIPLE)
    monkeypatch.setenv("OOKG_MAX_LINE_BYTES", text)
    with pytest.raises(
        InputError, match=r"variable OOKG_MAX_LINE_BYTES is '.*'; give a whole number from 1 on, or unset"
    ):
        read_triples(tmp_path / "x.tsv")


# RDF


def test_a_long_prefix_is_not_written_out_over_and_over(tmp_path: Path, small: None) -> None:
    pytest.importorskip("pyoxigraph")
    path = tmp_path / "prefix.ttl"
    prefix = b"@prefix a: <http://e/" + b"x" * 100_000 + b"> .\n"
    path.write_bytes(prefix + b"".join(b"a:%d a:r a:%d .\n" % (n, n + 1) for n in range(1000)))
    with pytest.raises(FileError, match=r"prefix.ttl: labels of .* more than 100 times as much; .*OOKG_MAX_EXPANSION"):
        read_triples(path)


def rdf_xml(*entities: str) -> bytes:
    declared = "".join(f"<!ENTITY {entity}>" for entity in entities)
    space = 'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/"'
    body = '<rdf:Description rdf:about="&last;a"><e:p rdf:resource="&last;b"/></rdf:Description>'
    return f'<?xml version="1.0"?><!DOCTYPE rdf:RDF [{declared}]><rdf:RDF {space}>{body}</rdf:RDF>'.encode()


def test_xml_entities_in_one_another_are_refused_where_they_grow(tmp_path: Path) -> None:
    pytest.importorskip("pyoxigraph")
    path = tmp_path / "x.rdf"
    path.write_bytes(rdf_xml('base "http://e/"', 'last "&base;things/"'))
    assert list(read_triples(path)) == [("http://e/things/a", "http://e/p", "http://e/things/b")]
    grown = [f'l{n} "{f"&l{n - 1};" * 10}"' for n in range(1, 5)]
    path.write_bytes(rdf_xml('l0 "http://e/aaaaaaaaa"', *grown, 'last "&l4;"'))
    with pytest.raises(FileError, match=r"x.rdf: the XML entity 'l3' stands for .* characters; at most 4,096 are read"):
        read_triples(path)
    path.write_bytes(rdf_xml(f'last "{"x" * 5000}"'))
    with pytest.raises(FileError, match=r"x.rdf: the XML entity '.*' stands for .* characters; at most 4,096 are read"):
        read_triples(path)


def test_a_literal_that_the_parser_cannot_hold_is_no_lack_of_memory(tmp_path: Path) -> None:
    pytest.importorskip("pyoxigraph")
    path = tmp_path / "x.ttl"
    path.write_bytes(b'<http://a> <http://b> "' + b"x" * (17 * MIB) + b'" .')
    with pytest.raises(FileError, match=r"x.ttl: a node or text that is too long"):
        read_triples(path)


# Parquet


def repeated(label: str, rows: int) -> pa.Table:
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([label]))
    return pa.table(dict.fromkeys(("head", "relation", "tail"), column))


def test_parquet_of_one_repeated_row_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "repeated.parquet"
    pq.write_table(repeated("a", 4_000_000), path)
    with pytest.raises(
        FileError, match=r"repeated.parquet: 12,000,000 values of 91.6 MiB .* OOKG_MAX_EXPANSION above 100$"
    ):
        read_triples(path)
    monkeypatch.setenv("OOKG_MAX_EXPANSION", "100000")
    assert len(read_triples(path)) == 1


def test_a_long_label_in_many_rows_of_parquet_is_held_once(tmp_path: Path) -> None:
    path = tmp_path / "long.parquet"
    pq.write_table(repeated("a" * MIB, 20_000), path)  # 60 GB as text
    code = f"triples = read_triples({str(path)!r}); print(len(triples), len(triples.entities.label(0)))"
    assert within(4096, code).split() == ["1", str(MIB)]


def test_parquet_and_text_give_the_same_ids(tmp_path: Path) -> None:
    # A dictionary in another order than the rows, with a label that no row has.
    labels = pa.array(["unused", "z", "y", "x"])
    head = pa.DictionaryArray.from_arrays(pa.array([3, 1, 3, 2], pa.int32()), labels)
    tail = pa.DictionaryArray.from_arrays(pa.array([1, 1, 2, 3], pa.int32()), labels)
    relation = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1, 0], pa.int32()), pa.array(["r", "q"]))
    pq.write_table(pa.table({"head": head, "relation": relation, "tail": tail}), tmp_path / "x.parquet")
    (tmp_path / "x.tsv").write_text("x\tq\tz\nz\tr\tz\nx\tq\ty\ny\tr\tx\n")
    for form in (TripleFormat(), TripleFormat(predicates=("r",))):
        one, other = (read_triples(tmp_path / name, form) for name in ("x.parquet", "x.tsv"))
        assert one.ids.tolist() == other.ids.tolist()
        assert one.entities == other.entities
        assert one.relations == other.relations


def test_parquet_lists_are_not_even_read(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"head": [["a"]], "relation": ["r"], "tail": ["b"]}), path)
    with pytest.raises(FileError, match=r"column 'head' is list<.*>; give text or whole numbers"):
        read_triples(path)


def test_parquet_of_one_repeated_vector_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "entities.parquet"
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(20_000_000, np.float32)), 2000)
    pq.write_table(pa.table({"entity": [str(n) for n in range(10_000)], "vector": vectors}), path)
    with pytest.raises(FileError, match=r"entities.parquet: .* values of .* more than 100 times as much"):
        read_arrays(tmp_path, ImportOptions())


# Tensors and labels of other tools


def test_a_tensor_of_one_stored_number_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    torch.save({"state": [{"node_emb.weight": torch.zeros(1).expand(50_000, 50_000)}]}, path)
    code = f"""
        try:
            load_tensors(Path({str(path)!r}), "save it again")
        except OokgError as error:
            print(error)
        """
    assert path.stat().st_size < 2048
    assert "model.pt: a tensor (50000, 50000) of 9.31 GiB from a file of" in within(4096, code)


def test_a_compressed_archive_of_tensors_is_refused(tmp_path: Path, small: None) -> None:
    path = tmp_path / "model.pt"
    torch.save({"x": torch.zeros(MIB)}, tmp_path / "plain.pt")
    with zipfile.ZipFile(tmp_path / "plain.pt") as plain, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in plain.namelist():
            packed.writestr(name, plain.read(name))
    with pytest.raises(FileError, match=r"model.pt: content of .* more than 100 times as much"):
        load_tensors(path, "save it again")


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickled_byte_array_is_refused(zipped: bool, tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    body = b"\x80\x02c__builtin__\nbytearray\nJ" + (2_000_000_000).to_bytes(4, "little") + b"\x85R."
    if zipped:
        torch.save({"x": torch.zeros(1)}, tmp_path / "plain.pt")
        with zipfile.ZipFile(tmp_path / "plain.pt") as plain, zipfile.ZipFile(path, "w") as changed:
            for name in plain.namelist():
                changed.writestr(name, body if name.endswith("data.pkl") else plain.read(name))
    else:
        path.write_bytes(body)
    with pytest.raises(FileError, match=r"model.pt: holds a byte array; save it again"):
        load_tensors(path, "save it again")


def test_labels_of_one_repeated_line_are_refused(tmp_path: Path, small: None) -> None:
    path = tmp_path / "entities.tsv.gz"
    path.write_bytes(gzip.compress(b"0\tlabel\n" * 400_000))
    with pytest.raises(FileError, match=r"entities.tsv.gz: content of .* more than 100 times as much"):
        read_labels(path, 3, "entity")
