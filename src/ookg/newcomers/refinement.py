"""Refinement: new entities' vectors start from the closed form and are fitted to their own triples, by gradient steps.

Only the new vectors move. Every new entity is a small problem of its own: the known vectors are fixed, its triples tie
it to known entities, and known entities are the negatives. So all are fitted side by side, and what one becomes does
not depend on which others are there.

For a new entity e with the closed form e₀, over the triples i of a step's batch:

    L = mean ½ [ -log σ(γ - Dᵢ) - Σⱼ pⱼ log σ(Dᵢⱼ - γ) ] + λ ‖e - e₀‖²         pⱼ = softmax(-α Dᵢⱼ), taken as constant

Dᵢ is the gap from where the triple's known end should be, given e (`solve_tail` if e is the head, else `solve_head`),
to where it is; Dᵢⱼ is the gap to a known entity drawn at random. A true answer by e's own triples is left out.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ookg.errors import InputError, unknown_name
from ookg.kernels import randomness
from ookg.kernels.adam import adam_update
from ookg.kernels.threads import one_torch_thread
from ookg.models import refinable_models
from ookg.models.embedding import Embedding
from ookg.newcomers.support import Support
from ookg.system.progress import Reporter
from ookg.types import BoolArray, IntArray

ROWS, NEGATIVES = 4, 5  # the purposes of this module's random streams
# How many numbers the reference may hold for the negatives of one chunk, whatever the number of newcomers.
CHUNK_NUMBERS = 1 << 24
# How many numbers the gradients of newcomers that are fitted side by side may hold; more newcomers take turns.
PART_NUMBERS = 1 << 28

# Beyond these a number is a mistake, which would otherwise show as endless work or as infinite values.
LARGEST = {
    "steps": 1_000_000_000,
    "negatives": 1_000_000,
    "batch": 1_000_000_000,
    "margin": 1_000_000_000,
    "temperature": 1_000_000_000,
    "prior": 1_000_000_000,
}


@dataclass(frozen=True)
class RefineSettings:
    """How to fit the vectors of new entities.

    margin: γ, usually larger than in training; temperature: α of the self-adversarial weights
    steps: gradient steps; lr: Adam's learning rate, going down linearly to 0 over the steps if `decay`
    negatives: known entities drawn for each triple and step
    batch: triples of one new entity in a step: all if it has no more, else the next ones in a shuffled order, which
        starts anew at its end
    prior: λ of the pull to the closed form, λ ‖e - e₀‖²; the square is summed over the coordinates
    seconds: stop after the step in which this many seconds are over, None for no limit; the rate still goes down by
        `steps`
    """

    margin: float = 36.0
    steps: int = 300
    lr: float = 1e-2
    decay: bool = True
    negatives: int = 256
    batch: int = 32
    temperature: float = 1.0
    prior: float = 0.0
    seed: int = 0
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "negatives", "batch"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} {getattr(self, name)}; it must be 1 or more")
        for name in ("margin", "lr"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"{name} {getattr(self, name)}; it must be a number above 0")
        for name, most in LARGEST.items():
            if getattr(self, name) > most:
                raise InputError(f"{name} {getattr(self, name)}; it must be at most {most:,}")
        for name in ("temperature", "prior", "seed"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"{name} {getattr(self, name)}; it must be 0 or more")
        if self.seed >= 1 << 63:
            raise InputError(f"seed {self.seed}; it must be below 2^63")
        if self.seconds is not None and not self.seconds > 0:
            raise InputError(f"seconds {self.seconds}; it must be a number above 0, or None for no limit")

    def rate(self, step: int) -> float:
        """The learning rate of the step with this number, counted from 0."""
        return self.lr * (1 - step / self.steps) if self.decay else self.lr

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RefineSettings:
        """Settings from plain values, each checked for its name and type."""
        return cls(**_checked(values))

    def changed(self, values: dict[str, Any]) -> RefineSettings:
        """These settings with some values replaced."""
        return replace(self, **_checked(values))


# The defaults' share of the model's own scale, as a simulation in FB15k's training triples found them.
MARGIN_SHARE, RATE_SHARE = 1.5, 0.4
# Without a training margin: the typical gap between known entities is about this many margins.
GAPS_A_MARGIN, SAMPLED_PAIRS = 1.35, 1024


def default_refinement(embedding: Embedding, training_margin: float | None = None) -> RefineSettings:
    """Settings at the scale of a model: 1.5 times its training margin γ, a learning rate of 0.4·(γ + 2)/d.

    training_margin: None where it is not known; then it is guessed from gaps between known entities.
    """
    margin = training_margin
    if margin is None or not margin > 0:
        bits = randomness.draws(randomness.stream(0, ROWS), torch.arange(2 * SAMPLED_PAIRS))
        pairs = randomness.below(bits, embedding.num_entities).view(2, -1).to(embedding.device)
        gaps = embedding.geometry.entity_gap(*(embedding.rows(ids) for ids in pairs))
        margin = max(float(gaps.median()) / GAPS_A_MARGIN, 1e-6)
    return RefineSettings(margin=MARGIN_SHARE * margin, lr=RATE_SHARE * (margin + 2.0) / embedding.geometry.dim)


def _checked(values: dict[str, Any]) -> dict[str, Any]:
    known = {field.name: field.default for field in fields(RefineSettings)}
    checked: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            raise unknown_name("setting", name, list(known), f"the settings are {', '.join(known)}")
        if name == "seconds" and value is None:
            checked[name] = None
            continue
        kind: Any = float if name == "seconds" else type(known[name])
        fits = isinstance(value, int | float if kind is float else kind) and isinstance(value, bool) == (kind is bool)
        if not fits:
            raise InputError(f"setting {name} is {value!r}; it must be of type {kind.__name__}")
        try:
            checked[name] = kind(value)
        except OverflowError:
            raise InputError(f"setting {name} is {value}; it must be a number that a float can hold") from None
    return checked


@dataclass(frozen=True)
class Problem:
    """The triples that new entities are fitted to; each entity has at least one.

    A newcomer's triples are ordered, and its random draws named, by hashes of the triples and the seed: by what is said
    about it, not by its number or its place in a file.

    stream: the start of the random stream that negatives come from, to be mixed with a step's number
    keys: (newcomers,) where in a step's stream a newcomer's draws start
    offsets: (newcomers + 1,) where each one's triples start
    relation, neighbor, is_head: (triples,) as in `Support`, in the order they take turns in
    answers: (triples,) neighbours, ascending within the triples of one newcomer, relation and side
    first, last: (triples,) the true answers to triple i's question are answers[first[i]:last[i]]
    batch: triples of a newcomer in a step, at most
    """

    stream: int
    keys: IntArray
    offsets: IntArray
    relation: IntArray
    neighbor: IntArray
    is_head: BoolArray
    answers: IntArray
    first: IntArray
    last: IntArray
    batch: int

    @classmethod
    def of(cls, embedding: Embedding, support: Support, newcomers: IntArray, settings: RefineSettings) -> Problem:
        """The triples of some newcomers, each of which must have one."""
        rows, place = support.rows_of(newcomers)
        relation, neighbor, is_head = support.relation[rows], support.neighbor[rows], support.is_head[rows]
        links = (neighbor * embedding.num_relations + relation) * 2 + is_head
        bits = randomness.draws(randomness.stream(settings.seed, ROWS), torch.from_numpy(links)).numpy()
        offsets = np.concatenate([[0], np.cumsum(support.counts[newcomers])]).astype(np.int64)
        order = np.lexsort((bits, place))
        relation, neighbor, is_head = relation[order], neighbor[order], is_head[order]
        by_answer = np.lexsort((neighbor, is_head, relation, place))
        questions = np.stack([place, relation, is_head])[:, by_answer]
        starts = np.flatnonzero(np.append(True, (questions[:, 1:] != questions[:, :-1]).any(axis=0)))
        sizes = np.diff(np.append(starts, len(rows)))
        first, last = np.empty_like(rows), np.empty_like(rows)
        first[by_answer], last[by_answer] = np.repeat(starts, sizes), np.repeat(starts + sizes, sizes)
        keys = np.add.reduceat(bits, offsets[:-1])  # the same sum in any order; it wraps around
        stream = randomness.stream(settings.seed, NEGATIVES)
        return cls(stream, keys, offsets, relation, neighbor, is_head, neighbor[by_answer], first, last, settings.batch)

    def step_stream(self, step: int) -> int:
        """The start of the random stream of a step's negatives."""
        return randomness.mix(self.stream ^ step)

    @cached_property
    def slots(self) -> IntArray:
        """(newcomers + 1,) where each newcomer's part of a step's batch starts."""
        sizes = np.minimum(np.diff(self.offsets), self.batch)
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @cached_property
    def owners(self) -> IntArray:
        """(slots,) the newcomer that each row of a step's batch belongs to."""
        return np.repeat(np.arange(len(self.keys)), np.diff(self.slots))

    def triples(self, step: int) -> IntArray:
        """(slots,) the triple in each row of a step's batch: the next ones in the newcomer's order, around its end."""
        owners = self.owners
        turn = np.arange(len(owners)) - self.slots[owners] + step * np.diff(self.slots)[owners]
        triples: IntArray = self.offsets[owners] + turn % np.diff(self.offsets)[owners]
        return triples


class Refinement(Protocol):
    """Takes steps of all newcomers by their numbers.

    vectors: (newcomers, entity_width) as they are after the steps so far
    """

    name: str
    vectors: Tensor

    def __call__(self, step: int) -> None:
        """Take the step with this number; they come in order, from 0."""


class ReferenceRefinement:
    """Gradients by autograd, in plain PyTorch: the specification that the fast ones are tested against."""

    name = "reference"

    def __init__(self, embedding: Embedding, problem: Problem, start: Tensor, settings: RefineSettings) -> None:
        self.embedding, self.problem, self.settings, self.start = embedding, problem, settings, start
        self.vectors = start.clone()
        self.mean, self.square = torch.zeros_like(start), torch.zeros_like(start)
        self.keys, self.relation, self.neighbor, self.is_head, self.first = (
            torch.from_numpy(array).to(embedding.device)
            for array in (problem.keys, problem.relation, problem.neighbor, problem.is_head, problem.first)
        )
        self.true_keys = (self.first * embedding.num_entities + self.neighbor).sort().values

    @one_torch_thread()
    def __call__(self, step: int) -> None:
        """Take the step with this number."""
        gradient = torch.cat([self.gradients(step, first, last) for first, last in self._chunks])
        adam_update(self.vectors, gradient, self.mean, self.square, self.settings.rate(step), step + 1)
        self.vectors = self.embedding.geometry.constrained(self.vectors)

    def gradients(self, step: int, first: int, last: int) -> Tensor:
        """dL/de of the newcomers from first to last, (newcomers, entity_width)."""
        vectors = self.vectors[first:last].detach().requires_grad_()
        return torch.autograd.grad(self.losses(step, first, vectors).sum(), vectors)[0]

    def losses(self, step: int, first: int, vectors: Tensor) -> Tensor:
        """L of the newcomers from first on that have these vectors, (newcomers,)."""
        problem, device = self.problem, vectors.device
        bounds = slice(problem.slots[first], problem.slots[first + len(vectors)])
        owners = torch.from_numpy(problem.owners[bounds] - first).to(device)
        triples = torch.from_numpy(problem.triples(step)[bounds]).to(device)
        losses = self.triple_losses(step, self.points(vectors[owners], triples), triples, bounds)
        counts = torch.bincount(owners, minlength=len(vectors))
        total = losses.new_zeros(len(vectors)).index_add(0, owners, losses) / counts
        pull = (vectors - self.start[first : first + len(vectors)]).square().sum(dim=1)
        return total + self.settings.prior * pull

    def points(self, vectors: Tensor, triples: Tensor) -> Tensor:
        """Where the triples' known ends should be, given their new ends' vectors, (triples, entity_width)."""
        geometry, relations = self.embedding.geometry, self.relations_of(triples)
        tails, heads = geometry.solve_tail(vectors, relations), geometry.solve_head(relations, vectors)
        return torch.where(self.is_head[triples][:, None], tails, heads)

    def triple_losses(self, step: int, points: Tensor, triples: Tensor, bounds: slice) -> Tensor:
        """½ [ -log σ(γ - D) - Σⱼ pⱼ log σ(Dⱼ - γ) ] of each triple, (triples,)."""
        margin, entities, geometry = self.settings.margin, self.embedding.entities, self.embedding.geometry
        negatives, usable = self.negatives(step, triples, bounds)
        relations = self.relations_of(triples)
        positive = geometry.gap(points, geometry.project(entities[self.neighbor[triples]], relations))
        negative = geometry.gap(points[:, None], geometry.project(entities[negatives], relations[:, None]))
        logits = (-self.settings.temperature * negative).masked_fill(~usable, -torch.inf)
        # A row without a usable negative has no softmax: its negatives weigh nothing.
        probability = torch.softmax(logits, dim=1).nan_to_num(0.0).detach()
        return (-logsigmoid(margin - positive) - (probability * logsigmoid(negative - margin)).sum(dim=1)) / 2

    def relations_of(self, triples: Tensor) -> Tensor:
        """The vectors of the triples' relations, (triples, relation_width)."""
        return self.embedding.relations[self.relation[triples]]

    def negatives(self, step: int, triples: Tensor, bounds: slice) -> tuple[Tensor, Tensor]:
        """Known entities for the rows of a step's batch, (rows, negatives), and whether each is no true answer."""
        problem, count, size = self.problem, self.settings.negatives, self.embedding.num_entities
        owners = problem.owners[bounds]
        slot = torch.from_numpy(np.arange(bounds.start, bounds.stop) - problem.slots[owners]).to(triples.device)
        counters = (self.keys[torch.from_numpy(owners).to(triples.device)] + slot * count)[:, None]
        counters = counters + torch.arange(count, device=triples.device)  # (rows, negatives)
        drawn = randomness.below(randomness.draws(problem.step_stream(step), counters), size)
        keys = self.first[triples][:, None] * size + drawn
        place = torch.searchsorted(self.true_keys, keys).clamp_(max=len(self.true_keys) - 1)
        return drawn, self.true_keys[place] != keys

    @cached_property
    def _chunks(self) -> list[tuple[int, int]]:
        """Ranges of newcomers whose negatives' vectors fit into CHUNK_NUMBERS, or single ones."""
        slots = self.problem.slots
        room = max(1, CHUNK_NUMBERS // (self.settings.negatives * self.vectors.shape[1]))
        ranges, first = [], 0
        while first < len(slots) - 1:
            last = max(first + 1, int(np.searchsorted(slots, slots[first] + room, side="right")) - 1)
            ranges.append((first, last))
            first = last
        return ranges


def refine(
    embedding: Embedding,
    support: Support,
    start: Tensor,
    settings: RefineSettings,
    report: Reporter | None = None,
    newcomers: IntArray | None = None,
) -> Tensor:
    """The vectors of newcomers, fitted to their own triples from where they start, (newcomers, entity_width).

    start: (newcomers, entity_width) the closed form; a row that is not finite, or whose newcomer has no triple, comes
        back as it is
    report: called after each step with the number of `settings.steps` that are done
    newcomers: (newcomers,) their numbers in the support, those of `start`'s rows; all of the support if not given

    The tables of the embedding are only read. A vector follows from the known vectors, the newcomer's own triples,
    its start and the settings: neither its number nor other newcomers matter. The same seed on the same device gives
    the same bits (unless `seconds` ends it).
    """
    newcomers = np.arange(support.num_newcomers) if newcomers is None else newcomers
    embedding = embedding.widened()  # thousands of steps read it
    _check_input(embedding, support, start, newcomers)
    has_start = torch.isfinite(start).all(dim=1).cpu().numpy()
    live = np.flatnonzero(has_start & (support.counts[newcomers] > 0))
    fitted = start.clone()
    parts = _parts(np.minimum(support.counts[newcomers[live]], settings.batch), start.shape[1])
    clock = Clock(settings, len(parts), report)
    for part in parts:
        place = torch.from_numpy(live[part]).to(start.device)
        problem = Problem.of(embedding, support, newcomers[live[part]], settings)
        fitted[place] = run(fastest_refinement(embedding, problem, start[place], settings), settings, clock)
        if not torch.isfinite(fitted[place]).all():
            raise InputError(f"the fit of new vectors diverged with lr {settings.lr:g}; lower it (`RefineSettings.lr`)")
    return fitted


def _parts(sizes: IntArray, width: int) -> list[slice]:
    """Newcomers with these numbers of rows per step, cut into parts whose gradients take about PART_NUMBERS at most."""
    part = np.cumsum(sizes) // max(1, PART_NUMBERS // width)
    starts = np.flatnonzero(np.diff(part, prepend=-1)).tolist()
    return [slice(first, last) for first, last in pairwise([*starts, len(sizes)])]


class Clock:
    """Reports how far the steps of all parts are, and says when a part's share of the time is over."""

    def __init__(self, settings: RefineSettings, parts: int, report: Reporter | None) -> None:
        self.settings, self.parts, self.report = settings, parts, report
        self.begun, self.ended = perf_counter(), 0

    def is_over(self, step: int) -> bool:
        """Whether the part that has just taken this step has to end."""
        done = self.ended * self.settings.steps + step + 1
        if self.report is not None:
            self.report(done // self.parts)
        limit = self.settings.seconds
        spent = limit is not None and perf_counter() - self.begun >= limit * (self.ended + 1) / self.parts
        over = spent or step + 1 == self.settings.steps
        self.ended += over
        return over


def run(refinement: Refinement, settings: RefineSettings, clock: Clock | None = None) -> Tensor:
    """Take all steps, or those that the time allows; the vectors after them, (newcomers, entity_width)."""
    clock = Clock(settings, 1, None) if clock is None else clock
    for step in range(settings.steps):
        refinement(step)
        if clock.is_over(step):
            break
    return refinement.vectors


def fastest_refinement(embedding: Embedding, problem: Problem, start: Tensor, settings: RefineSettings) -> Refinement:
    """The fastest implementation that this machine has for the embedding; plain PyTorch where there is no other."""
    if embedding.entities.dtype != torch.float32 or embedding.geometry.kernel is None:
        return ReferenceRefinement(embedding, problem, start, settings)
    try:
        if embedding.entities.is_cuda:
            from ookg.newcomers.gpu_refinement import TritonRefinement

            return TritonRefinement(embedding, problem, start, settings)
        from ookg.newcomers.cpu_refinement import NumbaRefinement

        return NumbaRefinement(embedding, problem, start, settings)
    except ImportError:
        return ReferenceRefinement(embedding, problem, start, settings)


def _check_input(embedding: Embedding, support: Support, start: Tensor, newcomers: IntArray) -> None:
    if not embedding.geometry.can_refine:
        problem = f"refinement is for {refinable_models()}, and this is {type(embedding.geometry).__name__}"
        raise InputError(f"{problem}; use its vectors as they are")
    shape = (len(newcomers), embedding.geometry.entity_width)
    if tuple(start.shape) != shape:
        raise InputError(f"start of shape {tuple(start.shape)}; give one row for each newcomer, {shape}")
    if start.dtype != embedding.dtype or start.device != embedding.device:
        raise InputError(
            f"start is {start.dtype} on {start.device}, the embedding {embedding.dtype} on "
            f"{embedding.device}; convert it with start.to(embedding.entities)"
        )
    for name, ids, bound in (
        ("newcomer", newcomers, support.num_newcomers),
        ("neighbour", support.neighbor, embedding.num_entities),
        ("relation", support.relation, embedding.num_relations),
    ):
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < bound:
            wrong = int(ids.min()) if ids.min() < 0 else int(ids.max())
            raise InputError(f"{name} {wrong} of {bound}; give the support that was found with this embedding")
