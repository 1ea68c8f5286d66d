"""The estimator: each triple that ties a new entity to a known one determines a candidate for its vector."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ookg.errors import InputError
from ookg.models import Projected
from ookg.models.embedding import Embedding
from ookg.newcomers.support import Support
from ookg.types import BoolArray, IntArray

Links = tuple[IntArray, IntArray, BoolArray]  # the other end, relation, and whether the entity spoken of is the head


def candidates(embedding: Embedding, support: Support, rows: IntArray) -> Tensor:
    """The vector that fits each row's triple best, (rows, entity_width).

    New head: TransE t - r, RotatE t∘r⁻¹. New tail: TransE h + r, RotatE h∘r. Under TransH and TransR many vectors fit a
    triple equally well; this is the one nearest to the known neighbour. Any other model like that is refused.
    """
    return candidates_of(embedding, (support.neighbor[rows], support.relation[rows], support.is_head[rows]))


def candidates_of(embedding: Embedding, links: Links) -> Tensor:
    """The same for links of any entity to known ones, (links, entity_width)."""
    device, geometry, relation = embedding.device, embedding.geometry, links[1]
    neighbors = embedding.rows(torch.from_numpy(links[0]).to(device))
    is_head = torch.from_numpy(links[2]).to(device)
    if isinstance(geometry, Projected):
        numbers, place = (torch.from_numpy(part).to(device) for part in np.unique(relation, return_inverse=True))
        steps = geometry.displacement(embedding.relations[numbers])[place]
        return torch.where(is_head[:, None], neighbors - steps, neighbors + steps)
    if geometry.projects:
        problem = f"under {type(geometry).__name__} a triple does not determine the vector of a new entity"
        raise InputError(f"{problem}, and the model does not say how to choose one; use a model that does")
    relations = embedding.relations[torch.from_numpy(relation).to(device)]
    vectors = torch.empty_like(neighbors)
    vectors[is_head] = geometry.solve_head(relations[is_head], neighbors[is_head])
    vectors[~is_head] = geometry.solve_tail(neighbors[~is_head], relations[~is_head])
    return vectors
