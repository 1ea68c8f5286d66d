"""The reducer: weights for the candidates of a new entity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from ookg.errors import IMPORT_TRIPLES, InputError
from ookg.graph.statistics import GraphStatistics
from ookg.newcomers.prior import Residuals
from ookg.newcomers.support import Support
from ookg.types import FloatArray, IntArray

# A sum of weights that is this small beside the weights is left over from cancellation: nothing is divided by it.
SMALLEST_SUM = 1e-6

# Beyond this a strength is a mistake: triples count for nothing beside it.
LARGEST_PRIOR = 1_000_000


@dataclass(frozen=True)
class Uniform:
    """Every candidate weighs the same."""

    needs_query: ClassVar[bool] = False

    def weights(self, support: Support, rows: IntArray, query: IntArray | None, graph: GraphStatistics) -> FloatArray:
        """w = 1."""
        del support, query, graph
        return np.ones(len(rows))


@dataclass(frozen=True)
class Degree:
    """A candidate weighs more if the known entity it comes from has more training triples."""

    smoothing: float = 0.1
    needs_query: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.smoothing >= 0:
            raise InputError(f"smoothing {self.smoothing}; it must be 0 or more")

    def weights(self, support: Support, rows: IntArray, query: IntArray | None, graph: GraphStatistics) -> FloatArray:
        """w = log(degree of the neighbour + smoothing); -∞ for log(0)."""
        del query
        with np.errstate(divide="ignore"):
            weights: FloatArray = np.log(graph.degree[support.neighbor[rows]] + self.smoothing)
        return weights


@dataclass(frozen=True)
class Correlation:
    """A candidate weighs more if its relation goes together with the relation that is asked for.

    power: the paper prints 1; the authors' code, and the paper's numbers, have 4.
    """

    power: float = 4.0
    needs_query: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.power >= 0:
            raise InputError(f"power {self.power}; it must be 0 or more")

    def weights(self, support: Support, rows: IntArray, query: IntArray | None, graph: GraphStatistics) -> FloatArray:
        """w = (P(r | q) + P(q | r))^power for the candidate's relation r and the query relation q.

        Halved inside, so that w is at most 1 at any power; a common factor is gone when the weights are normalised.
        """
        if query is None:
            raise InputError(
                "correlation weights depend on the relation that is asked for: there is no single vector; "
                "give a query relation, or choose uniform or degree weights"
            )
        weights: FloatArray = (graph.correlation(support.relation[rows], query) / 2) ** self.power
        return weights


@dataclass(frozen=True)
class Precision:
    """A candidate weighs more if those of its relation and direction are less far off among the training triples.

    A vector is then made with weights for each coordinate (`prior.py`); what takes one weight for a candidate, such as
    an explanation, takes their mean.

    prior: λ of the pull to where entities with the newcomer's relations lie; 0 for none
    residuals: how far candidates are off; if not given, those of the model that the weights are used with
    """

    prior: float = 0.0
    residuals: Residuals | None = field(default=None, compare=False, repr=False)
    needs_query: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 <= self.prior <= LARGEST_PRIOR:
            raise InputError(f"prior {self.prior}; it must be a number from 0 to {LARGEST_PRIOR:,}")

    @property
    def of_model(self) -> Residuals:
        """The residuals, which must be there by now."""
        if self.residuals is None:
            raise InputError("precision weights without residuals; take `with_residuals(weights, ...)`")
        return self.residuals

    def weights(self, support: Support, rows: IntArray, query: IntArray | None, graph: GraphStatistics) -> FloatArray:
        """w = mean of 1/s² over the coordinates and both directions, in units of the entities' own variance."""
        del query, graph
        return self.of_model.weights(support.relation[rows])


Weights = Uniform | Degree | Correlation | Precision
WEIGHTS: dict[str, type[Weights]] = {
    "uniform": Uniform,
    "degree": Degree,
    "correlation": Correlation,
    "precision": Precision,
}
# As a user gives them: a name stands for the weights with their default settings.
WeightsChoice = Weights | Literal["uniform", "degree", "correlation", "precision"]


def as_weights(weights: WeightsChoice | None) -> Weights | None:
    """The weights, which may be given by name; None stays None."""
    if weights is None or isinstance(weights, Weights):
        return weights
    if not isinstance(weights, str) or weights not in WEIGHTS:
        remedy = f"choose {', '.join(WEIGHTS)}, or give such as ookg.Correlation(power=1)"
        raise InputError(f"weights {weights!r}; {remedy}")
    return WEIGHTS[weights]()


def with_residuals(weights: Weights, residuals: Callable[[], Residuals]) -> Weights:
    """The weights as they are; precision weights that have no residuals get these, which are asked for only then."""
    if isinstance(weights, Precision) and weights.residuals is None:
        return replace(weights, residuals=residuals())
    return weights


def refuse_without_statistics(weights: Weights) -> None:
    """Refuse weights that a model without its training triples cannot have."""
    if not isinstance(weights, Uniform):
        name = type(weights).__name__.lower()
        problem = f"{name} weights need statistics of the training triples, which this model came without"
        raise InputError(f"{problem}; {IMPORT_TRIPLES}, or choose uniform weights")


def normalised(weights: FloatArray, group: IntArray, num_groups: int) -> FloatArray:
    """The weights divided by their group's sum; equal weights in a group whose sum is not a positive number.

    The sum is 0 where no relation co-occurs with the query's, and can be 0 or below for degree weights, whose
    logarithm is negative for degree 0.
    """
    total = np.bincount(group, weights, minlength=num_groups)
    size = np.bincount(group, np.abs(weights), minlength=num_groups)
    with np.errstate(invalid="ignore"):
        unfit = ~(np.isfinite(total) & (total > SMALLEST_SUM * size))
    members = np.bincount(group, minlength=num_groups)
    total[unfit] = members[unfit]
    shares: FloatArray = np.where(unfit[group], 1.0, weights) / total[group]
    return shares
