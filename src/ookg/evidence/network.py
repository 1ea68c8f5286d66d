"""What a graph neural network says about answers, from the links around the asked entity.

Nothing is counted: the parameters were trained before (`training/network_training.py`), and the graph is read when a
question is asked, known and given triples alike. Nothing of the asked entity is left in what is read, as in training.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch

from ookg.evidence.around import index_arrays, index_links
from ookg.evidence.habits import Habits
from ookg.evidence.source import Asked, Source, Spoken, Why
from ookg.graph.grown import GrownGraph, Triple
from ookg.kernels.cpu_network import collect, reach, send, spread
from ookg.kernels.threads import one_torch_thread
from ookg.training.network import FORM, WIDTH, RelationNetwork
from ookg.types import Array, FloatArray, IntArray, Scores

if TYPE_CHECKING:
    from ookg.storage.network import StoredNetwork

WEIGHT = 1.0  # by default; on valid-tasks of FB15k-237 and held-out triples of FB15k, 1 to 2 ranked best
LEAST = 15.0  # the logarithm of 1/p from which on an answer has no evidence
LIKE_NEW = 50  # which of the known answers, by rank, new ones are put on a level with
NO_LINK = -1
TINY = 1e-30

_GivenLinks = tuple[Array, Array, Array, Array]


def loaded_network(stored: StoredNetwork | None) -> RelationNetwork | None:
    """A stored network, to be asked; one that cannot be is refused."""
    if stored is None:
        return None
    if stored.about["settings"].get("form") != FORM:
        raise stored.damaged("another version of ookg trained it")
    try:
        return RelationNetwork.from_arrays(stored.arrays, stored.num_relations)
    except ValueError as error:
        raise stored.damaged(str(error)) from error


@dataclass(frozen=True)
class NetworkWhy(Why):
    """All links of the asked entity together; strength: the probability of the answer among all that were looked at.

    rank: among these, from 1
    """

    rank: int


@dataclass(frozen=True, eq=False)
class Network(Source):
    """For a question (e, q, ?), with p(a) = exp(s(a)) / Σ over known entities of exp(s):

        evidence(a) = log p(a) + 15, or 0 if that is less

    s: what the network says of an answer. Answers are those that messages reach, at most three links from e, and those
    that have stood at that end of q; for others there is no evidence. Nor is there any without a network, about a
    relation that it does not know, and about an entity that has no link over one that it knows. Links over such
    relations are passed over.

    About answers that are new the network knows too little. In a ranking they have the evidence of known ones that
    stand like them by all else (`combined_scores`); by itself the source puts all of them on a level with the fiftieth
    known one.

    ends: how often an entity has stood at each end of a relation; num_known: how many entities are known
    network: None: it says nothing
    """

    name: ClassVar[str] = "network"
    features: ClassVar[tuple[str, ...]] = ("network of the head", "network of the tail")
    judges: ClassVar[bool] = False
    judges_new: ClassVar[bool] = False
    known_alone: ClassVar[bool] = True
    reads_graph: ClassVar[bool] = True

    graph: GrownGraph
    ends: Habits
    num_known: int
    network: RelationNetwork | None = None

    @classmethod
    def count(cls, triples: IntArray, graph: GrownGraph) -> Network:
        """Of known triples, with nothing to say yet."""
        return cls(graph, Habits.count(triples, graph), graph.index.num_entities)

    def with_given(self, given: IntArray, after: GrownGraph) -> Network:
        """With given triples."""
        return replace(self, graph=after, ends=self.ends.with_given(given, after))

    def plus(self, triple: Triple, after: GrownGraph) -> Network:
        """With one more triple."""
        return self._changed(replace(self, graph=after, ends=self.ends.plus(triple, after)), triple, 1)

    def minus(self, triple: Triple, after: GrownGraph) -> Network:
        """Without one triple."""
        return self._changed(replace(self, graph=after, ends=self.ends.minus(triple, after)), triple, -1)

    def _changed(self, after: Network, triple: Triple, sign: int) -> Network:
        """Another one with what is sorted already: one triple more or less does not sort all given ones anew."""
        index = self.graph.index
        if "_given" in vars(self) and after.graph.index is index:
            head, relation, tail = triple
            given = self._given
            if relation < index.num_relations and not index.has(np.array([triple]))[0]:
                for owner, code, other in ((head, 2 * relation, tail), (tail, 2 * relation + 1, head)):
                    given = _with_link(given, owner, int(index_links(index, np.array([code]))[0]), other, sign)
            vars(after)["_given"] = given
        return after

    def of_question(self, asked: Asked) -> Spoken:
        """The evidence for all that messages reach, or that has stood where the answer stands, and for all new ones."""
        network, nothing = self.network, Spoken(np.empty(0, dtype=np.int64), np.empty(0))
        if network is None or not 0 <= asked.relation < network.num_relations:
            return nothing
        answers, scores = self._scores(network, asked)
        if not len(answers):
            return nothing
        odds = np.exp(scores - scores.max())
        shares = odds / odds.sum()
        values = np.maximum(np.log(np.maximum(shares, np.float32(TINY))) + np.float32(LEAST), 0)
        speaks = np.flatnonzero(values > 0)
        if not len(speaks):  # so many answers that none is likely
            return nothing
        values = values[speaks].astype(np.float64)
        level = float(np.partition(values, -LIKE_NEW)[-LIKE_NEW]) if len(values) >= LIKE_NEW else 0.0
        return _SpokenNetwork(answers[speaks], values, shares[speaks], level, self.num_known, asked.entity)

    def of_claims(self, claims: IntArray) -> FloatArray:
        """(claims, 2) the evidence for the head, and for the tail, of each claim as an answer about the other one."""
        return self.of_both_ends(claims)

    def as_answers(self, features: FloatArray, *, asks_tail: bool) -> FloatArray:
        """That of the end which is asked for."""
        return features[:, 1 if asks_tail else 0]

    @cached_property
    def _given(self) -> _GivenLinks:
        """Given links by entity, as the kernels take them; those that the index has as well are left out."""
        given, index = self.graph.all_given.triples, self.graph.index
        known = np.flatnonzero((given < [index.num_entities, index.num_relations, index.num_entities]).all(axis=1))
        given = np.delete(given, known[index.has(given[known])], axis=0)
        head, relation, tail = given[given[:, 1] < index.num_relations].T
        codes = np.concatenate([2 * relation, 2 * relation + 1])
        owner, other = np.concatenate([head, tail]), np.concatenate([tail, head])
        link = index_links(index, codes)
        order = np.lexsort((other, link, owner))
        owners, starts = np.unique(owner[order], return_index=True)
        return owners, np.append(starts, len(order)), link[order], other[order]

    @cached_property
    def _size(self) -> int:
        """One more than the highest entity."""
        return max(self.graph.index.num_entities, 1 + int(self._given[0].max(initial=-1)))

    @torch.no_grad()
    @one_torch_thread()
    def _scores(self, network: RelationNetwork, asked: Asked) -> tuple[IntArray, Scores]:
        """Possible answers, ascending, and what the network says of each."""
        links, others = self.graph.links_of(asked.entity)
        counting = min(network.num_relations, self.graph.index.num_relations)
        seen = (links < 2 * counting) & (others != asked.entity)
        links, others = links[seen], others[seen]
        order = np.lexsort((links, others))
        links, others = links[order], others[order]
        if not len(links):
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        index, size = self.graph.index, self._size
        graph = index_arrays(index), self._given, (asked.entity, index.num_relations, counting)
        vector = network.asked[asked.code : asked.code + 1]
        start, first, second = (network.weights(name, vector) for name in ("start", "first", "second"))
        # What the links start.
        neighbours, owner = np.unique(others, return_inverse=True)
        place, reached = np.full(size, -1, dtype=np.int64), np.empty(size, dtype=np.int64)
        number = reach(*graph, neighbours, place, reached)
        reached = reached[:number]
        begins = torch.zeros(number, WIDTH)
        begins.index_add_(0, torch.from_numpy(owner.ravel()), start[torch.from_numpy(links)])
        # The first step.
        arrived = begins.clone()
        send(*graph, neighbours, first.numpy(), place, arrived.numpy())
        degree, is_answer = np.empty(number, dtype=np.int64), np.zeros(size, dtype=np.bool_)
        spread(*graph, reached, degree, is_answer)
        states = torch.cat([network.layer(0, begins, arrived, _column(degree)), network.untouched()])
        # The second step, to whatever may be an answer.
        times = self._times(asked, others[links == asked.code])
        is_answer[reached] = True
        is_answer |= times > 0
        is_answer[self.num_known :] = False
        if asked.entity < size:
            is_answer[asked.entity] = False
        answers = np.flatnonzero(is_answer)
        arrived, degree = torch.zeros(len(answers), WIDTH), np.empty(len(answers), dtype=np.int64)
        collect(*graph, answers, place, states.numpy(), second.numpy(), arrived.numpy(), degree)
        at = torch.from_numpy(place[answers])  # -1, the last one, for what nothing has reached
        start = torch.cat([begins, torch.zeros(1, WIDTH)])[at]
        state = network.layer(1, states[at], arrived + start, _column(degree))
        is_linked = np.zeros(size, dtype=np.bool_)
        is_linked[neighbours] = True
        facts = np.stack(
            [
                np.log1p(times[answers]),
                is_linked[answers],
                0.1 * np.log(np.maximum(degree, 1)),
                np.zeros(len(answers)),  # none of them is new
            ],
            axis=1,
        )
        logits = network.read_out(state, vector.expand(len(answers), -1), torch.from_numpy(facts.astype(np.float32)))
        return answers, logits.numpy()

    def _times(self, asked: Asked, stated: IntArray) -> IntArray:
        """(entities,) how often each has been an answer to others; stated: those of the asked entity"""
        times = np.zeros(self._size, dtype=np.int64)
        stood, counts = self.ends.seen_at(asked.code)
        times[stood[stood < self._size]] = counts[stood < self._size]
        np.subtract.at(times, stated, 1)
        return np.maximum(times, 0)


def _with_link(given: _GivenLinks, owner: int, link: int, other: int, sign: int) -> _GivenLinks:
    """Given links by entity with one more, or without one."""
    owners, starts, links, others = given
    place = int(np.searchsorted(owners, owner))
    is_there = place < len(owners) and owners[place] == owner
    mine = slice(starts[place], starts[place + 1]) if is_there else slice(starts[place], starts[place])
    row = mine.start + int(((links[mine] < link) | ((links[mine] == link) & (others[mine] < other))).sum())
    starts = starts.copy()
    starts[place + 1 :] += sign
    if sign > 0:
        if not is_there:
            owners, starts = np.insert(owners, place, owner), np.insert(starts, place + 1, starts[place] + 1)
        return owners, starts, np.insert(links, row, link), np.insert(others, row, other)
    if starts[place] == starts[place + 1]:
        owners, starts = np.delete(owners, place), np.delete(starts, place)
    return owners, starts, np.delete(links, row), np.delete(others, row)


def _column(degree: IntArray) -> torch.Tensor:
    return torch.from_numpy(np.maximum(degree, 1).astype(np.float32))[:, None]


@dataclass(frozen=True)
class _SpokenNetwork(Spoken):
    """About known answers; all new ones but the asked entity are on one level, whether or not they have triples.

    shares: (answers,) the probability of each; num_known: new entities have ids from here on
    """

    shares: Scores
    level: float
    num_known: int
    asked: int

    def fill(self, row: Scores) -> None:
        """Write the evidence for each of the first entities into a row of zeros, (answers,)."""
        super().fill(row)
        row[self.num_known :] = self.level
        if self.num_known <= self.asked < len(row):
            row[self.asked] = 0

    def of(self, answers: IntArray) -> FloatArray:
        """(answers,) the evidence for some answers."""
        return np.where((answers >= self.num_known) & (answers != self.asked), self.level, super().of(answers))

    def why(self, answers: IntArray) -> list[Why | None]:
        """How likely each known answer is by the network, and its rank."""
        place = np.minimum(np.searchsorted(self.entities, answers), len(self.entities) - 1)
        is_there = self.entities[place] == answers
        ranks = 1 + len(self.shares) - np.searchsorted(np.sort(self.shares), self.shares[place], side="right")
        rows = zip(is_there.tolist(), self.shares[place].tolist(), ranks.tolist(), strict=True)
        return [NetworkWhy(NO_LINK, NO_LINK, share, rank) if there else None for there, share, rank in rows]
