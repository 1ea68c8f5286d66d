"""The numbers that training moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ookg.errors import InputError
from ookg.training.optimizers import OPTIMIZERS, Optimizer, State
from ookg.training.settings import TrainingSettings

# Where tables lie while they are trained: in the memory of the device that trains, in that of the machine, or in a file
# that is mapped into memory. On a CPU the first two are the same. It never changes a result.
Place = Literal["device", "host", "disk"]


@dataclass
class Tables:
    """Two tables of parameters with what the optimiser keeps beside them, and how many updates that has seen.

    entities: (entities, entity_width); relations: (relations, relation_width)
    entity_state, relation_state: as `Optimizer.initial` makes them
    """

    entities: Tensor
    relations: Tensor
    optimizer: Optimizer
    entity_state: State
    relation_state: State
    updates: int = 0

    @classmethod
    def initial(
        cls, num_entities: int, num_relations: int, settings: TrainingSettings, device: torch.device | str
    ) -> Tables:
        """Parameters uniform in ±(γ + 2)/d (or what the model makes of them), the optimiser's state zero."""
        # Drawn on the CPU: the same seed gives the same initial values on every device.
        generator = torch.Generator().manual_seed(settings.seed)
        bound, geometry = settings.initial_range, settings.geometry
        optimizer = OPTIMIZERS[settings.resolved(num_entities).optimizer]

        def uniform(rows: int, width: int) -> Tensor:
            return torch.empty(rows, width).uniform_(-bound, bound, generator=generator).to(device)

        try:
            entities = uniform(num_entities, geometry.entity_width)
            relations = geometry.initial_relations(uniform(num_relations, geometry.relation_width))
            return cls(entities, relations, optimizer, optimizer.initial(entities), optimizer.initial(relations))
        except RuntimeError as error:  # what PyTorch raises when it cannot allocate, on the CPU and on a GPU
            sizes = (num_entities, geometry.entity_width), (num_relations, geometry.relation_width)
            larger = max(sizes, key=lambda size: size[0] * size[1])
            raise InputError(f"no memory for tables of {larger[0]:,} × {larger[1]:,} numbers; lower --dim") from error

    def restart_adam(self) -> None:
        """Forget Adam's moments, where the learning rate drops. What Adagrad has summed up stays."""
        if not self.optimizer.starts_afresh:
            return
        for kept in (*self.entity_state, *self.relation_state):
            kept.zero_()
        self.updates = 0

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name."""
        tensors = {"entities": self.entities, "relations": self.relations}
        for table, state in (("entities", self.entity_state), ("relations", self.relation_state)):
            tensors |= {f"{table}_{name}": kept for name, kept in zip(self.optimizer.keeps, state, strict=True)}
        return tensors
