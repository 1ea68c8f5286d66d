"""Training a network of `network.py` on known entities as if they were new."""

from __future__ import annotations

import math
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
from ookg.types import BoolArray, FloatArray, IntArray

MOST_GIVEN = 512  # links of a question
OFTENER = 10  # an entity is drawn as often as it has links, up to this many times the most that are given
FEW_LINKS = 4 * MOST_GIVEN  # of an entity with more, given ones are drawn one by one, and fewer where one comes twice
MOST_MESSAGES = 1 << 18  # of the first step, in all questions of a training step together
WARM_UP = 200  # steps
EPISODES, DROPOUT = 33, 34  # the purposes of the random streams that draw questions and leave out units


@dataclass(frozen=True, eq=False)
class Drawn:
    """Questions of one training step.

    entity, asked, answer: (questions,) about which entity, over which link, and the answer that is asked for
    of, given: (links,) the question and the row of each given link
    copied, copies: (links,) the same of the answer's new copy; is_new: (questions,) whether that is the answer
    hidden_of, hidden: known entities that a question must see nothing of
    true_of, true: all right answers that the graph has for each question, the asked one among them
    """

    entity: IntArray
    asked: IntArray
    answer: IntArray
    of: IntArray
    given: IntArray
    copied: IntArray
    copies: IntArray
    is_new: BoolArray
    hidden_of: IntArray
    hidden: IntArray
    true_of: IntArray
    true: IntArray


class Episodes:
    """Known entities as if they were new, drawn from a graph."""

    def __init__(self, graph: NetworkGraph, settings: NetworkSettings) -> None:
        self.settings, self.num_entities, self.num_links = settings, graph.num_entities, graph.num_links
        self.random = np.random.default_rng([EPISODES, settings.seed])
        self.starts, self.link, self.other = (array.cpu().numpy() for array in (graph.starts, graph.link, graph.other))
        self.degree = np.diff(self.starts)
        most = settings.most_links
        often = self.degree if most is None else np.minimum(self.degree, OFTENER * most)
        self.chance = np.cumsum(np.where(self.degree >= 2, often, 0))
        owner = np.repeat(np.arange(self.num_entities), self.degree)
        self.owner_link = owner * self.num_links + self.link  # ascending

    def drawn(self) -> Drawn:
        """The questions of the next step."""
        number = self.settings.batch
        questions = np.arange(number)
        entity = np.searchsorted(self.chance, self.random.random(number) * self.chance[-1], side="right")
        row = self.starts[entity] + (self.random.random(number) * self.degree[entity]).astype(np.int64)
        asked, answer = self.link[row], self.other[row]
        of, given = self._some_links(entity, row)
        copied, copies = self._some_links(answer, np.full(number, -1))
        apart = self.other[copies] != entity[copied]
        copied, copies = copied[apart], copies[apart]
        has_copy = np.bincount(copied, minlength=number) > 0
        is_new = (self.random.random(number) < self.settings.share_new) & has_copy & (answer != entity)
        seen = self.other[given] != entity[of]
        seen &= ~(is_new[of] & (self.other[given] == answer[of]))  # nothing passes what is hidden
        of, given = of[seen], given[seen]
        hidden_of, hidden = np.append(questions, questions[is_new]), np.append(entity, answer[is_new])
        keys = entity * self.num_links + asked
        begin, end = (np.searchsorted(self.owner_link, keys, side) for side in ("left", "right"))
        true_of, place = _spread_out(begin, end - begin)
        return Drawn(
            entity, asked, answer, of, given, copied, copies, is_new, hidden_of, hidden, true_of, self.other[place]
        )

    def _some_links(self, entity: IntArray, besides: IntArray) -> tuple[IntArray, IntArray]:
        """Some links of each entity: their questions, ascending, and their rows. besides: a row that is left out

        Half of the entities have all their links given, up to the most; the others a number from 1 to that, drawn
        evenly in its logarithm.
        """
        degree = self.degree[entity]
        most = np.minimum(degree - (besides >= 0), min(MOST_GIVEN, self.settings.most_links or MOST_GIVEN))
        share = np.where(self.random.random(len(entity)) < 0.5, 1.0, self.random.random(len(entity)))
        number = np.floor(np.maximum(most, 1) ** share + 1e-9).astype(np.int64) * (most > 0)
        is_few = degree <= FEW_LINKS
        of, row = _spread_out(self.starts[entity], np.where(is_few, degree, 0))
        kept = row != besides[of]
        of, row = of[kept], row[kept]
        order = np.lexsort((self.random.random(len(of)), of))
        place = np.arange(len(of)) - np.searchsorted(of, of)
        kept = np.sort(order[place < number[of]])
        few_of, few = of[kept], row[kept]
        many_of = np.repeat(np.arange(len(entity)), np.where(is_few, 0, number))
        many = self.starts[entity[many_of]] + (self.random.random(len(many_of)) * degree[many_of]).astype(np.int64)
        kept = many != besides[many_of]
        keys = np.concatenate([few_of * len(self.link) + few, many_of[kept] * len(self.link) + many[kept]])
        keys = np.unique(keys)
        return keys // max(1, len(self.link)), keys % max(1, len(self.link))


def _spread_out(first: IntArray, counts: IntArray) -> tuple[IntArray, IntArray]:
    """For each of some spans its number, as often as it is long, and the places of it."""
    of = np.repeat(np.arange(len(first)), counts)
    return of, np.arange(len(of)) - (np.cumsum(counts) - counts)[of] + first[of]


@dataclass(frozen=True, eq=False)
class _Episode:
    """Questions of one step as tensors, what else is a candidate, and what is right.

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


class _Sampled:
    """Episodes in which a sample of the entities are candidates, within the room of a step."""

    def __init__(self, graph: NetworkGraph, settings: NetworkSettings) -> None:
        self.graph, self.settings, self.episodes = graph, settings, Episodes(graph, settings)
        self.random, self.link, self.other = self.episodes.random, self.episodes.link, self.episodes.other
        self.by_link = np.argsort(self.link, kind="stable")
        self.of_link = np.searchsorted(self.link[self.by_link], np.arange(graph.num_links + 1))
        self.answers, self.times = np.unique(self.link * graph.num_entities + self.other, return_counts=True)

    def episode(self) -> _Episode:
        """The next one."""
        drawn, size = self.episodes.drawn(), self.graph.num_entities
        given = self._with_room(drawn.of, drawn.given)
        of, rows = drawn.of[given], drawn.given[given]
        known_of, known, weight = self._candidates(drawn)
        right = np.searchsorted(known_of * size + known, np.arange(len(drawn.asked)) * size + drawn.answer)
        weight[right] = 0.0
        arrays = drawn.asked, of, self.link[rows], self.other[rows], drawn.hidden_of, drawn.hidden
        copies = drawn.copied, self.link[drawn.copies], self.other[drawn.copies]
        return _Episode(
            Questions(*map(self._moved, arrays)),
            (self._moved(known_of), self._moved(known)),
            torch.from_numpy(weight.astype(np.float32)).to(self.graph.device),
            self._moved(right),
            torch.from_numpy(drawn.is_new).to(self.graph.device),
            NewAnswers(len(drawn.asked), *map(self._moved, copies)),
        )

    def _moved(self, array: IntArray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.graph.device)

    def _with_room(self, of: IntArray, rows: IntArray) -> IntArray:
        """The places of links that do not start too many messages: all, or one of each question and some more."""
        messages = self.episodes.degree[self.other[rows]]
        if messages.sum() <= MOST_MESSAGES:
            return np.arange(len(of))
        order = self.random.permutation(len(of))
        is_first = np.zeros(len(of), dtype=np.bool_)
        is_first[np.unique(of[order], return_index=True)[1]] = True
        in_all = np.cumsum(np.where(is_first, 0, messages[order]))
        return np.sort(order[is_first | (in_all <= MOST_MESSAGES)])

    def _candidates(self, drawn: Drawn) -> tuple[IntArray, IntArray, FloatArray]:
        """For which questions, which entities, and the logarithm of how many each stands for; answers are among them.

        Half of them are drawn from all entities, half from the answers to the asked relation. Other right answers and
        the asked entity itself are left out.
        """
        size, asked, number = self.graph.num_entities, drawn.asked, len(drawn.asked)
        half = self.settings.negatives // 2
        questions = np.arange(number)
        of = questions.repeat(half)
        anyone = of * size + self.random.integers(size, size=len(of))
        first, total = self.of_link[asked], np.diff(self.of_link)[asked]
        rows = self.by_link[first[of] + (self.random.random(len(of)) * total[of]).astype(np.int64)]
        mine = questions * size + drawn.answer
        keys = np.unique(np.concatenate([anyone, of * size + self.other[rows], mine]))
        out = np.concatenate([drawn.true_of * size + drawn.true, questions * size + drawn.entity])
        keys = keys[~np.isin(keys, out) | np.isin(keys, mine)]
        of, known = keys // size, keys % size
        place = np.minimum(np.searchsorted(self.answers, asked[of] * size + known), len(self.answers) - 1)
        times = np.where(self.answers[place] == asked[of] * size + known, self.times[place], 0)
        expected = half * (times / total[of] + 1 / size)
        return of, known, -np.log(np.minimum(expected, 1.0))


def learning_rate_at(step: int, settings: NetworkSettings) -> float:
    """The rate of a step, counted from 0: up to the full one at first, and then down to 0 along a cosine."""
    warm = min(1.0, (step + 1) / WARM_UP)
    return settings.learning_rate * warm * 0.5 * (1 + math.cos(math.pi * step / settings.steps))


def train_network(
    index: GraphIndex,
    settings: NetworkSettings | None = None,
    device: torch.device | str = "cpu",
    report: Reporter | None = None,
) -> RelationNetwork:
    """A network trained on triples; the same seed gives the same one, on a CPU bit for bit."""
    settings = settings or NetworkSettings()
    if not (np.diff(np.asarray(index.offsets)) >= 2).any():
        raise InputError("no entity has two triples, so none can be given and asked; train on a larger graph")
    graph = NetworkGraph.of(index)
    if torch.device(device).type == "cuda":
        return _trained(graph.to(device), settings, report)
    with one_torch_thread():
        return _trained(graph, settings, report)


def _trained(graph: NetworkGraph, settings: NetworkSettings, report: Reporter | None) -> RelationNetwork:
    network = RelationNetwork(graph.num_links, settings.seed).to(graph.device)
    network.leaves_out = torch.Generator(graph.device).manual_seed((settings.seed << 8 | DROPOUT) % 2**63)
    optimizer = torch.optim.AdamW(network.parameters(), lr=settings.learning_rate, weight_decay=1e-4, foreach=True)
    one_new = math.log(max(1.0, settings.share_new * graph.num_entities / settings.batch))
    sampled = _Sampled(graph, settings)
    for step in range(settings.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate_at(step, settings)
        loss = _loss(network, graph, sampled.episode(), one_new)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        if report is not None:
            report(step + 1, partial("loss {:.2f}".format, loss.detach()))
    network.leaves_out = None
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
