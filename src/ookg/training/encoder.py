"""An encoder of links: from what a newcomer is linked to, by their vectors, to where answers to a question lie.

A question (e, q, ?) looks at the links (l, x) of e, each as the vector of x changed by l, and some rounds of attention
make a direction u of them, in the space of the model's own vectors:

    logit(a) = u · v(a)

So every entity that has a vector can be an answer, and nothing is learned of single entities: the weights belong to
relations alone. Where the closed form has one translation for each relation, and the
mean of what they say, this has learned what to make of each link for each question (docs/network.md).

It is trained on known entities as if they were new: some of their links are given, another one is asked. Vectors stay
as they are.

Directed relations are numbers as `link_code` has them: 2·r from the head of a triple over r to its tail, 2·r + 1 the
other way.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout, gelu, layer_norm, linear

from ookg.errors import InputError
from ookg.graph.index import GraphIndex
from ookg.graph.linked import known_links
from ookg.kernels.threads import one_torch_thread
from ookg.system.progress import Reporter
from ookg.training.network import NetworkSettings, fill_parameters
from ookg.training.network_training import NOTHING_TO_ASK, WEIGHT_PER_LINK, rising_and_falling
from ookg.types import Array

DIM = 256  # of links and questions inside
HEADS = 4  # ways to look at the links in a round
ROUNDS = 2  # in which a question looks at them
DROPOUT = 0.1
LEARNING_RATE, WEIGHT_DECAY = 1e-3, 0.01
MOST_GIVEN = 64  # links of one question in training
MOST_READ = 512  # links of one question when it is asked
MOST_TRUE = 128  # right answers of a question that are left out in training
ALL_ENTITIES = 1 << 15  # so many are all candidates of each question; of more, so many are drawn
BLOCK_ROWS = 1 << 16  # of a table that are read at a time
MASKED = -1e4  # the logit of what is no candidate, and of a link that is not there


class LinkEncoder(nn.Module):
    """The weights of the encoder. See the top of the file.

    centre, spread: (width,) and () of the entity vectors that it was trained on, which it sees without them
    """

    centre: Tensor
    spread: Tensor

    def __init__(self, num_links: int, width: int, seed: int = 0) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(seed)

        def normal(*shape: int, mean: float = 0.0, std: float | None = None) -> nn.Parameter:
            return nn.Parameter(
                mean + (shape[-1] ** -0.5 if std is None else std) * torch.randn(*shape, generator=random)
            )

        self.num_links, self.width = num_links, width
        self.register_buffer("centre", torch.zeros(width))
        self.register_buffer("spread", torch.ones(()))
        self.inward, self.inward_bias = normal(DIM, width), nn.Parameter(torch.zeros(DIM))
        # What a link makes of the vector at its other end: scale · vector + shift.
        self.scale, self.shift = normal(num_links, DIM, mean=1.0, std=0.2), normal(num_links, DIM, std=0.07)
        self.asked = normal(num_links, DIM, std=0.07)
        self.rounds = nn.ModuleList(
            nn.ParameterDict(
                {
                    "look": normal(DIM, DIM),
                    "links": normal(2 * DIM, DIM),
                    "links_bias": nn.Parameter(torch.zeros(2 * DIM)),
                    "merge": normal(DIM, DIM),
                    "wide": normal(4 * DIM, DIM),
                    "wide_bias": nn.Parameter(torch.zeros(4 * DIM)),
                    "narrow": normal(DIM, 4 * DIM),
                }
            )
            for _ in range(ROUNDS)
        )
        self.outward = normal(width, DIM, std=0.1 * DIM**-0.5)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], num_relations: int) -> LinkEncoder:
        """From the arrays of `to_arrays`, to be asked; only the first relations count. Others raise a ValueError."""
        if "centre" not in arrays or arrays["centre"].ndim != 1:
            raise ValueError("it has not the parameters of an encoder")
        encoder = cls(2 * num_relations, len(arrays["centre"]))
        fill_parameters(encoder, arrays, "an encoder")
        return encoder

    def to_arrays(self) -> dict[str, Array]:
        """All parameters."""
        return {name: table.detach().cpu().numpy() for name, table in self.state_dict().items()}

    @property
    def num_relations(self) -> int:
        """How many relations it knows: the first ones."""
        return self.num_links // 2

    def forward(self, asked: Tensor, link: Tensor, vectors: Tensor, is_link: Tensor) -> Tensor:
        """(questions, width) the direction in which answers lie.

        asked: (questions,); link: (questions, links); vectors: (questions, links, width) of the other ends
        is_link: (questions, links) whether there is a link
        """
        share = DROPOUT if self.training else 0.0
        seen = linear((vectors - self.centre) / self.spread, self.inward, self.inward_bias)
        seen = layer_norm(seen * self.scale[link] + self.shift[link], (DIM,))
        seen = dropout(seen, share)
        state = dropout(layer_norm(self.asked[asked], (DIM,)), share)
        for weights in self.rounds:
            assert isinstance(weights, nn.ParameterDict)
            state = state + dropout(self._looked_at(weights, state, seen, is_link), share)
            units = dropout(gelu(linear(_normal(state), weights["wide"], weights["wide_bias"])), share)
            state = state + dropout(linear(units, weights["narrow"]), share)
        return linear(dropout(_normal(state), share), self.outward)

    def _looked_at(self, weights: nn.ParameterDict, state: Tensor, seen: Tensor, is_link: Tensor) -> Tensor:
        """(questions, dim) what a question takes from its links; it can also look away from all of them."""
        number, links, _ = seen.shape
        parts = linear(seen, weights["links"], weights["links_bias"]).view(number, links, 2, HEADS, DIM // HEADS)
        look = linear(_normal(state), weights["look"]).view(number, 1, HEADS, DIM // HEADS)
        fits = (look * parts[:, :, 0]).sum(dim=-1).float() / (DIM // HEADS) ** 0.5  # (questions, links, heads)
        fits = fits.masked_fill(~is_link[..., None], MASKED)
        away = fits.new_zeros(number, 1, HEADS)
        shares = torch.cat([fits, away], dim=1).softmax(dim=1)[:, :-1, :, None].to(parts.dtype)
        return linear((shares * parts[:, :, 1]).sum(dim=1).flatten(1), weights["merge"])


def _normal(state: Tensor) -> Tensor:
    return layer_norm(state, (DIM,))


@dataclass(frozen=True, eq=False)
class VectorLinks:
    """The links of a graph whose other end has a vector, by owner, relation and other end, on a device.

    starts: (owners + 1,) where the rows of each begin; owner, link, other: (rows,)
    chance: (rows,) ascending, up to where a number that is drawn evenly chooses each row as a question
    first, count: (rows,) where the rows of the same owner and link begin, and how many they are
    """

    starts: Tensor
    owner: Tensor
    link: Tensor
    other: Tensor
    chance: Tensor
    first: Tensor
    count: Tensor

    @classmethod
    def of(cls, index: GraphIndex, num_vectors: int, most: int | None, device: torch.device) -> VectorLinks:
        """Of the triples of all entities, the first of which have vectors. most: links that a question is given"""
        rows = known_links(index)
        kept = np.flatnonzero((rows.other < num_vectors) & (rows.other != rows.owner))
        num_links = max(1, 2 * index.num_relations)
        key = rows.owner[kept] * num_links + rows.link[kept]
        order = np.lexsort((rows.other[kept], key))
        key, kept = key[order], kept[order]
        degree = np.bincount(rows.owner[kept], minlength=index.num_entities)
        most_drawn = degree if most is None else np.minimum(degree, WEIGHT_PER_LINK * most)
        # An entity with one link has nothing that could be given.
        drawn = np.where(degree >= 2, most_drawn / np.maximum(degree, 1), 0.0)
        first = np.searchsorted(key, key)
        arrays = (
            np.append(0, np.cumsum(degree)),
            rows.owner[kept].astype(np.int64),
            rows.link[kept].astype(np.int64),
            rows.other[kept].astype(np.int64),
            np.cumsum(drawn[rows.owner[kept]]),
            first,
            np.searchsorted(key, key, "right") - first,
        )
        return cls(*(torch.from_numpy(array).to(device) for array in arrays))

    @property
    def can_be_asked(self) -> bool:
        """Whether there is an entity with two links."""
        return len(self.chance) > 0 and float(self.chance[-1]) > 0


@dataclass(frozen=True, eq=False)
class DrawnQuestions:
    """Questions of one step: the entity, the asked link and the answer of each, (questions,).

    link, other, is_link: (questions, links) what is given; true: (questions, answers) right answers, some twice
    """

    entity: Tensor
    asked: Tensor
    answer: Tensor
    link: Tensor
    other: Tensor
    is_link: Tensor
    true: Tensor


def draw_questions(rows: VectorLinks, number: int, most: int) -> DrawnQuestions:
    """Half of the questions are given all links that they may be, others a number drawn evenly in its logarithm."""
    device = rows.link.device
    row = torch.searchsorted(rows.chance, torch.rand(number, dtype=torch.double, device=device) * rows.chance[-1])
    row = row.clamp_max(len(rows.link) - 1)
    entity = rows.owner[row]
    start = rows.starts[entity][:, None]
    degree = rows.starts[entity + 1][:, None] - start
    place = torch.arange(most, device=device)[None].expand(number, most)
    at_random = (torch.rand(number, most, dtype=torch.double, device=device) * degree).long()
    pick = start + torch.where(degree <= most, torch.minimum(place, degree - 1), at_random)
    is_link = (place < degree) & (pick != row[:, None])
    is_link &= ~(pick[:, :, None] == pick[:, None, :]).tril(-1).any(dim=2)
    # Of these, so many as are given, whichever.
    there = is_link.sum(dim=1, keepdim=True).clamp_min(1)
    fewer = there.double() ** torch.rand(number, 1, dtype=torch.double, device=device)
    is_whole = torch.rand(number, 1, device=device) < 0.5
    given = torch.where(is_whole, there, fewer.long())
    order = torch.rand(number, most, device=device).masked_fill(~is_link, 2.0).argsort(dim=1).argsort(dim=1)
    is_link &= order < given
    count = rows.count[row][:, None]
    place = torch.arange(MOST_TRUE, device=device)[None].expand(number, MOST_TRUE)
    at_random = (torch.rand(number, MOST_TRUE, device=device) * count).long()
    true = rows.first[row][:, None] + torch.where(
        count <= MOST_TRUE, place % count, torch.minimum(at_random, count - 1)
    )
    return DrawnQuestions(
        entity, rows.link[row], rows.other[row], rows.link[pick], rows.other[pick], is_link, rows.other[true]
    )


class EncoderTraining:
    """An encoder, what it is trained on, and its steps."""

    def __init__(self, index: GraphIndex, vectors: Tensor, settings: NetworkSettings, device: torch.device) -> None:
        self.settings, self.device = settings, device
        self.vectors = vectors.to(device)
        self.rows = VectorLinks.of(index, len(vectors), settings.most_links, device)
        self.most = min(MOST_GIVEN, settings.most_links or MOST_GIVEN)
        encoder = LinkEncoder(2 * index.num_relations, vectors.shape[1], settings.seed)
        centre, spread = _centre_and_spread(vectors)
        encoder.centre.copy_(centre)
        encoder.spread.copy_(spread)
        self.encoder = encoder.to(device).train()
        self.rate = torch.tensor(0.0, device=device)
        on_gpu = device.type == "cuda"
        self.optimizer = torch.optim.AdamW(
            self.encoder.parameters(),
            lr=self.rate if on_gpu else LEARNING_RATE,
            weight_decay=WEIGHT_DECAY,
            **({"capturable": True, "fused": True} if on_gpu else {"foreach": True}),  # type: ignore[arg-type]
        )
        self.last_loss = torch.zeros((), device=device)

    def set_rate(self, step: int) -> None:
        """Before each step."""
        rate = LEARNING_RATE * rising_and_falling(step, self.settings.encoder_steps)
        if self.device.type == "cuda":
            self.rate.fill_(rate)
        else:
            for group in self.optimizer.param_groups:
                group["lr"] = rate

    def step(self) -> None:
        """One step, on questions that are drawn now."""
        on_gpu = self.device.type == "cuda"
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False) if on_gpu else nullcontext():
            loss = self.loss(draw_questions(self.rows, self.settings.encoder_batch, self.most))
        self.optimizer.zero_grad(set_to_none=not on_gpu)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.encoder.parameters(), 1.0, foreach=True)
        self.optimizer.step()
        self.last_loss.copy_(loss.detach())

    def loss(self, drawn: DrawnQuestions) -> Tensor:
        """The mean of -log p(right answer) among all entities, or estimated from those that are drawn."""
        size, number = len(self.vectors), len(drawn.asked)
        direction = self.encoder(drawn.asked, drawn.link, self._rows_of(drawn.other), drawn.is_link)
        direction = direction / self.encoder.spread  # as vectors are seen; their centre is the same for all answers
        candidates, stands_for = self._candidates(size)
        logits = (direction @ self._rows_of(candidates).to(direction.dtype).T).float() + stands_for.log()
        right = (direction * self._rows_of(drawn.answer)).sum(dim=1).float()
        # Where each entity is among the candidates; those that are not, and new ones, are at a place of their own.
        place = torch.full((size + 1,), len(candidates), device=self.device)
        place[candidates] = torch.arange(len(candidates), device=self.device)
        out = torch.zeros(number, len(candidates) + 1, dtype=torch.bool, device=self.device)
        for entities in (drawn.true, drawn.answer[:, None], drawn.entity[:, None].clamp_max(size)):
            out.scatter_(1, place[entities], True)
        logits = logits.masked_fill(out[:, :-1], MASKED)
        return cross_entropy(
            torch.cat([right[:, None], logits], dim=1), torch.zeros(number, dtype=torch.int64, device=self.device)
        )

    def _candidates(self, size: int) -> tuple[Tensor, Tensor]:
        """Entities, each once, and for how many each of them stands: one of each part, cut evenly."""
        borders = torch.arange(min(size, ALL_ENTITIES) + 1, device=self.device) * size // min(size, ALL_ENTITIES)
        first, number = borders[:-1], borders.diff()
        if size > ALL_ENTITIES:
            first = first + (torch.rand(len(first), dtype=torch.double, device=self.device) * number).long()
        return first, number

    def _rows_of(self, entities: Tensor) -> Tensor:
        return self.vectors[entities].float()


def _centre_and_spread(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """The mean vector, and how far numbers of a vector are from it."""
    total, squares = torch.zeros(2, vectors.shape[1], dtype=torch.double)
    for block in torch.split(vectors.cpu(), BLOCK_ROWS):
        total += block.double().sum(dim=0)
    centre = total / max(1, len(vectors))
    for block in torch.split(vectors.cpu(), BLOCK_ROWS):
        squares += (block.double() - centre).square().sum(dim=0)
    spread = (squares.mean() / max(1, len(vectors))).sqrt().clamp_min(torch.finfo(torch.float32).tiny)
    return centre.float(), spread.float()


def train_encoder(
    index: GraphIndex,
    vectors: Tensor,
    settings: NetworkSettings,
    device: torch.device | str = "cpu",
    report: Reporter | None = None,
) -> LinkEncoder:
    """An encoder for the vectors of the first entities, trained on the triples of all.

    The same seed gives the same one, on a CPU bit for bit.
    """
    device = torch.device(device)
    on_gpu = device.type == "cuda"
    with nullcontext() if on_gpu else one_torch_thread(), torch.random.fork_rng([device] if on_gpu else []):
        torch.manual_seed(settings.seed)
        training = EncoderTraining(index, vectors, settings, device)
        if not training.rows.can_be_asked:
            raise InputError(NOTHING_TO_ASK)
        try:
            step = training.step
            if on_gpu:
                from ookg.training.network_gpu import captured

                step = captured(step)
            for number in range(settings.encoder_steps):
                training.set_rate(number)
                step()
                if report is not None:
                    report(number + 1, partial("loss {:.2f}".format, training.last_loss))
        except torch.cuda.OutOfMemoryError:
            questions = f"{settings.encoder_batch} questions of the encoder per step"
            raise InputError(f"{questions} do not fit on the GPU; ask fewer, or train on the CPU") from None
        return training.encoder.requires_grad_(False).eval()


@torch.no_grad()
@one_torch_thread()
def asked_direction(encoder: LinkEncoder, asked: int, link: Array, vectors: Tensor) -> Tensor:
    """(width,) what answers to one question are multiplied by for their logits, but for what is the same for all.

    link: (links,) what is given; vectors: (links, width) of the other ends
    """
    every = max(1, -(-len(link) // MOST_READ))
    link, vectors = link[::every], vectors[::every]
    direction = encoder(
        torch.tensor([asked]),
        torch.from_numpy(np.ascontiguousarray(link))[None],
        vectors.float()[None],
        torch.ones(1, len(link), dtype=torch.bool),
    )
    scaled: Tensor = direction[0] / encoder.spread
    return scaled
