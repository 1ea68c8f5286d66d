"""Over which relations entities stand in a relation to themselves."""

from __future__ import annotations

import numpy as np

from ookg.graph.statistics import relations_with_loops


def test_relations_with_many_loops() -> None:
    triples = [[n, 0, n] for n in range(4)]  # nothing but loops
    triples += [[0, 1, 0]] + [[n, 1, n + 1] for n in range(4)]  # one in five
    triples += [[0, 2, 0]] + [[n, 2, n + 1] for n in range(5)]  # one in six
    triples += [[0, 3, 1], [5, 7, 5]]  # none; and a relation beyond the first ones
    assert relations_with_loops(np.array(triples), 5).tolist() == [True, True, False, False, False]
    assert relations_with_loops(np.empty((0, 3), np.int64), 2).tolist() == [False, False]
