"""The vectors of newcomers from their links alone: many newcomers at once, or one with very many links part by part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from ookg.models import Projected
from ookg.newcomers.embedder import Newcomers, fastest_reduction
from ookg.newcomers.reducer import SMALLEST_SUM, Degree, Uniform, Weights
from ookg.newcomers.support import Support, Unused
from ookg.spark.links import sorted_links, support_of
from ookg.spark.opened import OpenedModel
from ookg.spark.streams import MOST_IN_MEMORY, LinksOfNewcomers
from ookg.types import Array, FloatArray, IntArray

PART = 1 << 18  # links of one newcomer that are added up at a time
NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class MadeVectors:
    """(newcomers, entity_width) vectors, and (newcomers,) how many triples made each."""

    vectors: Array
    counts: IntArray


def vectors_of(those: LinksOfNewcomers, opened: OpenedModel, weights: Weights) -> MadeVectors:
    """The vectors of newcomers, with the bits that one machine gives them.

    One with more than MOST_IN_MEMORY links is made of partial sums where its vector is one sum: with uniform and degree
    weights, under a model whose triples determine candidates. Else it is made at once, in memory.
    """
    is_sum = isinstance(weights, Uniform | Degree) and not isinstance(opened.model.embedding.geometry, Projected)
    if len(those.counts) == 1 and len(those.links) > MOST_IN_MEMORY and is_sum:
        return _by_parts(those.links, opened, weights)
    links, owner = sorted_links(those.links, those.owner)
    support = support_of(links, owner, len(those.counts), opened.entities, opened.relations)
    nothing = Unused(NONE, NONE, NONE, NONE)
    newcomers = Newcomers(opened.model.embedding, support, nothing, opened.model.statistics, weights)
    return MadeVectors(newcomers.vectors(np.arange(len(those.counts))).numpy(), newcomers.counts)


def _by_parts(links: IntArray, opened: OpenedModel, weights: Weights) -> MadeVectors:
    """One newcomer's vector, e = Σ over parts of Σ (w / W)·ẽ, where W is the sum of all weights.

    One machine takes a single sum in 32 bits; here the parts' sums are added up in 64 bits, so that what is different
    is the other one's rounding.
    """
    links.sort()  # in place: what is mapped from a file stays there
    total, size, count = 0.0, 0.0, 0
    for part in _parts(links):
        own = _weights(part, opened, weights)
        total, size, count = total + float(own.sum()), size + float(np.abs(own).sum()), count + len(part)
    if not (np.isfinite(total) and total > SMALLEST_SUM * size):  # equal weights, as in `normalised`
        weights, total = Uniform(), float(count)
    embedding = opened.model.embedding
    reduce = fastest_reduction(embedding)
    vector = np.zeros(embedding.geometry.entity_width)
    for part in _parts(links):
        support, rows = _rows(part, opened)
        shares = _weights(part, opened, weights) / total
        vector += reduce(embedding, support, rows, np.zeros_like(rows), shares, 1)[0].numpy()
    vectors = embedding.geometry.constrained(torch.from_numpy(vector.astype(np.float32))[None])
    return MadeVectors(vectors.numpy(), np.array([count]))


def _parts(links: IntArray) -> Iterator[IntArray]:
    """Sorted links part by part, each once."""
    for start in range(0, len(links), PART):
        part = np.array(links[start : start + PART])
        before = links[start - 1] if start else part[0] - 1
        yield part[np.diff(part, prepend=before) > 0]


def _rows(links: IntArray, opened: OpenedModel) -> tuple[Support, IntArray]:
    owner = np.zeros(len(links), dtype=np.int64)
    return support_of(links, owner, 1, opened.entities, opened.relations), np.arange(len(links))


def _weights(links: IntArray, opened: OpenedModel, weights: Weights) -> FloatArray:
    support, rows = _rows(links, opened)
    return weights.weights(support, rows, None, opened.model.statistics)
