"""Names of ids from RDF: which predicates, which languages, and that they are no triples."""

from __future__ import annotations

from pathlib import Path

import pytest

from ookg.graph.names import read_names
from ookg.graph.reading import TripleFormat
from ookg.graph.triples import read_triples

EX, RDFS = "http://example.org/", "http://www.w3.org/2000/01/rdf-schema#"
TURTLE = f"""@prefix ex: <{EX}> . @prefix rdfs: <{RDFS}> . @prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix schema: <https://schema.org/> .
ex:a ex:knows ex:b , _:nobody .
_:nobody rdfs:label "nobody" .
ex:a rdfs:label "Apfel"@de , "apple"@en-GB , "pomme"@fr .
ex:b rdfs:label "plain" ; skos:prefLabel "preferred" ; schema:name "by schema" .
ex:c schema:name "a \\"quoted\\" name\\nof two lines, é" .
ex:d rdfs:label "  " ; rdfs:seeAlso "not a name" .
"""
LINES = f"""<{EX}a> <{EX}knows> <{EX}b> .
<{EX}a> <{RDFS}label> "Apfel"@de .
<{EX}a> <{RDFS}label> "apple"@en .
<{EX}b> <{RDFS}label> "caf\\u00e9 \\\\ \\"x\\"" .
"""


@pytest.fixture
def turtle(tmp_path: Path) -> Path:
    path = tmp_path / "graph.ttl"
    path.write_text(TURTLE, encoding="utf-8")
    return path


def test_names_are_chosen_by_language_then_by_predicate(turtle: Path) -> None:
    names = read_names(turtle)
    assert {label: names.name(f"{EX}{label}") for label in "abcd"} == {
        "a": "apple",
        "b": "preferred",
        "c": 'a "quoted" name\nof two lines, é',
        "d": None,
    }
    assert len(names) == 3  # a blank node has none
    assert read_names(turtle, ("nl", "de")).name(f"{EX}a") == "Apfel"
    assert read_names(turtle, ("fr", "de")).name(f"{EX}a") == "pomme"
    assert read_names(turtle, ("it",)).name(f"{EX}a") == "Apfel"  # any, rather than none


def test_names_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "graph.nt"
    path.write_text(LINES, encoding="utf-8")
    names = read_names(path)
    assert names.name(f"{EX}a") == "apple"
    assert names.name(f"{EX}b") == 'café \\ "x"'


def test_only_ids_that_are_asked_for(turtle: Path) -> None:
    triples = read_triples(turtle)
    assert len(read_names(turtle, among=(triples.entities, triples.relations))) == 2


def test_names_are_no_triples_unless_their_predicate_is_asked_for(turtle: Path) -> None:
    assert len(read_triples(turtle)) == 2
    kept = read_triples(turtle, TripleFormat(literals="keep"))
    assert [triple[2] for triple in kept] == [f"{EX}b", "_:nobody", '"not a name"']
    asked = read_triples(turtle, TripleFormat(predicates=(f"{RDFS}label",), literals="keep"))
    assert '"apple"@en-GB' in [triple[2].replace("en-gb", "en-GB") for triple in asked]
    assert len(asked) == 6
