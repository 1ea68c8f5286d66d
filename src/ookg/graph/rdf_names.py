"""What RDF calls things: `rdfs:label`, `skos:prefLabel` and `schema:name` become names of ids."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ookg.graph.rdf import NAMING, open_rdf
from ookg.graph.reading import TripleFormat
from ookg.graph.vocabulary import Vocabulary
from ookg.system.display import BLANK

LANGUAGES = ("en",)
# As the parser writes a literal: its text, and its language.
_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"(?:@([A-Za-z0-9-]+)|\^\^.*)?', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_ESCAPED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}


def read_rdf_names(
    path: Path, compression: str | None, syntax: str, languages: Sequence[str], among: Sequence[Vocabulary] | None
) -> dict[str, str]:
    """The name of each IRI that has one.

    Of several the one in the first of the languages is taken, then one without a language, then any other; of these
    `skos:prefLabel` before `rdfs:label` before `schema:name`, and the first in the file.
    among: only ids that one of these has; all for None
    """
    file = open_rdf(path, TripleFormat(predicates=NAMING, literals="keep"), compression, syntax)
    ranks: dict[str, tuple[int, int]] = {}
    names: dict[str, str] = {}
    wanted = [language.lower() for language in languages]
    for chunk in file.batches():
        for label, predicate, text in zip(*(column.to_pylist() for column in chunk), strict=True):
            literal = _LITERAL.fullmatch(text)
            if literal is None or label.startswith(BLANK):  # the same blank node has another label when others are read
                continue
            if among is not None and not any(label in labels for labels in among):
                continue
            rank = _language_rank((literal[2] or "").lower(), wanted), NAMING.index(predicate)
            name = _ESCAPE.sub(_unescaped, literal[1])
            if name.strip() and (label not in ranks or rank < ranks[label]):
                ranks[label], names[label] = rank, name
    return names


def _language_rank(language: str, wanted: Sequence[str]) -> int:
    """The smaller the better: each wanted language before its dialects, then none, then any other."""
    for place, one in enumerate(wanted):
        if language == one:
            return 2 * place
        if language.startswith(f"{one}-"):
            return 2 * place + 1
    return 2 * len(wanted) + bool(language)


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _ESCAPED.get(match[3], match[3])
