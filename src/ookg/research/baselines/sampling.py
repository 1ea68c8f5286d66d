"""The batches of an epoch: true triples in random order, each with one false entity, drawn at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ookg.datasets.encoded import EncodedDataset
from ookg.kernels.randomness import below, draws, permutation, stream
from ookg.research.baselines.settings import BaselineSettings
from ookg.scoring.queries import test_queries
from ookg.types import IntArray

ORDER, SIDE, FALSE = 2, 3, 4  # streams; 1 is that of the initial values
ATTEMPTS = 8  # to draw a false entity that does not make a true triple


class Batches:
    """Draws epochs; what an epoch holds depends on the seed and the epoch's number alone."""

    def __init__(self, dataset: EncodedDataset, settings: BaselineSettings, device: torch.device | str) -> None:
        self.seed, self.num_known = settings.seed, dataset.num_known
        self.num_relations = dataset.num_trained
        self.triples = torch.from_numpy(dataset.train).to(device)
        self.odds = torch.from_numpy(side_odds(dataset, settings)).to(device)
        self.pools = EntityPools.of(dataset, settings).to(device)
        self.true_keys = self._keys(*self.triples.unbind(dim=1)).sort().values
        self.size = min(settings.batch, len(self.triples))
        self.steps = len(self.triples) // self.size

    def epoch(self, number: int) -> Tensor:
        """(steps, batch, 5) head, relation, tail, false entity, 1 if that replaces the tail (0: the head).

        The triples that do not fill a last batch are left out; they are others in each epoch.
        """
        device, size = self.triples.device, self.steps * self.size
        order = permutation(stream(self.seed, ORDER, number), len(self.triples), device)[:size]
        head, relation, tail = self.triples[order].unbind(dim=1)
        for_head, for_tail = self.odds[order].unbind(dim=1)
        places = torch.arange(size, device=device)
        side = below(draws(stream(self.seed, SIDE, number), places), for_head + for_tail)
        on_tail = side >= for_head
        pool = relation + self.num_relations * on_tail
        false = torch.zeros_like(head)
        again = torch.ones_like(on_tail)
        for attempt in range(ATTEMPTS):
            drawn = self.pools.draw(draws(stream(self.seed, FALSE, number, attempt), places), pool)
            false = torch.where(again, drawn, false)
            keys = self._keys(torch.where(on_tail, head, false), relation, torch.where(on_tail, false, tail))
            place = torch.searchsorted(self.true_keys, keys).clamp_max(len(self.true_keys) - 1)
            again = self.true_keys[place] == keys
        columns = [head, relation, tail, false, on_tail.to(torch.int64)]
        return torch.stack(columns, dim=1).view(self.steps, self.size, 5)

    def _keys(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        return (head * self.num_relations + relation) * self.num_known + tail


@dataclass(frozen=True, eq=False)
class EntityPools:
    """What false entities are drawn from: pool r replaces heads of relation r, pool R + r tails.

    entity: the members of all pools, one pool after the other; start, size: (2R,) where each is
    """

    entity: Tensor
    start: Tensor
    size: Tensor

    @classmethod
    def of(cls, dataset: EncodedDataset, settings: BaselineSettings) -> EntityPools:
        """All known entities in each pool for "any", for "relation" those that train has at that end of it."""
        num_pools = 2 * dataset.num_trained
        if settings.false_entities == "any":
            first = torch.zeros(num_pools, dtype=torch.int64)
            return cls(torch.arange(dataset.num_known), first, torch.full_like(first, dataset.num_known))
        head, relation, tail = dataset.train.T
        pool, entity = np.concatenate([relation, relation + dataset.num_trained]), np.concatenate([head, tail])
        members = np.unique(pool * dataset.num_known + entity)  # by pool, then by entity
        size = np.bincount(members // dataset.num_known, minlength=num_pools)
        flat = members % dataset.num_known, np.cumsum(size) - size, size
        return cls(*(torch.from_numpy(values) for values in flat))

    def to(self, device: torch.device | str) -> EntityPools:
        """The pools on another device."""
        return EntityPools(self.entity.to(device), self.start.to(device), self.size.to(device))

    def draw(self, bits: Tensor, pool: Tensor) -> Tensor:
        """(draws,) members of some pools that are not empty, by random bits."""
        return self.entity[self.start[pool] + below(bits, self.size[pool])]


def side_odds(dataset: EncodedDataset, settings: BaselineSettings) -> IntArray:
    """(triples, 2) how often, in proportion, the head and the tail of each training triple are replaced."""
    predicted = predicted_sides(dataset, settings)
    if len(predicted) == 1 or settings.sides == "even":
        odds = [int(False in predicted), int(True in predicted)]
        return np.tile(np.array(odds, dtype=np.int64), (len(dataset.train), 1))
    head, _, tail = dataset.train.T
    pairs = np.unique(dataset.train[:, [0, 2]], axis=0)  # whatever the relation
    tails_of_head, heads_of_tail = (np.bincount(ends, minlength=dataset.num_known) for ends in pairs.T)
    return np.stack([heads_of_tail[tail], tails_of_head[head]], axis=1)


def predicted_sides(dataset: EncodedDataset, settings: BaselineSettings) -> tuple[bool, ...]:
    """Whether tails are asked for, or heads (False), or both: for link prediction what the test triples ask for."""
    if settings.task == "triplet-classification" or not len(dataset.test):
        return True, False
    asks_tail = test_queries(dataset.test, dataset.num_known).asks_tail
    if asks_tail.all():
        return (True,)
    return (True, False) if asks_tail.any() else (False,)
