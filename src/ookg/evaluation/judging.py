"""Judging claims about new entities by all evidence, with a judge that learned on known entities made new again.

Thresholds that fit known entities are too strict for new ones. So some entities of labelled claims are hidden, and the
judge learns on their claims: with vectors that are trained without them, or with the model's own, which takes seconds.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

from ookg import __version__
from ookg.datasets.encoded import EncodedDataset
from ookg.errors import InputError
from ookg.evaluation.subject import EvaluatedModel
from ookg.evaluation.verdicts import Classification
from ookg.evidence.claims import ClaimEvidence, feature_names
from ookg.graph.statistics import GraphStatistics
from ookg.graph.triples import Triples, TripleSource, as_triples
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import find_newcomers
from ookg.newcomers.reducer import Degree
from ookg.scoring.scorer import TranslationScorer
from ookg.simulation.hidden_claims import labelled_claims
from ookg.simulation.judge import FittedJudge, JudgeSettings, learn_checked_judge, vectors_digest
from ookg.simulation.made_claims import MADE, made_claims
from ookg.simulation.retraining import Retraining, train_again
from ookg.storage.checkpoint import Checkpoint
from ookg.types import IntArray

# With fewer labelled claims, made ones teach the judge too; as many triples at most, each with a false one.
FEW_CLAIMS, MOST_MADE = 300, 2_000


def judge(
    model: EvaluatedModel,
    claims: TripleSource,
    *,
    valid: TripleSource,
    given: TripleSource,
    settings: JudgeSettings | FittedJudge | None = None,
) -> Classification:
    """`Model.classify` by a judge: the one stored with the model, or fitted by `settings`."""
    return model.classify(claims, valid=valid, given=given, judge=settings or True)


def fit_judge(
    model: EvaluatedModel, valid: TripleSource | None = None, settings: JudgeSettings | None = None
) -> FittedJudge:
    """Let a judge learn from labelled claims about known entities, some of which are made new again.

    Where they are few or none, training triples and false ones made from them are claims too. By default both ends are
    made new; it trains once. `Model.with_judge` and `Model.save` keep the judge.
    """
    settings = settings or JudgeSettings()
    labelled = None if valid is None else as_triples(valid, keep_duplicates=True)
    if settings.retrain:
        _check_trained(model.checkpoint)
    elif model.checkpoint.statistics is None:
        raise InputError("this model came without its training triples; classify without the judge")
    if labelled is not None and labelled.truth is None:
        raise InputError(f"{labelled.source}: no label column; the judge learns from triples labelled 1 and 0")
    dataset, made = _dataset(model.checkpoint, labelled)
    return _fitted(model.checkpoint, dataset, settings if settings.new else replace(settings, new="both"), made)


def _check_trained(checkpoint: Checkpoint) -> None:
    if checkpoint.statistics is None or not {"model", "dim", "steps"} <= set(checkpoint.settings):
        problem = "this model was imported, and how it was trained is not known"
        raise InputError(f"{problem}; classify without the judge")


def _dataset(checkpoint: Checkpoint, valid: Triples | None) -> tuple[EncodedDataset, int]:
    """The training triples, and the labelled claims about what they have; and how many of these were made."""
    labels, sizes = (checkpoint.entities, checkpoint.relations), (len(checkpoint.entities), len(checkpoint.relations))
    ids, truth = np.empty((0, 3), dtype=np.int64), np.empty(0, dtype=np.bool_)
    if valid is not None and valid.truth is not None:
        ids, truth = valid.encoded(*labels), valid.truth
    made = 0
    if (ids >= 0).all(axis=1).sum() < FEW_CLAIMS:
        more = made_claims(checkpoint.triples, *labels, MOST_MADE)
        assert more.truth is not None  # they are labelled
        ids, truth, made = np.concatenate([ids, more.ids]), np.concatenate([truth, more.truth]), len(more)
    name = MADE if valid is None else valid.source
    return labelled_claims(name, checkpoint.triples, ids, truth, *sizes), made


def _fitted(checkpoint: Checkpoint, dataset: EncodedDataset, settings: JudgeSettings, made: int) -> FittedJudge:
    """The judge, fitted to claims about entities that were hidden; settings name the end that is new."""
    retraining = Retraining(settings.steps, reference=False, progress=settings.progress)

    def gather(sample: EncodedDataset, known: IntArray) -> ClaimEvidence:
        if settings.retrain:
            label = "training without some entities"
            return _evidence(train_again(checkpoint, sample.train, sample.num_known, retraining, label), sample)
        own = checkpoint.embedding
        rows = own.rows(torch.from_numpy(known).to(own.device))
        return _evidence(Embedding(own.geometry, rows, own.relations), sample)

    learned, worth = learn_checked_judge(dataset, gather, settings)
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
            "claims": len(dataset.valid) - made,
            "source": Path(dataset.name).name,  # where it lies is nobody's business
            "made": made,
            "share": settings.share,
            "seed": settings.seed,
            "retrained": settings.retrain,
            "steps": settings.steps,
        },
        worth=worth,
    )


def _evidence(embedding: Embedding, dataset: EncodedDataset) -> ClaimEvidence:
    graph = GraphStatistics.count(dataset.train, dataset.num_known, dataset.num_trained)
    newcomers = find_newcomers(embedding, graph, dataset.train, dataset.given, Degree())
    room = newcomers.with_room_for(dataset.num_entities - dataset.num_known)
    return ClaimEvidence.gather([TranslationScorer(room)], dataset)
