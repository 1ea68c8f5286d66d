"""The ways to rank answers about new entities that a simulation compares, on equal questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ookg.evidence.combined import CombinedScorer, GraphEvidence, RankingWeights, standardised
from ookg.evidence.fitting import fit_ranking
from ookg.evidence.registry import VECTOR
from ookg.graph.fitting import FittingRelations
from ookg.graph.index import GraphIndex
from ookg.newcomers.embedder import Newcomers
from ookg.newcomers.reducer import Correlation, Precision
from ookg.newcomers.refinement import RefineSettings
from ookg.scoring.link_prediction import other_answers
from ookg.scoring.queries import Queries
from ookg.scoring.scorer import SCORES_AT_ONCE, Scorer, TranslationScorer
from ookg.simulation.choice import AnswerMethod, NewcomerMethod
from ookg.simulation.defaults import DEFAULT_POWER, NewcomerDefaults, can_refine
from ookg.simulation.hiding import HidingSettings
from ookg.simulation.likelihood import ANSWERS, AnswerOutcomes, HiddenAnswers, Likelihood
from ookg.simulation.retraining import Retraining
from ookg.simulation.simulated import Simulation, simulate
from ookg.simulation.ways import Ways, WaysScorer
from ookg.system.progress import Progress, Reporter
from ookg.types import FloatArray, IntArray

if TYPE_CHECKING:
    from ookg.storage.checkpoint import Checkpoint

# What weights of the combination are fitted to: this many numbers may be kept: for each question those of the right
# answer and its rivals. Where all known entities are too many rivals for that, a sample of them is taken:
# under a softmax the weights that make the right answers likeliest among all do so among any equally likely sample.
FIT_NUMBERS, FIT_QUESTIONS = 1 << 26, 1024
FIT = 18  # the purpose of the random stream that samples questions and rivals


@dataclass(frozen=True)
class Companion:
    """A model that answers together with another: the same hidden entities with its vectors.

    refine: how its vectors are fitted, None where they cannot be
    """

    simulation: Simulation
    refine: RefineSettings | None

    @classmethod
    def all_of(
        cls, checkpoint: Checkpoint, hiding: HidingSettings, retraining: Retraining | None, *, refine: bool = True
    ) -> list[Companion]:
        """Those of a model, with the same entities hidden: which ones hangs on the triples and the seed alone."""
        alike = None if retraining is None else replace(retraining, reference=False)
        companions = []
        for one in checkpoint.companions.values():
            companion = replace(one, graph=checkpoint.graph)
            fitted = NewcomerSetup.of(companion, refine=refine).refine
            companions.append(cls(simulate(companion, hiding, alike), fitted))
        return companions


@dataclass(frozen=True)
class Contenders:
    """The scorers of one simulation."""

    simulation: Simulation
    power: float = DEFAULT_POWER

    @cached_property
    def closed(self) -> Newcomers:
        """Vectors of the closed form, correlation weights."""
        return self.simulation.newcomers(Correlation(self.power))

    def refined(self, settings: RefineSettings, report: Reporter | None = None) -> Newcomers:
        """Vectors fitted to the given triples."""
        return self.closed.refined_by(settings, report)

    def combined(self, newcomers: Newcomers, weights: RankingWeights) -> Scorer:
        """Vectors and the evidence of the graph."""
        return CombinedScorer([TranslationScorer(newcomers)], self.simulation.evidence, weights)

    def by_ways(self, ways: Ways, refine: RefineSettings | None, companions: Sequence[Companion] = ()) -> Scorer:
        """What `predict` does where nothing is said: by each newcomer's number of triples."""
        scorers = []
        for one in (Companion(self.simulation, refine), *companions):
            newcomers = one.simulation.newcomers(Precision(residuals=one.simulation.residuals))
            if ways.refine_from is not None and one.refine is not None:
                newcomers = newcomers.refined_by(one.refine, least=ways.refine_from)
            scorers.append(TranslationScorer(newcomers))
        return WaysScorer(scorers, self.simulation.evidence, ways, scorers[0].newcomers.counts)

    def fitted_weights(
        self, newcomers: Newcomers, queries: Queries, seed: int = 0, now: RankingWeights | None = None
    ) -> RankingWeights:
        """The weights under which the right answers to some of the simulation's questions are likeliest; 0 or more.

        Only the sources that `now` has get a weight: those with a default, and any that was chosen by hand.

        Every feature is computed over all known entities; kept are those of the right answer and of its rivals, which
        are the same random entities for every question. Other right answers are no rivals.
        """
        size, device = self.simulation.hidden.num_known, newcomers.embedding.device
        names = tuple(now or RankingWeights())
        room = FIT_NUMBERS // (1 + len(names))  # what is left out takes as much as a feature
        random = np.random.default_rng([FIT, seed])
        queries = queries.select(_some(len(queries), max(FIT_QUESTIONS, room // size), random))
        rivals = _some(size, room // max(1, len(queries)), random)
        features = self._features(newcomers, queries, rivals, names)
        left_out = self._right_answers(queries, rivals).to(device)
        answers = torch.zeros(len(queries), dtype=torch.int64, device=device)  # the first column
        fitted = fit_ranking(features.unbind(), answers, left_out)
        rounded = [max(0.0, round(float(weight), 4)) for weight in fitted]
        return RankingWeights(**dict(zip(names, rounded, strict=True)))

    def _features(self, newcomers: Newcomers, queries: Queries, rivals: IntArray, names: tuple[str, ...]) -> Tensor:
        """(names, queries, 1 + rivals) the feature of each weight, for the right answers, then for the rivals."""
        size, device, evidence = self.simulation.hidden.num_known, newcomers.embedding.device, self.simulation.evidence
        scorer, columns = TranslationScorer(newcomers), torch.from_numpy(rivals).to(device)
        features = torch.empty(len(names), len(queries), 1 + len(rivals), device=device)
        at_once = max(1, SCORES_AT_ONCE // size)
        for start in range(0, len(queries), at_once):
            rows = slice(start, start + at_once)
            part = queries.select(rows)
            answers = torch.from_numpy(part.answer).to(device)[:, None]
            for feature, name in enumerate(names):  # one after the other, to hold one at a time
                values = _over_all(name, scorer, evidence, part, device)
                features[feature, rows, 0] = values.gather(1, answers)[:, 0]
                features[feature, rows, 1:] = values[:, columns]
        return features

    def _right_answers(self, queries: Queries, rivals: IntArray) -> Tensor:
        """(queries, 1 + rivals) which rivals are right answers too, the asked one or another; rivals are sorted."""
        size = self.simulation.hidden.num_known
        query, answer = other_answers(queries, self.simulation.hidden.true, size).pairs(0, len(queries))
        place = np.minimum(np.searchsorted(rivals, answer), len(rivals) - 1)
        is_rival = rivals[place] == answer
        is_right = torch.zeros(len(queries), 1 + len(rivals), dtype=torch.bool)
        is_right[torch.from_numpy(query[is_rival]), torch.from_numpy(1 + place[is_rival])] = True
        return is_right


@dataclass(frozen=True)
class NewcomerSetup:
    """Settings of all methods.

    power: of the correlation weights; refine: how vectors are fitted, None to leave that out
    ranking: weights of the combination of the graph with fitted vectors, or with the closed form where none are fitted
    ways: how `predict` answers where nothing is said, but for the network, which no simulation by hiding has
    """

    power: float
    refine: RefineSettings | None
    ranking: RankingWeights
    ways: Ways | None = None

    @classmethod
    def of(cls, checkpoint: Checkpoint, *, refine: bool = True) -> NewcomerSetup:
        """What is stored with a model, and the defaults where nothing is; vectors that cannot be refined are not."""
        defaults = NewcomerDefaults.of(checkpoint)
        is_fitted = refine and can_refine(checkpoint.embedding)
        kind: NewcomerMethod = "refined" if is_fitted else "closed form"
        ways = None if defaults.ways is None else defaults.ways.without_learned()
        if ways is not None and not is_fitted:
            ways = ways.without_refining()
        return cls(defaults.power, defaults.refine if is_fitted else None, defaults.ranking[kind], ways)

    def ranks(
        self, simulation: Simulation, progress: bool = False, companions: Sequence[Companion] = ()
    ) -> dict[NewcomerMethod, FloatArray]:
        """The ranks of the right answers to the simulation's questions, by each method; by "chosen" with companions."""
        scorers = self.scorers(simulation, progress, companions)
        return {name: simulation.ranks(scorer) for name, scorer in scorers.items()}

    def scorers(
        self, simulation: Simulation, progress: bool = False, companions: Sequence[Companion] = ()
    ) -> dict[NewcomerMethod, Scorer]:
        """What scores the answers by each method; by "chosen" with companions."""
        contenders = Contenders(simulation, self.power)
        newcomers = contenders.closed
        scorers: dict[NewcomerMethod, Scorer] = {"closed form": TranslationScorer(newcomers)}
        if self.refine is not None:
            with refining(self.refine, progress) as report:
                newcomers = contenders.refined(self.refine, report)
            scorers["refined"] = TranslationScorer(newcomers)
        scorers["combined"] = contenders.combined(newcomers, self.ranking)
        if self.ways is not None:
            scorers["chosen"] = contenders.by_ways(self.ways, self.refine, companions)
        return scorers

    def likelihoods(
        self, simulation: Simulation, triples: Sequence[int], seed: int, companions: Sequence[Companion] = ()
    ) -> dict[AnswerMethod, Likelihood]:
        """How likely answers are right by each method, over newcomers with each of some numbers of given triples."""
        hidden = simulation.hidden
        relations = FittingRelations(GraphIndex.of(hidden.known, hidden.num_known, hidden.num_relations))
        outcomes: dict[NewcomerMethod, list[AnswerOutcomes]] = {}
        for number in sorted(set(triples)):
            few = simulation.with_few(number, seed, ANSWERS)
            asked = np.unique(few.queries.entity)
            others = [replace(one, simulation=one.simulation.with_few(number, seed, ANSWERS)) for one in companions]
            answers = HiddenAnswers(asked, np.concatenate([hidden.known, few.given]), hidden.true, relations)
            for name, scorer in self.scorers(few, companions=others).items() if len(asked) else ():
                outcomes.setdefault(name, []).append(answers.outcomes(scorer, len(hidden.entities), seed))
        fitted = {
            name: Likelihood.fit(AnswerOutcomes.joined(parts), 1 + len(companions) * (name == "chosen"), seed)
            for name, parts in outcomes.items()
        }
        return {name: one for name, one in fitted.items() if one is not None}  # with too few right ones, none


@contextmanager
def refining(settings: RefineSettings, progress: bool) -> Iterator[Reporter | None]:
    """The progress of a refinement, if it is wanted."""
    if not progress:
        yield None
        return
    with Progress("refining", settings.steps) as report:
        yield report


def _over_all(name: str, scorer: Scorer, evidence: GraphEvidence, queries: Queries, device: torch.device) -> Tensor:
    """(queries, known entities) a feature of the combination."""
    if name == VECTOR:
        return standardised(scorer.answer_scores(queries), scorer.num_known)
    return evidence[name].of_answers(queries, scorer.num_known, device)


def _some(size: int, most: int, random: np.random.Generator) -> IntArray:
    """All of `size` positions, or a random choice of `most` of them, sorted."""
    if size <= max(1, most):
        return np.arange(size)
    return np.sort(random.permutation(size)[: max(1, most)])
