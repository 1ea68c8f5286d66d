"""Vectors for all that is new at once, from what has a vector, in a few rounds: where training can start from.

In each round every new relation gets the closed form of its triples whose two ends have vectors (`relation_form`), and
then every new entity the mean of what its triples say of it, those whose relation and other end have vectors, be the
other end known or new:

    e = mean of solve_head(r, t) over (e, r, t) and of solve_tail(h, r) over (h, r, e)

Where relations project, one triple leaves e open, and its candidate is the nearest to the neighbour that fits
(`Projected.displacement`). `together.py` solves the same equations to the end, with a reducer's weights; a start for
training needs neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ookg.kernels.threads import one_torch_thread
from ookg.models import Projected
from ookg.models.embedding import Embedding
from ookg.types import IntArray

# How many numbers the vectors of one chunk of triples may hold.
CHUNK_NUMBERS = 1 << 24


@dataclass(frozen=True)
class _Rows:
    """Triples that each say something of what is new; one between two new entities is there twice.

    owner: (rows,) ids of what they speak of, ascending; head, relation, tail: (rows,) ids
    """

    owner: Tensor
    head: Tensor
    relation: Tensor
    tail: Tensor

    @classmethod
    def sorted(cls, owner: IntArray, triples: IntArray, device: torch.device) -> _Rows:
        """Rows by what they speak of, in the order of the triples."""
        order = np.argsort(owner, kind="stable")
        columns = owner[order], *triples[order].T
        return cls(*(torch.from_numpy(np.ascontiguousarray(column)).to(device) for column in columns))

    def __len__(self) -> int:
        return len(self.owner)

    def select(self, chosen: Tensor | slice) -> _Rows:
        """Some of the rows."""
        return _Rows(self.owner[chosen], self.head[chosen], self.relation[chosen], self.tail[chosen])


@one_torch_thread()
def propagated(embedding: Embedding, triples: IntArray, start: Embedding, rounds: int) -> Embedding:
    """Vectors of known and new entities and relations; the known ones are those of `embedding`.

    triples: (triples, 3) ids, from embedding.num_entities and embedding.num_relations on new ones
    start: vectors for as many entities and relations as there are then; of them, new ones that nothing determines keep
        theirs
    The same input gives the same bits on each device.
    """
    geometry, device = embedding.geometry, embedding.device
    known, trained = embedding.num_entities, embedding.num_relations
    entities = torch.cat([embedding.widened().entities, start.entities[known:].to(device)])
    relations = torch.cat([embedding.relations, start.relations[trained:].to(device)])
    grown = Embedding(geometry, entities, relations)
    if geometry.projects and not isinstance(geometry, Projected):
        return grown  # nothing says how to choose what a triple leaves open
    has_entity = torch.arange(len(entities), device=device) < known
    has_relation = torch.arange(len(relations), device=device) < trained
    of_relations, form, width = triples[triples[:, 1] >= trained], geometry.relation_form, geometry.entity_width
    speaks = _Rows.sorted(of_relations[:, 1], of_relations, device)
    candidates = _Candidates(grown, triples, known)
    for _ in range(rounds):
        if form is not None:
            rows = speaks.select(has_entity[speaks.head] & has_entity[speaks.tail])
            owner, made = _made(
                rows, width, lambda part: form.summand(entities[part.head], entities[part.tail]), form.vector
            )
            relations[owner] = made.to(relations.dtype)
            has_relation[owner] = True
        rows = candidates.rows.select(has_entity[candidates.other] & has_relation[candidates.rows.relation])
        owner, made = _made(rows, width, candidates, lambda total, count: total / count)
        entities[owner] = geometry.constrained(made.to(entities.dtype))
        has_entity[owner] = True
    return grown


class _Candidates:
    """What triples say of new entities.

    rows: a row for each end that is new; a triple of an entity with itself says nothing of it
    other: (rows,) the other end
    """

    def __init__(self, grown: Embedding, triples: IntArray, known: int) -> None:
        self.grown = grown
        apart = triples[triples[:, 0] != triples[:, 2]]
        owner, twice = np.concatenate([apart[:, 0], apart[:, 2]]), np.concatenate([apart, apart])
        self.rows = _Rows.sorted(owner[owner >= known], twice[owner >= known], grown.device)
        self.other = torch.where(self.rows.owner == self.rows.head, self.rows.tail, self.rows.head)
        geometry = grown.geometry
        # A model that projects makes no new relations: these steps stay.
        self.steps = geometry.displacement(grown.relations) if isinstance(geometry, Projected) else None

    def __call__(self, rows: _Rows) -> Tensor:
        """The candidate of each row, (rows, entity_width)."""
        geometry, entities, is_head = self.grown.geometry, self.grown.entities, rows.owner == rows.head
        other = entities[torch.where(is_head, rows.tail, rows.head)]
        if self.steps is not None:
            step = self.steps[rows.relation]
            return torch.where(is_head[:, None], other - step, other + step)
        relation = self.grown.relations[rows.relation]
        found = geometry.solve_tail(other, relation)
        found[is_head] = geometry.solve_head(relation[is_head], other[is_head])
        return found


def _made(
    rows: _Rows, width: int, summand: Callable[[_Rows], Tensor], vector: Callable[[Tensor, Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """What rows speak of, each once, and the vectors that the sums of their summands, (rows, width), make.

    Each sum goes row by row, in double precision: adding by index would race on a GPU, and the last bits be chance.
    """
    owner, count = torch.unique_consecutive(rows.owner, return_counts=True)
    place = torch.repeat_interleave(torch.arange(len(owner), device=owner.device), count)
    total = torch.zeros(len(owner), width, dtype=torch.float64, device=owner.device)
    size = max(1, CHUNK_NUMBERS // width)
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        reached, lengths = torch.unique_consecutive(place[part], return_counts=True)
        terms = summand(rows.select(part)).double()
        total[reached] += torch.segment_reduce(terms, "sum", lengths=lengths, axis=0, unsafe=True)
    return owner, vector(total, count[:, None])
