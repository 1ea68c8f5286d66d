"""Short paths: how well two entities are joined by way of others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ookg.evidence.source import Asked, Source, Spoken, Why
from ookg.graph.grown import GrownGraph, Triple
from ookg.graph.linked import known_links, link_counts, link_rows
from ookg.types import FloatArray, IntArray

# How many entities the paths of two from the heads of the claims at a time may reach, each counted for each claim.
REACHED_AT_ONCE = 1 << 23
LONG_PATH_SCALE = 100.0  # sums over longer paths are small: this brings them into the range of the others
# How many links of neighbours a question goes through. Neighbours with the fewest links come first: they say most, and
# a hub, which 1/degree makes say next to nothing, is what is left out.
MOST_WALKED = 1 << 16


@dataclass(frozen=True, eq=False)
class Paths(Source):
    """The graph without directions and relations. Nothing is counted ahead: all is read from the graph when asked."""

    name: ClassVar[str] = "paths"
    features: ClassVar[tuple[str, ...]] = (
        "common neighbours",
        "paths of two",
        "paths of three",
        "joined by three",
        "head's degree",
        "tail's degree",
    )

    graph: GrownGraph

    @classmethod
    def count(cls, triples: IntArray, graph: GrownGraph) -> Paths:
        """Of known triples."""
        del triples
        return cls(graph)

    def with_given(self, given: IntArray, after: GrownGraph) -> Paths:
        """With given triples."""
        del given
        return replace(self, graph=after)

    def plus(self, triple: Triple, after: GrownGraph) -> Paths:
        """With one more triple."""
        del triple
        return replace(self, graph=after)

    def minus(self, triple: Triple, after: GrownGraph) -> Paths:
        """Without one triple."""
        del triple
        return replace(self, graph=after)

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

    def of_question(self, asked: Asked) -> Spoken:
        """The paths of two from the asked entity to others, as in `of_claims`; hubs are left out (`MOST_WALKED`)."""
        steps = self._second_steps(asked.entity)
        entities, place = np.unique(steps.other, return_inverse=True)
        values: FloatArray = np.bincount(place.ravel(), steps.share, minlength=len(entities)).astype(np.float64)
        return _SpokenPaths(entities, values, self.graph, asked.entity, steps)

    def _second_steps(self, entity: int) -> _Steps:
        near = np.unique(self.graph.links_of(entity)[1])
        counts = link_counts(self.graph, near)
        order = np.argsort(counts, kind="stable")
        near = np.sort(near[order][np.cumsum(counts[order]) <= MOST_WALKED])
        rows = link_rows(self.graph, near)
        wide = 1 + int(rows.other.max(initial=0))
        place, other = np.divmod(np.unique(rows.owner * wide + rows.other), wide)
        degree = np.bincount(place, minlength=len(near))
        return _Steps(near[place], other, 1.0 / degree[place])

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

    def as_answers(self, features: FloatArray, *, asks_tail: bool) -> FloatArray:
        """The paths of two, which are the same from either end."""
        del asks_tail
        return features[:, self.features.index("paths of two")]


@dataclass(frozen=True)
class _SpokenPaths(Spoken):
    """graph, entity: what was asked; steps: the second steps of its paths"""

    graph: GrownGraph
    entity: int
    steps: _Steps

    def why(self, answers: IntArray) -> list[Why | None]:
        """The first link of the path that speaks most for each answer: by way of the entity with the fewest others."""
        links, others = self.graph.links_of(self.entity)
        reasons: list[Why | None] = []
        for answer in answers.tolist():
            rows = np.flatnonzero(self.steps.other == answer)
            if not len(rows):
                reasons.append(None)
                continue
            best = rows[np.argmax(self.steps.share[rows])]
            between = int(self.steps.between[best])
            reasons.append(Why(int(links[others == between].min()), between, float(self.steps.share[best])))
        return reasons


@dataclass(frozen=True)
class _Steps:
    """Second steps of paths: from which entity between to which other, and 1/degree of the one between."""

    between: IntArray
    other: IntArray
    share: FloatArray


def _overlap(one: Any, other: Any) -> FloatArray:
    return np.asarray(one.multiply(other).sum(axis=1), dtype=np.float64).ravel()
