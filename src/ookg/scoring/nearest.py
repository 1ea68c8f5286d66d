"""Scoring one question against every known entity, and the best of the scores."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ookg.models.embedding import Embedding
from ookg.types import IntArray, Scores


def gaps_to_all(embedding: Embedding, points: Tensor) -> Scores:
    """The gaps from each point to each known entity, (points, entity_width) -> (points, entities)."""
    table = embedding.entities
    if table.is_cuda or embedding.dtype != torch.float32 or embedding.geometry.kernel is None:
        return embedding.geometry.gap_to_all(points, table).float().cpu().numpy()
    try:
        from ookg.kernels.cpu_ranking import gap_to_all
    except ImportError:
        return embedding.geometry.gap_to_all(points, table).numpy()
    gaps: Scores = gap_to_all(embedding.geometry, points.numpy(), table.numpy())
    return gaps


def best_places(scores: Scores, most: int) -> IntArray:
    """Where the highest scores are, at most `most`, highest first; among equals the first one wins; -inf is no score.

    The same as a stable sort of all of them would give, without sorting them all.
    """
    least = -np.inf
    if most < len(scores):
        least = float(torch.topk(torch.from_numpy(scores), most, sorted=True).values[-1])
    places = np.flatnonzero((scores >= least) & (scores > -np.inf))
    best: IntArray = places[np.argsort(-scores[places], kind="stable")][:most]
    return best
