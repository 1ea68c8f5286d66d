"""Which relations fit an entity, by shares that can be counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ookg.graph.fitting import FittingRelations
from ookg.graph.index import GraphIndex

# Entities 0 to 2 have a born (0) in 3; 0 and 1 speak (1) 4, 0 speaks 5 too; 2 plays (2) 4.
TRIPLES = np.array([[0, 0, 3], [1, 0, 3], [2, 0, 3], [0, 1, 4], [0, 1, 5], [1, 1, 4], [2, 2, 4]])
BORN, SPEAKS, PLAYS, BIRTHPLACE, SPOKEN = 0, 2, 4, 1, 3


def test_shares_by_hand() -> None:
    fitting = FittingRelations(GraphIndex.of(TRIPLES, 6, 3))
    assert fitting.having.tolist() == [3, 1, 2, 2, 1, 1]
    np.testing.assert_allclose(fitting.answers_each, [1, 3, 1.5, 1.5, 1, 1])
    fit = fitting.fit(np.array([BORN]))
    assert fit[BORN] == 1
    np.testing.assert_allclose(fit[[SPEAKS, PLAYS, BIRTHPLACE, SPOKEN]], [2 / 3, 1 / 3, 0, 0])
    # With two of its own, each fits by what the other says; a third by the mean.
    fit = fitting.fit(np.array([BORN, PLAYS, PLAYS]))
    np.testing.assert_allclose(fit[[BORN, PLAYS, SPEAKS]], [1, 1 / 3, (2 / 3 + 0) / 2])


def test_nothing_fits_who_has_nothing_and_new_relations_say_nothing() -> None:
    fitting = FittingRelations(GraphIndex.of(TRIPLES, 6, 3))
    assert fitting.fit(np.array([], dtype=np.int64)).tolist() == [0] * 6
    assert fitting.fit(np.array([6, 7])).tolist() == [0] * 6
    assert (fitting.fit(np.array([6, BORN])) == fitting.fit(np.array([BORN]))).all()


def test_how_well_a_relation_fits_all_entities_is_how_it_fits_each_by_what_others_have() -> None:
    fitting = FittingRelations(GraphIndex.of(TRIPLES, 7, 3))  # entity 6 has nothing
    np.testing.assert_allclose(fitting.shares_with(SPEAKS), [2 / 3, 0, 1, 0, 0, 0])
    for code in range(6):
        times, fits = fitting.fits_of_all(code)
        for entity in range(6):
            head, relation, tail = TRIPLES.T
            codes = np.concatenate([2 * relation[head == entity], 2 * relation[tail == entity] + 1])
            assert times[entity] == (codes == code).sum()
            others = codes[codes != code]
            left = TRIPLES[(head != entity) & (tail != entity)] if times[entity] else TRIPLES
            by_others = FittingRelations(GraphIndex.of(left, 7, 3)).fit(others)[code]
            assert fits[entity] == pytest.approx(by_others if len(others) else 1)
        assert (times[6], fits[6]) == (0, 1)
