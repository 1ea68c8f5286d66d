"""Habits of relations: which entities have stood at which end of a relation, and how often."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ookg.evaluation.queries import Queries
from ookg.statistics import FloatArray, IntArray


@dataclass(frozen=True)
class Habits:
    """Counts of (relation and end, entity), as sorted keys: relation r's tails have the end r, its heads R + r.

    keys: end · num_entities + entity, sorted; counts: how many triples
    """

    keys: IntArray
    counts: IntArray
    num_entities: int
    num_relations: int

    @classmethod
    def count(cls, triples: IntArray, num_entities: int, num_relations: int) -> Habits:
        """The habits in triples, (triples, 3), of the first `num_relations` relations."""
        head, relation, tail = triples[(triples[:, 1] >= 0) & (triples[:, 1] < num_relations)].T
        keys = np.concatenate([relation * num_entities + tail, (relation + num_relations) * num_entities + head])
        found, counts = np.unique(keys, return_counts=True)
        return cls(found, counts, num_entities, num_relations)

    def of_answers(self, queries: Queries, num_known: int, device: torch.device | str) -> Tensor:
        """(queries, known entities) log(1 + how often each has been an answer of the query's relation)."""
        ends, place = np.unique(
            queries.relation + np.where(queries.asks_tail, 0, self.num_relations), return_inverse=True
        )
        rows = torch.zeros(len(ends), num_known, device=device)
        for row, end in enumerate(ends):
            part = slice(*np.searchsorted(self.keys, [end * self.num_entities, (end + 1) * self.num_entities]))
            entity, count = self.keys[part] - end * self.num_entities, self.counts[part]
            known = entity < num_known
            values = torch.from_numpy(np.log1p(count[known])).float()
            rows[row, torch.from_numpy(entity[known]).to(device)] = values.to(device)
        return rows[torch.from_numpy(place.ravel()).to(device)]

    def of_claims(self, claims: IntArray) -> FloatArray:
        """(claims, 2) log(1 + how often the head has been a head, and the tail a tail, of the claim's relation)."""
        head, relation, tail = claims.T
        ends = ((relation + self.num_relations) * self.num_entities + head, relation * self.num_entities + tail)
        return np.stack([np.log1p(self._look_up(keys)) for keys in ends], axis=1)

    def _look_up(self, keys: IntArray) -> IntArray:
        if not len(self.keys):
            return np.zeros(len(keys), dtype=np.int64)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, self.counts[place], 0)
