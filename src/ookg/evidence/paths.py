"""Paths of two steps: which steps lead to right answers of a relation, counted, and where they lead from an entity.

The nationality of a person is often that of the place where it was born: (born_in, located_in) is a rule for
nationality, and how far to trust it can be counted on known triples. Rules are counted for a relation when it is first
asked for, from some of the entities that have it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from ookg.evidence.around import distinct_links, even_places, having, index_arrays, index_links, refuse_damage
from ookg.evidence.source import Asked, Source, Spoken, Why
from ookg.graph.grown import GrownGraph, Triple
from ookg.graph.index import GraphIndex
from ookg.kernels.cpu_paths import rule_paths, sampled_paths
from ookg.types import FloatArray, IntArray

# What the rules of a relation are counted on: so many of the entities that have it, links of each, links of each one
# between. Of more, so many at even distances, so always the same.
SAMPLED_ENTITIES, SAMPLED_LINKS, SAMPLED_STEPS = 60, 60, 40
SMOOTHING = 5.0  # counted as if a rule had led astray this many times more
FEWEST_HITS = 2  # a rule that was right once is no rule
SUREST = 0.999  # no rule is surer than this
SCALE = 0.003  # Σ of this counts for log 2: a single path of a poor rule says little, and many say more
MOST_STEPS = 5000  # of an entity between, when a question is answered


@dataclass(frozen=True)
class PathWhy(Why):
    """The surest path to an answer: from `other` on over `second`; `hits` of the `reached` sampled ones were right."""

    second: int
    hits: int
    reached: int


@dataclass(frozen=True, eq=False)
class Rules:
    """The rules of one directed relation, by their first step.

    starts: (2·relations + 1,) the rules over directed relation n as the first step are starts[n] to starts[n + 1]
    second: (rules,) the second step; hits: (rules,) how many of the reached were right answers; reached: (rules,)
    """

    starts: IntArray
    second: IntArray
    hits: IntArray
    reached: IntArray
    weight: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", -np.log1p(-np.minimum(self.confidence, SUREST)))

    @property
    def confidence(self) -> FloatArray:
        """(rules,) hits / (reached + 5)."""
        return self.hits / (self.reached + SMOOTHING)

    @classmethod
    def count(cls, index: GraphIndex, code: int) -> Rules:
        """Those of a directed relation, on some of the entities that have it."""
        size, wanted = index.num_relations, int(index_links(index, np.array([code]))[0])
        entities, _ = having(index, code)
        entities = entities[even_places(len(entities), SAMPLED_ENTITIES)]
        sampled = index_arrays(index), size, entities, wanted, (SAMPLED_LINKS, SAMPLED_STEPS)
        right = sampled_paths(*sampled, np.empty(0, dtype=np.int64))
        refuse_damage(index, right[:, 2])
        pairs = np.unique(right[:, 1])
        hits = _answers_by_pair(right, pairs)
        pairs, hits = pairs[hits >= FEWEST_HITS], hits[hits >= FEWEST_HITS]
        # Most pairs of steps lead nowhere near a right answer: what the others reach is all that matters.
        all_paths = sampled_paths(*sampled, pairs) if len(pairs) else right[:0]
        refuse_damage(index, all_paths[:, 2])
        reached = _answers_by_pair(all_paths, pairs)
        first, second = np.divmod(pairs, max(1, 2 * size))
        return cls(np.searchsorted(first, np.arange(2 * size + 1)), second, hits, reached)


def _answers_by_pair(paths: IntArray, pairs: IntArray) -> IntArray:
    """(pairs,) how many answers paths lead to over each pair of steps; what an entity reaches twice counts once.

    paths: as `sampled_paths` has them
    """
    place, pair, answer = paths.T
    entities, answers = 1 + int(place.max(initial=0)), 1 + int(answer.max(initial=0))
    distinct = np.unique((np.searchsorted(pairs, pair) * entities + place) * answers + answer)
    return np.bincount(distinct // (entities * answers), minlength=len(pairs))


@dataclass(frozen=True, eq=False)
class Paths(Source):
    """For a question (e, q, ?), over the distinct paths e -l₁→ x -l₂→ a, the three being different entities:

        confidence(l₁, l₂ → q) = hits / (reached + 5), 0 with fewer than 2 hits
        evidence(a) = log(1 + s / 0.003), s = Σ -log(1 - min(confidence, 0.999))

    reached: how many answers such paths lead to from sampled entities that have q; hits: how many of these are right.
    Rules are counted on known triples when q is first asked for: given ones do not change them, but are steps like
    others. No such path goes over the asked triple.

    known: the index of the known triples; rules: those that were counted so far, by directed relation
    """

    name: ClassVar[str] = "paths"
    features: ClassVar[tuple[str, ...]] = ("paths to the head", "paths to the tail")
    judges: ClassVar[bool] = False
    known_alone: ClassVar[bool] = True
    reads_graph: ClassVar[bool] = True

    graph: GrownGraph
    known: GraphIndex
    rules: dict[int, Rules] = field(default_factory=dict)

    @classmethod
    def count(cls, triples: IntArray, graph: GrownGraph) -> Paths:
        """Of known triples: nothing yet."""
        del triples
        return cls(graph, graph.index)

    def with_given(self, given: IntArray, after: GrownGraph) -> Paths:
        """With given triples."""
        del given
        return replace(self, graph=after)

    def plus(self, triple: Triple, after: GrownGraph) -> Paths:
        """With one more triple."""
        del triple
        return self._in(after)

    def minus(self, triple: Triple, after: GrownGraph) -> Paths:
        """Without one triple."""
        del triple
        return self._in(after)

    def _in(self, after: GrownGraph) -> Paths:
        if after.index is self.graph.index:
            return replace(self, graph=after)
        return Paths(after, after.index)  # a known triple came or went, so rules are counted anew

    def rules_for(self, code: int) -> Rules:
        """The rules of a directed relation."""
        if code not in self.rules:  # two threads may both count them, and count the same
            self.rules[code] = Rules.count(self.known, code)
        return self.rules[code]

    def of_question(self, asked: Asked) -> Spoken:
        """The entities that paths lead to from the asked one."""
        rules, index = self.rules_for(asked.code), self.graph.index
        links, others = distinct_links(asked.entity, *self.graph.links_of(asked.entity))
        paths = rule_paths(
            index_arrays(index),
            index.num_relations,
            asked.entity,
            (links, others),
            self._given(others),
            (rules.starts, rules.second),
            MOST_STEPS,
        )
        refuse_damage(index, paths[:, 2])
        entities, place = np.unique(paths[:, 2], return_inverse=True)
        sums = np.bincount(place.ravel(), rules.weight[paths[:, 1]], minlength=len(entities))
        return _SpokenPaths(entities, np.log1p(sums / SCALE), rules, (links, others), paths)

    def _given(self, entities: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """The given links of some entities as `rule_paths` takes them."""
        place, sides = self.graph.given_sides_of(entities)
        link = index_links(self.graph.index, sides[:, 0])
        counts = np.flatnonzero(link >= 0)
        if not len(counts):
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        counts = counts[np.lexsort((sides[counts, 1], link[counts], place[counts]))]
        starts = np.searchsorted(place[counts], np.arange(len(entities) + 1))
        return starts, link[counts], sides[counts, 1]

    def of_claims(self, claims: IntArray) -> FloatArray:
        """(claims, 2) the evidence for the head, and for the tail, of each claim as an answer about the other one."""
        return self.of_both_ends(claims)

    def as_answers(self, features: FloatArray, *, asks_tail: bool) -> FloatArray:
        """That of the end which is asked for."""
        return features[:, 1 if asks_tail else 0]


@dataclass(frozen=True)
class _SpokenPaths(Spoken):
    """rules: of the asked relation; links: of the asked entity, and their other ends

    paths: (paths, 3) as `rule_paths` has them
    """

    rules: Rules
    links: tuple[IntArray, IntArray]
    paths: IntArray

    def why(self, answers: IntArray) -> list[Why | None]:
        """The surest path to each answer; among equals the first one."""
        confidence = self.rules.confidence
        reasons: list[Why | None] = []
        for answer in answers.tolist():
            rows = np.flatnonzero(self.paths[:, 2] == answer)
            if not len(rows):
                reasons.append(None)
                continue
            link, rule, _ = self.paths[rows[np.argmax(confidence[self.paths[rows, 1]])]].tolist()
            code, other = (int(column[link]) for column in self.links)
            counts = int(self.rules.hits[rule]), int(self.rules.reached[rule])
            reasons.append(PathWhy(code, other, float(confidence[rule]), int(self.rules.second[rule]), *counts))
        return reasons
