"""The triples of an entity, and what its company says for an answer."""

from __future__ import annotations

import pytest

import ookg
from conftest import SMALL
from ookg.errors import UnknownName, unknown_name
from ookg.extension.around import StatedTriple
from ookg.extension.extended import ExtendedModel
from ookg.extension.lookup import FEW_NAMES, MOST_ALIKE, names_to_suggest
from ookg.extension.questions import Question
from ookg.graph.vocabulary import Vocabulary

KNOWN = [
    ("a", "by", "x"), ("b", "by", "x"), ("c", "by", "x"), ("d", "by", "y"), ("a", "in", "en"), ("b", "in", "en"),
    ("c", "in", "fr"), ("d", "in", "fr"), ("a", "like", "a"),
]  # fmt: skip


@pytest.fixture(scope="module")
def extended() -> ExtendedModel:
    return ookg.train(KNOWN, SMALL, device="cpu").extend([("n", "by", "x"), ("z", "near", "n"), ("n", "in", "en")])


def test_known_triples_come_first_and_a_loop_once(extended: ExtendedModel) -> None:
    around = extended.around("a")
    assert set(around) == {StatedTriple(*triple, is_given=False) for triple in KNOWN if "a" in triple}
    assert len(around) == 3
    assert not around.is_new
    x = list(extended.around("x"))
    assert x[-1] == StatedTriple("n", "by", "x", is_given=True)
    assert [one.is_given for one in x] == [False] * 3 + [True]


def test_a_newcomer_and_parts_of_its_list(extended: ExtendedModel) -> None:
    around = extended.around("n")
    assert around.is_new
    whole = list(around)
    assert {(one.head, one.relation, one.tail) for one in whole} == {
        ("n", "by", "x"), ("z", "near", "n"), ("n", "in", "en")
    }  # fmt: skip
    assert around[1:] == whole[1:]
    assert around[-1] == whole[-1]
    assert around[5:9] == []
    with pytest.raises(UnknownName, match="unknown entity 'nobody'"):
        extended.around("nobody")


def test_what_was_removed_is_not_there(extended: ExtendedModel) -> None:
    other = ookg.train(KNOWN, SMALL, device="cpu").extend()
    other.remove([("a", "by", "x")])
    assert [one.tail for one in other.around("a") if one.relation == "by"] == []


def test_what_speaks_for_answers_whether_it_counts_or_not(extended: ExtendedModel) -> None:
    english, french, nothing = extended.what_speaks(Question("in", head="n"), ["en", "fr", "x"])
    assert "2 of 3 with by x have in en" in [reason.text() for reason in english]
    assert "1 of 3 with by x has in fr" in [reason.text() for reason in french]
    assert not any("by x" in reason.text() for reason in nothing)
    assert extended.what_speaks(Question("in", tail="fr"), ["nobody"]) == [()]


def test_a_misspelt_name_among_many_is_found_by_what_is_right_in_it() -> None:
    known = Vocabulary([f"entity/{number}" for number in range(3 * FEW_NAMES)])
    for wrong, right in (("entitt/4242", "entity/4242"), ("entity/x42", "entity/42"), ("Entity/5999", "entity/5999")):
        names = names_to_suggest(wrong, known, ["new"])
        assert len(names) <= MOST_ALIKE + 1
        assert "new" in names
        assert right in str(unknown_name("entity", wrong, names, "")).split("did you mean")[1]
    iris = ["http://ex.org/language", "http://ex.org/a#Genre"]
    for last, whole in (("language", iris[0]), ("genre", iris[1])):  # an IRI by its last part
        assert str(unknown_name("relation", last, iris, "")) == f"unknown relation {last!r}; did you mean {whole!r}?"
    for odd in ("", "x", "\ud800\ud800\ud800", "\0" * 9, "entity/" * 500):
        assert len(names_to_suggest(odd, known, [])) <= MOST_ALIKE
    few = Vocabulary(["a", "b"])
    assert names_to_suggest("c", few, ["d"]) == ["a", "b", "d"]
