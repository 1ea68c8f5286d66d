"""What a graph neural network says about answers, from the links around the asked entity.

Nothing is counted: the parameters were trained before (`training/network_training.py`), and the graph is read when a
question is asked, known and given triples alike. Nothing of the asked entity is left in what is read, as in training.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch

from ookg.evidence.around import index_arrays, index_links
from ookg.evidence.encoder import Encoder
from ookg.evidence.habits import Habits
from ookg.evidence.learned import nothing_said, spoken_of
from ookg.evidence.source import Asked, Source, Spoken
from ookg.graph.grown import GrownGraph, Triple
from ookg.kernels.cpu_network import collect, reach, send, spread
from ookg.kernels.threads import one_torch_thread
from ookg.models.embedding import Embedding
from ookg.training.encoder import LinkEncoder
from ookg.training.network import FORM, WIDTH, RelationNetwork
from ookg.types import Array, FloatArray, IntArray, Scores

if TYPE_CHECKING:
    from ookg.storage.network import StoredNetwork

WEIGHT = 1.0  # of messages alone; on valid-tasks of FB15k-237 and held-out triples of FB15k, 1 to 2 ranked best
# Beside an encoder, where that counts: of messages and of the encoder each, or of the encoder alone. It counts for
# newcomers with few triples. On valid-tasks of FB15k-237 with 1 and 3 it gained 0.003 and 0.008 beside messages; on
# held-out triples of FB15k, where newcomers have 28 in the median, it cost 0.002.
SHARED_WEIGHT, ENCODER_WEIGHT = 0.5, 0.5
MANY_TRIPLES = 6  # from which on it does not count

_GivenLinks = tuple[Array, Array, Array, Array]


@dataclass(frozen=True, eq=False)
class AnswerNetwork:
    """A trained network, to be asked; each of its parts is a source of evidence.

    messages: the part that reads the graph; encoder: the part that reads vectors, those of `embedding`
    """

    messages: RelationNetwork | None
    encoder: LinkEncoder | None = None
    embedding: Embedding | None = None

    def weights_at(self, triples: int) -> dict[str, float]:
        """What its parts count for by default in answers about a newcomer with so many triples."""
        return default_weights(triples, self.parts)

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the sources that have something to say."""
        parts = {Network.name: self.messages, Encoder.name: self.encoder}
        return tuple(name for name, part in parts.items() if part is not None)


def default_weights(triples: int, parts: Collection[str]) -> dict[str, float]:
    """What the parts of a network count for by default in answers about a newcomer with so many triples."""
    counts = Encoder.name in parts and triples < MANY_TRIPLES
    weights = {Network.name: SHARED_WEIGHT if counts else WEIGHT, Encoder.name: ENCODER_WEIGHT if counts else 0.0}
    return {name: weights[name] for name in parts}


def loaded_network(stored: StoredNetwork | None, embedding: Embedding) -> AnswerNetwork | None:
    """A stored network, to be asked beside vectors; one that cannot be is refused."""
    if stored is None:
        return None
    if stored.about["settings"].get("form") != FORM:
        raise stored.damaged("another version of ookg trained it")
    messages, encoder = None, None
    try:
        if Network.name in stored.parts:
            messages = RelationNetwork.from_arrays(stored.messages, stored.num_relations)
        if Encoder.name in stored.parts:
            encoder = LinkEncoder.from_arrays(stored.encoder, stored.num_relations)
            if encoder.width != embedding.geometry.entity_width:
                width = embedding.geometry.entity_width
                raise ValueError(f"its encoder is for vectors of {encoder.width} numbers, and these have {width}")
    except ValueError as error:
        raise stored.damaged(str(error)) from error
    return AnswerNetwork(messages, encoder, embedding)


@dataclass(frozen=True, eq=False)
class Network(Source):
    """The evidence of `learned.py`, with what the network says of an answer as s.

    Answers are those that messages reach, at most three links from e, and those that have stood at that end of q; for
    others there is no evidence. Nor is there any without a network, about a relation that it does not know, and about
    an entity that has no link over one that it knows. Links over such relations are passed over.

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
        network = self.network
        if network is None or not 0 <= asked.relation < network.num_relations:
            return nothing_said()
        answers, scores = self._scores(network, asked)
        return spoken_of(self.name, answers, scores, self.num_known, asked.entity)

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
        facts = np.stack([np.log1p(times[answers]), is_linked[answers], 0.1 * np.log(np.maximum(degree, 1))], axis=1)
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
