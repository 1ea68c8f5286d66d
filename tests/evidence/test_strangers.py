"""Claims that put an entity where nothing like it has ever stood, in a graph that can be counted by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ookg.evidence.strangers import Strangers
from ookg.graph.fitting import FittingRelations
from ookg.graph.grown import Batch, GrownGraph
from ookg.graph.index import GraphIndex
from ookg.graph.statistics import GraphStatistics

WORKS_AS, LIVES_IN = 0, 1
# Of ten people, 0 to 9, each works as 10 or 11 and lives in 12 or 13: occupations and countries have nothing in common.
TRIPLES = np.array([[n, WORKS_AS, 10 + n % 2] for n in range(10)] + [[n, LIVES_IN, 12 + n // 5] for n in range(10)])
NEW = 14


@pytest.fixture
def strangers() -> Strangers:
    index = GraphIndex.of(TRIPLES, 14, 2)
    nothing = GraphStatistics.count(TRIPLES[:0], 0, 0)
    given = Batch(np.array([[NEW, LIVES_IN, 12]]), np.array([0]))  # a newcomer that lives somewhere
    return Strangers(GrownGraph(index, nothing, given, counts_pairs=False), FittingRelations(index))


def test_who_is_a_stranger_where_and_what_that_says(strangers: Strangers) -> None:
    claims = np.array(
        [[NEW, WORKS_AS, 10], [NEW, WORKS_AS, 12], [12, WORKS_AS, 10], [12, WORKS_AS, 12], [NEW, LIVES_IN, 3]]
    )
    # No tail of the 10 triples would be a stranger without its triple: each has stood there four times more. Of the 14
    # known entities all but the two occupations are strangers there; as heads, all but the ten people.
    tail, head = math.log((1 / 12) / (13 / 16)), math.log((1 / 12) / (5 / 16))
    expected = [0, tail, head, min(tail, head), tail]
    np.testing.assert_allclose(strangers.of_claims(claims), expected)


def test_nothing_is_said_of_what_is_not_known(strangers: Strangers) -> None:
    claims = np.array([[NEW, WORKS_AS, 99], [-1, WORKS_AS, 10], [NEW, -1, 10], [NEW, 2, 10]])
    assert strangers.of_claims(claims).tolist() == [0, 0, 0, 0]
    assert strangers.of_claims(claims[:0]).tolist() == []


def test_where_entities_often_stand_alone_little_is_said() -> None:
    # Each tail of relation 0 stands there once, and nothing else that it has fits: true claims are like that.
    rows = [[n, 0, 10 + n] for n in range(6)] + [[10 + n, 1 + n, 20] for n in range(6)]
    index = GraphIndex.of(np.array(rows), 21, 7)
    nothing = GraphStatistics.count(np.array(rows)[:0], 0, 0)
    strangers = Strangers(GrownGraph(index, nothing, counts_pairs=False), FittingRelations(index))
    assert strangers.of_claims(np.array([[0, 0, 20]])).tolist() == [0]
