"""Judging claims about new entities by all evidence, with a judge that learned on known entities made new again."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ookg.datasets.encoded import EncodedDataset
from ookg.errors import InputError
from ookg.evidence.claims import ClaimEvidence, ClaimJudge, JudgedScorer, simulated
from ookg.graph.statistics import GraphStatistics
from ookg.graph.triples import as_triples
from ookg.model.model import Classification, Model, TripleSource, Verdict, accuracy
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import find_newcomers
from ookg.newcomers.reducer import Degree
from ookg.scoring.scorer import TranslationScorer
from ookg.simulation.retraining import Retraining, train_again
from ookg.system.display import counted


@dataclass(frozen=True)
class JudgeSettings:
    """How the judge learns.

    share: of the labelled claims, those whose entities are made new again; seed: of that choice
    steps: training steps without these entities, None for as many as the model had
    """

    share: float = 0.5
    seed: int = 0
    steps: int | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InputError(f"share {self.share}; it must be above 0 and at most 1")
        if self.seed < 0:
            raise InputError(f"seed {self.seed}; it must not be negative")


def judge(
    model: Model,
    claims: TripleSource,
    *,
    valid: TripleSource,
    given: TripleSource,
    settings: JudgeSettings | None = None,
) -> Classification:
    """Like `Model.classify`, but claims about new entities are judged by vectors, paths, habits and links together.

    Thresholds that fit known entities are too strict for new ones. So some entities of the labelled `valid` claims are
    hidden, vectors are trained without them, and the judge learns on their claims. It takes one more training. A
    judged claim's score is its log-odds, its threshold 0; claims about known entities alone are classified as usual.
    """
    settings, checkpoint = settings or JudgeSettings(), model.checkpoint
    if checkpoint.statistics is None or not {"model", "dim", "steps"} <= set(checkpoint.settings):
        problem = "this model was imported, and how it was trained is not known"
        raise InputError(f"{problem}; classify without the judge")
    claims, valid = as_triples(claims, keep_duplicates=True), as_triples(valid, keep_duplicates=True)
    usual = model.classify(claims, valid=valid, given=given)
    found = model.given(given, Degree())
    ids, num_known = claims.encoded(found.entities, model.relations), len(model.entities)
    scored = ~np.isnan(found.newcomers.scores(ids))
    about_new = np.flatnonzero(scored & (ids[:, [0, 2]] >= num_known).any(axis=1))
    if not len(about_new):
        return usual
    valid_ids = valid.encoded(model.entities, model.relations)
    known = (valid_ids >= 0).all(axis=1)
    assert valid.truth is not None  # `classify` has refused claims without labels
    dataset = EncodedDataset(
        name=valid.source,
        task="triplet-classification",
        num_known=num_known,
        num_entities=len(found.entities),
        num_trained=len(model.relations),
        num_relations=len(model.relations),
        train=checkpoint.triples,
        valid=valid_ids[known],
        aux=found.triples[found.triples[:, 1] < len(model.relations)],
        test=ids[about_new],
        valid_truth=valid.truth[known],
    )
    scores = _learned(model, dataset, settings).scores(dataset.test)
    verdicts = list(usual.claims)
    for row, score in zip(about_new.tolist(), scores.tolist(), strict=True):
        verdicts[row] = replace(verdicts[row], score=score, threshold=0.0, verdict=score >= 0)
    note = f"{counted(len(about_new), 'claim')} about new entities judged by all evidence: scores are log-odds"
    right = _accuracy(verdicts, claims.truth)
    return replace(usual, claims=verdicts, accuracy=right, notes=[*usual.notes, note])


def _learned(model: Model, dataset: EncodedDataset, settings: JudgeSettings) -> JudgedScorer:
    """The judge, fitted to claims about entities that were hidden, on the model's own vectors."""
    sample = simulated(dataset, settings.seed, settings.share)
    assert sample.test_truth is not None  # `simulated` labels its claims
    ClaimJudge.check(sample.test_truth)  # before the training, not after it
    retraining = Retraining(settings.steps, reference=False, progress=settings.progress)
    label = "training without some entities"
    embedding = train_again(model.checkpoint, sample.train, sample.num_known, retraining, label)
    features = _evidence(embedding, sample).features(sample.test)
    fitted = ClaimJudge.fit(features, sample.test[:, 1], sample.test_truth, sample.num_trained)
    return JudgedScorer(_evidence(model.checkpoint.embedding, dataset), fitted)


def _evidence(embedding: Embedding, dataset: EncodedDataset) -> ClaimEvidence:
    graph = GraphStatistics.count(dataset.train, dataset.num_known, dataset.num_trained)
    newcomers = find_newcomers(embedding, graph, dataset.train, dataset.given, Degree())
    room = newcomers.with_room_for(dataset.num_entities - dataset.num_known)
    return ClaimEvidence.gather([TranslationScorer(room)], dataset)


def _accuracy(verdicts: list[Verdict], truth: np.ndarray[tuple[int], np.dtype[np.bool_]] | None) -> float | None:
    scores = np.array([np.nan if verdict.score is None else verdict.score for verdict in verdicts])
    return accuracy(scores, np.array([verdict.threshold for verdict in verdicts]), truth)
