"""Ordinary link prediction: both ends of test triples of known entities are asked for.

The usual protocol: an answer is ranked among all known entities, without those that training, validation or test
triples have as other right answers.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ookg.errors import IMPORT_TRIPLES, InputError
from ookg.evaluation.ranks import QuestionRanks, RankFigures
from ookg.evaluation.subject import EvaluatedModel
from ookg.evidence.combined import CombinedScorer, RankingWeights
from ookg.graph.fitting import FittingRelations
from ookg.graph.triples import Triples, TripleSource, as_triples
from ookg.newcomers.given import find_given
from ookg.newcomers.reducer import Uniform
from ookg.scoring.link_prediction import link_prediction
from ookg.scoring.queries import both_ends
from ookg.scoring.ranking import TieRule, refuse_unknown_ties
from ookg.scoring.scorer import Scorer, TranslationScorer
from ookg.simulation.choosing import KnownTried, choose_known
from ookg.simulation.likelihood import HiddenAnswers, Likelihood
from ookg.system.display import counted
from ookg.system.progress import Progress
from ookg.types import BoolArray, IntArray

MOST_KNOWN = 20_000  # questions that the likelihood of known entities is fitted to: few of them have a held-out answer


@dataclass(frozen=True, eq=False)
class KnownLinksResult:
    """How the right answers to test triples of known entities rank.

    ranks: question by question; all, by_relation, by_direction, by_triples: their figures with intervals
    left_out: test triples with an entity or a relation that the model does not know, which were not asked
    """

    ties: TieRule
    ranks: QuestionRanks
    all: RankFigures
    by_relation: dict[str, RankFigures]
    by_direction: dict[str, RankFigures]
    by_triples: dict[str, RankFigures]
    left_out: int
    notes: list[str]

    def to_dict(self) -> dict[str, Any]:
        """The result by the names of the command line; hits are percentages."""
        parts = {"relations": self.by_relation, "directions": self.by_direction, "triples": self.by_triples}
        named = {part: {name: one.to_dict() for name, one in rows.items()} for part, rows in parts.items()}
        head = {"task": "link-prediction", "protocol": "known", "ties": self.ties}
        return head | self.all.to_dict() | {"left_out": self.left_out} | named

    def __str__(self) -> str:
        return f"link prediction among known entities: {self.all.summary}"


def evaluate_known(
    model: EvaluatedModel,
    test: TripleSource,
    *,
    valid: TripleSource = (),
    combine: bool | RankingWeights = False,
    chosen: bool = False,
    ties: TieRule = "mean",
    seed: int = 0,
    progress: bool = False,
) -> KnownLinksResult:
    """Rank the right answers to test triples of known entities.

    valid: further true triples, which are no rivals of the right answers, as those of training and test are none
    combine: rank by all evidence, as `predict` does if asked to; by default the vectors alone answer, as is usual
    chosen: answer as `predict` does where nothing is said (`Model.known_ranking`)
    seed: of the intervals
    """
    refuse_unknown_ties(ties)
    if chosen and combine:
        raise InputError("chosen goes by what is stored with the model or by default; leave out combine")
    weights = model.defaults.known_ranking if chosen else model.defaults.ranking_weights(combine, False)
    checkpoint = model.checkpoint
    asked, others = (as_triples(part).beside(checkpoint.entities, checkpoint.relations) for part in (test, valid))
    for part in (asked, others):
        if part.truth is not None and not part.truth.all():
            raise InputError(f"{part.source}: it holds triples labelled false; give true ones")
    ids = asked.encoded(checkpoint.entities, checkpoint.relations)
    is_known: BoolArray = np.all(ids >= 0, axis=1)
    if not len(ids):
        raise InputError(f"{asked.source}: no triples to ask about; give some")
    if not is_known.any():
        problem = f"{asked.source}: no triple of {len(ids):,} has known entities and a known relation"
        raise InputError(f"{problem}; for new entities evaluate a data set (`dataset`)")
    ranked, kept = asked.select(is_known), ids[is_known].astype(np.int64)
    more = others.encoded(checkpoint.entities, checkpoint.relations).astype(np.int64)
    true = np.concatenate([checkpoint.triples, kept, more[(more >= 0).all(axis=1)]])
    scorer, queries = _scorer(model, weights), both_ends(kept)
    with Progress("ranking", len(queries), "queries") if progress else nullcontext() as report:
        counts = link_prediction(scorer, queries, true, scorer.num_known, "paper", report)
    has_graph, degrees = checkpoint.graph is not None, np.diff(checkpoint.index.offsets)
    triples = degrees[queries.entity] if has_graph else np.full(len(queries), -1)
    head, relation, tail = (
        column.take(pa.array(np.arange(2 * len(kept)) // 2)).to_pylist() for column in ranked.columns()
    )
    ranks = QuestionRanks(head, relation, tail, queries.asks_tail, counts.ranks(ties), triples.astype(np.int64))
    notes = [*asked.notes, *others.notes]
    if not has_graph:
        notes.append("the model came without its training triples: what they state counts as a wrong answer")
    if left_out := int((~is_known).sum()):
        left = f"{left_out:,} of {counted(len(ids), 'test triple')} left out"
        notes.append(f"{left}: an entity or the relation is unknown to the model")
    if seen := int(checkpoint.index.has(kept).sum()):
        notes.append(f"the model was trained on {counted(seen, 'test triple')}: the figures are too good")
    parts = ranks.by_relation(seed), ranks.by_direction(seed), ranks.by_triples(seed)
    return KnownLinksResult(ties, ranks, ranks.figures(seed), *parts, left_out, notes)


def held_out_triples(model: EvaluatedModel, triples: Triples) -> IntArray:
    """(triples, 3) true triples of known entities that a model was not trained on; others are refused."""
    checkpoint = model.checkpoint
    if checkpoint.graph is None:
        problem = "this model came without its training triples, by which it is known what fits an entity"
        raise InputError(f"{problem}; {IMPORT_TRIPLES}")
    if triples.truth is not None and not triples.truth.all():
        raise InputError(f"{triples.source}: it holds triples labelled false; give true ones")
    ids = triples.encoded(checkpoint.entities, checkpoint.relations).astype(np.int64)
    ids = ids[np.all(ids >= 0, axis=1)]
    if seen := int(checkpoint.index.has(ids).sum()):
        problem = f"{triples.source}: the model was trained on {seen:,} of its triples"
        raise InputError(f"{problem}; give triples that training did not have")
    return ids


def choose_known_ranking(model: EvaluatedModel, held_out: IntArray, seed: int = 0) -> KnownTried | None:
    """What vectors and evidence count for in answers about known entities; None where too few triples are held out."""
    if seed < 0:
        raise InputError(f"seed {seed}; give 0 or more")
    embeddings = [one.checkpoint.embedding.widened() for one in (model, *model.companions)]
    known = model.checkpoint.triples
    questions, network = both_ends(held_out), model.known_evidence.network
    return choose_known(embeddings, known, questions, embeddings[0].num_relations, network=network, seed=seed)


def fit_known_likelihood(model: EvaluatedModel, held_out: IntArray, source: str, seed: int = 0) -> Likelihood:
    """How likely answers about known entities are right: those that held-out triples state. source: where they are from

    All known entities are asked about, those without a held-out triple too, over all relations that fit them.
    """
    checkpoint = model.checkpoint
    everyone, true = np.arange(len(checkpoint.entities)), np.concatenate([checkpoint.triples, held_out])
    answers = HiddenAnswers(everyone, checkpoint.triples, true, FittingRelations(checkpoint.index))
    outcome = answers.outcomes(_scorer(model, model.defaults.known_ranking), len(everyone), seed, MOST_KNOWN)
    fitted = Likelihood.fit(outcome, 1 + len(model.companions), seed)
    if fitted is None:
        problem = f"{source}: only {int(outcome.right.sum()):,} answers are right"
        raise InputError(f"{problem}, too few to say how likely answers are; hold out more triples")
    return fitted


def _scorer(model: EvaluatedModel, weights: RankingWeights | None) -> Scorer:
    """As `predict` answers questions about known entities, by vectors and those of companions. weights: of evidence"""
    nothing = as_triples(())
    models = (model, *model.companions)
    vectors = [TranslationScorer(find_given(one.checkpoint, nothing, Uniform()).newcomers) for one in models]
    if weights is None and len(vectors) == 1:
        return vectors[0]
    return CombinedScorer(vectors, model.known_evidence, RankingWeights.alone() if weights is None else weights)
