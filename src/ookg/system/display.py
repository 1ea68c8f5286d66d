"""Labels and numbers as people read them."""

from __future__ import annotations

import re
from collections.abc import Mapping

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


def shortened(label: str, prefixes: Mapping[str, str] = PREFIXES) -> str:
    """`wd:Q42` for `http://www.wikidata.org/entity/Q42`: the longest namespace that leaves a plain local name.

    Of two names for one namespace the later one is taken.
    """
    fitting = [
        (len(space), place, name) for place, (name, space) in enumerate(prefixes.items()) if label.startswith(space)
    ]
    for length, _, name in sorted(fitting, reverse=True):
        local = label[length:]
        if local and not set(local) & set("/#"):
            return f"{name}:{local}"
    return label


# What a terminal would obey instead of showing it: control characters, line ends, and marks that turn text around.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """A text that a terminal can only show: what it would obey is written as its code."""
    return _CONTROLS.sub(lambda match: ascii(match[0])[1:-1], text)


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
