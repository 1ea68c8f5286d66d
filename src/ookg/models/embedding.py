"""A trained embedding as numbers: a geometry and its two tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ookg.errors import InputError
from ookg.models.geometry import Geometry
from ookg.types import FloatArray

PAIRS = 1000  # of known entities, whose mean gap is a yardstick


@dataclass(frozen=True)
class Embedding:
    """The trained vectors. They are never changed: what is new gets vectors of its own.

    entities: (entities, geometry.entity_width); relations: (relations, geometry.relation_width)
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
    def device(self) -> torch.device:
        """Where the tables are."""
        return self.entities.device

    @cached_property
    def mean_gap(self) -> float:
        """The mean gap between two known entities, over some pairs that the number of entities determines."""
        pairs = np.random.default_rng(self.num_entities).integers(0, self.num_entities, (2, PAIRS))
        pairs = pairs[:, pairs[0] != pairs[1]]
        one, other = (self.entities[torch.from_numpy(ids).to(self.device)] for ids in pairs)
        mean = float(self.plain_gaps(one, other).mean()) if pairs.size else 0.0
        return mean if mean > 0 else 1.0

    def plain_gaps(self, one: Tensor, other: Tensor) -> FloatArray:
        """(rows,) gaps of entity vectors as they are stored, whatever a relation would see of them."""
        gaps: FloatArray = self.geometry.entity_gap(one, other).double().cpu().numpy()
        return gaps

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
