"""Vectors for new relations, from triples whose two ends have vectors.

Closed form: the vector that minimises Σ ‖h moved by r - t‖² over the relation's triples (h, r, t), as the model
declares it (`relation_form`).

Fit: from there on, with all entities fixed, by the loss that refines new entities (`refinement.py`); tails are
corrupted in even steps, heads in odd ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ookg.errors import InputError
from ookg.kernels import randomness
from ookg.kernels.adam import adam_update
from ookg.kernels.threads import one_torch_thread
from ookg.models.embedding import Embedding
from ookg.newcomers.refinement import Clock, RefineSettings
from ookg.types import IntArray

RELATION_PAIRS, RELATION_NEGATIVES = 6, 7  # the purposes of this module's random streams
# How many numbers the vectors of one chunk of triples or negatives may hold.
CHUNK_NUMBERS = 1 << 24


@dataclass(frozen=True)
class RelationPairs:
    """Triples over new relations whose two ends have vectors.

    embedding: known entities and their vectors; newcomers: (newcomers, entity_width) vectors of new ones
    relation: (pairs,) counted from 0; head, tail: (pairs,) ids, from embedding.num_entities on rows of `newcomers`
    """

    embedding: Embedding
    newcomers: Tensor
    relation: IntArray
    head: IntArray
    tail: IntArray

    def vectors(self, ids: IntArray) -> Tensor:
        """The vectors of known and new entities, (ids, entity_width)."""
        known, device = self.embedding.num_entities, self.embedding.device
        vectors = self.embedding.rows(torch.from_numpy(np.where(ids < known, ids, 0)).to(device))
        is_new = ids >= known
        if is_new.any():
            vectors[torch.from_numpy(is_new).to(device)] = self.newcomers[
                torch.from_numpy(ids[is_new] - known).to(device)
            ]
        return vectors


def relation_vectors(pairs: RelationPairs, num_relations: int) -> Tensor:
    """The vector that fits each relation's pairs best, (num_relations, relation_width); each has at least one pair."""
    geometry = pairs.embedding.geometry
    form = geometry.relation_form
    if form is None:
        raise InputError(f"{geometry.name} has no closed form for new relations; give triples of trained ones")
    # Summed on the CPU: there the order, and with it the last bit, is always the same.
    total = torch.zeros(num_relations, geometry.entity_width, dtype=torch.float64)
    step = max(1, CHUNK_NUMBERS // geometry.entity_width)
    for start in range(0, len(pairs.relation), step):
        part = slice(start, start + step)
        ends = (pairs.vectors(ids[part]).cpu().double() for ids in (pairs.head, pairs.tail))
        total.index_add_(0, torch.from_numpy(pairs.relation[part]), form.summand(*ends))
    counts = torch.from_numpy(np.bincount(pairs.relation, minlength=num_relations))
    return form.vector(total, counts[:, None]).to(pairs.embedding.relations)


class _Side(NamedTuple):
    """Triples as questions for one of their ends.

    kept, answer: (pairs,) the end that stays and the one that is asked for
    question: (pairs,) numbers of the distinct (relation, kept end)
    true_keys: question · known entities + answer for all known answers, ascending, then a number above all
    """

    kept: IntArray
    answer: IntArray
    question: Tensor
    true_keys: Tensor


class RelationFit:
    """Gradient steps on the vectors of new relations; entities stay as they are."""

    def __init__(self, pairs: RelationPairs, start: Tensor, settings: RefineSettings) -> None:
        self.settings, self.start, self.vectors = settings, start, start.clone()
        self.mean, self.square = torch.zeros_like(start), torch.zeros_like(start)
        ids = (pairs.head * (int(pairs.tail.max(initial=0)) + 1) + pairs.tail) * len(start) + pairs.relation
        bits = randomness.draws(randomness.stream(settings.seed, RELATION_PAIRS), torch.from_numpy(ids)).numpy()
        order = np.lexsort((bits, pairs.relation))
        self.pairs = RelationPairs(
            pairs.embedding, pairs.newcomers, pairs.relation[order], pairs.head[order], pairs.tail[order]
        )
        self.counts = np.bincount(pairs.relation, minlength=len(start))
        self.sides = [self._side(self.pairs.head, self.pairs.tail), self._side(self.pairs.tail, self.pairs.head)]
        room = max(1, CHUNK_NUMBERS // (settings.negatives * start.shape[1] * 2))
        sizes = np.minimum(self.counts, settings.batch)
        cuts = np.flatnonzero(np.diff((np.cumsum(sizes) - 1) // room)) + 1
        self.chunks = np.split(np.arange(len(start)), cuts)

    @one_torch_thread()
    def __call__(self, step: int) -> None:
        """Take the step with this number; they come in order, from 0."""
        gradient = torch.cat([self._gradients(step, relations) for relations in self.chunks])
        adam_update(self.vectors, gradient, self.mean, self.square, self.settings.rate(step), step + 1)

    def _gradients(self, step: int, relations: IntArray) -> Tensor:
        """dL/dr of some consecutive relations, (relations, relation_width)."""
        bounds = slice(int(relations[0]), int(relations[-1]) + 1)
        vectors = self.vectors[bounds].detach().requires_grad_()
        sizes = np.minimum(self.counts, self.settings.batch)[relations]
        owner = np.repeat(np.arange(len(relations)), sizes)
        slot = np.arange(len(owner)) - (np.cumsum(sizes) - sizes)[owner]
        starts = (np.cumsum(self.counts) - self.counts)[relations]
        rows = starts[owner] + (slot + step * sizes[owner]) % self.counts[relations][owner]
        place = torch.from_numpy(owner).to(vectors.device)
        losses = self._losses(step, vectors[place], rows)
        share = torch.from_numpy(1 / sizes[owner]).to(losses)
        pull = (vectors - self.start[bounds]).square().sum()
        return torch.autograd.grad((losses * share).sum() + self.settings.prior * pull, vectors)[0]

    def _losses(self, step: int, relations: Tensor, rows: IntArray) -> Tensor:
        """½ [ -log σ(γ - D) - Σⱼ pⱼ log σ(Dⱼ - γ) ] of some pairs with their relations' vectors, (rows,)."""
        embedding, margin, side = self.pairs.embedding, self.settings.margin, self.sides[step % 2]
        geometry, kept = embedding.geometry, self.pairs.vectors(side.kept[rows])
        points = geometry.solve_head(relations, kept) if step % 2 else geometry.solve_tail(kept, relations)
        drawn, usable = self._negatives(step, side, torch.from_numpy(rows).to(embedding.device))
        answers = geometry.project(self.pairs.vectors(side.answer[rows]), relations)
        positive = geometry.gap(points, answers)
        negative = geometry.gap(
            points[:, None], geometry.project(embedding.rows(drawn), relations[:, None])
        )  # (rows, negatives)
        logits = (-self.settings.temperature * negative).masked_fill(~usable, -torch.inf)
        # A row without a usable negative has no softmax: its negatives weigh nothing.
        probability = torch.softmax(logits, dim=1).nan_to_num(0.0).detach()
        return (-logsigmoid(margin - positive) - (probability * logsigmoid(negative - margin)).sum(dim=1)) / 2

    def _negatives(self, step: int, side: _Side, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Known entities for some pairs, (rows, negatives), and whether each is no true answer."""
        count, size = self.settings.negatives, self.pairs.embedding.num_entities
        stream = randomness.stream(self.settings.seed, RELATION_NEGATIVES, step)
        counters = rows[:, None] * count + torch.arange(count, device=rows.device)
        drawn = randomness.below(randomness.draws(stream, counters), size)
        keys = side.question[rows][:, None] * size + drawn
        return drawn, side.true_keys[torch.searchsorted(side.true_keys, keys)] != keys

    def _side(self, kept: IntArray, answer: IntArray) -> _Side:
        size, device = self.pairs.embedding.num_entities, self.pairs.embedding.device
        _, question = np.unique(np.stack([self.pairs.relation, kept]), axis=1, return_inverse=True)
        question = question.ravel()
        known = answer < size
        keys = np.append(np.unique(question[known] * size + answer[known]), np.iinfo(np.int64).max)
        return _Side(kept, answer, torch.from_numpy(question).to(device), torch.from_numpy(keys).to(device))


def fitted_relation_vectors(pairs: RelationPairs, start: Tensor, settings: RefineSettings) -> Tensor:
    """New relations' vectors after all steps, or those that the time allows, (relations, relation_width)."""
    fit, clock = RelationFit(pairs, start, settings), Clock(settings, 1, None)
    for step in range(settings.steps):
        fit(step)
        if clock.is_over(step):
            break
    return fit.vectors
