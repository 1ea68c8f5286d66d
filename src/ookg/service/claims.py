"""Verdicts on claims: their scores against thresholds that are found once for each version."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ookg.datasets.negatives import Corruptor
from ookg.errors import InputError
from ookg.extension.extended import ExtendedModel
from ookg.graph.prefixes import with_whole_iris
from ookg.graph.triples import as_triples, read_triples
from ookg.model.model import Model
from ookg.scoring.thresholds import Thresholds
from ookg.system.display import counted
from ookg.types import BoolArray, IntArray

SAMPLE = 20_000  # training triples that thresholds are fitted on, with as many false ones


class Claims:
    """Judges claims; valid: a file of labelled triples, or None to make false triples from those of training."""

    def __init__(self, valid: Path | None) -> None:
        self._valid = None if valid is None else read_triples(valid, labels="required", keep_duplicates=True)
        self._finding = threading.Lock()
        self._found: tuple[Model, Thresholds] | None = None
        self._note = f"thresholds fit {valid}" if valid is not None else ""

    def verdicts(self, extended: ExtendedModel, claims: Sequence[Sequence[str]]) -> dict[str, Any]:
        """The verdicts on claims, for JSON."""
        model = extended.model  # which may be of another version than the next question's
        assert isinstance(model, Model)
        thresholds = self._thresholds(model, extended)
        rows = as_triples([tuple(claim) for claim in claims], keep_duplicates=True)
        rows = with_whole_iris(rows, extended.entities, extended.relations, keep_duplicates=True)
        ids = rows.encoded(extended.entities, extended.relations)
        scores, limits = extended.scores(ids), thresholds.of(np.where(ids[:, 1] < len(model.relations), ids[:, 1], -1))
        verdicts = [
            {
                "head": head,
                "relation": relation,
                "tail": tail,
                "is_true": None if math.isnan(score) else score >= limit,
                "score": None if math.isnan(score) else score,
                "threshold": limit,
            }
            for (head, relation, tail), score, limit in zip(rows, scores.tolist(), limits.tolist(), strict=True)
        ]
        notes = [self._note]
        if np.isnan(scores).any():
            without = f"{int(np.isnan(scores).sum()):,} of {counted(len(scores), 'claim')} without a verdict"
            notes.append(f"{without}: an entity or the relation has no vector")
        return {"verdicts": verdicts, "notes": notes}

    def _thresholds(self, model: Model, extended: ExtendedModel) -> Thresholds:
        found = self._found
        if found is None or found[0] is not model:
            with self._finding:
                found = self._found
                if found is None or found[0] is not model:
                    found = self._found = (model, self._fitted(model, extended))
        return found[1]

    def _fitted(self, model: Model, extended: ExtendedModel) -> Thresholds:
        if self._valid is not None:
            ids, truth = self._valid.encoded(model.entities, model.relations), self._valid.truth
            assert truth is not None  # the file was read as a labelled one
        else:
            ids, truth = _sample(model)
            self._note = f"thresholds fit {len(ids) // 2:,} training triples and as many false ones made from them"
        scores = extended.scores(ids)
        scored = ~np.isnan(scores)
        if not scored.any():
            raise InputError(
                "no labelled triple has vectors for its ends and relation; serve with other --valid triples"
            )
        return Thresholds.fit(scores[scored], ids[scored, 1], truth[scored], len(model.relations))


def _sample(model: Model) -> tuple[IntArray, BoolArray]:
    """Training triples and as many false ones, always the same ones for the same model."""
    triples = np.asarray(model.checkpoint.triples)
    if not len(triples):
        remedy = "serve with --valid TRIPLES, a file of labelled ones"
        raise InputError(f"this model came without its training triples, and claims need thresholds; {remedy}")
    random = np.random.default_rng(0)
    chosen = random.choice(len(triples), min(SAMPLE, len(triples)), replace=False)
    positives = triples[np.sort(chosen)].astype(np.int64)
    corruptor = Corruptor(triples.astype(np.int64), len(model.entities), len(model.relations), random)
    negatives, made = corruptor.corrupt(positives, (0, 2), np.arange(len(model.entities)), positives)
    ids = np.concatenate([positives[made], negatives[made]])
    return ids, np.arange(len(ids)) < made.sum()
