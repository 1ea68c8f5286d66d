"""RDF as triples of labels: IRIs whole, blank nodes as `_:id`, named graphs ignored, parsed by pyoxigraph.

Everything is read as a stream: what is not selected is not held.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ookg.errors import FileError, InputError
from ookg.graph.reading import TripleFormat, bare_name
from ookg.system.limits import FREE_BYTES, BoundedStream, check_expansion, check_line
from ookg.types import BoolArray, IntArray

# The names that pyoxigraph gives the syntaxes.
SYNTAXES = {
    ".nt": "N_TRIPLES",
    ".nq": "N_QUADS",
    ".ttl": "TURTLE",
    ".trig": "TRIG",
    ".rdf": "RDF_XML",
    ".xml": "RDF_XML",
    ".owl": "RDF_XML",
}
ONE_LINE_A_TRIPLE = {"N_TRIPLES", "N_QUADS"}
# What the parser calls a node without a name of its own: up to 128 random bits.
ANONYMOUS = re.compile(r"[a-f][0-9a-f]{15,31}")
# Triples whose labels are Python's at a time, before Arrow has them.
CHUNK_TRIPLES = 1 << 16
BLOCK_BYTES = 1 << 23
# Up to this many predicates are looked for in a line before it is parsed; a pattern of thousands would not compile.
MOST_SOUGHT = 200

IRI = r'<[^\x00-\x20<>"{}|^`\\]*>'
NODE = rf"(?:{IRI}|_:[A-Za-z0-9]+)"
ESCAPE = r"""\\(?:[tbnrf"'\\]|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8})"""
LITERAL = rf'"(?:[^"\\\r\n]|{ESCAPE})*"(?:@[A-Za-z]+(?:-[A-Za-z0-9]+)*|\^\^{IRI})?'
NOTHING = r"^[ \t]*(?:#.*)?[\r\n]?$"

# XML names for texts, which real files have for the beginnings of IRIs.
XML_ENTITY = re.compile(rb'<!ENTITY\s*%?\s*([^\s"]+)\s+"([^"]*)"')
XML_REFERENCE = re.compile(rb"&([^;&]+);")
MOST_ENTITY_BYTES = 4096


def rdf_syntax(path: Path) -> str | None:
    """The RDF syntax that a file's name stands for, compressed or not; None for other files."""
    return SYNTAXES.get(Path(bare_name(path)).suffix)


def open_rdf(path: Path, form: TripleFormat, compression: str | None, syntax: str) -> RdfFile:
    """An RDF file to read triples from."""
    kind = RdfLines if syntax in ONE_LINE_A_TRIPLE else RdfFile
    return kind(path, form, compression, syntax)


class RdfFile:
    """A file in one of the RDF syntaxes.

    skipped: how many selected triples were left out, by what their object is ("literal", "triple")
    """

    def __init__(self, path: Path, form: TripleFormat, compression: str | None, syntax: str) -> None:
        self.path, self.compression, self.syntax = path, compression, syntax
        self.predicates = None if form.predicates is None else frozenset(form.predicates)
        self.keeps_literals = form.literals == "keep"
        self.skipped: Counter[str] = Counter()
        try:
            import pyoxigraph
        except ImportError:
            raise InputError(f"{path}: RDF needs pyoxigraph; install it with `pip install 'ookg[rdf]'`") from None
        self.parser: Any = pyoxigraph

    def batches(self) -> Iterator[list[Any]]:
        """Heads, relations and tails of many triples at a time, each a dictionary array."""
        try:
            yield from self.chunks()
        except FileError:
            raise
        except SyntaxError as error:
            raise self._syntax_error(error) from None
        except MemoryError as error:  # the parser's own bound on what it has to look at as a whole
            raise FileError(self.path, f"a node or text that is too long ({error})", "shorten it") from None
        except (OSError, ValueError) as error:
            problem = f"damaged {self.compression or self.syntax_name} data ({error})"
            raise FileError(self.path, problem, "fetch or write it again") from error

    def chunks(self) -> Iterator[list[Any]]:
        """Heads, relations and tails of many triples at a time, each a dictionary array."""
        label = self._labeller()
        heads, relations, tails = [], [], []
        length = held = 0
        with self._stream() as stream:
            for quad in self.parse(stream):
                if self.selects(quad):
                    heads.append(label(quad.subject))
                    relations.append(quad.predicate.value)
                    tails.append(label(quad.object))
                    length += len(heads[-1]) + len(relations[-1]) + len(tails[-1])
                    if len(heads) == CHUNK_TRIPLES or length > FREE_BYTES:
                        columns = _encoded(heads, relations, tails)
                        # A prefix or an entity makes long labels of short names.
                        held += sum(column.nbytes for column in columns)
                        check_expansion(self.path, stream.size, held, "labels")
                        yield columns
                        heads, relations, tails = [], [], []
                        length = 0
        yield _encoded(heads, relations, tails)

    def _stream(self) -> BoundedStream:
        source = pa.input_stream(str(self.path), compression=self.compression)
        kind = XmlStream if self.syntax == "RDF_XML" else BoundedStream
        return kind(source, self.path, self.path.stat().st_size)

    def parse(self, source: Any) -> Any:
        """The parser's triples or quads."""
        # Lenient: dumps hold odd IRIs and language tags, which are labels like any other. Errors of syntax stay errors.
        return self.parser.parse(source, format=getattr(self.parser.RdfFormat, self.syntax), lenient=True)

    def selects(self, quad: Any) -> bool:
        """Whether a triple is to be read; a selected one that is skipped for its object is counted."""
        if self.predicates is not None and quad.predicate.value not in self.predicates:
            return False
        kind = type(quad.object)
        if (kind is self.parser.Literal and not self.keeps_literals) or kind is self.parser.Triple:
            self.skipped[kind.__name__.lower()] += 1
            return False
        return True

    def _labeller(self) -> Callable[[Any], str]:
        """A function from a node to its label.

        A node without a name gets one from the file's name and its number, which no written blank node can have: the
        same at every reading, and another one in another file.
        """
        named, blank, name = self.parser.NamedNode, self.parser.BlankNode, self.path.name
        numbers: dict[str, int] = {}

        def label(node: Any) -> str:
            if type(node) is named:
                return node.value  # type: ignore[no-any-return]
            if type(node) is blank and ANONYMOUS.fullmatch(node.value):
                return f"_:{name}#{numbers.setdefault(node.value, len(numbers) + 1)}"
            return str(node)

        return label

    @property
    def syntax_name(self) -> str:
        """As people write it."""
        name: str = getattr(self.parser.RdfFormat, self.syntax).name
        return name

    def _syntax_error(self, error: SyntaxError) -> FileError:
        text = re.sub(r"^Parser error [^:]*: ", "", (error.msg or str(error)).splitlines()[0])
        remedy = "mend the file, or rename it if it is none of that kind"
        return FileError(self.path, f"not {self.syntax_name}: {text}", remedy, error.lineno)

    def find_bad_value(self) -> FileError:
        """There is one kind only: an IRI of no characters."""
        return FileError(self.path, "an empty IRI <>", "mend the file, or give Turtle a @base")


class RdfLines(RdfFile):
    """N-Triples or N-Quads. Arrow splits lines with nothing odd in them, nearly all of a dump.

    The parser gets the others: escapes, unusual spacing, errors, and literals that are kept or have to be counted.
    """

    def chunks(self) -> Iterator[list[Any]]:
        """Heads, relations and tails of a block of lines at a time, each a dictionary array."""
        graph = f"(?: {NODE})?" if self.syntax == "N_QUADS" else ""
        plain_link = rf"^{NODE} {IRI} {NODE}{graph} \.[\r\n]?$"
        plain_literal = rf"^{NODE} {IRI} {LITERAL}{graph} \.[\r\n]?$"
        for lines, numbers in self._candidates():
            links = _matches(lines, plain_link)
            others = ~links & ~_matches(lines, NOTHING)
            if self.predicates is None and not self.keeps_literals:
                literals = others & _matches(lines, plain_literal)
                self.skipped.update({"literal": int(literals.sum())} if literals.any() else {})
                others &= ~literals
            yield self._columns(lines, numbers, links, others)

    def _candidates(self) -> Iterator[tuple[Any, IntArray]]:
        """Blocks of lines that may have a selected predicate: it stands there, or an escape could spell it."""
        if self.predicates is None or len(self.predicates) > MOST_SOUGHT:
            yield from self._blocks()
            return
        spelt = [re.escape(f"<{predicate}>") for predicate in sorted(self.predicates)]
        pattern = "|".join([*spelt, r"\\[uU]"])
        for lines, numbers in self._blocks():
            kept = _matches(lines, pattern)
            yield lines.filter(pa.array(kept)), numbers[kept]

    def _blocks(self) -> Iterator[tuple[Any, IntArray]]:
        """Lines as an Arrow array of bytes, and their numbers from 1, a block at a time."""
        number, rest = 1, [b""]  # the pieces of a line that is not over yet
        with self._stream() as stream:
            while True:
                block = stream.read(BLOCK_BYTES)
                cut = block.rfind(b"\n") + 1
                rest.append(block[:cut] if cut else block)
                if cut or not block:
                    whole, rest = b"".join(rest), [block[cut:]]
                    if whole:
                        lines, newlines = _split_lines(whole)
                        yield lines, number + newlines
                        number += int(newlines[-1]) + 1
                if not block:
                    return
                check_line(self.path, sum(map(len, rest)), number)

    def _columns(self, lines: Any, numbers: IntArray, links: BoolArray, others: BoolArray) -> list[Any]:
        """The triples of plain links and of other lines, in the order of the file."""
        try:
            parts = pc.split_pattern(lines.filter(pa.array(links)).cast(pa.string()), " ", max_splits=3)
        except pa.ArrowInvalid:  # not UTF-8: the parser says where
            return self._columns(lines, numbers, np.zeros_like(links), links | others)
        columns = [pc.list_element(parts, place) if len(parts) else parts.values for place in range(3)]
        places = np.flatnonzero(links)
        if self.predicates is not None:
            wanted = pc.is_in(columns[1], value_set=pa.array([f"<{name}>" for name in self.predicates]))
            columns, places = [column.filter(wanted) for column in columns], places[wanted.to_numpy(False)]
        if others.any():
            rows, kept = self._parsed(lines.filter(pa.array(others)), numbers[others])
            order = pa.array(np.argsort(np.concatenate([places, np.flatnonzero(others)[kept]]), kind="stable"))
            columns = [
                pa.concat_arrays([column, pa.array(texts, pa.string())]).take(order)
                for column, texts in zip(columns, rows, strict=True)
            ]
        return [_without_brackets(column.dictionary_encode()) for column in columns]

    def _parsed(self, lines: Any, numbers: IntArray) -> tuple[list[list[str]], list[int]]:
        """The selected triples of lines that hold one each, as N-Triples writes them, and the places of these lines."""
        rows: list[list[str]] = [[], [], []]
        places: list[int] = []
        try:
            for place, quad in enumerate(self.parse(b"\n".join(line.rstrip(b"\r\n") for line in lines.to_pylist()))):
                if self.selects(quad):
                    places.append(place)
                    for column, node in zip(rows, (quad.subject, quad.predicate, quad.object), strict=True):
                        column.append(str(node))
        except SyntaxError as error:
            error.lineno = None if error.lineno is None else int(numbers[min(error.lineno, len(numbers)) - 1])
            raise
        return rows, places


class XmlStream(BoundedStream):
    """An XML file, in which names that stand for long texts are refused: the parser writes them out, in one another."""

    def __init__(self, stream: Any, path: str | Path, stored: int) -> None:
        super().__init__(stream, path, stored)
        self._rest, self._lengths = b"", dict.fromkeys((b"amp", b"lt", b"gt", b"quot", b"apos"), 1)

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes; an error where they end the declaration of a name for too long a text."""
        block = super().read(size)
        seen = self._rest + block
        place = 0
        for declared in XML_ENTITY.finditer(seen):
            name, text = declared.groups()
            references = XML_REFERENCE.findall(text)
            length = len(text) + sum(self._lengths.get(other, 0) for other in references)
            self._lengths[name] = length
            self._check(name, length)
            place = declared.end()
        begun = seen.find(b"<!ENTITY", place)
        self._rest = seen[begun if begun >= 0 else max(place, len(seen) - len(b"<!ENTITY")) :]
        self._check(b"?", len(self._rest))
        return block

    def _check(self, name: bytes, length: int) -> None:
        if length > MOST_ENTITY_BYTES:
            problem = f"the XML entity {name[:40].decode(errors='replace')!r} stands for {length:,} characters"
            raise FileError(self._path, problem, f"at most {MOST_ENTITY_BYTES:,} are read; write the text out")


def _encoded(*columns: list[str]) -> list[Any]:
    return [pa.array(texts, pa.string()).dictionary_encode() for texts in columns]


def _matches(lines: Any, pattern: str) -> BoolArray:
    matches: BoolArray = pc.match_substring_regex(lines, pattern).to_numpy(False)
    return matches


def _split_lines(block: bytes) -> tuple[Any, IntArray]:
    """The lines of a block with their ends, and how many newlines lie before each; a carriage return ends one too."""
    text = np.frombuffer(block, np.uint8)
    is_newline = text == ord("\n")
    ends = np.flatnonzero(is_newline | (text == ord("\r")) if b"\r" in block else is_newline) + 1
    newlines = np.cumsum(is_newline[ends - 1])
    if not len(ends) or ends[-1] != len(block):
        ends = np.append(ends, len(block))
        newlines = np.append(newlines, 0)
    before = np.concatenate([[0], newlines[:-1]]).astype(np.int64)
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(block)]), before


def _without_brackets(encoded: Any) -> Any:
    """Labels `<iri>` become `iri`; the distinct ones only are rewritten."""
    labels = encoded.dictionary
    bare = pc.if_else(pc.starts_with(labels, "<"), pc.utf8_slice_codeunits(labels, 1, -1), labels)
    return pa.DictionaryArray.from_arrays(encoded.indices, bare)
