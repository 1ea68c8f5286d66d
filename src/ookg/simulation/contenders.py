"""The ways to rank answers about new entities that a simulation compares, on equal questions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from ookg.embedding import Embedding
from ookg.evaluation.link_prediction import _other_answers
from ookg.evaluation.scoring import Scorer, TranslationScorer
from ookg.evidence.combined import CLOSED_FORM_WEIGHTS, CombinedScorer, RankingWeights, standardised
from ookg.evidence.fitting import fit_ranking
from ookg.models import Projected
from ookg.newcomers.embedder import Newcomers
from ookg.newcomers.reducer import Correlation
from ookg.newcomers.refinement import RefineSettings, default_refinement
from ookg.progress import Progress, Reporter
from ookg.simulation.choice import Method, NewcomerChoice
from ookg.simulation.simulated import Simulation
from ookg.statistics import FloatArray, IntArray

if TYPE_CHECKING:
    from ookg.checkpoint import Checkpoint

DEFAULT_POWER = Correlation().power
# The weights of the combination where none are stored, by the vectors that are combined.
DEFAULT_RANKING: dict[Method, RankingWeights] = {"closed form": CLOSED_FORM_WEIGHTS, "refined": RankingWeights()}
# How many numbers the features of the questions that weights are fitted to may hold; more questions are sampled.
FIT_NUMBERS = 1 << 26


def can_refine(embedding: Embedding) -> bool:
    """Whether the model's new vectors can be fitted: under TransH and TransR they are least-squares solutions."""
    return not isinstance(embedding.geometry, Projected)


def starting_refinement(checkpoint: Checkpoint) -> RefineSettings:
    """How the model's new vectors are fitted as it stands: as stored with it, or at the scale of its vectors."""
    if checkpoint.newcomers is not None and checkpoint.newcomers.refine is not None:
        return checkpoint.newcomers.refine
    return default_refinement(checkpoint.embedding, checkpoint.settings.get("margin"))


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

    def fitted_weights(self, newcomers: Newcomers, seed: int = 0) -> RankingWeights:
        """The weights under which the right answers to the simulation's questions are likeliest."""
        simulation, size = self.simulation, self.simulation.hidden.num_known
        queries = simulation.queries.select(_some(len(simulation.queries), FIT_NUMBERS // (4 * size), seed))
        device = newcomers.embedding.device
        features = (
            standardised(TranslationScorer(newcomers).answer_scores(queries), size),
            simulation.evidence.links.of_answers(queries, size, device),
            simulation.evidence.habits.of_answers(queries, size, device),
        )
        query, other = _other_answers(queries, simulation.hidden.true, size).pairs(0, len(queries))
        left_out = torch.zeros(len(queries), size, dtype=torch.bool, device=device)
        left_out[torch.from_numpy(query).to(device), torch.from_numpy(other).to(device)] = True
        answers = torch.from_numpy(queries.answer).to(device)
        left_out.scatter_(1, answers[:, None], value=False)
        return RankingWeights(*(round(float(weight), 4) for weight in fit_ranking(features, answers, left_out)))


@dataclass(frozen=True)
class Setup:
    """Settings of all methods.

    power: of the correlation weights; refine: how vectors are fitted, None to leave that out
    ranking: weights of the combination of the graph with fitted vectors, or with the closed form where none are fitted
    """

    power: float
    refine: RefineSettings | None
    ranking: RankingWeights

    @classmethod
    def of(cls, checkpoint: Checkpoint, *, refine: bool = True) -> Setup:
        """What is stored with a model, and the defaults where nothing is; vectors that cannot be refined are not."""
        stored = checkpoint.newcomers or NewcomerChoice()
        is_fitted = refine and can_refine(checkpoint.embedding)
        kind: Method = "refined" if is_fitted else "closed form"
        return cls(
            DEFAULT_POWER if stored.power is None else stored.power,
            starting_refinement(checkpoint) if is_fitted else None,
            stored.ranking.get(kind, DEFAULT_RANKING[kind]),
        )

    def ranks(self, simulation: Simulation, progress: bool = False) -> dict[Method, FloatArray]:
        """The ranks of the right answers to the simulation's questions, by each method."""
        contenders = Contenders(simulation, self.power)
        newcomers = contenders.closed
        found: dict[Method, FloatArray] = {"closed form": simulation.ranks(TranslationScorer(newcomers))}
        if self.refine is not None:
            with refining(self.refine, progress) as report:
                newcomers = contenders.refined(self.refine, report)
            found["refined"] = simulation.ranks(TranslationScorer(newcomers))
        found["combined"] = simulation.ranks(contenders.combined(newcomers, self.ranking))
        return found


@contextmanager
def refining(settings: RefineSettings, progress: bool) -> Iterator[Reporter | None]:
    """The progress of a refinement, if it is wanted."""
    if not progress:
        yield None
        return
    with Progress("refining", settings.steps) as report:
        yield report


def _some(size: int, most: int, seed: int) -> IntArray:
    """All of so many positions, or a random choice of as many as may be."""
    if size <= max(1, most):
        return np.arange(size)
    return np.sort(np.random.default_rng(seed).permutation(size)[: max(1, most)])
