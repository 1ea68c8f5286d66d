"""Nearness: how well the two ends of a claim are joined by way of others, directions and relations ignored."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ookg.graph.grown import GrownGraph
from ookg.graph.linked import known_links
from ookg.types import FloatArray, IntArray

# How many entities the paths of two from the heads of the claims at a time may reach, each counted for each claim.
REACHED_AT_ONCE = 1 << 23
LONG_PATH_SCALE = 100.0  # sums over longer paths are small: this brings them into the range of the others


@dataclass(frozen=True, eq=False)
class Nearness:
    """What the judge of claims looks at beside the sources of evidence.

    features: the names of what it says about a claim; graph: the triples that it speaks about
    """

    features: ClassVar[tuple[str, ...]] = (
        "common neighbours",
        "paths of two",
        "paths of three",
        "joined by three",
        "head's degree",
        "tail's degree",
    )

    graph: GrownGraph

    @cached_property
    def adjacency(self) -> Any:
        """(entities, entities) sparse, 1 where a triple joins the two; the last entity is in none."""
        known = known_links(self.graph.index)
        given = self.graph.all_given.triples
        ends = (
            np.concatenate([known.owner, given[:, 0], given[:, 2]]),
            np.concatenate([known.other, given[:, 2], given[:, 0]]),
        )
        size = 2 + int(max(end.max(initial=-1) for end in ends))
        joined = sparse.csr_array((np.ones(len(ends[0])), ends), shape=(size, size))
        joined.sum_duplicates()
        joined.data[:] = 1.0
        return joined

    def of_claims(self, claims: IntArray) -> FloatArray:
        """(claims, 6) features of each claim's two ends, as `features` has them.

        log(1 + common neighbours); the sum over these of 1/degree, so that a common hub says little; the same over
        paths of three steps, 1/degree of both entities between, as log(1 + 100·sum) and as yes or no; log(1 + degree)
        of both.
        """
        degree = np.asarray(self.adjacency.sum(axis=1)).ravel()
        leave = sparse.dia_array((1 / np.maximum(degree, 1)[None], [0]), shape=self.adjacency.shape).tocsr()
        features = np.empty((len(claims), len(self.features)))
        alone = len(degree) - 1
        claims = np.where((claims < 0) | (claims > alone), alone, claims)  # in no triple
        reach = np.minimum(self.adjacency @ degree, len(degree))[claims[:, 0]]  # by way of a hub, nearly all entities
        cuts = np.flatnonzero(np.diff(np.cumsum(reach) // REACHED_AT_ONCE)) + 1
        for rows in np.split(np.arange(len(claims)), cuts):
            head, _, tail = claims[rows].T
            near, far = self.adjacency[head], self.adjacency[tail]
            second = near @ leave  # (claims, entities) 1/degree at the head's neighbours
            third = (second @ self.adjacency) @ leave
            two, three = _overlap(second, far), _overlap(third, far)
            parts = (np.log1p(_overlap(near, far)), two, np.log1p(LONG_PATH_SCALE * three), three > 0)
            features[rows] = np.stack([*parts, np.log1p(degree[head]), np.log1p(degree[tail])], axis=1)
        return features


def _overlap(one: Any, other: Any) -> FloatArray:
    return np.asarray(one.multiply(other).sum(axis=1), dtype=np.float64).ravel()
