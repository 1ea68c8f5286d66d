"""How far to trust the vector of a new entity: what it was made from, and what such vectors were worth when tried."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from scipy import sparse

from ookg.errors import InputError
from ookg.evidence.fitting import fit_logistic
from ookg.newcomers.embedder import Newcomers, reference_sums
from ookg.newcomers.estimator import candidates
from ookg.newcomers.prior import Residuals
from ookg.newcomers.support import Support
from ookg.types import BoolArray, FloatArray, IntArray

# How many numbers the candidates and means of one chunk may hold, whatever the number of newcomers.
CHUNK_NUMBERS = 1 << 24
BINS, FEWEST_IN_BIN = 10, 20  # groups that a calibration is checked in: fewer of them where there are few entities
# What expectations follow from beside the number of triples. It was the spread in calibrations of before.
Measure = Literal["spread", "uncertainty"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
FEATURES = ("1", "log triples", "(log triples)² / 10", "spread or uncertainty", "one triple")
L2 = np.array([0.0, 1e-4, 1e-4, 1e-4, 1e-4])  # none on the constant


@dataclass(frozen=True)
class Trust:
    """How far to trust one new entity's vector.

    triples: how many made it
    spread: how far the candidates of its known neighbours are apart: their mean gap to their mean, over the mean gap of
        two known entities; 0 if all agree, None for fewer than two candidates
    uncertainty: how far off the vector may be, by how far candidates of its relations are off in training and its own
        are apart: 1 without a triple, and less with each that agrees; None where that is not known
    expected_hits_at_10: the chance that the right answer to a question about it is among the first ten; None until the
        model is audited or tuned, and without a triple
    expected_mrr: the reciprocal rank to expect, likewise
    """

    triples: int
    spread: float | None
    uncertainty: float | None
    expected_hits_at_10: float | None
    expected_mrr: float | None

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class TrustTable:
    """The trust of many new entities as columns, each (newcomers,); NaN where a `Trust` has None."""

    triples: IntArray
    spread: FloatArray
    uncertainty: FloatArray
    expected_hits_at_10: FloatArray
    expected_mrr: FloatArray

    def __len__(self) -> int:
        return len(self.triples)

    def __iter__(self) -> Iterator[Trust]:
        numbers = (self.spread, self.uncertainty, self.expected_hits_at_10, self.expected_mrr)
        columns = ([None if math.isnan(value) else value for value in column.tolist()] for column in numbers)
        for values in zip(self.triples.tolist(), *columns, strict=True):
            yield Trust(*values)


@dataclass(frozen=True)
class Expectation:
    """A figure between 0 and 1 to expect of a vector: σ(Σ wᵢ xᵢ) over `FEATURES`.

    weights: all but the first are 0 where the features say nothing
    error: the expected calibration error on entities it was not fitted to: in groups by what is expected, the mean
        difference to what came out
    gain: by how much its squared error there is smaller than that of a constant, as a share
    """

    weights: tuple[float, ...]
    error: float
    gain: float

    def of(self, features: FloatArray) -> FloatArray:
        """(rows, features) -> (rows,)."""
        share: FloatArray = 1 / (1 + np.exp(-(features * np.array(self.weights)).sum(axis=1)))
        return share

    @classmethod
    def fit(cls, features: FloatArray, outcome: FloatArray, held_out: FloatArray, truth: FloatArray) -> Expectation:
        """Fit to some entities' outcomes and check on others; a constant where the features do not help there."""
        # A share between 0 and 1 works as well as yes or no: the likelihood is that of its mean.
        weights = fit_logistic(features, cast(BoolArray, outcome), L2)
        fitted = cls(tuple(weights.tolist()), 0.0, 0.0)
        mean = float(np.clip(outcome.mean(), 1e-6, 1 - 1e-6))
        constant = cls((float(np.log(mean / (1 - mean))), *[0.0] * (features.shape[1] - 1)), 0.0, 0.0)
        floor = float(np.square(constant.of(held_out) - truth).mean())
        gain = 1 - float(np.square(fitted.of(held_out) - truth).mean()) / floor if floor > 0 else 0.0
        if not gain > 0:
            fitted, gain = constant, 0.0
        return replace(fitted, error=calibration_error(fitted.of(held_out), truth), gain=gain)


def calibration_error(expected: FloatArray, outcome: FloatArray) -> float:
    """The mean of |mean expected - mean outcome| over groups of about equal size, sorted by what is expected."""
    number = min(BINS, max(1, len(expected) // FEWEST_IN_BIN))
    groups = np.array_split(np.argsort(expected, kind="stable"), number)
    return float(sum(abs((expected[rows] - outcome[rows]).sum()) for rows in groups) / max(1, len(expected)))


@dataclass(frozen=True, eq=False)
class Outcomes:
    """New entities and what came of questions about them, each (entities,).

    triples, uncertainty: what the vectors were made of
    hits_at_10: the share of the questions whose right answer was among the first ten; mrr: their mean reciprocal rank
    """

    triples: IntArray
    uncertainty: FloatArray
    hits_at_10: FloatArray
    mrr: FloatArray

    def select(self, rows: BoolArray) -> Outcomes:
        """Some of the entities."""
        return Outcomes(self.triples[rows], self.uncertainty[rows], self.hits_at_10[rows], self.mrr[rows])


@dataclass(frozen=True)
class Calibration:
    """What to expect of a new entity's vector, by its number of triples and its uncertainty.

    most_triples, largest: the most triples and the largest uncertainty that were seen; beyond them they count as these
    entities: how many it was checked on
    measure: "spread" for a calibration of before, which goes by that in place of the uncertainty
    """

    hits_at_10: Expectation
    mrr: Expectation
    most_triples: int
    largest: float
    entities: int
    measure: Measure = "uncertainty"

    @classmethod
    def fit(cls, first: Outcomes, second: Outcomes) -> Calibration:
        """Fit to the outcomes of some entities, and check on those of others."""
        for part in (first, second):
            if not len(part.triples):
                raise InputError("no entities to calibrate on; hide more with a larger `sample`")
        most, largest = int(first.triples.max()), float(first.uncertainty.max())
        fitted, checked = (_features(part.triples, part.uncertainty, most, largest) for part in (first, second))
        hits = Expectation.fit(fitted, first.hits_at_10, checked, second.hits_at_10)
        mrr = Expectation.fit(fitted, first.mrr, checked, second.mrr)
        return cls(hits, mrr, most, largest, len(second.triples))

    def features(self, triples: IntArray, measured: FloatArray) -> FloatArray:
        """(newcomers, features). measured: (newcomers,) the uncertainties, or spreads, by `measure`"""
        return _features(triples, measured, self.most_triples, self.largest)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Calibration:
        """From plain values, each checked."""
        try:
            hits, mrr = (
                Expectation(
                    tuple(float(weight) for weight in values[name]["weights"]),
                    float(values[name]["error"]),
                    float(values[name]["gain"]),
                )
                for name in ("hits_at_10", "mrr")
            )
            measure = values.get("measure", "spread")  # which an older version did not write
            if measure not in MEASURES:
                raise ValueError(f"measure {measure!r}")
            largest = float(values["largest" if "measure" in values else "most_spread"])
            calibration = cls(hits, mrr, int(values["most_triples"]), largest, int(values["entities"]), measure)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"a calibration without or with a wrong {error}; audit the model again") from error
        numbers = np.array([*hits.weights, *mrr.weights, calibration.largest])
        if len(hits.weights) != len(FEATURES) or len(mrr.weights) != len(FEATURES) or not np.isfinite(numbers).all():
            raise InputError(f"a calibration needs {len(FEATURES)} finite weights; audit the model again")
        return calibration


def _features(triples: IntArray, measured: FloatArray, most_triples: int, largest: float) -> FloatArray:
    """(rows, features) as `FEATURES` has them; a spread that is not a number counts as 0."""
    size = np.log(np.clip(triples, 1, most_triples))
    width = np.minimum(np.nan_to_num(measured), largest)
    return np.stack([np.ones(len(size)), size, size**2 / 10, width, (triples <= 1) * 1.0], axis=1)


def trust_of(
    newcomers: Newcomers,
    calibration: Calibration | None = None,
    which: IntArray | None = None,
    residuals: Residuals | None = None,
) -> list[Trust]:
    """The trust of each newcomer, or of some of them; expectations are None without a calibration.

    residuals: those of the model, such as `Model.residuals`; without them the uncertainty is not known
    """
    return list(trust_table(newcomers, calibration, which, residuals))


def trust_table(
    newcomers: Newcomers,
    calibration: Calibration | None = None,
    which: IntArray | None = None,
    residuals: Residuals | None = None,
) -> TrustTable:
    """The same as columns, for very many newcomers."""
    which = np.arange(newcomers.support.num_newcomers) if which is None else which
    triples, spread = newcomers.counts[which], spreads(newcomers, which)
    uncertainty = np.full(len(which), np.nan) if residuals is None else uncertainties(newcomers, residuals, which)
    hits, mrr = np.full(len(which), np.nan), np.full(len(which), np.nan)
    made = triples > 0
    if calibration is not None and made.any():
        if calibration.measure == "uncertainty" and residuals is None:
            raise InputError("expectations follow from the uncertainty; give the model's residuals")
        measured = uncertainty if calibration.measure == "uncertainty" else spread
        features = calibration.features(triples[made], measured[made])
        hits[made], mrr[made] = calibration.hits_at_10.of(features), calibration.mrr.of(features)
    return TrustTable(triples, spread, uncertainty, hits, mrr)


def uncertainties(newcomers: Newcomers, residuals: Residuals, which: IntArray | None = None) -> FloatArray:
    """(newcomers,) √(mean 1/P) over √(mean v₀), means over the coordinates; from 1 without a triple towards 0.

        P = 1/v₀ + Σ 1/s²ᵢ / f²        f² = (1 + Σ mean (cᵢ - e)²/s²ᵢ) / n

    over the n triples with known neighbours. 1/v₀ is what is known of any entity. f² is how far this one's candidates
    cᵢ are from their mean e, against how far such candidates are off in training; one more that is just as far off as
    there is counted in, so that f² is 1 for a single triple.
    A triple with another newcomer counts as if nothing were known of that one: 1/(s² + v₀).
    Memory is bounded: newcomers, and the triples of a large one, take turns.
    """
    which = np.arange(newcomers.support.num_newcomers) if which is None else which
    size = max(1, CHUNK_NUMBERS // len(residuals.variance))
    shares = [_uncertainties(newcomers, residuals, which[start : start + size]) for start in range(0, len(which), size)]
    return np.concatenate([np.empty(0), *shares])


def _uncertainties(newcomers: Newcomers, residuals: Residuals, which: IntArray) -> FloatArray:
    embedding, support, together = newcomers.embedding, newcomers.support, newcomers.together
    rows, place = support.rows_of(which)
    made = residuals.estimates(embedding, support, rows, place, len(which), 0.0)
    apart, size = np.ones(len(which)), max(1, CHUNK_NUMBERS // len(residuals.variance))
    for first in range(0, len(rows), size):
        part = slice(first, first + size)
        own = made.vectors[torch.from_numpy(place[part]).to(embedding.device)]
        directed = torch.from_numpy(residuals.rows(support.relation[rows[part]], support.is_head[rows[part]]))
        off = candidates(embedding, support, rows[part]).sub_(own).square_()
        off *= residuals.precision[directed.to(embedding.device)]
        share = off.mean(dim=1).double().cpu().numpy() / residuals.unit
        np.add.at(apart, place[part], share)  # one after the other: the same bits however rows are cut
    variance, certain = residuals.variance.cpu().numpy(), made.precision.cpu().numpy()
    if together is not None:
        known = residuals.precision.cpu().numpy()
        certain = certain + _counts(together.peers, residuals, which) @ (known / (1 + known * variance))
    scale = apart / np.maximum(support.counts[which], 1)
    with np.errstate(all="ignore"):  # vectors that are no numbers have no uncertainty either
        uncertain = (variance / (1 + certain * variance / scale[:, None])).mean(axis=1)
        shares: FloatArray = np.minimum(1.0, np.sqrt(uncertain / variance.mean(dtype=np.float64)))
    return shares


def _counts(support: Support, residuals: Residuals, newcomers: IntArray) -> Any:
    """(newcomers, directed relations) sparse: how many triples of each relation and side each has."""
    rows, place = support.rows_of(newcomers)
    directed = residuals.rows(support.relation[rows], support.is_head[rows])
    ones = np.ones(len(rows), dtype=np.float32)
    return sparse.csr_array((ones, (place, directed)), shape=(len(newcomers), len(residuals.precision)))


def spreads(newcomers: Newcomers, which: IntArray | None = None) -> FloatArray:
    """(newcomers,) the mean gap of each one's candidates to their mean, over the mean gap of known entities.

    NaN for fewer than two candidates. Memory is bounded: newcomers, and the triples of a large one, take turns.
    """
    which = np.arange(newcomers.support.num_newcomers) if which is None else which
    embedding, support = newcomers.embedding, newcomers.support
    spread = np.full(len(which), np.nan)
    several = np.flatnonzero(support.counts[which] > 1)
    size = max(1, CHUNK_NUMBERS // embedding.geometry.entity_width)
    for start in range(0, len(several), size):
        chunk = several[start : start + size]
        rows, place = support.rows_of(which[chunk])
        counts = support.counts[which[chunk]]
        means = reference_sums(embedding, support, rows, place, 1 / counts[place], len(chunk))
        total = np.zeros(len(chunk))
        for first in range(0, len(rows), size):
            part = slice(first, first + size)
            own = means[torch.from_numpy(place[part]).to(means.device)]
            gaps = embedding.plain_gaps(candidates(embedding, support, rows[part]), own)
            total += np.bincount(place[part], gaps, minlength=len(chunk))
        spread[chunk] = total / counts / embedding.mean_gap
    return spread
