"""Strangers: entities that claims put where neither they nor any entity like them has ever stood.

Labelled claims are mostly of entities that could stand there, so that a judge does not learn from them what is absurd:
that a country is somebody's occupation. The graph knows it: no country has ever been one, nor has anything with the
relations that countries have. How much that says is counted too, for each end of each relation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ookg.graph.fitting import LEAST_FIT, FittingRelations
from ookg.graph.grown import GrownGraph, link_code
from ookg.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Strangers:
    """What it says against a claim that an end of it is a stranger there.

    An entity is a stranger to a directed relation that it has not, where that fits it by less than `LEAST_FIT`; an
    entity of which nothing is known is none. graph: the triples that entities have; fitting: counted on the known ones
    """

    graph: GrownGraph
    fitting: FittingRelations
    _weights: dict[int, float] = field(default_factory=dict)

    def of_claims(self, claims: IntArray) -> FloatArray:
        """(claims,) what to add to the log-odds of each: 0, or less where an end is a stranger; the worse end counts.

        By Bayes' rule, log P(stranger | true) / P(stranger | a random entity). The first is counted on the known
        triples, each end without the triple itself, the second on the known entities; one more is added to each count.
        """
        said = np.zeros(len(claims))
        for end, is_head in ((0, True), (2, False)):
            pairs, place = np.unique(claims[:, [end, 1]], axis=0, return_inverse=True)
            weights = [
                self._weight(code) if entity >= 0 and relation >= 0 and self._is_stranger(entity, code) else 0.0
                for entity, relation in pairs.tolist()
                for code in [link_code(relation, is_head=is_head)]
            ]
            said = np.minimum(said, np.array(weights, dtype=np.float64)[place.ravel()])
        return said

    def _is_stranger(self, entity: int, code: int) -> bool:
        codes = np.unique(self.graph.links_of(entity)[0])
        size = len(self.fitting.having)
        known = codes[codes < size]
        if code >= size or code in codes or not len(known):
            return False
        return bool(self.fitting.shares_with(code)[known].mean() < LEAST_FIT)

    def _weight(self, code: int) -> float:
        if code not in self._weights:  # two threads may both count it, and count the same
            times, fits = self.fitting.fits_of_all(code)
            true = (((times == 1) & (fits < LEAST_FIT)).sum() + 1) / (times.sum() + 2)
            anyone = (((times == 0) & (fits < LEAST_FIT)).sum() + 1) / (len(times) + 2)
            self._weights[code] = min(0.0, math.log(true / anyone))
        return self._weights[code]
