"""Likeness: who has in common with the answers that there are already what others lack.

Which films came out in the United Kingdom? Many are stated. Nearly all that came out in Ireland are among them, and few
of those that came out in Japan. So one that came out in Ireland, and of which nothing is stated about the United
Kingdom, is a likely answer. What the answers have is counted for each question; company does the same from the other
end, with those who are like the asked entity.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ookg.evidence.around import even_places, given_lists, index_arrays, index_links, refuse_damage
from ookg.evidence.habits import FromGraph
from ookg.evidence.source import NO_LINK, Asked, Spoken, Why
from ookg.graph.linked import link_rows
from ookg.kernels.cpu_company import companions, company_sizes
from ookg.kernels.cpu_likeness import HAS, ONLY_STATED, STATED, likeness_sums
from ookg.types import Array, IntArray

# A link counts as if this many more had it, who are answers as often as all are.
SMOOTHING = 3.0
# Of the answers that are stated, and about so many known links of all of them; at even distances where there are more.
MOST_ANSWERS, MOST_LINKS = 1000, 100_000
# Links that count, those first that most answers have, of so many times as many that are looked at; one that more
# entities have says little. And how many entities have them, in all.
MOST_SHARED, LOOKED_AT, MOST_HAVING, MOST_MEMBERS = 2000, 10, 4000, 500_000


@dataclass(frozen=True)
class LikenessWhy(Why):
    """A link of the answer, which `count` of the answers have that are there already. None of the asked entity.

    shared, end: that link, and the entity at its other end
    having: how many have it and the asked relation; count: how many of these have it with the asked entity
    back, asked: the asked relation as seen from the answer, and the asked entity
    """

    shared: int
    end: int
    count: int
    having: int
    back: int
    asked: int


@dataclass(frozen=True, eq=False)
class Likeness(FromGraph):
    """For a question (e, q, ?) with the answers A that are stated, over the links (l, x) that these have, x not e:

        evidence(a) = log(1 + √(Σ part²)), over those links that a has too
        part = log((n + m·p) / ((N + m)·p)), or 0 if that is less, m = 3

    n: how many of A have the link; N: how many of all others than e that stand at that end of q have it; p: the share
    of A in all that stand there

    With one answer that has a link which nobody else has, part is log((1 + 3 p) / (4 p)); a link that answers have no
    more often than others says nothing. The squares let a few strong links count for more than many weak ones, which
    mostly say the same again. An answer that is stated already is looked at as if it were not. Without an answer there
    is no evidence.
    """

    name: ClassVar[str] = "likeness"
    features: ClassVar[tuple[str, ...]] = ("likeness of the head", "likeness of the tail")

    def of_question(self, asked: Asked) -> Spoken:
        """The evidence for all that has a link in common with an answer."""
        links, others = self.graph.links_of(asked.entity)
        stated, repeats = np.unique(others[(links == asked.code) & (others != asked.entity)], return_counts=True)
        domain, times = self.ends.seen_at(asked.code)
        if not len(stated) or not len(domain):  # an index without a domain is damaged
            return Spoken(np.empty(0, dtype=np.int64), np.empty(0))
        shared = self._shared(asked, stated)
        starts, members = self._having(asked, shared)
        size = 1 + max(self.graph.index.num_entities - 1, int(members.max(initial=0)), int(domain.max(initial=0)))
        known = np.zeros(size, dtype=np.uint8)
        known[domain] = HAS
        place = np.minimum(np.searchsorted(domain, stated), len(domain) - 1)
        known[stated] = np.where(times[place] <= repeats, ONLY_STATED, STATED)
        sums, best, speaker = np.zeros(size), np.zeros(size), np.zeros(size, dtype=np.int64)
        numbers = np.zeros((len(shared.links), 2), dtype=np.int64)
        sizes = len(stated), len(domain)
        found = sums, best, speaker
        touched = likeness_sums((starts, members), sizes, SMOOTHING, known, found, numbers)
        touched.sort()
        values = np.log1p(np.sqrt(sums[touched]))
        return _SpokenLikeness(touched, values, asked, shared, numbers, speaker[touched], known[touched])

    def _shared(self, asked: Asked, stated: IntArray) -> _Shared:
        """The links of the answers; of very many, those that most of them have, and not too many others."""
        looked_at = stated[even_places(len(stated), MOST_ANSWERS)]
        rows = link_rows(self.graph, looked_at, most=max(1, MOST_LINKS // len(looked_at)))
        rows = rows.select((rows.other != looked_at[rows.owner]) & (rows.other != asked.entity))
        wide = 1 + int(rows.other.max(initial=0))
        keys = np.unique((rows.link * wide + rows.other) * len(looked_at) + rows.owner) // len(looked_at)
        keys, counts = np.unique(keys, return_counts=True)
        keys = keys[np.argsort(-counts, kind="stable")[: LOOKED_AT * MOST_SHARED]]
        index, back, others = self.graph.index, (keys // wide) ^ 1, keys % wide
        given = given_lists(self.graph, others, back)
        sizes = company_sizes(index_arrays(index), asked.entity, others, index_links(index, back), given)
        few = np.flatnonzero(sizes <= MOST_HAVING)[:MOST_SHARED]
        keys = np.sort(keys[few[np.cumsum(sizes[few]) <= MOST_MEMBERS]])
        return _Shared(keys // wide, keys % wide)

    def _having(self, asked: Asked, shared: _Shared) -> tuple[IntArray, IntArray]:
        """Who has each of the links, as lists: (links + 1,) where each starts, and all of them."""
        index, back = self.graph.index, shared.links ^ 1
        given = given_lists(self.graph, shared.others, back)
        ends = index_links(index, back)
        starts, members = companions(index_arrays(index), asked.entity, shared.others, ends, given, MOST_HAVING)
        refuse_damage(index, members)
        sizes = np.diff(starts)
        owner = np.repeat(np.arange(len(sizes)), sizes)
        highest = max(index.num_entities - 1, int(given[1].max(initial=-1)))  # what is beyond is damage
        kept = (members != shared.others[owner]) & (members <= highest)  # loops are no evidence
        if not kept.all():
            members = members[kept]
            starts = np.concatenate([[0], np.cumsum(np.bincount(owner[kept], minlength=len(sizes)))])
        return starts, members


@dataclass(frozen=True)
class _Shared:
    """The links that answers have, ascending: directed relations, and their other ends."""

    links: IntArray
    others: IntArray


@dataclass(frozen=True)
class _SpokenLikeness(Spoken):
    """numbers: (links, 2) how many answers have each link, and how many have it and the asked relation

    speaker: (answers,) the link that says most for each; known: (answers,) as the kernel has it
    """

    asked: Asked
    shared: _Shared
    numbers: IntArray
    speaker: IntArray
    known: Array

    @cached_property
    def _place_of(self) -> dict[int, int]:
        return {entity: place for place, entity in enumerate(self.entities.tolist())}

    def why(self, answers: IntArray) -> list[Why | None]:
        """The link that says most for each answer; among equals the first one."""
        return [self._why(self._place_of.get(answer)) for answer in answers.tolist()]

    def _why(self, place: int | None) -> Why | None:
        if place is None:
            return None
        link, known = int(self.speaker[place]), int(self.known[place])
        count, having = self.numbers[link].tolist()
        count -= known >= STATED
        having -= known == ONLY_STATED
        shared = int(self.shared.links[link]), int(self.shared.others[link])
        back = self.asked.code ^ 1, self.asked.entity
        return LikenessWhy(NO_LINK, NO_LINK, count / having, *shared, count, having, *back)
