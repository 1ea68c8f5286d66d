"""What was chosen for a model: how it represents new entities, what counts in answers, and what that is worth."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from ookg.errors import InputError
from ookg.evidence.combined import RankingWeights
from ookg.newcomers.reducer import Correlation
from ookg.newcomers.refinement import RefineSettings
from ookg.simulation.claim_thresholds import AGAIN, FittedThresholds
from ookg.simulation.judge import FittedJudge
from ookg.simulation.likelihood import Likelihood
from ookg.simulation.trust import Calibration
from ookg.simulation.ways import Way, Ways
from ookg.storage.checkpoint import Checkpoint, damaged_newcomers, stored_newcomers

# What a new entity's vector is, and what answers are ranked by: the closed form; fitted vectors; and, always the same
# under "combined", fitted vectors together with the evidence of the graph. Where a model's vectors cannot be fitted
# (TransH, TransR), "combined" is the closed form with that evidence. Of a model that can be refined, the closed form
# with the graph has no name: weights for it are stored (`ranking`), what to expect of it is not (`calibration`).
# "chosen" is what `predict` does where nothing is said: by the newcomer's number of triples (`ways.py`).
NewcomerMethod = Literal["closed form", "refined", "combined", "chosen"]
# Whose answers a likelihood is for: newcomers by one of the methods, or known entities as they are answered.
AnswerMethod = Literal["closed form", "refined", "combined", "chosen", "known"]
NEWCOMER_METHODS: tuple[NewcomerMethod, ...] = get_args(NewcomerMethod)


@dataclass(frozen=True)
class NewcomerChoice:
    """Settings for new entities and for answers, stored with a model. None, or no entry: not chosen.

    power: of the correlation weights; refine: how vectors are fitted; best: the method that ranked best
    ranking: weights of the combination, by the method ("closed form" or "refined") that makes its vectors
    calibration: what to expect of a vector, by method; no entry: not measured
    simulation: how the settings were chosen, in plain values, for people to read
    judge: the judge of claims about new entities; thresholds: what claims about known ones are held against
    ways: how questions are answered by the newcomer's number of triples
    known: what the vector and evidence count for in questions about known entities
    known_network: the digest of the network that counts there; None where none does
    likelihood: how likely answers are right, by method; no entry: not measured. That of "known" without weights for
        `known` is of an older version, whose answers about known entities had no evidence
    network: the digest of the network that was weighed in the ways, on tasks; None: they were chosen, and what is
        "chosen" was measured, without one
    """

    power: float | None = None
    refine: RefineSettings | None = None
    best: NewcomerMethod | None = None
    ranking: dict[NewcomerMethod, RankingWeights] = field(default_factory=dict)
    calibration: dict[NewcomerMethod, Calibration] = field(default_factory=dict)
    simulation: dict[str, Any] = field(default_factory=dict)
    judge: FittedJudge | None = None
    ways: Ways | None = None
    known: RankingWeights | None = None
    known_network: str | None = None
    likelihood: dict[AnswerMethod, Likelihood] = field(default_factory=dict)
    thresholds: FittedThresholds | None = None
    network: str | None = None

    def without_network(self) -> NewcomerChoice:
        """The same with ways in which no network counts; what was measured by the old ones does not hold any more."""
        if self.network is None:
            return self
        calibration, likelihood = dict(self.calibration), dict(self.likelihood)
        calibration.pop("chosen", None)
        likelihood.pop("chosen", None)
        ways = None if self.ways is None else self.ways.without_learned()
        return replace(self, calibration=calibration, likelihood=likelihood, ways=ways, network=None)

    def calibrated(self, calibration: dict[NewcomerMethod, Calibration], simulation: dict[str, Any]) -> NewcomerChoice:
        """The same with a new calibration of some methods, and how it was measured; other methods keep theirs."""
        merged = self.calibration | calibration
        return replace(self, calibration=merged, simulation=self.simulation | simulation)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        further: dict[str, Any] = {} if self.judge is None else {"judge": self.judge.to_dict()}
        if self.thresholds is not None:
            further["thresholds"] = self.thresholds.to_dict()
        if self.ways is not None:
            further["ways"] = [way.to_dict() for way in self.ways]
        if self.known is not None:
            further["known"] = self.known.to_dict()
        if self.known_network is not None:
            further["known_network"] = self.known_network
        if self.network is not None:
            further["network"] = self.network
        if self.likelihood:
            further["likelihood"] = {name: fitted.to_dict() for name, fitted in self.likelihood.items()}
        return {
            "power": self.power,
            "refine": None if self.refine is None else self.refine.to_dict(),
            "best": self.best,
            "ranking": {name: weights.to_dict() for name, weights in self.ranking.items()},
            "calibration": {name: fitted.to_dict() for name, fitted in self.calibration.items()},
            "simulation": self.simulation,
        } | further

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> NewcomerChoice:
        """From plain values, each checked; what an older version did not write counts as not chosen."""
        if not isinstance(values, dict):
            raise InputError(f"settings for new entities are {values!r} instead of an object; tune the model again")
        power, refine, best = values.get("power"), values.get("refine"), values.get("best")
        ranking, calibration = (_by_method(values, name, NEWCOMER_METHODS) for name in ("ranking", "calibration"))
        likelihood = _by_method(values, "likelihood", get_args(AnswerMethod))
        if power is not None and (isinstance(power, bool) or not isinstance(power, int | float)):
            raise InputError(f"power is {power!r} instead of a number; tune the model again")
        if best is not None and best not in NEWCOMER_METHODS:
            raise InputError(f"best method {best!r}, and there are {', '.join(NEWCOMER_METHODS)}; tune the model again")
        if refine is not None and not isinstance(refine, dict):
            raise InputError(f"refine is {refine!r} instead of an object; tune the model again")
        simulation = values.get("simulation", {})
        judge, ways, thresholds = values.get("judge"), values.get("ways"), values.get("thresholds")
        if ways is not None and not (isinstance(ways, list) and all(isinstance(way, dict) for way in ways)):
            raise InputError(f"ways are {ways!r} instead of a list of objects; tune the model again")
        if judge is not None and not isinstance(judge, dict):
            raise InputError(f"judge is {judge!r} instead of an object; fit it again")
        if thresholds is not None and not isinstance(thresholds, dict):
            raise InputError(f"thresholds are {thresholds!r} instead of an object; {AGAIN}")
        known = values.get("known")
        if known is not None and not isinstance(known, dict):
            raise InputError(f"known is {known!r} instead of an object; calibrate the model again")
        networks = {name: values.get(name) for name in ("network", "known_network")}
        for name, digest in networks.items():
            if digest is not None and not isinstance(digest, str):
                raise InputError(f"{name} is {digest!r} instead of a digest; tune the model again")
        if not isinstance(simulation, dict):
            raise InputError(f"simulation is {simulation!r} instead of an object; tune the model again")
        return cls(
            power=None if power is None else Correlation(float(power)).power,
            refine=None if refine is None else RefineSettings.from_dict(refine),
            best=best,
            ranking={name: RankingWeights.from_dict(weights) for name, weights in ranking.items()},
            calibration={name: Calibration.from_dict(stored) for name, stored in calibration.items()},
            simulation=simulation,
            judge=None if judge is None else FittedJudge.from_dict(judge),
            ways=None if ways is None else Ways([Way.from_dict(way) for way in ways]),
            known=None if known is None else RankingWeights.from_dict(known),
            likelihood={name: Likelihood.from_dict(stored) for name, stored in likelihood.items()},
            thresholds=None if thresholds is None else FittedThresholds.from_dict(thresholds),
            **networks,
        )


def stored_choice(checkpoint: Checkpoint) -> NewcomerChoice:
    """What is stored with a model for new entities; all of it "not chosen" where nothing is.

    Values that cannot be used are refused.
    """
    return _parsed(checkpoint.newcomers, checkpoint.directory)


def check_stored_choice(directory: str | Path) -> None:
    """Refuse settings for new entities in a model directory that cannot be used."""
    _parsed(stored_newcomers(directory), Path(directory))


def _parsed(values: dict[str, Any] | None, directory: Path | None) -> NewcomerChoice:
    if values is None:
        return NewcomerChoice()
    try:
        return NewcomerChoice.from_dict(values)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise damaged_newcomers(directory, str(error).split(";")[0]) from error


def _by_method(values: dict[str, Any], name: str, methods: tuple[Any, ...]) -> dict[Any, dict[str, Any]]:
    stored = values.get(name, {})
    if not isinstance(stored, dict) or not all(isinstance(value, dict) for value in stored.values()):
        raise InputError(f"{name} is {stored!r} instead of an object for each method; tune the model again")
    unknown = sorted(set(stored) - set(methods))
    if unknown:
        raise InputError(f"{name} of {unknown[0]!r}, and the methods are {', '.join(methods)}; tune the model again")
    return stored
