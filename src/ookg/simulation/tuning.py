"""Choosing the settings for new entities of a model, on its own entities made new again.

One half of the hidden entities is what settings are chosen on, the other half what is reported:

1. the power of the correlation weights: the best of `POWERS` by MRR of the closed form, if it is better;
2. the refinement: from the stored settings, or those that fit the scale of the vectors, one of margin, rate and steps
   at a time is made larger or smaller by its factor for as long as that is better, until no such move helps or the
   budget is spent;
3. the weights of the combination: those under which the right answers are likeliest, if weights fitted to a half of
   these entities are better on the other half, both ways together, than the stored ones or the defaults.

Then, on all hidden entities: how `predict` answers where nothing is said, by the newcomer's number of triples
(`choosing.py`), which is checked by fitting to one half and asking about the other. Companions of the model are trained
without the hidden entities as well, and answer together with it there; all else is chosen for the model alone.

Better means: a higher MRR by `LEAST_GAIN` or more, and by more than the standard error of the difference. What the
questions cannot decide stays as it is.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import numpy as np

from ookg.errors import InputError
from ookg.evidence.combined import RankingWeights
from ookg.newcomers.embedder import Newcomers
from ookg.newcomers.refinement import RefineSettings
from ookg.scoring.ranking import RankSummary
from ookg.scoring.scorer import Scorer, TranslationScorer
from ookg.simulation.audit import TOO_KIND, TRAINED, calibrations, network_notes, provenance
from ookg.simulation.choice import AnswerMethod, NewcomerChoice, NewcomerMethod
from ookg.simulation.choosing import KNOTS, Tried, choose_ways, is_better
from ookg.simulation.contenders import Companion, Contenders, NewcomerSetup
from ookg.simulation.defaults import NewcomerDefaults
from ookg.simulation.hiding import HidingSettings
from ookg.simulation.likelihood import Likelihood
from ookg.simulation.retraining import Retraining
from ookg.simulation.simulated import Simulation, simulate
from ookg.simulation.ways import Ways
from ookg.storage.checkpoint import Checkpoint
from ookg.system.display import counted
from ookg.types import FloatArray

POWERS = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
# What a move of the search multiplies or divides, and by how much, in the order in which they are tried.
MOVES: tuple[tuple[str, float], ...] = (("margin", 1.25), ("lr", 2.0), ("steps", 2.0))
MOST_STEPS = 8000
FEWEST_TO_FIT = 50  # questions: with fewer, the weights of the combination stay as they are
QUICK_CHOICE = (
    "chosen on vectors that have seen the answers: good for a first look and not for new entities; the weights of the "
    "combination are not chosen at all"
)


@dataclass(frozen=True)
class TuningSettings:
    """How to choose.

    retraining: None chooses on the model's own vectors, which have seen the answers: that favours a refinement which
        finds the trained vectors again, not one that serves real newcomers
    trials: how many settings of the refinement to try; seconds: begin no further trial after this many
    triples: for which numbers of triples it is chosen how newcomers are answered
    """

    hiding: HidingSettings = field(default_factory=HidingSettings)
    retraining: Retraining | None = field(default_factory=lambda: Retraining(reference=False))
    trials: int = 20
    seconds: float | None = None
    progress: bool = False
    triples: tuple[int, ...] = KNOTS

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise InputError(f"trials {self.trials}; it must be 1 or more")
        if not self.triples or min(self.triples) < 1:
            raise InputError(f"numbers of triples {self.triples}; give some, each 1 or more")
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise InputError(f"seconds {self.seconds}; it must be a number above 0")


@dataclass(frozen=True)
class Trial:
    """One try on the half that is chosen on.

    mrr: on this half; of fitted weights, each question asked with those fitted to entities that it is not about
    """

    what: str
    values: dict[str, Any]
    mrr: float


@dataclass(frozen=True)
class Tuning:
    """What was chosen.

    choice: to be stored with the model, by `Model.with_choice` and `Model.save`
    trials: all that was tried, on the one half of the entities
    report: figures on the other half, which nothing was chosen on: of trained entities, of each method with the
        settings before (stored ones, or the defaults), and with the chosen ones
    """

    choice: NewcomerChoice
    trials: list[Trial]
    report: dict[str, RankSummary]
    notes: list[str]

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON; hits are percentages."""
        return {
            "choice": self.choice.to_dict(),
            "trials": [vars(trial) for trial in self.trials],
            "report": {name: summary.to_dict() for name, summary in self.report.items()},
            "notes": self.notes,
        }

    def __str__(self) -> str:
        choice = self.choice
        chosen = f"power {choice.power:g}" if choice.power is not None else "power not chosen"
        if choice.refine is not None:
            chosen += f", margin {choice.refine.margin:g}, lr {choice.refine.lr:g}, steps {choice.refine.steps:,}"
        figures = [f"{name}: {summary}" for name, summary in self.report.items()]
        return "\n".join([f"chosen: {chosen}; best: {choice.best}", *figures])


def tune(checkpoint: Checkpoint, settings: TuningSettings | None = None) -> Tuning:
    """Choose power, refinement and combination for a model, on its own entities made new again."""
    settings = settings or TuningSettings()
    seed, begun = settings.hiding.seed, monotonic()
    simulation = simulate(checkpoint, settings.hiding, settings.retraining)
    companions = Companion.all_of(checkpoint, settings.hiding, settings.retraining)
    first, _ = simulation.halves(seed)
    before, stored = NewcomerSetup.of(checkpoint), NewcomerDefaults.of(checkpoint)
    likelihood: dict[AnswerMethod, Likelihood] = {}
    search = _Search(first, settings, begun)
    power = search.power(before.power)
    refine = None if before.refine is None else search.refinement(before.refine, power)
    ranking = search.ranking(power, refine, stored.ranking) if simulation.is_exact else {}
    ways = search.ways([Companion(simulation, refine), *companions]) if simulation.is_exact else None
    usual = ranking.get("closed form" if refine is None else "refined", before.ranking)
    chosen = NewcomerSetup(power, refine, usual, ways or before.ways)
    ranks = chosen.ranks(simulation, settings.progress, companions)
    is_first = np.isin(simulation.queries.entity, first.queries.entity)
    if simulation.is_exact:
        likelihood |= chosen.likelihoods(simulation, settings.triples, seed, companions)
    calibration = calibrations(simulation, ranks, seed)
    kept = stored.choice if ways is None and stored.weighs_network else stored.choice.without_network()
    if kept.network is not None:  # what was measured is without it
        calibration.pop("chosen", None)
        likelihood.pop("chosen", None)
    choice = NewcomerChoice(
        power=power,
        refine=refine,
        best=_best({name: one[is_first] for name, one in ranks.items()}),
        ranking=ranking,
        calibration=calibration,
        simulation={"choice": provenance(simulation, settings.hiding, settings.retraining)},
        judge=kept.judge,
        thresholds=kept.thresholds,
        ways=ways or kept.ways,
        known=kept.known,
        known_network=kept.known_network,
        likelihood=kept.likelihood | likelihood,
        network=kept.network,
    )
    # Before and chosen with the same given triples: those of all newcomers are counted in statistics and evidence.
    reported = {} if simulation.trained is None else {TRAINED: simulation.ranks(simulation.trained_scorer)}
    old = before.ranks(simulation, settings.progress, companions) if before != chosen else {}
    reported |= {f"{name}, before": one for name, one in old.items()}
    reported |= {f"{name}, chosen": one for name, one in ranks.items()}
    report = {name: RankSummary.of(one[~is_first]) for name, one in reported.items()}
    notes = [] if simulation.is_exact else [TOO_KIND, QUICK_CHOICE]
    return Tuning(choice, search.trials, report, [*notes, *network_notes(checkpoint)])


def _best(ranks: dict[NewcomerMethod, FloatArray]) -> NewcomerMethod:
    mrr = {name: float((1 / values).mean()) for name, values in ranks.items() if name != "chosen"}
    return max(mrr, key=lambda name: mrr[name])


class _Search:
    """The search on one half of the hidden entities."""

    def __init__(self, simulation: Simulation, settings: TuningSettings, begun: float) -> None:
        self.simulation, self.settings, self.begun = simulation, settings, begun
        self.trials: list[Trial] = []
        self._tried: dict[RefineSettings, FloatArray] = {}

    def power(self, start: float) -> float:
        """The best power, if it is better than the one to start from."""
        tried = {
            power: self._try("power", {"power": power}, TranslationScorer(Contenders(self.simulation, power).closed))
            for power in sorted({*POWERS, start})
        }
        best = max(tried, key=lambda power: float(tried[power].mean()))
        return best if is_better(tried[best], tried[start]) else start

    def refinement(self, start: RefineSettings, power: float) -> RefineSettings:
        """The best settings that moves of one number at a time lead to."""
        contenders = Contenders(self.simulation, power)
        best, reached = start, self._refined(contenders, start)
        has_moved = True
        while has_moved and self._may_go_on():
            has_moved = False
            for name, factor in MOVES:
                for step in (factor, 1 / factor):
                    settings = best
                    while self._may_go_on() and (settings := _moved(settings, name, step)) != best:
                        reciprocal = self._refined(contenders, settings)
                        if not is_better(reciprocal, reached):
                            break
                        best, reached, has_moved = settings, reciprocal, True
        return best

    def ranking(
        self, power: float, refine: RefineSettings | None, now: Mapping[NewcomerMethod, RankingWeights]
    ) -> dict[NewcomerMethod, RankingWeights]:
        """The weights of the combination for each kind of vectors: fitted ones if they are better than those of now."""
        contenders = Contenders(self.simulation, power)
        vectors: dict[NewcomerMethod, Newcomers] = {"closed form": contenders.closed}
        if refine is not None:
            vectors["refined"] = contenders.refined(refine)
        if len(self.simulation.queries) < FEWEST_TO_FIT or len(np.unique(self.simulation.queries.entity)) < 2:
            return {name: now[name] for name in vectors}
        return {name: self._weights(name, contenders, newcomers, now[name]) for name, newcomers in vectors.items()}

    def ways(self, models: Sequence[Companion]) -> Ways | None:
        """How questions are answered by the number of triples; None if the hidden entities have too few.

        models: those that answer together
        """

        def note(tried: Tried) -> None:
            vector = "fitted vector" if tried.refine else "closed form"
            what, values = f"{counted(tried.triples, 'triple')}, {vector}", tried.ranking.to_dict()
            self.trials.append(Trial(what, values | {"closed form alone": tried.alone}, tried.mrr))
            if self.settings.progress:
                figures = f"MRR {tried.alone:.4f} by the closed form alone, {tried.mrr:.4f} with what speaks beside it"
                print(f"tried {what}: {figures}", file=sys.stderr, flush=True)

        simulations, refine = [one.simulation for one in models], [one.refine for one in models]
        return choose_ways(simulations, refine, self.settings.triples, self.settings.hiding.seed, note)

    def _weights(
        self, name: NewcomerMethod, contenders: Contenders, newcomers: Newcomers, now: RankingWeights
    ) -> RankingWeights:
        """The weights fitted to all questions, if weights fitted so are better than those of now on other entities."""
        simulation, seed = self.simulation, self.settings.hiding.seed
        in_first = simulation.in_first_half(seed)[simulation.query_newcomer]
        crossed = np.empty(len(in_first))
        for fit_on in (in_first, ~in_first):
            weights = contenders.fitted_weights(newcomers, simulation.queries.select(fit_on), seed, now)
            crossed[~fit_on] = 1 / simulation.asking(~fit_on).ranks(contenders.combined(newcomers, weights))
        before = self._try(f"ranking, {name}", now.to_dict(), contenders.combined(newcomers, now))
        fitted = contenders.fitted_weights(newcomers, simulation.queries, seed, now)
        self._note(f"ranking, {name}, fitted", fitted.to_dict(), crossed)
        return fitted if is_better(crossed, before) else now

    def _refined(self, contenders: Contenders, settings: RefineSettings) -> FloatArray:
        if settings not in self._tried:
            values = {name: getattr(settings, name) for name, _ in MOVES}
            scorer = TranslationScorer(contenders.refined(settings))
            self._tried[settings] = self._try("refine", values, scorer)
        return self._tried[settings]

    def _try(self, what: str, values: dict[str, Any], scorer: Scorer) -> FloatArray:
        """(queries,) the reciprocal ranks of the right answers."""
        return self._note(what, values, 1 / self.simulation.ranks(scorer))

    def _note(self, what: str, values: dict[str, Any], reciprocal: FloatArray) -> FloatArray:
        self.trials.append(Trial(what, values, float(reciprocal.mean())))
        if self.settings.progress:
            said = ", ".join(f"{name} {value:g}" for name, value in values.items())
            print(f"tried {what}: {said}: MRR {reciprocal.mean():.4f}", file=sys.stderr, flush=True)
        return reciprocal

    def _may_go_on(self) -> bool:
        limit = self.settings.seconds
        in_time = limit is None or monotonic() - self.begun < limit
        return in_time and len(self._tried) < self.settings.trials


def _moved(settings: RefineSettings, name: str, factor: float) -> RefineSettings:
    """The settings with one number multiplied."""
    value = getattr(settings, name) * factor
    if name == "steps":
        return settings.changed({"steps": min(MOST_STEPS, max(1, round(value)))})
    return settings.changed({name: float(f"{value:.2g}")})
