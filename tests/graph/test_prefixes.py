"""IRIs written by their prefixes, in labels and in triples."""

from __future__ import annotations

import numpy as np
import pytest

from ookg.errors import InputError
from ookg.graph.prefixes import with_whole_iris
from ookg.graph.triples import as_triples
from ookg.graph.vocabulary import Vocabulary
from ookg.system.display import in_full, shortened, spelled_out

RDFS, WD = "http://www.w3.org/2000/01/rdf-schema#", "http://www.wikidata.org/entity/"


@pytest.mark.parametrize("iri", ["http://schema.org/name", "https://schema.org/name", f"{RDFS}subClassOf", f"{WD}Q42"])
def test_what_is_shortened_is_spelled_out_again(iri: str) -> None:
    assert iri in spelled_out(shortened(iri))
    assert in_full(shortened(iri), {iri}.__contains__) == iri


def test_a_label_that_is_there_stays_and_so_does_what_stands_for_nothing() -> None:
    there = {"wd:Q42", f"{WD}Q42"}
    assert in_full("wd:Q42", there.__contains__) == "wd:Q42"
    for text in ("wd:Q43", "wd:", "ex:Q42", "Q42", "wd:a/b", "http://schema.org/name"):
        assert in_full(text, there.__contains__) == text


def test_what_may_stand_for_two_is_refused() -> None:
    both = {"http://schema.org/name", "https://schema.org/name"}
    with pytest.raises(InputError, match=r"'schema:name' stands for .* and .*; give one of them"):
        in_full("schema:name", both.__contains__)


def test_triples_are_written_out_where_the_model_has_the_namespace() -> None:
    entities, relations = Vocabulary([f"{WD}Q1", f"{WD}Q2", "plain"]), Vocabulary([f"{RDFS}subClassOf"])
    rows = [
        ("wd:Q1", "rdfs:subClassOf", "wd:new"),
        ("wd:Q1", f"{RDFS}subClassOf", f"{WD}new"),
        ("dbr:Berlin", "likes", "plain"),
    ]
    whole = with_whole_iris(as_triples(rows), entities, relations)
    assert list(whole) == [(f"{WD}Q1", f"{RDFS}subClassOf", f"{WD}new"), ("dbr:Berlin", "likes", "plain")]
    assert whole.duplicates == 1
    claims = with_whole_iris(as_triples(rows), entities, relations, keep_duplicates=True)
    assert len(claims) == 3
    labelled = with_whole_iris(as_triples([(*rows[0], "1"), (*rows[1], "0")]), entities, relations)
    assert labelled.truth is not None
    assert labelled.truth.tolist() == [True, False]


def test_triples_without_prefixes_are_the_same_object() -> None:
    triples = as_triples([("a", "r", "b:c"), ("http://x/y", "r", "wd")])
    assert with_whole_iris(triples, Vocabulary(["a"]), Vocabulary(["r"])) is triples


def test_labels_by_how_they_begin() -> None:
    labels = ["b", "_:1", "a", "_:", "_", "_;", "", "é_:"]
    random = np.random.default_rng(0).permutation(len(labels))
    shuffled = Vocabulary([labels[place] for place in random])
    assert {shuffled.label(number) for number in shuffled.blank} == {"_:1", "_:"}
    assert len(shuffled.beginning("")) == len(labels)
    assert not len(Vocabulary([]).blank)
    grown = shuffled.extended(["new", "_:new"])
    assert [grown.label(number) for number in grown.blank][-1] == "_:new"
    assert len(grown.blank) == 3
