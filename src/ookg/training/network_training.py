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
from ookg.training.network import NetworkGraph, NetworkSettings, NewAnswers, Questions, RelationNetwork
from ookg.types import FloatArray, IntArray

MOST_WEIGHT = 50  # an entity is drawn as often as it has links, up to this many
MOST_MESSAGES = 1 << 18  # of the first step, in all questions of a training step together
EPISODES = 33  # the purpose of the random stream that draws questions


@dataclass(frozen=True, eq=False)
class _Episode:
    """Questions of one step, what else is a candidate, and what is right.

    entities: for which questions, and which known entities; weight: (entities,) the logarithm of how many entities each
        one stands for
    right: (questions,) the place of the right answer among the entities; is_new: whether its new copy is right instead
    """

    questions: Questions
    entities: tuple[Tensor, Tensor]
    weight: Tensor
    right: Tensor
    is_new: Tensor
    new: NewAnswers


class _Episodes:
    """Known entities as if they were new, drawn from a graph."""

    def __init__(self, graph: NetworkGraph, settings: NetworkSettings) -> None:
        self.graph, self.settings = graph, settings
        self.random = np.random.default_rng([EPISODES, settings.seed])
        self.starts, self.link, self.other = (array.cpu().numpy() for array in (graph.starts, graph.link, graph.other))
        size, links = graph.num_entities, graph.num_links
        self.degree = np.diff(self.starts)
        self.chance = np.cumsum(np.where(self.degree >= 2, np.minimum(self.degree, MOST_WEIGHT), 0))
        self.owner_link = np.repeat(np.arange(size), self.degree) * links + self.link  # ascending
        self.by_link = np.argsort(self.link, kind="stable")
        self.of_link = np.searchsorted(self.link[self.by_link], np.arange(links + 1))
        self.answers, self.times = np.unique(self.link * size + self.other, return_counts=True)

    def __iter__(self) -> Iterator[_Episode]:
        for _ in range(self.settings.steps):
            yield self._draw()

    def _links(self, entity: IntArray, besides: IntArray) -> tuple[IntArray, IntArray]:
        """Some links of each entity, few or many: their questions, and their rows. besides: a row that is left out

        How many is drawn from 1 to all, evenly in the logarithm. What would start too many messages is left out again,
        but for one link each.
        """
        degree = self.degree[entity]
        number = np.minimum(degree.astype(np.float64) ** self.random.random(len(entity)), degree - 1).astype(np.int64)
        of = np.repeat(np.arange(len(entity)), number)
        row = self.starts[entity[of]] + (self.random.random(len(of)) * degree[of]).astype(np.int64)
        keys = np.unique(of * len(self.link) + row)
        of, row = keys // len(self.link), keys % len(self.link)
        kept = row != besides[of]
        order = self.random.permutation(np.flatnonzero(kept))
        is_first = np.zeros(len(order), dtype=np.bool_)
        is_first[np.unique(of[order], return_index=True)[1]] = True
        messages = np.where(is_first, 0, self.degree[self.other[row[order]]])
        order = np.sort(order[is_first | (np.cumsum(messages) <= MOST_MESSAGES)])
        return of[order], row[order]

    def _draw(self) -> _Episode:
        size, number = self.graph.num_entities, self.settings.batch
        questions = np.arange(number)
        entity = np.searchsorted(self.chance, self.random.random(number) * self.chance[-1], side="right")
        row = self.starts[entity] + (self.random.random(number) * self.degree[entity]).astype(np.int64)
        asked, answer = self.link[row], self.other[row]
        of, given = self._links(entity, row)
        copied, copies = self._links(answer, np.full(number, -1))
        apart = self.other[copies] != entity[copied]
        copied, copies = copied[apart], copies[apart]
        has_copy = np.bincount(copied, minlength=number) > 0
        is_new = (self.random.random(number) < self.settings.share_new) & has_copy
        apart = ~(is_new[of] & (self.other[given] == answer[of]))  # nothing passes what is hidden
        of, given = of[apart], given[apart]
        known_of, known, weight = self._candidates(entity, asked, answer)
        right = np.searchsorted(known_of * size + known, questions * size + answer)
        weight[right] = 0.0
        hidden_of, hidden = np.append(questions, questions[is_new]), np.append(entity, answer[is_new])

        def moved(*arrays: IntArray) -> list[Tensor]:
            return [torch.from_numpy(np.ascontiguousarray(array)).to(self.graph.device) for array in arrays]

        return _Episode(
            Questions(*moved(asked, of, self.link[given], self.other[given], hidden_of, hidden)),
            (moved(known_of)[0], moved(known)[0]),
            torch.from_numpy(weight.astype(np.float32)).to(self.graph.device),
            moved(right)[0],
            torch.from_numpy(is_new).to(self.graph.device),
            NewAnswers(number, *moved(copied, self.link[copies], self.other[copies])),
        )

    def _candidates(self, entity: IntArray, asked: IntArray, answer: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        """For which questions, which entities, and the logarithm of how many each stands for; answers are among them.

        Half of them are drawn from all entities, half from the answers to the asked relation. Other right answers and
        the asked entity itself are left out.
        """
        size, links, number = self.graph.num_entities, self.graph.num_links, len(asked)
        half = self.settings.negatives // 2
        of = np.arange(number).repeat(half)
        anyone = of * size + self.random.integers(size, size=len(of))
        first, total = self.of_link[asked], np.diff(self.of_link)[asked]
        rows = self.by_link[first[of] + (self.random.random(len(of)) * total[of]).astype(np.int64)]
        keys = np.unique(np.concatenate([anyone, of * size + self.other[rows], np.arange(number) * size + answer]))
        begin, end = (np.searchsorted(self.owner_link, entity * links + asked, side) for side in ("left", "right"))
        true_of = np.repeat(np.arange(number), end - begin)
        true = self.other[np.arange(len(true_of)) + (begin - np.cumsum(end - begin) + end - begin)[true_of]]
        out = np.concatenate([true_of * size + true, np.arange(number) * size + entity])
        mine = np.arange(number) * size + answer
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
    settings = settings or NetworkSettings()
    if not (np.diff(np.asarray(index.offsets)) >= 2).any():
        raise InputError("no entity has two triples, so none can be given and asked; train on a larger graph")
    with one_torch_thread() if torch.device(device).type == "cpu" else nullcontext():
        return _trained(NetworkGraph.of(index, device), settings, device, report)


def _trained(
    graph: NetworkGraph, settings: NetworkSettings, device: torch.device | str, report: Reporter | None
) -> RelationNetwork:
    network = RelationNetwork(graph.num_links, settings.seed).to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=settings.learning_rate, weight_decay=1e-4, foreach=True)
    one_new = math.log(max(1.0, settings.share_new * graph.num_entities / settings.batch))
    for step, episode in enumerate(_Episodes(graph, settings)):
        rate = min(1.0, (step + 1) / 200) * 0.5 * (1 + math.cos(math.pi * step / settings.steps))
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * rate
        loss = _loss(network, graph, episode, one_new)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        if report is not None:
            report(step + 1, partial("loss {:.2f}".format, loss.detach()))
    return network.requires_grad_(False).eval()


def _loss(network: RelationNetwork, graph: NetworkGraph, episode: _Episode, one_new: float) -> Tensor:
    """The mean of -log p(right answer) among all entities, estimated from the candidates.

    one_new: the logarithm of how many new entities each new candidate stands for
    """
    known, new = network(graph, episode.questions, episode.entities, episode.new)
    number = len(episode.right)
    rows = torch.arange(number, device=graph.device)
    right = torch.where(episode.is_new, new[rows, rows], known[episode.right])
    weighted = known + episode.weight
    weighted = weighted.index_fill(0, episode.right[episode.is_new], -torch.inf)  # the known copy of a new answer
    own = torch.zeros_like(new).fill_diagonal_(-torch.inf)
    others = new + one_new + own  # its new copy, where the known one is right
    every = torch.cat([others.reshape(-1), torch.where(episode.is_new, new[rows, rows], -torch.inf), weighted])
    of = torch.cat([rows.repeat_interleave(number), rows, episode.entities[0]])
    top = torch.full((number,), -torch.inf, device=graph.device).scatter_reduce(0, of, every.detach(), "amax")
    total = torch.zeros(number, device=graph.device).index_add(0, of, (every - top[of]).exp())
    return (total.log() + top - right).mean()
