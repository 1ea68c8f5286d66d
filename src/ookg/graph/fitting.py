"""Which relations fit an entity: those that entities with its relations have."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ookg.graph.index import GraphIndex
from ookg.graph.statistics import counted_together, pair_matrix
from ookg.types import FloatArray, IntArray

LEAST_FIT = 0.02  # relations that fit less are not asked for


@dataclass(frozen=True, eq=False)
class FittingRelations:
    """How often entities that have one directed relation have another; codes as in `grown.link_code`.

    index: the known triples by entity
    """

    index: GraphIndex

    @cached_property
    def _together(self) -> Any:
        """(codes, codes) sparse: how many entities have both; on the diagonal, how many have one."""
        return counted_together(self._has)

    @cached_property
    def _has(self) -> Any:
        """(entities, codes) sparse, 1 where an entity has one."""
        return pair_matrix(self._pairs, self.index.num_entities, 2 * self.index.num_relations)

    @cached_property
    def _pairs(self) -> IntArray:
        """(rows, 2) the entity and the code of each of its triples."""
        size, link = self.index.num_relations, np.asarray(self.index.links(slice(None)), dtype=np.int64)
        owner = np.repeat(np.arange(self.index.num_entities), np.diff(self.index.offsets))
        return np.stack([owner, np.where(link < size, 2 * link, 2 * (link - size) + 1)], axis=1)

    @cached_property
    def having(self) -> IntArray:
        """(codes,) how many entities have each."""
        counts: IntArray = self._together.diagonal()
        return counts

    @cached_property
    def answers_each(self) -> FloatArray:
        """(codes,) how many answers an entity that has it has, in the mean; 1 for one that nothing has."""
        triples = np.bincount(self._pairs[:, 1], minlength=len(self.having))
        return np.where(self.having > 0, triples / np.maximum(self.having, 1), 1.0)

    def fit(self, codes: IntArray) -> FloatArray:
        """(all codes,) how well each fits an entity that has these.

        The mean share, over its others, of the entities with that one that have the asked one too; 1 for the only
        relation that it has, and 0 for all where it has none.
        """
        size = len(self.having)
        own = np.unique(codes)
        own = own[own < size]  # new relations say nothing yet
        if not len(own):
            return np.zeros(size)
        shares: FloatArray = self._together[own].T @ (1 / np.maximum(self.having[own], 1))  # summed over its own
        fit = shares / len(own)
        if len(own) > 1:  # a relation of its own is no argument for itself
            fit[own] = (shares[own] - (self.having[own] > 0)) / (len(own) - 1)
        return fit

    def shares_with(self, code: int) -> FloatArray:
        """(all codes,) of the entities that have each of them, the share that has one code too."""
        shares: FloatArray = self._together[:, [code]].toarray().ravel() / np.maximum(self.having, 1)
        return shares

    def fits_of_all(self, code: int) -> tuple[IntArray, FloatArray]:
        """(entities,) how many triples each known entity has with a code, and how well that fits it, as in `fit`.

        For an entity that has it, by what others have, without the entity itself; 1 for one that has no other code.
        """
        times = np.bincount(self._pairs[self._pairs[:, 1] == code, 0], minlength=self.index.num_entities)
        both, has_it = self._together[:, [code]].toarray().ravel(), times > 0
        without = np.maximum(both - 1, 0) / np.maximum(self.having - 1, 1)
        without[code] = 0  # it is no argument for itself
        summed = np.where(has_it, self._has @ without, self._has @ self.shares_with(code))
        others = np.diff(self._has.indptr) - has_it
        return times, np.where(others > 0, summed / np.maximum(others, 1), 1.0)
