"""Habits of relations: which entities have stood at which end of a relation, and how often."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ookg.scoring.queries import Queries
from ookg.types import FloatArray, IntArray

BITS = 32  # of a key, for the entity


@dataclass(frozen=True)
class Habits:
    """Counts of (relation and end, entity), as sorted keys: relation r's tails have the end r, its heads R + r.

    keys: end · 2³² + entity, sorted; counts: how many triples
    """

    keys: IntArray
    counts: IntArray
    num_relations: int

    @classmethod
    def count(cls, triples: IntArray, num_relations: int) -> Habits:
        """The habits in triples, (triples, 3), of the first `num_relations` relations."""
        head, relation, tail = triples[(triples[:, 1] >= 0) & (triples[:, 1] < num_relations)].T
        keys = np.concatenate([(relation << BITS) + tail, ((relation + num_relations) << BITS) + head])
        found, counts = np.unique(keys, return_counts=True)
        return cls(found, counts, num_relations)

    def plus(self, others: Habits) -> Habits:
        """Both together."""
        keys, place = np.unique(np.concatenate([self.keys, others.keys]), return_inverse=True)
        counts = np.bincount(place.ravel(), np.concatenate([self.counts, others.counts]), minlength=len(keys))
        return Habits(keys, counts.astype(np.int64), self.num_relations)

    def of_answers(self, queries: Queries, num_answers: int, device: torch.device | str) -> Tensor:
        """(queries, answers) log(1 + how often each of the first entities has been an answer of the relation)."""
        asked = queries.relation + np.where(queries.asks_tail, 0, self.num_relations)
        ends, place = np.unique(asked, return_inverse=True)
        rows = torch.zeros(len(ends), num_answers, device=device)
        for row, end in enumerate(ends.tolist()):
            entity, count = self.at(end % self.num_relations, is_tail=end < self.num_relations)
            known = entity < num_answers
            values = torch.from_numpy(np.log1p(count[known])).float()
            rows[row, torch.from_numpy(entity[known]).to(device)] = values.to(device)
        return rows[torch.from_numpy(place.ravel()).to(device)]

    def at(self, relation: int, *, is_tail: bool) -> tuple[IntArray, IntArray]:
        """The entities that have stood at an end of a relation, ascending, and how often."""
        end = relation + (0 if is_tail else self.num_relations)
        if relation >= self.num_relations:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        part = slice(*np.searchsorted(self.keys, [end << BITS, (end + 1) << BITS]))
        return self.keys[part] - (end << BITS), self.counts[part]

    def of_claims(self, claims: IntArray) -> FloatArray:
        """(claims, 2) log(1 + how often the head has been a head, and the tail a tail, of the claim's relation)."""
        head, relation, tail = claims.T
        trained = (claims >= 0).all(axis=1) & (relation < self.num_relations)
        ends = ((relation + self.num_relations, head), (relation, tail))
        counts = [np.where(trained, self._look_up((end << BITS) + entity), 0) for end, entity in ends]
        return np.stack([np.log1p(count) for count in counts], axis=1)

    def _look_up(self, keys: IntArray) -> IntArray:
        if not len(self.keys):
            return np.zeros(len(keys), dtype=np.int64)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, self.counts[place], 0)
