"""The estimator: each triple that ties a new entity to a known one determines a candidate for its vector."""

from __future__ import annotations

import torch
from torch import Tensor

from ookg.embedding import Embedding
from ookg.newcomers.support import Support
from ookg.statistics import IntArray


def candidates(embedding: Embedding, support: Support, rows: IntArray) -> Tensor:
    """The vector that fits each row's triple best, (rows, entity_width).

    New head: TransE t - r, RotatE t∘r⁻¹. New tail: TransE h + r, RotatE h∘r.
    """
    device = embedding.device
    neighbors = embedding.entities[torch.from_numpy(support.neighbor[rows]).to(device)]
    relations = embedding.relations[torch.from_numpy(support.relation[rows]).to(device)]
    is_head = torch.from_numpy(support.is_head[rows]).to(device)
    found = torch.empty_like(neighbors)
    found[is_head] = embedding.geometry.solve_head(relations[is_head], neighbors[is_head])
    found[~is_head] = embedding.geometry.solve_tail(neighbors[~is_head], relations[~is_head])
    return found
