"""The batches of an epoch: true triples in random order, each with one false entity, drawn at once."""

from __future__ import annotations

import torch
from torch import Tensor

from ookg.baselines.settings import BaselineSettings
from ookg.datasets.encoded import EncodedDataset
from ookg.evaluation.queries import test_queries
from ookg.training.randomness import below, draws, permutation, stream

ORDER, SIDE, FALSE = 2, 3, 4  # streams; 1 is that of the initial values
ATTEMPTS = 4  # to draw a false entity that does not make a true triple


class Batches:
    """Draws epochs; what an epoch holds depends on the seed and the epoch's number alone."""

    def __init__(self, dataset: EncodedDataset, settings: BaselineSettings, device: torch.device | str) -> None:
        self.seed, self.num_known = settings.seed, dataset.num_known
        self.sides = predicted_sides(dataset, settings)
        self.triples = torch.from_numpy(dataset.train).to(device)
        self.num_relations = dataset.num_trained
        self.true_keys = self._keys(*self.triples.unbind(dim=1)).sort().values
        self.size = min(settings.batch, len(self.triples))
        self.steps = len(self.triples) // self.size

    def epoch(self, number: int) -> Tensor:
        """(steps, batch, 5) head, relation, tail, false entity, 1 if that replaces the tail (0: the head).

        The triples that do not fill a last batch are left out; they are others in each epoch.
        """
        device, size = self.triples.device, self.steps * self.size
        order = permutation(stream(self.seed, ORDER, number), len(self.triples), device)
        head, relation, tail = self.triples[order[:size]].unbind(dim=1)
        places = torch.arange(size, device=device)
        if len(self.sides) == 1:
            replaces_tail = torch.full_like(head, int(self.sides[0]))
        else:
            replaces_tail = below(draws(stream(self.seed, SIDE, number), places), 2)
        false = torch.zeros_like(head)
        again = torch.ones_like(head, dtype=torch.bool)
        for attempt in range(ATTEMPTS):
            drawn = below(draws(stream(self.seed, FALSE, number, attempt), places), self.num_known)
            false = torch.where(again, drawn, false)
            keys = self._keys(
                torch.where(replaces_tail > 0, head, false), relation, torch.where(replaces_tail > 0, false, tail)
            )
            place = torch.searchsorted(self.true_keys, keys).clamp_max(len(self.true_keys) - 1)
            again = self.true_keys[place] == keys
        return torch.stack([head, relation, tail, false, replaces_tail], dim=1).view(self.steps, self.size, 5)

    def _keys(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        return (head * self.num_relations + relation) * self.num_known + tail


def predicted_sides(dataset: EncodedDataset, settings: BaselineSettings) -> tuple[bool, ...]:
    """Whether tails are asked for, or heads (False), or both: for link prediction what the test triples ask for."""
    if settings.task == "triplet-classification" or not len(dataset.test):
        return True, False
    asks_tail = test_queries(dataset.test, dataset.num_known).asks_tail
    if asks_tail.all():
        return (True,)
    return (True, False) if asks_tail.any() else (False,)
