"""A trained embedding as numbers: a geometry and its two tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ookg.errors import InputError
from ookg.models.geometry import Geometry
from ookg.types import FloatArray

LARGEST_HALF = 65_504  # of 16 bits
PART_ROWS = 1 << 20  # that are rounded at a time
PAIRS = 1000  # of known entities, whose mean gap is a yardstick
SAMPLE = 128  # known entities that vectors are compared with
SAMPLE_NUMBERS = 1 << 22  # that such a comparison may hold at once


@dataclass(frozen=True)
class Embedding:
    """The trained vectors. They are never changed: what is new gets vectors of its own.

    entities: (entities, geometry.entity_width), of 16 bits where room counts more than the last digits; `rows` and what
        is computed with them are of 32 bits then
    relations: (relations, geometry.relation_width)
    """

    geometry: Geometry
    entities: Tensor
    relations: Tensor

    def __post_init__(self) -> None:
        for name, table, width in (
            ("entity", self.entities, self.geometry.entity_width),
            ("relation", self.relations, self.geometry.relation_width),
        ):
            if table.ndim != 2 or table.shape[1] != width:
                raise InputError(f"{name} table of shape {tuple(table.shape)}; {self.geometry} needs (rows, {width})")

    @property
    def num_entities(self) -> int:
        """Known entities."""
        return len(self.entities)

    @property
    def num_relations(self) -> int:
        """Relations with a trained vector."""
        return len(self.relations)

    @property
    def dtype(self) -> torch.dtype:
        """What is computed with the vectors is of this type."""
        return torch.float32 if self.entities.dtype == torch.float16 else self.entities.dtype

    def rows(self, ids: Tensor) -> Tensor:
        """Vectors of known entities, (..., entity_width)."""
        return self.entities[ids].to(self.dtype)

    def widened(self) -> Embedding:
        """The same vectors in the type that is computed with: of 16 bits, a copy that takes twice their room."""
        return self if self.entities.dtype == self.dtype else replace(self, entities=self.entities.to(self.dtype))

    def compacted(self) -> Embedding:
        """The entities' vectors in 16 bits each: half the room, and three digits that count."""
        if self.geometry.kernel is None:
            problem = f"vectors of 16 bits are for models with a kernel of their own, and this is {self.geometry.name}"
            raise InputError(f"{problem}; leave it as it is")
        # Part by part: the table may be larger than the memory that is left.
        entities = torch.empty(self.entities.shape, dtype=torch.float16)
        for start in range(0, self.num_entities, PART_ROWS):
            part = self.entities[start : start + PART_ROWS].cpu()
            entities[start : start + PART_ROWS] = part
            if not torch.isfinite(entities[start : start + PART_ROWS]).equal(torch.isfinite(part)):
                raise InputError(
                    f"vectors with numbers beyond {LARGEST_HALF:,} do not fit into 16 bits; leave it as it is"
                )
        return replace(self, entities=entities, relations=self.relations.to("cpu", self.dtype))

    @property
    def device(self) -> torch.device:
        """Where the tables are."""
        return self.entities.device

    @cached_property
    def mean_gap(self) -> float:
        """The mean gap between two known entities, over some pairs that the number of entities determines."""
        gaps = self._some_gaps
        mean = float(gaps.mean()) if len(gaps) else 0.0
        return mean if mean > 0 else 1.0

    @cached_property
    def gap_spread(self) -> float:
        """The standard deviation of these gaps."""
        return float(self._some_gaps.std()) if len(self._some_gaps) else 0.0

    @cached_property
    def _some_gaps(self) -> FloatArray:
        pairs = np.random.default_rng(self.num_entities).integers(0, self.num_entities, (2, PAIRS))
        pairs = pairs[:, pairs[0] != pairs[1]]
        one, other = (self.rows(torch.from_numpy(ids).to(self.device)) for ids in pairs)
        return self.plain_gaps(one, other)

    def plain_gaps(self, one: Tensor, other: Tensor) -> FloatArray:
        """(rows,) gaps of entity vectors as they are stored, whatever a relation would see of them."""
        gaps: FloatArray = self.geometry.entity_gap(one, other).double().cpu().numpy()
        return gaps

    def hubness(self, vectors: Tensor) -> Tensor:
        """(rows,) how much nearer vectors lie to known entities than these do to one another; 0 where one is NaN.

        A vector that is a mean lies nearer to the middle than those it was made of, and so nearer to whatever is asked.
        Where a model does not say how far entities are apart, it is 0.
        """
        every = max(1, -(-self.num_entities // SAMPLE))
        sample = self.entities[::every].to(self.dtype)
        if self.num_entities < 2 or not self.geometry.has_entity_gap:
            return vectors.new_zeros(len(vectors))
        rows = max(1, SAMPLE_NUMBERS // (len(sample) * vectors.shape[1]))
        parts = torch.split(vectors, rows)  # each row by itself: what it comes to does not depend on the others
        gaps = torch.cat([self.geometry.entity_gap(part[:, None], sample[None]).mean(dim=1) for part in parts])
        return (self.mean_gap - gaps).nan_to_num_(nan=0.0)

    def seen_by(self, relation: int) -> Embedding:
        """The entities as a relation sees them, in a space where distance is a gap between two points.

        Where relations see entities as they are: this embedding itself. Else one without relations, for its gaps alone.
        """
        geometry = self.geometry
        if not geometry.projects:
            return self
        space = geometry.space
        nothing = self.relations.new_empty(0, space.relation_width)
        return Embedding(space, geometry.project(self.entities, self.relations[relation]), nothing)

    def to(self, device: torch.device | str) -> Embedding:
        """The same vectors on another device."""
        return Embedding(self.geometry, self.entities.to(device), self.relations.to(device))
