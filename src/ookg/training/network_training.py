"""Training a network of `network.py` on known entities as if they were new."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from ookg.errors import InputError
from ookg.graph.index import GraphIndex
from ookg.kernels.threads import one_torch_thread
from ookg.system.progress import Reporter
from ookg.training.network import NetworkGraph, NetworkSettings, Questions, RelationNetwork, network_settings
from ookg.types import Array, FloatArray, IntArray

WARM_UP = 200  # steps in which the learning rate rises
MOST_GIVEN = 512  # links of one question
MOST_MESSAGES = 1 << 18  # of the first step on a CPU, in all questions of a training step together
WEIGHT_PER_LINK = 10  # an entity is drawn as often as it has links, up to this many times the most that are given
NOTHING_TO_ASK = "no entity has two triples, so none can be given and asked; train on a larger graph"
EPISODES = 33  # the purpose of the random stream that draws questions


@dataclass(frozen=True, eq=False)
class Drawn:
    """The questions of one step, about known entities as if they were new.

    entity, asked, answer: (questions,)
    of, given: (links,) for which question, and which row of the graph
    true_of, true: all right answers of each question that the graph has
    """

    entity: IntArray
    asked: IntArray
    answer: IntArray
    of: IntArray
    given: IntArray
    true_of: IntArray
    true: IntArray


class Episodes:
    """Known entities as if they were new, drawn from a graph."""

    def __init__(self, graph: NetworkGraph, settings: NetworkSettings) -> None:
        self.settings, self.num_entities, self.num_links = settings, graph.num_entities, graph.num_links
        self.random = np.random.default_rng([EPISODES, settings.seed])
        self.starts, self.link, self.other = (array.cpu().numpy() for array in (graph.starts, graph.link, graph.other))
        self.degree = np.diff(self.starts)
        most = self.degree if settings.most_links is None else WEIGHT_PER_LINK * settings.most_links
        self.chance = np.cumsum(np.where(self.degree >= 2, np.minimum(self.degree, most), 0))
        owner = np.repeat(np.arange(self.num_entities), self.degree)
        self.owner_link = owner * self.num_links + self.link  # ascending

    def drawn(self) -> Drawn:
        """The questions of the next step."""
        number = self.settings.batch
        entity = np.searchsorted(self.chance, self.random.random(number) * self.chance[-1], side="right")
        row = self.starts[entity] + (self.random.random(number) * self.degree[entity]).astype(np.int64)
        asked, answer = self.link[row], self.other[row]
        of, given = self._links(entity, row)
        apart = self.other[given] != entity[of]  # nothing passes what is hidden
        of, given = of[apart], given[apart]
        begin, end = (
            np.searchsorted(self.owner_link, entity * self.num_links + asked, side) for side in ("left", "right")
        )
        true_of = np.repeat(np.arange(number), end - begin)
        true = self.other[np.arange(len(true_of)) + (begin - np.cumsum(end - begin) + end - begin)[true_of]]
        return Drawn(entity, asked, answer, of, given, true_of, true)

    def _links(self, entity: IntArray, besides: IntArray) -> tuple[IntArray, IntArray]:
        """Some links of each entity: their questions, and their rows. besides: the row that is left out

        Half of the entities have all that may be given, the others a number that is drawn evenly in its logarithm.
        """
        degree, number = self.degree[entity], len(entity)
        most = np.minimum(degree, min(MOST_GIVEN, self.settings.most_links or MOST_GIVEN))
        fewer = (most ** self.random.random(number)).astype(np.int64)
        count = np.where(self.random.random(number) < 0.5, most, fewer)
        of = np.repeat(np.arange(number), count)
        place = np.arange(len(of)) - (np.cumsum(count) - count)[of]
        drawn = (self.random.random(len(of)) * degree[of]).astype(np.int64)
        row = self.starts[entity[of]] + np.where(count[of] == degree[of], place, drawn)
        keys = np.unique(of * len(self.link) + row)
        of, row = keys // len(self.link), keys % len(self.link)
        kept = row != besides[of]
        return of[kept], row[kept]


@dataclass(frozen=True, eq=False)
class _Episode:
    """Questions of one step, what else is a candidate, and what is right.

    entities: for which questions, and which known entities; weight: (entities,) the logarithm of how many entities each
        one stands for
    right: (questions,) the place of the right answer among the entities
    """

    questions: Questions
    entities: tuple[Tensor, Tensor]
    weight: Tensor
    right: Tensor


class _SampledEpisodes:
    """Questions with a few candidates each."""

    def __init__(self, graph: NetworkGraph, settings: NetworkSettings) -> None:
        self.graph, self.settings, self.episodes = graph, settings, Episodes(graph, settings)
        link, other, size = self.episodes.link, self.episodes.other, graph.num_entities
        self.by_link = np.argsort(link, kind="stable")
        self.of_link = np.searchsorted(link[self.by_link], np.arange(graph.num_links + 1))
        self.answers, self.times = np.unique(link * size + other, return_counts=True)

    def __iter__(self) -> Iterator[_Episode]:
        for _ in range(self.settings.steps):
            yield self._next()

    def _next(self) -> _Episode:
        drawn, link, other = self.episodes.drawn(), self.episodes.link, self.episodes.other
        size, number = self.graph.num_entities, len(drawn.entity)
        of, given = self._affordable(drawn.of, drawn.given)
        known_of, known, weight = self._candidates(drawn)
        right = np.searchsorted(known_of * size + known, np.arange(number) * size + drawn.answer)
        weight[right] = 0.0

        def moved(array: Array) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(self.graph.device)

        return _Episode(
            Questions(*map(moved, (drawn.entity, drawn.asked, of, link[given], other[given]))),
            (moved(known_of), moved(known)),
            moved(weight.astype(np.float32)),
            moved(right),
        )

    def _affordable(self, of: IntArray, row: IntArray) -> tuple[IntArray, IntArray]:
        """Links without those that would start too many messages, but for one link each."""
        order = self.episodes.random.permutation(len(of))
        is_first = np.zeros(len(order), dtype=np.bool_)
        is_first[np.unique(of[order], return_index=True)[1]] = True
        messages = np.where(is_first, 0, self.episodes.degree[self.episodes.other[row[order]]])
        order = np.sort(order[is_first | (np.cumsum(messages) <= MOST_MESSAGES)])
        return of[order], row[order]

    def _candidates(self, drawn: Drawn) -> tuple[IntArray, IntArray, FloatArray]:
        """For which questions, which entities, and the logarithm of how many each stands for; answers are among them.

        Half of them are drawn from all entities, half from the answers to the asked relation. Other right answers and
        the asked entity itself are left out.
        """
        size, random, entity, asked = self.graph.num_entities, self.episodes.random, drawn.entity, drawn.asked
        number = len(asked)
        mine = np.arange(number) * size + drawn.answer
        half = self.settings.negatives // 2
        of = np.arange(number).repeat(half)
        anyone = of * size + random.integers(size, size=len(of))
        first, total = self.of_link[asked], np.diff(self.of_link)[asked]
        rows = self.by_link[first[of] + (random.random(len(of)) * total[of]).astype(np.int64)]
        keys = np.unique(np.concatenate([anyone, of * size + self.episodes.other[rows], mine]))
        out = np.concatenate([drawn.true_of * size + drawn.true, np.arange(number) * size + entity])
        keys = keys[~np.isin(keys, out) | np.isin(keys, mine)]
        of, known = keys // size, keys % size
        place = np.minimum(np.searchsorted(self.answers, asked[of] * size + known), len(self.answers) - 1)
        times = np.where(self.answers[place] == asked[of] * size + known, self.times[place], 0)
        expected = half * (times / total[of] + 1 / size)
        return of, known, -np.log(np.minimum(expected, 1.0))


def train_network(
    index: GraphIndex,
    settings: NetworkSettings | None = None,
    device: torch.device | str = "cpu",
    report: Reporter | None = None,
) -> RelationNetwork:
    """A network trained on known triples; the same seed gives the same one, on a CPU bit for bit."""
    settings = network_settings(settings)
    if not (np.diff(np.asarray(index.offsets)) >= 2).any():
        raise InputError(NOTHING_TO_ASK)
    if torch.device(device).type == "cuda":
        from ookg.training.network_gpu import train_on_gpu

        return train_on_gpu(NetworkGraph.of(index), settings, device, report)
    with one_torch_thread() if torch.device(device).type == "cpu" else nullcontext(), torch.random.fork_rng([]):
        torch.manual_seed(settings.seed)  # of what is dropped out
        return _trained(NetworkGraph.of(index, device), settings, device, report)


def rising_and_falling(step: int, steps: int) -> float:
    """The share of a learning rate: it rises over the first steps, and falls to 0 along a cosine."""
    return min(1.0, (step + 1) / WARM_UP) * 0.5 * (1 + math.cos(math.pi * step / steps))


def learning_rate_at(step: int, settings: NetworkSettings) -> float:
    """That of a step."""
    return settings.learning_rate * rising_and_falling(step, settings.steps)


def _trained(
    graph: NetworkGraph, settings: NetworkSettings, device: torch.device | str, report: Reporter | None
) -> RelationNetwork:
    network = RelationNetwork(graph.num_links, settings.seed).to(device).train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=settings.learning_rate, weight_decay=1e-4, foreach=True)
    for step, episode in enumerate(_SampledEpisodes(graph, settings)):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate_at(step, settings)
        loss = _loss(network, graph, episode)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        if report is not None:
            report(step + 1, partial("loss {:.2f}".format, loss.detach()))
    return network.requires_grad_(False).eval()


def _loss(network: RelationNetwork, graph: NetworkGraph, episode: _Episode) -> Tensor:
    """The mean of -log p(right answer) among all entities, estimated from the candidates."""
    logits: Tensor = network(graph, episode.questions, episode.entities) + episode.weight
    of, number = episode.entities[0], len(episode.right)
    top = torch.full((number,), -torch.inf, device=graph.device).scatter_reduce(0, of, logits.detach(), "amax")
    total = torch.zeros(number, device=graph.device).index_add(0, of, (logits - top[of]).exp())
    return (total.log() + top - logits[episode.right]).mean()
