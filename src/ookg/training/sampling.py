"""What a training step works on: a batch of true triples and false ones for each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ookg.kernels import randomness
from ookg.kernels.randomness import ATTEMPTS
from ookg.training.settings import TrainingSettings

ORDER, NEGATIVES = 1, 2  # the two purposes of random streams


@dataclass(frozen=True)
class Batch:
    """One step's triples.

    corrupts_head: whether the negatives replace the head (else the tail)
    triples: (batch, 3) true triples; weight: (batch,) their weights in the loss
    negatives: (batch, negatives) entity ids; usable: (batch, negatives) whether each is a false triple indeed
    """

    corrupts_head: bool
    triples: Tensor
    weight: Tensor
    negatives: Tensor
    usable: Tensor


@dataclass(frozen=True)
class TrueAnswers:
    """The true answers at one end of the triples, by what stands at the other.

    A number for a whole triple, (h · relations + r) · entities + t, does not fit into 64 bits for the largest graphs.
    So what is known of an entity has a range of its own, and a key only tells apart what lies in it.

    offsets: (entities + 1,) where the range of each known end begins
    keys: (triples,) relation · entities + answer, ascending within each range
    """

    offsets: Tensor
    keys: Tensor
    num_entities: int

    @classmethod
    def of(cls, known: Tensor, relation: Tensor, answer: Tensor, num_entities: int) -> TrueAnswers:
        """Those of (triples,) known ends, relations and answers."""
        keys = relation * num_entities + answer
        order = torch.argsort(keys)
        order = order[torch.argsort(known[order], stable=True)]
        offsets = torch.zeros(num_entities + 1, dtype=torch.int64, device=known.device)
        torch.cumsum(torch.bincount(known, minlength=num_entities), dim=0, out=offsets[1:])
        return cls(offsets, keys[order], num_entities)

    def hold(self, known: Tensor, relation: Tensor, answer: Tensor) -> Tensor:
        """Whether each answer is a true one."""
        keys, low, high = relation * self.num_entities + answer, self.offsets[known], self.offsets[known + 1]
        end, last = high.clone(), len(self.keys) - 1
        for _ in range(int((high - low).max()).bit_length() if len(low) else 0):  # each halves what is left of a range
            middle = (low + high) >> 1
            is_below = (low < high) & (self.keys[middle.clamp(max=last)] < keys)
            low, high = torch.where(is_below, middle + 1, low), torch.where(is_below, high, middle)
        return (low < end) & (self.keys[low.clamp(max=last)] == keys)


class Sampler:
    """Batches by step number: even steps corrupt tails, odd steps heads, each side in its own shuffled order.

    An epoch of a side is one random order of all triples, cut into batches of one size; the last is filled up from the
    start of the same order.
    """

    def __init__(self, triples: Tensor, num_entities: int, num_relations: int, settings: TrainingSettings) -> None:
        self.triples, self.settings = triples, settings
        self.num_entities, self.num_relations = num_entities, num_relations
        self.batch = min(settings.batch, len(triples))
        self.batches_per_epoch = -(-len(triples) // self.batch)
        self.weight = (
            subsampling_weights(triples) if settings.subsampling else torch.ones(len(triples)).to(triples.device)
        )
        self._orders: dict[int, tuple[int, Tensor]] = {}

    @cached_property
    def tails(self) -> TrueAnswers:
        """The tails of the training triples, by head."""
        head, relation, tail = self.triples.unbind(dim=1)
        return TrueAnswers.of(head, relation, tail, self.num_entities)

    @cached_property
    def heads(self) -> TrueAnswers:
        """The heads of the training triples, by tail."""
        head, relation, tail = self.triples.unbind(dim=1)
        return TrueAnswers.of(tail, relation, head, self.num_entities)

    def is_true(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Whether each triple is one of the training triples."""
        return self.tails.hold(head, relation, tail)

    def rows(self, step: int) -> Tensor:
        """The positions of a step's triples, (batch,)."""
        side, number = step % 2, step // 2
        epoch, place = divmod(number, self.batches_per_epoch)
        if side not in self._orders or self._orders[side][0] != epoch:
            start = randomness.stream(self.settings.seed, ORDER, side, epoch)
            self._orders[side] = epoch, randomness.permutation(start, len(self.triples), self.triples.device)
        order = self._orders[side][1]
        begin, end = place * self.batch, (place + 1) * self.batch
        return order[begin:end] if end <= len(order) else torch.cat([order[begin:], order[: end - len(order)]])

    def negatives(self, step: int, triples: Tensor) -> tuple[Tensor, Tensor]:
        """Entity ids that make the triples false, uniform over all ids, and whether each does indeed.

        Where triples share negatives, the n-th one of the c-th set is drawn as the n-th of the c-th triple is else, and
        never again.
        """
        if self.settings.negatives_shared:
            return self._shared_negatives(step, triples)
        size = len(triples) * self.settings.negatives
        start = randomness.stream(self.settings.seed, NEGATIVES, step)
        counters = torch.arange(size, device=triples.device) * ATTEMPTS
        head, relation, tail = triples.repeat_interleave(self.settings.negatives, dim=0).unbind(dim=1)
        corrupts_head = step % 2 == 1

        def drawn(slots: Tensor, attempt: int) -> tuple[Tensor, Tensor]:
            ids = randomness.below(randomness.draws(start, counters[slots] + attempt), self.num_entities)
            heads, tails = (ids, tail[slots]) if corrupts_head else (head[slots], ids)
            return ids, self.is_true(heads, relation[slots], tails)

        ids, true = drawn(torch.arange(size, device=triples.device), 0)
        for attempt in range(1, ATTEMPTS):
            slots = true.nonzero().squeeze(1)
            if not len(slots):
                break
            ids[slots], true[slots] = drawn(slots, attempt)
        shape = (len(triples), self.settings.negatives)
        return ids.view(shape), ~true.view(shape)

    def _shared_negatives(self, step: int, triples: Tensor) -> tuple[Tensor, Tensor]:
        count, shared = self.settings.negatives, self.settings.negatives_shared
        start = randomness.stream(self.settings.seed, NEGATIVES, step)
        sets = -(-len(triples) // shared)
        counters = torch.arange(sets * count, device=triples.device) * ATTEMPTS
        ids = randomness.below(randomness.draws(start, counters), self.num_entities).view(sets, count)
        ids = ids.repeat_interleave(shared, dim=0)[: len(triples)]  # (batch, negatives)
        head, relation, tail = (column[:, None].expand_as(ids) for column in triples.unbind(dim=1))
        ends = (ids, relation, tail) if step % 2 == 1 else (head, relation, ids)
        return ids, ~self.is_true(*ends)

    def __call__(self, step: int) -> Batch:
        """The batch of the step with this number, counted from 0."""
        rows = self.rows(step)
        triples = self.triples[rows]
        negatives, usable = self.negatives(step, triples)
        return Batch(step % 2 == 1, triples, self.weight[rows], negatives, usable)


def subsampling_weights(triples: Tensor) -> Tensor:
    """1/sqrt(count(h, r) + count(r, t)) per triple, where a pair's first occurrence counts 4 and each further one 1."""
    head, relation, tail = triples.unbind(dim=1)
    return (_pair_counts(head, relation) + _pair_counts(relation, tail) + 6).float().rsqrt()


def _pair_counts(first: Tensor, second: Tensor) -> Tensor:
    """How often the pair of each row occurs."""
    keys = first * (int(second.max()) + 1) + second
    _, place, counts = torch.unique(keys, return_inverse=True, return_counts=True)
    counts_by_row: Tensor = counts[place]
    return counts_by_row
