"""Company: what those have who share something with the asked entity.

A newcomer with few triples says little by itself, but it is rarely the only one that has a triple like that: whoever
else is directed_by Christopher Nolan has a language too, and it is English. So those are counted who share one of the
asked entity's links, and among them those that have each answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ookg.errors import damaged_file
from ookg.evidence.habits import Habits
from ookg.evidence.source import Asked, Source, Spoken, Why
from ookg.graph.grown import GrownGraph, Triple
from ookg.kernels.cpu_company import companions, company_shares
from ookg.scoring.queries import Queries
from ookg.types import BoolArray, FloatArray, IntArray

# Whoever shares a link counts as if this many more shared it, who have what all have.
SMOOTHING = 3.0
# An answer says something from the share on that it would have if it had been seen this often.
SEEN_AT_LEAST = 0.3
MOST_COMPANY = 1000  # of those who share a link; the rest are passed over at even distances
MOST_LINKS = 1000  # of the asked entity, likewise


@dataclass(frozen=True)
class CompanyWhy(Why):
    """Of those who share a link with the asked entity and have the asked relation, how many have the answer."""

    count: int
    having: int


@dataclass(frozen=True, eq=False)
class Company(Source):
    """For a question (e, q, ?), over the links (l, x) of e:

        share(a) = max over the links of (n + m·p) / (N + m), m = 3
        evidence(a) = log(share(a)) - log(0.3 / (C + 1)), or 0 if that is less

    N: how many others that have the link (l, x) have q at all; n: how many of them have (q, a)
    C: how many triples there are over q; p: the share of those that have a at that end

    Links with an N of 0 say nothing; if none says anything, share(a) = p. What never stood at that end of q has no
    evidence. The asked triple is no evidence for itself: if it is there already, C and p are those without it, and
    (l, x) = (q, a) does not speak for a. Links of an entity to itself are not used.

    ends: how often an entity has stood at each end of a relation. All else is read from the graph when asked.
    """

    name: ClassVar[str] = "company"
    features: ClassVar[tuple[str, ...]] = ("company of the head", "company of the tail")
    judges: ClassVar[bool] = False

    graph: GrownGraph
    ends: Habits

    @classmethod
    def count(cls, triples: IntArray, graph: GrownGraph) -> Company:
        """Of known triples."""
        return cls(graph, Habits.count(triples, graph))

    def with_given(self, given: IntArray, after: GrownGraph) -> Company:
        """With given triples."""
        return replace(self, graph=after, ends=self.ends.with_given(given, after))

    def plus(self, triple: Triple, after: GrownGraph) -> Company:
        """With one more triple."""
        return replace(self, graph=after, ends=self.ends.plus(triple, after))

    def minus(self, triple: Triple, after: GrownGraph) -> Company:
        """Without one triple."""
        return replace(self, graph=after, ends=self.ends.minus(triple, after))

    def of_question(self, asked: Asked) -> Spoken:
        """The evidence for all that has stood where the answer stands."""
        return self._spoken(asked, *self.ends.seen_at(asked.code))

    def of_answers(self, queries: Queries, num_answers: int, device: torch.device | str) -> Tensor:
        """(queries, answers) the evidence for each of the first entities as the answer."""
        rows = np.zeros((len(queries), num_answers), dtype=np.float32)
        codes = 2 * queries.relation + ~queries.asks_tail
        order = np.argsort(codes, kind="stable")  # what is seen at one end is looked up once
        seen_code, seen = -1, self.ends.seen_at(-1)
        for row, code, entity in zip(
            order.tolist(), codes[order].tolist(), queries.entity[order].tolist(), strict=True
        ):
            if code != seen_code:
                seen_code, seen = code, self.ends.seen_at(code)
            said = self._spoken(Asked(entity, code // 2, code % 2 == 0), *seen)
            stop = int(np.searchsorted(said.entities, num_answers))
            rows[row, said.entities[:stop]] = said.values[:stop]
        return torch.from_numpy(rows).to(device)

    def of_claims(self, claims: IntArray) -> FloatArray:
        """(claims, 2) the evidence for the head, and for the tail, of each claim as an answer about the other one."""
        return np.stack([self._of_ends(claims, asks_tail=asks_tail) for asks_tail in (False, True)], axis=1)

    def as_answers(self, features: FloatArray, *, asks_tail: bool) -> FloatArray:
        """That of the end which is asked for."""
        return features[:, 1 if asks_tail else 0]

    def _of_ends(self, claims: IntArray, *, asks_tail: bool) -> FloatArray:
        near, far = (0, 2) if asks_tail else (2, 0)
        values = np.zeros(len(claims))
        known = np.flatnonzero((claims >= 0).all(axis=1))
        questions, place = np.unique(claims[known][:, [near, 1]], axis=0, return_inverse=True)
        order = np.argsort(place.ravel(), kind="stable")
        groups = np.split(known[order], np.cumsum(np.bincount(place.ravel()))[:-1])
        for (entity, relation), mine in zip(questions.tolist(), groups, strict=False):
            said = self.of_question(Asked(entity, relation, asks_tail))
            values[mine] = _looked_up(said, claims[mine, far])
        return values

    def _spoken(self, asked: Asked, answers: IntArray, times: IntArray) -> _SpokenCompany:
        """answers: those that occur, ascending; times: how often each does"""
        links, others = self.graph.links_of(asked.entity)
        # What the graph states already has been seen, so it is among the answers.
        stated = np.searchsorted(answers, np.unique(others[links == asked.code]))
        triples = np.full(len(answers), float(times.sum()))
        times = times.astype(np.float64)
        triples[stated] -= 1
        times[stated] -= 1
        shares = times / np.maximum(triples, 1)
        shared = self._counted(asked, *_distinct_links(asked.entity, links, others), answers, shares)
        least = shared.least(shares, stated)
        values = np.log(np.maximum(np.maximum(shared.best, least) * ((triples + 1) / SEEN_AT_LEAST), 1.0))
        speaker = np.where((shared.best >= least)[:, None], shared.speaker, -1)
        speaks = np.flatnonzero(values)
        return _SpokenCompany(answers[speaks], values[speaks], shared, speaker[speaks])

    def _counted(
        self, asked: Asked, links: IntArray, others: IntArray, answers: IntArray, shares: FloatArray
    ) -> _Shared:
        graph, index = self.graph, self.graph.index
        arrays = np.asarray(index.offsets), np.asarray(index.link), np.asarray(index.other)
        back = links ^ 1
        ends = others, _index_links(graph, back)
        company = companions(arrays, asked.entity, *ends, _given_lists(graph, others, back), MOST_COMPANY)
        members = company[1]
        if index.source is not None and len(members) and members.min() < 0:
            raise damaged_file(index.source, f"entity {members.min()}")
        wanted = int(_index_links(graph, np.array([asked.code]))[0])
        given = _given_lists(graph, members, np.full(len(members), asked.code))
        itself = np.where(links == asked.code, np.searchsorted(answers, others), -1)
        speaker = np.full((len(answers), 2), -1)
        counted = np.zeros(len(answers)), speaker, np.zeros(len(links), dtype=np.int64)
        company_shares(arrays, wanted, company, given, (answers, shares), itself, SMOOTHING, counted)
        return _Shared(links, others, itself, *counted)


@dataclass(frozen=True)
class _Shared:
    """What those say who share the links of the asked entity.

    links, others: (links,) directed relations and other ends; itself: the place of the answer that a link states, or -1
    best, speaker, having: as `company_shares` counts them
    """

    links: IntArray
    others: IntArray
    itself: IntArray
    best: FloatArray
    speaker: IntArray
    having: IntArray

    def least(self, shares: FloatArray, stated: IntArray) -> FloatArray:
        """(answers,) the share of an answer that nobody has who shares a link: the largest over the links that count.

        stated: the places of answers that a link may state itself, and so not speak for
        """

        def factor(counts: BoolArray) -> float:
            return SMOOTHING / (float(self.having[counts].min()) + SMOOTHING) if counts.any() else 1.0

        counts = self.having > 0
        least = shares * factor(counts)
        for place in stated.tolist():
            least[place] = shares[place] * factor(counts & (self.itself != place))
        return least


@dataclass(frozen=True)
class _SpokenCompany(Spoken):
    """shared: what was counted; speaker: (answers, 2) the link that speaks most for each, or -1, and its n"""

    shared: _Shared
    speaker: IntArray

    def why(self, answers: IntArray) -> list[Why | None]:
        """The shared link that speaks most for each answer; among equals the first one."""
        reasons: list[Why | None] = []
        for place, answer in zip(np.searchsorted(self.entities, answers).tolist(), answers.tolist(), strict=True):
            is_there = place < len(self.entities) and self.entities[place] == answer
            link, count = self.speaker[place].tolist() if is_there else (-1, 0)
            if link < 0:
                reasons.append(None)
                continue
            having = int(self.shared.having[link])
            code, other = int(self.shared.links[link]), int(self.shared.others[link])
            reasons.append(CompanyWhy(code, other, count / having, count, having))
        return reasons


def _distinct_links(entity: int, links: IntArray, others: IntArray) -> tuple[IntArray, IntArray]:
    """Links of an entity to others, each once, ascending; of very many some at even distances."""
    wide = 1 + int(others.max(initial=0))
    keys = np.unique((links * wide + others)[others != entity])
    if len(keys) > MOST_LINKS:
        keys = keys[np.arange(MOST_LINKS) * len(keys) // MOST_LINKS]
    return keys // wide, keys % wide


def _looked_up(said: Spoken, entities: IntArray) -> FloatArray:
    """What is said about some entities. Those that it speaks about are ascending."""
    if not len(said.entities):
        return np.zeros(len(entities))
    place = np.minimum(np.searchsorted(said.entities, entities), len(said.entities) - 1)
    return np.where(said.entities[place] == entities, said.values[place], 0.0)


def _index_links(graph: GrownGraph, codes: IntArray) -> IntArray:
    """Directed relations as the index numbers them; -1 for those that it does not have."""
    size = graph.index.num_relations
    return np.where(codes < 2 * size, codes // 2 + (codes % 2) * size, -1)


def _given_lists(graph: GrownGraph, entities: IntArray, codes: IntArray) -> tuple[IntArray, IntArray]:
    """For each entity the others that given triples link it to by a directed relation, as lists; ascending in each."""
    place, sides = graph.given_sides_of(entities)
    fits = sides[:, 0] == codes[place]
    if not fits.any():
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    starts = np.searchsorted(place[fits], np.arange(len(entities) + 1))
    return starts, np.ascontiguousarray(sides[fits, 1])
