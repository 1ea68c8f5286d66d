"""The numbers that training moves."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ookg.errors import InputError
from ookg.training.settings import TrainingSettings


@dataclass
class Tables:
    """Two tables of parameters with Adam's moments, and how many updates these moments have seen.

    entities: (entities, entity_width); relations: (relations, relation_width)
    """

    entities: Tensor
    relations: Tensor
    entities_mean: Tensor
    entities_square: Tensor
    relations_mean: Tensor
    relations_square: Tensor
    updates: int = 0

    @classmethod
    def initial(
        cls, num_entities: int, num_relations: int, settings: TrainingSettings, device: torch.device | str
    ) -> Tables:
        """Parameters uniform in ±(γ + 2)/d (or what the model makes of them), moments zero."""
        # Drawn on the CPU: the same seed gives the same initial values on every device.
        generator = torch.Generator().manual_seed(settings.seed)
        bound, geometry = settings.initial_range, settings.geometry

        def uniform(rows: int, width: int) -> Tensor:
            return torch.empty(rows, width).uniform_(-bound, bound, generator=generator).to(device)

        try:
            entities = uniform(num_entities, geometry.entity_width)
            relations = geometry.initial_relations(uniform(num_relations, geometry.relation_width))
            return cls(
                entities,
                relations,
                torch.zeros_like(entities),
                torch.zeros_like(entities),
                torch.zeros_like(relations),
                torch.zeros_like(relations),
            )
        except RuntimeError as error:  # what PyTorch raises when it cannot allocate, on the CPU and on a GPU
            sizes = (num_entities, geometry.entity_width), (num_relations, geometry.relation_width)
            larger = max(sizes, key=lambda size: size[0] * size[1])
            raise InputError(f"no memory for tables of {larger[0]:,} × {larger[1]:,} numbers; lower --dim") from error

    def restart_adam(self) -> None:
        """Forget the moments."""
        for moment in (self.entities_mean, self.entities_square, self.relations_mean, self.relations_square):
            moment.zero_()
        self.updates = 0

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
