"""The audit of a model: what a newcomer loses against a trained entity, where, and what would help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np

from ookg.newcomers.reducer import Correlation, Uniform
from ookg.scoring.ranking import RankSummary
from ookg.scoring.scorer import TranslationScorer
from ookg.simulation.choice import NEWCOMER_METHODS, NewcomerChoice, NewcomerMethod
from ookg.simulation.contenders import Companion, Contenders, NewcomerSetup
from ookg.simulation.defaults import NewcomerDefaults, can_refine
from ookg.simulation.hiding import HidingSettings
from ookg.simulation.retraining import Retraining
from ookg.simulation.simulated import Simulation, simulate
from ookg.simulation.trust import Calibration, Outcomes, uncertainties
from ookg.storage.checkpoint import Checkpoint
from ookg.system.display import counted
from ookg.types import BoolArray, FloatArray
from ookg.version import __version__

TRAINED = "trained"
# Numbers of given triples, from and to.
GROUPS: tuple[tuple[int, int | None], ...] = ((1, 1), (2, 3), (4, 9), (10, 29), (30, 99), (100, None))
FEWER = (1, 3, 10)  # how many of an entity's triples are given in the experiment with fewer
SHOWN_RELATIONS = 10
# Figures of fewer questions are shown, and nothing is concluded from them.
FEWEST_QUESTIONS, FEWEST_OF_RELATION = 20, 5
GAIN, LOSS = 0.02, 0.05  # of MRR: what is worth saying
TOO_KIND = (
    "quick: the model's own vectors have seen the hidden triples, so newcomers come out better than real ones, refined "
    "ones most, and trained entities are asked what they were trained on; no advice follows from such figures, "
    "training again gives it"
)
NO_NETWORK = (
    "the network is left out: entities that are hidden leave gaps that it would see; answers with it are not measured "
    "here"
)
PASSES = 150  # over the triples, that training again takes at most, where nothing is said


@dataclass(frozen=True)
class AuditSettings:
    """What to audit: which entities are hidden, how to train again without them, whether to refine.

    retraining: None takes the model's own vectors, which have seen the answers: quick, and too kind for advice
    """

    hiding: HidingSettings = field(default_factory=HidingSettings)
    retraining: Retraining | None = field(default_factory=lambda: Retraining(passes=PASSES))
    refine: bool = True
    progress: bool = False


@dataclass(frozen=True)
class QuestionGroup:
    """Some questions and how they were answered: by a trained entity, and by each method for a newcomer.

    figures: by "trained" and the methods
    """

    name: str
    entities: int
    questions: int
    figures: dict[str, RankSummary]

    def mrr(self, name: str) -> float:
        """The mean reciprocal rank of a method, or of "trained"."""
        return self.figures[name].mrr

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        figures = {name: _figures(summary) for name, summary in self.figures.items()}
        return {"name": self.name, "entities": self.entities, "questions": self.questions} | figures


@dataclass(frozen=True)
class Audit:
    """The result of an audit.

    kind: "quick" or "retrained"; best: the method with the highest MRR
    by_triples, by_relation: groups of questions; relations in the order of what newcomers lose, most first
    fewer: the same questions about entities with ten triples or more, if only 1, 3 or 10 are given: by the closed form,
        and as chosen by the number of triples
    calibration: what to expect of a new entity, by method, as measured here
    choice: what is stored with the model, with that calibration in it; `Model.with_choice` takes it
    """

    kind: str
    hidden: int
    best: NewcomerMethod
    overall: QuestionGroup
    by_triples: list[QuestionGroup]
    by_relation: list[QuestionGroup]
    fewer: list[QuestionGroup]
    advice: list[str]
    notes: list[str]
    calibration: dict[NewcomerMethod, Calibration]
    choice: NewcomerChoice

    def relations(self) -> tuple[list[QuestionGroup], list[QuestionGroup]]:
        """The relations in which newcomers lose most, and those in which they lose least; ten each at most."""
        fit = [group for group in self.by_relation if group.questions >= FEWEST_OF_RELATION]
        worst = fit[: min(SHOWN_RELATIONS, (len(fit) + 1) // 2)]
        return worst, fit[max(len(worst), len(fit) - SHOWN_RELATIONS) :][::-1]

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON; hits are percentages."""
        return {
            "kind": self.kind,
            "hidden": self.hidden,
            "best": self.best,
            "overall": self.overall.to_dict(),
            "by_triples": [group.to_dict() for group in self.by_triples],
            "by_relation": [group.to_dict() for group in self.by_relation],
            "fewer_triples": [group.to_dict() for group in self.fewer],
            "advice": self.advice,
            "notes": self.notes,
            "choice": self.choice.to_dict(),
        }

    def __str__(self) -> str:
        head = f"{self.kind} audit, {counted(self.hidden, 'entity', 'entities')} hidden; best: {self.best}"
        figures = [f"{name}: {summary}" for name, summary in self.overall.figures.items()]
        return "\n".join([head, *figures, *self.advice])


def audit(checkpoint: Checkpoint, settings: AuditSettings | None = None) -> Audit:
    """Hide a sample of a model's entities, make each new again from its own triples, and measure."""
    settings = settings or AuditSettings()
    simulation = simulate(checkpoint, settings.hiding, settings.retraining)
    companions = Companion.all_of(checkpoint, settings.hiding, settings.retraining, refine=settings.refine)
    setup = NewcomerSetup.of(checkpoint, refine=settings.refine)
    ranks: dict[str, FloatArray] = {TRAINED: simulation.ranks(simulation.trained_scorer)}
    ranks |= {name: own_ranks for name, own_ranks in setup.ranks(simulation, settings.progress, companions).items()}  # noqa: C416 (keys)
    overall = _group("all", ranks, simulation, np.ones(len(simulation.queries), dtype=np.bool_))
    best = max((name for name in NEWCOMER_METHODS if name in ranks), key=overall.mrr)
    by_triples = _by_triples(ranks, simulation)
    fewer = _fewer_triples(ranks, simulation, setup, companions, settings.hiding.seed)
    by_relation = _by_relation(ranks, simulation, checkpoint)
    by_relation.sort(key=lambda group: group.mrr(best) - group.mrr(TRAINED))
    calibration = calibrations(simulation, ranks, settings.hiding.seed)
    if _leaves_out_refining(simulation, settings):
        for name in ("combined", "chosen"):  # they would be taken for those of fitted vectors
            calibration.pop(name, None)
    made, defaults = provenance(simulation, settings.hiding, settings.retraining), NewcomerDefaults.of(checkpoint)
    if defaults.weighs_network:
        calibration.pop("chosen", None)  # measured without the network, and the stored ways are with it
    stored = defaults.choice if defaults.weighs_network else defaults.choice.without_network()
    how = {"calibration": made | {"methods": list(calibration)}}
    return Audit(
        kind="retrained" if simulation.is_exact else "quick",
        hidden=simulation.hidden.num_hidden,
        best=best,
        overall=overall,
        by_triples=by_triples,
        by_relation=by_relation,
        fewer=fewer,
        advice=_advice(overall, by_triples, fewer, best) if simulation.is_exact else [],
        notes=[*_notes(simulation, settings, stored), *network_notes(checkpoint)],
        calibration=calibration,
        choice=stored.calibrated(calibration, how),
    )


def calibrations(
    simulation: Simulation, ranks: Mapping[str, FloatArray] | Mapping[NewcomerMethod, FloatArray], seed: int
) -> dict[NewcomerMethod, Calibration]:
    """What to expect of each method, fitted on one half of the entities and checked on the other."""
    first, _ = simulation.halves(seed)
    asked, place = np.unique(simulation.query_newcomer, return_inverse=True)
    place, questions = place.ravel(), np.bincount(place.ravel())
    newcomers = simulation.newcomers(Uniform())
    triples, uncertainty = newcomers.support.counts[asked], uncertainties(newcomers, simulation.residuals, asked)
    is_first = np.isin(asked, first.query_newcomer)

    def outcomes(ranks: FloatArray) -> Outcomes:
        hits, reciprocal = (np.bincount(place, values) / questions for values in (ranks <= 10, 1 / ranks))
        return Outcomes(triples, uncertainty, hits, reciprocal)

    return {
        name: Calibration.fit(outcomes(ranks[name]).select(is_first), outcomes(ranks[name]).select(~is_first))
        for name in NEWCOMER_METHODS
        if name in ranks
    }


def provenance(simulation: Simulation, hiding: HidingSettings, retraining: Retraining | None) -> dict[str, Any]:
    """How a simulation was made, in plain values."""
    return {
        "ookg": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "kind": "retrained" if simulation.is_exact else "quick",
        "steps": None if retraining is None else retraining.steps,
        "hidden": simulation.hidden.num_hidden,
        "questions": len(simulation.hidden.questions),
        "hiding": hiding.to_dict(),
    }


def _group(name: str, ranks: Mapping[str, FloatArray], simulation: Simulation, rows: BoolArray) -> QuestionGroup:
    figures = {method: RankSummary.of(own[rows]) for method, own in ranks.items()}
    return QuestionGroup(name, len(np.unique(simulation.queries.entity[rows])), int(rows.sum()), figures)


def _by_triples(ranks: Mapping[str, FloatArray], simulation: Simulation) -> list[QuestionGroup]:
    given, groups = simulation.query_triples, []
    for low, high in GROUPS:
        rows = (given >= low) & (given <= (high or given.max(initial=0)))
        if rows.any():
            groups.append(_group(group_name(low, high), ranks, simulation, rows))
    return groups


def group_name(low: int, high: int | None) -> str:
    """A range of numbers of triples, in words."""
    return f"{low}+" if high is None else f"{low}" if low == high else f"{low}-{high}"


def _by_relation(
    ranks: Mapping[str, FloatArray], simulation: Simulation, checkpoint: Checkpoint
) -> list[QuestionGroup]:
    relation = simulation.queries.relation
    numbers = np.unique(relation)
    labels = checkpoint.relations.select(numbers)
    pairs = zip(numbers, labels, strict=True)
    return [_group(label, ranks, simulation, relation == number) for number, label in pairs]


def _fewer_triples(
    ranks: Mapping[str, FloatArray],
    simulation: Simulation,
    setup: NewcomerSetup,
    companions: Sequence[Companion],
    seed: int,
) -> list[QuestionGroup]:
    """An experiment: the same questions about the same entities, with fewer triples given."""
    rows = simulation.query_triples >= FEWER[-1]
    if not rows.any():
        return []
    large = np.zeros(simulation.hidden.num_hidden, dtype=np.bool_)
    large[simulation.query_newcomer[rows]] = True
    part, groups = simulation.part(large), []
    everything = np.ones(len(part.queries), dtype=np.bool_)
    for most in FEWER:
        limited = part.limited_to(most, seed)
        newcomers = limited.newcomers(Correlation(setup.power))
        figures = {"closed form": limited.ranks(TranslationScorer(newcomers))}
        if setup.ways is not None:
            beside = [replace(one, simulation=one.simulation.part(large).limited_to(most, seed)) for one in companions]
            scorer = Contenders(limited, setup.power).by_ways(setup.ways, setup.refine, beside)
            figures["chosen"] = limited.ranks(scorer)
        groups.append(_group(f"{most}", figures, part, everything))
    figures = {name: ranks[name] for name in ("closed form", "chosen") if name in ranks}
    return [*groups, _group("all", figures, simulation, rows)]


def _notes(simulation: Simulation, settings: AuditSettings, stored: NewcomerChoice) -> list[str]:
    hidden, notes = simulation.hidden, []
    if not simulation.is_exact:
        notes.append(TOO_KIND)
    if hidden.num_hidden < hidden.wanted:
        few = f"{counted(hidden.num_hidden, 'entity', 'entities')} hidden, of {hidden.wanted:,} wanted"
        notes.append(f"{few}: the others have too few triples to be given and asked")
    if settings.refine and not can_refine(simulation.embedding):
        notes.append(
            f"{simulation.embedding.geometry.name} vectors are not refined: they stay as their triples make them"
        )
    if _leaves_out_refining(simulation, settings):
        closed = "nothing is refined, so combined here is the closed form with the graph"
        notes.append(f"{closed}; what to expect of combined is reported of refined vectors, and stays as it is")
    chosen_on = stored.simulation.get("choice", {})
    if isinstance(chosen_on, dict) and chosen_on.get("hiding") == settings.hiding.to_dict():
        notes.append("the stored settings were chosen on these very entities; audit with another `seed`")
    return notes


def network_notes(checkpoint: Checkpoint) -> list[str]:
    """What to know of a simulation by hiding where the model has a network."""
    return [] if checkpoint.network is None else [NO_NETWORK]


def _leaves_out_refining(simulation: Simulation, settings: AuditSettings) -> bool:
    """Whether vectors could be refined but are not."""
    return not settings.refine and can_refine(simulation.embedding)


def _advice(
    overall: QuestionGroup,
    by_triples: list[QuestionGroup],
    fewer: list[QuestionGroup],
    best: NewcomerMethod,
) -> list[str]:
    """Where refining, combining, more triples or retraining would pay: rules over the measured figures."""
    groups = [group for group in by_triples if group.questions >= FEWEST_QUESTIONS]
    if overall.questions < FEWEST_QUESTIONS:
        return [f"{counted(overall.questions, 'question')} are too few to conclude anything; hide a larger `sample`"]
    advice = []
    if "refined" in overall.figures:
        advice.append(_gain_in_words("Refining", overall, groups, "closed form", "refined"))
    alone = [name for name in ("closed form", "refined") if name in overall.figures]
    before = max(alone, key=overall.mrr)
    advice.append(_gain_in_words("Combining vectors with the graph", overall, groups, before, "combined"))
    advice.extend(_more_triples(fewer, groups, best))
    advice.append(_retraining(groups or [overall], best))
    return advice


def _gain_in_words(what: str, overall: QuestionGroup, groups: list[QuestionGroup], before: str, after: str) -> str:
    gain = overall.mrr(after) - overall.mrr(before)
    step = f"MRR {overall.mrr(before):.3f} to {overall.mrr(after):.3f}"
    most = max(groups, key=lambda group: group.mrr(after) - group.mrr(before), default=None)
    peak = 0.0 if most is None else most.mrr(after) - most.mrr(before)
    where = "" if most is None else f"most at {_triples(most)} ({peak:+.3f})"
    if gain > GAIN:
        return f"{what} pays: {step}" + (f", {where}" if where else "")
    verdict = "pays little" if gain > 0 else "does not pay"
    if peak > GAIN:
        return f"{what} {verdict} over all ({step}), {where}"
    return f"{what} does not pay here: {step}"


def _more_triples(fewer: list[QuestionGroup], groups: list[QuestionGroup], best: NewcomerMethod) -> list[str]:
    if fewer and fewer[0].questions >= FEWEST_QUESTIONS:
        figures = [group.mrr("closed form") for group in fewer]
        reached = ", ".join(f"{value:.3f} from {group.name}" for value, group in zip(figures, fewer, strict=True))
        curve = f"entities with {FEWER[-1]} triples or more reach MRR {reached} of them (closed form)"
        if figures[2] - figures[0] > GAIN:
            rest = "" if figures[3] - figures[2] > GAIN else f"; beyond {FEWER[-1]} the closed form gains nothing"
            return [f"More triples pay: {curve}{rest}"]
        return [f"More triples do not pay: {curve}"]
    steps = [
        f"{_triples(after)} {after.mrr(best):.3f} instead of {before.mrr(best):.3f} at {before.name}"
        for before, after in pairwise(groups)
        if after.mrr(best) - before.mrr(best) > GAIN
    ]
    return [f"More triples seem to pay: entities with {', '.join(steps)}"] if steps else []


def _retraining(groups: list[QuestionGroup], best: NewcomerMethod) -> str:
    lost = [
        f"{_triples(group)} (trained {group.mrr(TRAINED):.3f}, newcomer {group.mrr(best):.3f})"
        for group in groups
        if group.mrr(TRAINED) - group.mrr(best) > LOSS
    ]
    if lost:
        return f"Retraining would pay for entities with {', '.join(lost)}"
    return f"Retraining would not pay: newcomers come within {LOSS} of a trained entity's MRR"


def _triples(group: QuestionGroup) -> str:
    return "1 triple" if group.name == "1" else f"{group.name} triples"


def _figures(summary: RankSummary) -> dict[str, Any]:
    return {name: value for name, value in summary.to_dict().items() if name != "queries"}
