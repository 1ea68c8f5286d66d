"""Labels and numbers as people read them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ookg.errors import InputError

PREFIXES = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "schema": "http://schema.org/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "dbr": "http://dbpedia.org/resource/",
    "dbo": "http://dbpedia.org/ontology/",
    "wd": "http://www.wikidata.org/entity/",
    "wdt": "http://www.wikidata.org/prop/direct/",
}
# Namespaces that are written in two ways, and stand for the same prefix.
WRITTEN_ALSO = {"http://schema.org/": "https://schema.org/"}
BLANK = "_:"  # the labels of RDF nodes without a name begin so


def shortened(label: str, prefixes: Mapping[str, str] = PREFIXES) -> str:
    """`wd:Q42` for `http://www.wikidata.org/entity/Q42`: the longest namespace that leaves a plain local name.

    Of two names for one namespace the later one is taken.
    """
    fitting = [
        (len(space), place, name)
        for place, (name, written) in enumerate(prefixes.items())
        for space in (written, WRITTEN_ALSO.get(written, written))
        if label.startswith(space)
    ]
    for length, _, name in sorted(fitting, reverse=True):
        local = label[length:]
        if local and not set(local) & set("/#"):
            return f"{name}:{local}"
    return label


def spelled_out(text: str, prefixes: Mapping[str, str] = PREFIXES) -> list[str]:
    """The IRIs that a shortened label may stand for; none if it is not shortened by these prefixes."""
    name, _, local = text.partition(":")
    if name not in prefixes or not local or set(local) & set("/#"):
        return []
    space = prefixes[name]
    return [f"{space}{local}", *([f"{WRITTEN_ALSO[space]}{local}"] if space in WRITTEN_ALSO else [])]


def in_full(text: str, is_there: Callable[[str], bool], prefixes: Mapping[str, str] = PREFIXES) -> str:
    """The label that a text stands for: itself where it is one, else the IRI that it shortens, where there is one."""
    if is_there(text):
        return text
    there = [label for label in spelled_out(text, prefixes) if is_there(label)]
    if len(there) > 1:
        raise InputError(f"{text!r} stands for {' and '.join(map(repr, there))}; give one of them")
    return there[0] if there else text


# What a terminal would obey instead of showing it: control characters, line ends, and marks that turn text around.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """A text that a terminal can only show: what it would obey is written as its code."""
    return _CONTROLS.sub(lambda match: ascii(match[0])[1:-1], text)


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
