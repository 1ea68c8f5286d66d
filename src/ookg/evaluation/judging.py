"""Judging claims about new entities by all evidence, with a judge that learned on known entities made new again.

Thresholds that fit known entities are too strict for new ones. So some entities of labelled claims are hidden, vectors
are trained without them, and the judge learns on their claims. That takes one more training, and none if a judge
is stored with the model.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal

import numpy as np

from ookg import __version__
from ookg.datasets.encoded import EncodedDataset
from ookg.errors import InputError
from ookg.evaluation.subject import EvaluatedModel
from ookg.evaluation.verdicts import Classification, Verdict, accuracy
from ookg.evidence.claims import ClaimEvidence, JudgedScorer, feature_names
from ookg.graph.statistics import GraphStatistics
from ookg.graph.triples import Triples, TripleSource, as_triples
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import find_newcomers
from ookg.newcomers.given import find_given
from ookg.newcomers.reducer import Degree
from ookg.scoring.scorer import TranslationScorer
from ookg.simulation.hidden_claims import new_end
from ookg.simulation.judge import FittedJudge, JudgeSettings, learn_judge, vectors_digest
from ookg.simulation.retraining import Retraining, train_again
from ookg.storage.checkpoint import Checkpoint
from ookg.system.display import counted
from ookg.types import BoolArray

# A judge, or how to fit one; True: the one that is stored with the model, or one that is fitted by the usual settings.
JudgeChoice = Literal[True] | JudgeSettings | FittedJudge


def judge(
    model: EvaluatedModel,
    claims: TripleSource,
    *,
    valid: TripleSource,
    given: TripleSource,
    settings: JudgeSettings | FittedJudge | None = None,
) -> Classification:
    """`Model.classify` by a judge: the one stored with the model, or fitted by `settings`."""
    return classify_judged(model, claims, valid=valid, given=given, judge=settings or True)


def fit_judge(model: EvaluatedModel, valid: TripleSource, settings: JudgeSettings | None = None) -> FittedJudge:
    """Let a judge learn from labelled claims about known entities, some of which are made new again.

    By default both ends are made new; it trains once. `Model.with_judge` and `Model.save` keep the judge.
    """
    settings, valid = settings or JudgeSettings(), as_triples(valid, keep_duplicates=True)
    if valid.truth is None:
        raise InputError(f"{valid.source}: no label column; the judge learns from triples labelled 1 and 0")
    dataset = _dataset(model.checkpoint, valid)
    return _fitted(model.checkpoint, dataset, settings if settings.new else replace(settings, new="both"))


def classify_judged(
    model: EvaluatedModel, claims: TripleSource, *, valid: TripleSource, given: TripleSource, judge: JudgeChoice
) -> Classification:
    """Like `Model.classify`, but claims about new entities are judged by vectors, paths, habits and links together.

    A judged claim's score is its log-odds, its threshold 0; claims about known entities alone are classified as usual.
    """
    checkpoint = model.checkpoint
    stored = model.defaults.choice.judge if judge is True else judge if isinstance(judge, FittedJudge) else None
    if stored is None:
        _check_trained(checkpoint)
    claims, valid = as_triples(claims, keep_duplicates=True), as_triples(valid, keep_duplicates=True)
    usual = model.classify(claims, valid=valid, given=given)
    seen = find_given(checkpoint, given, Degree())
    ids, num_known = claims.encoded(seen.entities, checkpoint.relations), len(checkpoint.entities)
    scored = ~np.isnan(seen.newcomers.scores(ids))
    about_new = np.flatnonzero(scored & (ids[:, [0, 2]] >= num_known).any(axis=1))
    if not len(about_new):
        return usual
    dataset = replace(
        _dataset(checkpoint, valid),
        num_entities=len(seen.entities),
        aux=seen.triples[seen.triples[:, 1] < len(checkpoint.relations)],
        test=ids[about_new],
    )
    new, notes = new_end(dataset.test, num_known), list(usual.notes)
    if stored is None:
        settings = judge if isinstance(judge, JudgeSettings) else JudgeSettings()
        fitted = _fitted(checkpoint, dataset, settings if settings.new else replace(settings, new=new))
    else:
        fitted = stored
        if fitted.new not in ("both", new):
            notes.append(f"the judge learned on claims with a new {fitted.new}, and not on such; fit one to these")
    evidence = _evidence(checkpoint.embedding, dataset)
    own = fitted.for_model(checkpoint.relations, checkpoint.embedding.relations, feature_names())
    scores = JudgedScorer(evidence, own).scores(dataset.test)
    verdicts = list(usual.claims)
    for row, score in zip(about_new.tolist(), scores.tolist(), strict=True):
        verdicts[row] = replace(verdicts[row], score=score, threshold=0.0, verdict=score >= 0)
    notes.append(f"{counted(len(about_new), 'claim')} about new entities judged by all evidence: scores are log-odds")
    return replace(usual, claims=verdicts, accuracy=_accuracy(verdicts, claims.truth), notes=notes, judge=fitted)


def _check_trained(checkpoint: Checkpoint) -> None:
    if checkpoint.statistics is None or not {"model", "dim", "steps"} <= set(checkpoint.settings):
        problem = "this model was imported, and how it was trained is not known"
        raise InputError(f"{problem}; classify without the judge")


def _dataset(checkpoint: Checkpoint, valid: Triples) -> EncodedDataset:
    """The training triples, and the labelled claims about what they have."""
    ids, nothing = valid.encoded(checkpoint.entities, checkpoint.relations), np.empty((0, 3), dtype=np.int64)
    known = (ids >= 0).all(axis=1)
    return EncodedDataset(
        name=valid.source,
        task="triplet-classification",
        num_known=len(checkpoint.entities),
        num_entities=len(checkpoint.entities),
        num_trained=len(checkpoint.relations),
        num_relations=len(checkpoint.relations),
        train=checkpoint.triples,
        valid=ids[known],
        aux=nothing,
        test=nothing,
        valid_truth=None if valid.truth is None else valid.truth[known],
    )


def _fitted(checkpoint: Checkpoint, dataset: EncodedDataset, settings: JudgeSettings) -> FittedJudge:
    """The judge, fitted to claims about entities that were hidden; settings name the end that is new."""
    _check_trained(checkpoint)
    retraining = Retraining(settings.steps, reference=False, progress=settings.progress)

    def gather(sample: EncodedDataset) -> ClaimEvidence:
        label = "training without some entities"
        return _evidence(train_again(checkpoint, sample.train, sample.num_known, retraining, label), sample)

    learned = learn_judge(dataset, gather, settings)
    assert settings.new is not None
    return FittedJudge.of(
        learned,
        checkpoint.relations,
        features=feature_names(),
        new=settings.new,
        vectors=vectors_digest(checkpoint.embedding.relations),
        learned={
            "ookg": __version__,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "claims": len(dataset.valid),
            "share": settings.share,
            "seed": settings.seed,
            "steps": settings.steps,
        },
    )


def _evidence(embedding: Embedding, dataset: EncodedDataset) -> ClaimEvidence:
    graph = GraphStatistics.count(dataset.train, dataset.num_known, dataset.num_trained)
    newcomers = find_newcomers(embedding, graph, dataset.train, dataset.given, Degree())
    room = newcomers.with_room_for(dataset.num_entities - dataset.num_known)
    return ClaimEvidence.gather([TranslationScorer(room)], dataset)


def _accuracy(verdicts: list[Verdict], truth: BoolArray | None) -> float | None:
    scores = np.array([np.nan if verdict.score is None else verdict.score for verdict in verdicts])
    return accuracy(scores, np.array([verdict.threshold for verdict in verdicts]), truth)
