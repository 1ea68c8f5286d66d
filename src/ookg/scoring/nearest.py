"""Scoring one question against every known entity, and the best of the scores."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ookg.models.embedding import Embedding
from ookg.types import IntArray, Scores


def gaps_to_all(embedding: Embedding, points: Tensor) -> Scores:
    """The gaps from each point to each known entity, (points, entity_width) -> (points, entities)."""
    return gap_tensor(embedding, points).float().cpu().numpy()


def gap_tensor(embedding: Embedding, points: Tensor) -> Tensor:
    """The same as a tensor on the embedding's device: compiled on a CPU, for models that declare a kernel."""
    table = embedding.entities
    if not table.is_cuda and points.dtype == embedding.dtype == torch.float32 and embedding.geometry.kernel is not None:
        with suppress(ImportError):
            from ookg.kernels.cpu_ranking import gap_to_all

            return torch.from_numpy(gap_to_all(embedding.geometry, points.numpy(), table.numpy()))
    return embedding.geometry.gap_to_all(points, embedding.widened().entities)


def gaps_to_some(embedding: Embedding, point: Tensor, entities: IntArray) -> Scores:
    """The gaps from a point, (1, entity_width), to some known entities, (entities,): the same as `gaps_to_all` has."""
    table = embedding.entities
    if not (table.is_cuda or embedding.dtype != torch.float32 or embedding.geometry.kernel is None):
        with suppress(ImportError):
            from ookg.kernels.cpu_ranking import gap_to_rows

            gaps: Scores = gap_to_rows(embedding.geometry, point.numpy(), table.numpy(), entities)
            return gaps
    rows = table[torch.from_numpy(entities).to(table.device)]
    some: Scores = gaps_to_all(replace(embedding, entities=rows), point)[0]
    return some


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
