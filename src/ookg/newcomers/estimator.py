"""The estimator: each triple that ties a new entity to a known one determines a candidate for its vector."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ookg.errors import InputError
from ookg.models import Projected
from ookg.models.embedding import Embedding
from ookg.newcomers.support import Support
from ookg.types import IntArray


def candidates(embedding: Embedding, support: Support, rows: IntArray) -> Tensor:
    """The vector that fits each row's triple best, (rows, entity_width).

    New head: TransE t - r, RotatE t∘r⁻¹. New tail: TransE h + r, RotatE h∘r. Under TransH and TransR many vectors fit a
    triple equally well; this is the one nearest to the known neighbour. Any other model like that is refused.
    """
    device, geometry = embedding.device, embedding.geometry
    neighbors = embedding.entities[torch.from_numpy(support.neighbor[rows]).to(device)]
    is_head = torch.from_numpy(support.is_head[rows]).to(device)
    if isinstance(geometry, Projected):
        numbers, place = (
            torch.from_numpy(part).to(device) for part in np.unique(support.relation[rows], return_inverse=True)
        )
        steps = geometry.displacement(embedding.relations[numbers])[place]
        return torch.where(is_head[:, None], neighbors - steps, neighbors + steps)
    if geometry.projects:
        problem = f"under {type(geometry).__name__} a triple does not determine the vector of a new entity"
        raise InputError(f"{problem}, and the model does not say how to choose one; use a model that does")
    relations = embedding.relations[torch.from_numpy(support.relation[rows]).to(device)]
    vectors = torch.empty_like(neighbors)
    vectors[is_head] = geometry.solve_head(relations[is_head], neighbors[is_head])
    vectors[~is_head] = geometry.solve_tail(neighbors[~is_head], relations[~is_head])
    return vectors
