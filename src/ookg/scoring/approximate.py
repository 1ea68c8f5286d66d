"""An index of the known vectors: it names the entities that are worth scoring for a question, a few of them all.

The vectors are cut into lists around centres, by faiss. A question scores the entities of the lists whose centres are
nearest to the point where its answer should be. Their scores are those that they always have; what is approximate is
that an answer in another list is missed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ookg.errors import InputError
from ookg.models.embedding import Embedding
from ookg.scoring.nearest import gaps_to_all, gaps_to_some
from ookg.system.extras import missing
from ookg.types import IntArray, Scores

MEASURED_TOP = 10  # how many of the best answers recall is measured on, and the most that an index is asked for
INDEX_SERVES = "the index serves questions that vectors alone rank, for up to ten answers without reasons"
LEAST_IN_LIST = 8  # entities, on average
LEARNED_FROM = 64  # entities for each list: the centres are found on so many
ROUNDS = 10  # of k-means
ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Measured:
    """What questions drawn from the graph have shown, each in two directions.

    questions: how many in each direction; tails, heads: the share of the ten best answers that the index names where
    the tail, or the head, is asked for; exact_ms, approximate_ms: what a question took
    """

    questions: int
    tails: float
    heads: float
    exact_ms: float
    approximate_ms: float

    @property
    def recall(self) -> float:
        """The lower one of the two."""
        return min(self.tails, self.heads)

    @property
    def speed_up(self) -> float:
        """How many times as fast a question is answered."""
        return self.exact_ms / max(self.approximate_ms, 1e-9)


@dataclass(frozen=True, eq=False)
class ApproximateIndex:
    """The known entities in lists.

    embedding: the vectors that it is for; centres: (lists, entity_width)
    members: (entities,) ids, list by list; list n has members[offsets[n]:offsets[n + 1]]
    probes: how many lists a question looks into; measured: None before it is
    """

    embedding: Embedding
    centres: Tensor
    offsets: IntArray
    members: IntArray
    probes: int = 1
    measured: Measured | None = None

    def __post_init__(self) -> None:
        lists, entities = len(self.offsets) - 1, self.embedding.num_entities
        if self.centres.shape != (lists, self.embedding.entities.shape[1]) or self.probes not in range(1, lists + 1):
            raise ValueError(f"{tuple(self.centres.shape)} centres of {lists} lists, {self.probes} of them looked into")
        sizes = np.diff(self.offsets)
        if self.offsets[0] != 0 or self.offsets[-1] != entities or int(sizes.min()) < 0:
            raise ValueError(f"its lists do not hold {entities} entities")
        if self.members.shape != (entities,) or (np.bincount(self.members, minlength=entities) != 1).any():
            raise ValueError("its lists do not hold each entity once")

    @property
    def recall(self) -> float:
        """The share of the ten best answers that it names, as it was measured."""
        return 0.0 if self.measured is None else self.measured.recall

    @property
    def share(self) -> float:
        """The share of the known entities that a question scores, if all lists are equally long."""
        return self.probes / len(self.centres)

    def nearest_lists(self, point: Tensor, most: int) -> IntArray:
        """The lists to look into for a point, (1, entity_width), the nearest first."""
        centres = self.centres.to(point)  # as it is, unless the vectors are of 64 bits or on a GPU
        gaps = gaps_to_all(replace(self.embedding, entities=centres), point)[0]
        if most < len(gaps):
            near = np.argpartition(gaps, most)[:most]
            return near[np.argsort(gaps[near], kind="stable")]
        return np.argsort(gaps, kind="stable")

    def candidates(self, point: Tensor) -> IntArray:
        """The ids of the entities that are worth scoring for a point, (1, entity_width), ascending."""
        parts = [
            self.members[self.offsets[one] : self.offsets[one + 1]]
            for one in self.nearest_lists(point, self.probes).tolist()
        ]
        return np.sort(np.concatenate(parts)).astype(np.int64)

    def gaps(self, point: Tensor, entities: IntArray) -> Scores:
        """(entities,) the gaps from a point to some known entities: the same as to all of them."""
        return gaps_to_some(self.embedding, point, entities)

    @cached_property
    def list_of(self) -> IntArray:
        """(entities,) the list of each."""
        lists = np.empty(len(self.members), dtype=np.int64)
        lists[self.members] = np.repeat(np.arange(len(self.centres)), np.diff(self.offsets))
        return lists


def number_of_lists(entities: int) -> int:
    """How many lists suit so many entities: as many centres are compared as a list or four have members."""
    return max(1, min(round(4 * math.sqrt(entities)), entities // LEAST_IN_LIST))


def clustered(embedding: Embedding, seed: int = 0, report: Callable[[int], None] | None = None) -> ApproximateIndex:
    """An index by k-means, not measured yet. report: called with the number of entities that are in their lists"""
    if embedding.geometry.projects:
        problem = f"{type(embedding.geometry).__name__} sees the entities anew through each relation"
        raise InputError(f"{problem}, and one index cannot hold that; it is for models such as TransE and RotatE")
    faiss = _faiss()
    size, lists = embedding.num_entities, number_of_lists(embedding.num_entities)
    drawn = np.random.default_rng(seed).permutation(size)[: LEARNED_FROM * lists]
    sample = _rows(embedding.entities[torch.from_numpy(np.sort(drawn))])
    if not np.isfinite(sample).all():
        raise InputError("some vectors have numbers that are not finite; such a model cannot be asked, train it again")
    means = faiss.Kmeans(
        sample.shape[1], lists, niter=ROUNDS, seed=seed & 0x7FFFFFFF, min_points_per_centroid=1,
        max_points_per_centroid=LEARNED_FROM,
    )  # fmt: skip
    means.train(sample)
    list_of = np.empty(size, dtype=np.int64)
    for start in range(0, size, ROWS_AT_ONCE):
        part = _rows(embedding.entities[start : start + ROWS_AT_ONCE])
        list_of[start : start + len(part)] = means.index.search(part, 1)[1][:, 0]
        if report is not None:
            report(start + len(part))
    members = np.argsort(list_of, kind="stable")
    offsets = np.searchsorted(list_of[members], np.arange(lists + 1)).astype(np.int64)
    centres = torch.from_numpy(np.array(means.centroids, dtype=np.float32).reshape(lists, -1))
    return ApproximateIndex(embedding, centres, offsets, members)


def _rows(vectors: Tensor) -> Any:
    return np.ascontiguousarray(vectors.float().cpu().numpy())


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise missing("an approximate index", "faiss", "faiss") from None
    return faiss
