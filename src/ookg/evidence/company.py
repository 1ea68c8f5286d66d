"""Company: what those have who share something with the asked entity.

A newcomer with few triples says little by itself, but it is rarely the only one that has a triple like that: whoever
else is directed_by Christopher Nolan has a language too, and it is English. So those are counted who share one of the
asked entity's links, and among them those that have each answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ookg.evidence.around import distinct_links, given_lists, index_arrays, index_links, refuse_damage
from ookg.evidence.habits import FromGraph
from ookg.evidence.source import Asked, Spoken, Why
from ookg.kernels.cpu_company import companions, company_shares
from ookg.types import FloatArray, IntArray

# Whoever shares a link counts as if this many more shared it, who have what all have.
SMOOTHING = 3.0
# An answer says something from the share on that it would have if it had been seen this often.
SEEN_AT_LEAST = 0.3
MOST_LINKS = 64  # of the asked entity, that are put into words
MOST_COMPANY = 1000  # of those who share a link; the rest are passed over at even distances


@dataclass(frozen=True)
class CompanyWhy(Why):
    """Of the `sharing` others that share a link with the asked entity, `having` have the asked relation.

    count: how many of these have the answer
    """

    count: int
    having: int
    sharing: int = field(default=0, compare=False)


@dataclass(frozen=True, eq=False)
class Company(FromGraph):
    """For a question (e, q, ?), over the links (l, x) of e:

        share(a) = max over the links of (n + m·p) / (N + m), m = 3
        evidence(a) = s · (log(share(a)) - log(0.3 / (C + 1))), or 0 if that is less
        s = 1 - (entities that have stood at that end of q once) / C

    N: how many others that have the link (l, x) have q at all; n: how many of them have (q, a)
    C: how many triples there are over q; p: the share of those that have a at that end

    s is about the chance (Good and Turing's) that an answer has been one before. Where every entity stands at that end
    once, as films do at the head of their one language, having stood there speaks against an answer, not for it.

    Links with an N of 0 say nothing; if none says anything, share(a) = p. What never stood at that end of q has no
    evidence. The asked triple is no evidence for itself: if it is there already, C, p and s are those without it, and
    (l, x) = (q, a) does not speak for a. Links of an entity to itself are not used.
    """

    name: ClassVar[str] = "company"
    features: ClassVar[tuple[str, ...]] = ("company of the head", "company of the tail")

    def of_question(self, asked: Asked) -> Spoken:
        """The evidence for all that has stood where the answer stands."""
        answers, times = self.ends.seen_at(asked.code)  # each answer that occurs, and how often
        links, others = self.graph.links_of(asked.entity)
        stated = _places(answers, np.unique(others[links == asked.code]))
        stated = stated[stated >= 0]
        triples, once = (np.full(len(answers), float(number)) for number in (times.sum(), (times == 1).sum()))
        once[stated] += 1.0 * (times[stated] == 2) - (times[stated] == 1)
        times = times.astype(np.float64)
        triples[stated] -= 1
        times[stated] -= 1
        shares = times / np.maximum(triples, 1)
        shared = self._counted(asked, *distinct_links(asked.entity, links, others), answers, shares)
        least = shared.least(shares)
        again = 1 - once / np.maximum(triples, 1)
        values = again * np.log(np.maximum(np.maximum(shared.best, least) * ((triples + 1) / SEEN_AT_LEAST), 1.0))
        speaker = np.where((shared.best >= least)[:, None], shared.speaker, -1)
        speaks = np.flatnonzero(values)
        return _SpokenCompany(answers[speaks], values[speaks], shared, speaker[speaks])

    def links_for(self, asked: Asked, answer: int, most: int = 3) -> list[CompanyWhy]:
        """The shared links that speak for one answer, those first of whose company the largest part has it.

        One of one says less than ten of ten: a part is n / (N + 1). Of very many links, the first ones are looked at.
        """
        links, others = distinct_links(asked.entity, *self.graph.links_of(asked.entity))
        whys = []
        for link, other in zip(links[:MOST_LINKS].tolist(), others[:MOST_LINKS].tolist(), strict=True):
            if link == asked.code and other == answer:
                continue
            one = np.array([link]), np.array([other])
            shared = self._counted(asked, *one, np.array([answer]), np.zeros(1))
            having, count = int(shared.having[0]), int(shared.speaker[0, 1])
            if shared.speaker[0, 0] >= 0 and count:
                whys.append(CompanyWhy(link, other, count / having, count, having, int(shared.sharing[0])))
        return sorted(whys, key=lambda why: -why.count / (why.having + 1))[:most]

    def _counted(
        self, asked: Asked, links: IntArray, others: IntArray, answers: IntArray, shares: FloatArray
    ) -> _Shared:
        graph, index = self.graph, self.graph.index
        arrays, back = index_arrays(index), links ^ 1
        given = given_lists(graph, others, back)
        company = companions(arrays, asked.entity, others, index_links(index, back), given, MOST_COMPANY)
        members = company[1]
        refuse_damage(index, members)
        wanted = int(index_links(index, np.array([asked.code]))[0])
        given = given_lists(graph, members, np.full(len(members), asked.code))
        itself = np.where(links == asked.code, _places(answers, others), -1)
        speaker = np.full((len(answers), 2), -1)
        counted = np.zeros(len(answers)), speaker, np.zeros(len(links), dtype=np.int64)
        company_shares(arrays, wanted, company, given, (answers, shares), itself, SMOOTHING, counted)
        return _Shared(links, others, np.diff(company[0]), itself, *counted)


@dataclass(frozen=True)
class _Shared:
    """What those say who share the links of the asked entity.

    links, others: (links,) directed relations and other ends; sharing: (links,) how many have each
    itself: the place of the answer that a link states, or -1
    best, speaker, having: as `company_shares` counts them
    """

    links: IntArray
    others: IntArray
    sharing: IntArray
    itself: IntArray
    best: FloatArray
    speaker: IntArray
    having: IntArray

    def least(self, shares: FloatArray) -> FloatArray:
        """(answers,) the share of an answer that nobody has who shares a link: the largest over links that count."""
        counts = np.flatnonzero(self.having)
        counts = counts[np.argsort(self.having[counts], kind="stable")]
        factors = np.append(SMOOTHING / (self.having[counts] + SMOOTHING), 1.0)  # the last: there is no such link
        least: FloatArray = shares * factors[0]
        if len(counts) and self.itself[counts[0]] >= 0:  # what that link states has to do with the next one
            least[self.itself[counts[0]]] = shares[self.itself[counts[0]]] * factors[1]
        return least


@dataclass(frozen=True)
class _SpokenCompany(Spoken):
    """shared: what was counted; speaker: (answers, 2) the link that speaks most for each, or -1, and its n"""

    shared: _Shared
    speaker: IntArray

    def why(self, answers: IntArray) -> list[Why | None]:
        """The shared link that speaks most for each answer; among equals the first one."""
        reasons: list[Why | None] = []
        for place in _places(self.entities, answers).tolist():
            link, count = self.speaker[place].tolist() if place >= 0 else (-1, 0)
            if link < 0:
                reasons.append(None)
                continue
            having = int(self.shared.having[link])
            code, other = int(self.shared.links[link]), int(self.shared.others[link])
            reasons.append(CompanyWhy(code, other, count / having, count, having, int(self.shared.sharing[link])))
        return reasons


def _places(answers: IntArray, entities: IntArray) -> IntArray:
    """Where each entity is among the answers, ascending; -1 where it is not."""
    if not len(answers):
        return np.full(len(entities), -1)
    place = np.minimum(np.searchsorted(answers, entities), len(answers) - 1)
    return np.where(answers[place] == entities, place, -1)
