"""Verdicts on claims: their scores against thresholds that are found once for each version, or by its stored judge."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ookg.datasets.negatives import Corruptor
from ookg.errors import InputError
from ookg.evaluation.verdicts import Verdict
from ookg.extension.claims import Limits
from ookg.extension.extended import ExtendedModel
from ookg.graph.prefixes import with_whole_iris
from ookg.graph.triples import Triples, as_triples, read_triples
from ookg.model.model import Model

# Training triples that thresholds are fitted on, with as many false ones: a tenth, for the rest must stay a graph.
SAMPLE, SAMPLE_SHARE = 5_000, 0.1
NO_JUDGE = "no judge of claims about new entities is stored with the model; `ookg classify` makes and stores one"


@dataclass(frozen=True)
class _Found:
    """What claims are held against, by the model that it is for; note: what that was fitted to."""

    model: Model
    limits: Limits
    note: str


class Claims:
    """Judges claims; valid: a file of labelled triples, or None to make false triples from those of training."""

    def __init__(self, valid: Path | None) -> None:
        self._valid = None if valid is None else read_triples(valid, labels="required", keep_duplicates=True)
        self._finding = threading.Lock()
        self._found: _Found | None = None

    def verdicts(self, extended: ExtendedModel, claims: Sequence[Sequence[str]]) -> dict[str, Any]:
        """The verdicts on claims, for JSON."""
        model = extended.model  # which may be of another version than the next question's
        assert isinstance(model, Model)
        limits, judge = self._limits(model, extended), model.judge
        rows = as_triples([tuple(claim) for claim in claims], keep_duplicates=True)
        rows = with_whole_iris(rows, extended.entities, extended.relations, keep_duplicates=True)
        judged = extended.verdicts(rows, limits.limits, judge)
        hint = [NO_JUDGE] if judge is None and extended.new_end(rows) is not None else []
        return {"verdicts": [_values(one) for one in judged.claims], "notes": [limits.note, *judged.notes, *hint]}

    def _limits(self, model: Model, extended: ExtendedModel) -> _Found:
        found = self._found
        if found is None or found.model is not model:
            with self._finding:
                found = self._found
                if found is None or found.model is not model:
                    found = self._found = self._fitted(model, extended)
        return found

    def _fitted(self, model: Model, extended: ExtendedModel) -> _Found:
        valid, note = self._valid, "" if self._valid is None else f"thresholds fit {self._valid.source}"
        if valid is None:
            valid = _sample(model)
            note = f"thresholds fit {len(valid) // 2:,} training triples and as many false ones made from them"
        return _Found(model, extended.limits(valid, "both" if model.judge is None else None), note)


def _values(verdict: Verdict) -> dict[str, Any]:
    values = vars(verdict).copy()
    return {"is_true": values.pop("verdict")} | values


def _sample(model: Model) -> Triples:
    """Training triples and as many false ones, always the same ones for the same model."""
    triples = np.asarray(model.known_triples)
    if not len(triples):
        remedy = "serve with --valid TRIPLES, a file of labelled ones"
        raise InputError(f"this model came without its training triples, and claims need thresholds; {remedy}")
    random = np.random.default_rng(0)
    size = min(SAMPLE, max(1, round(SAMPLE_SHARE * len(triples))))
    chosen = random.choice(len(triples), size, replace=False)
    positives = triples[np.sort(chosen)].astype(np.int64)
    corruptor = Corruptor(triples.astype(np.int64), len(model.entities), len(model.relations), random)
    negatives, made = corruptor.corrupt(positives, (0, 2), np.arange(len(model.entities)), positives)
    ids = np.concatenate([positives[made], negatives[made]])
    return Triples(ids, model.entities, model.relations, np.arange(len(ids)) < made.sum(), "training triples")
