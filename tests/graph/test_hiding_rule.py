from __future__ import annotations

import numpy as np

from ookg.graph.hiding import Hiding


def test_what_stays_what_ties_and_what_is_gone() -> None:
    # 0 and 3 are hidden; 4 is tied to hidden ones alone, so it is gone; relation 1 is in no triple that stays.
    triples = np.array([[1, 0, 2], [0, 0, 1], [2, 1, 3], [0, 0, 3], [4, 0, 0], [3, 0, 4], [2, 2, 5], [0, 0, 0]])
    found = Hiding.of(triples, np.array([True, False, False, True, False, False]), num_relations=3)
    assert found.stays.tolist() == [True, False, False, False, False, False, True, False]
    assert found.ties.tolist() == [False, True, True, False, False, False, False, False]
    assert np.flatnonzero(found.known).tolist() == [1, 2, 5]
    assert found.trained.tolist() == [True, False, True]
    assert found.entities.tolist() == [1, 2, 5, 0, 3]  # known ones first
    assert found.num_known == 3
    assert found.renumbered(triples[:5]).tolist() == [[0, 0, 1], [3, 0, 0], [1, 1, 4], [3, 0, 4], [-1, 0, 3]]


def test_nothing_hidden_leaves_the_graph_as_it_is() -> None:
    triples = np.array([[0, 0, 1], [2, 1, 0]])
    found = Hiding.of(triples, np.zeros(3, dtype=np.bool_), num_relations=2)
    assert found.stays.all()
    assert not found.ties.any()
    assert found.renumbered(triples).tolist() == triples.tolist()
