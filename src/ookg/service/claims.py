"""Verdicts on claims, as `ookg classify` gives them: by what is stored, or learned once for a version."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ookg.errors import InputError
from ookg.evaluation.verdicts import Verdict
from ookg.extension.claims import Limits
from ookg.extension.extended import ExtendedModel
from ookg.graph.prefixes import with_whole_iris
from ookg.graph.triples import Triples, as_triples, read_triples
from ookg.model.model import Model
from ookg.simulation.claim_thresholds import thresholds_in_words
from ookg.simulation.judge import FittedJudge

# A judge that is not stored learns while a request waits: for seconds with so many entities, for longer with more.
MOST_ENTITIES = 100_000
NO_JUDGE = "no judge of claims about new entities is stored with the model; `ookg classify` makes and stores one"


@dataclass(frozen=True)
class _Standards:
    """What claims are judged by, and the model that it is for."""

    model: Model
    limits: Limits
    judge: FittedJudge | None


class Claims:
    """Judges claims; valid: a file of labelled triples, or None: by what is stored, or what training triples teach."""

    def __init__(self, valid: Path | None) -> None:
        self._valid = None if valid is None else read_triples(valid, labels="required", keep_duplicates=True)
        self._finding = threading.Lock()
        self._standards: _Standards | None = None

    def verdicts(self, extended: ExtendedModel, claims: Sequence[Sequence[str]]) -> dict[str, Any]:
        """The verdicts on claims, for JSON."""
        model = extended.model  # which may be of another version than the next question's
        assert isinstance(model, Model)
        standards = self._for(model, extended)
        rows = as_triples([tuple(claim) for claim in claims], keep_duplicates=True)
        rows = with_whole_iris(rows, extended.entities, extended.relations, keep_duplicates=True)
        judged = extended.verdicts(rows, standards.limits, standards.judge)
        hint = [NO_JUDGE] if standards.judge is None and extended.new_end(rows) is not None else []
        notes = [thresholds_in_words(standards.limits.fitted), *judged.notes, *hint]
        return {"verdicts": [_values(one) for one in judged.claims], "notes": notes}

    def _for(self, model: Model, extended: ExtendedModel) -> _Standards:
        standards = self._standards
        if standards is None or standards.model is not model:
            with self._finding:
                standards = self._standards
                if standards is None or standards.model is not model:
                    judge = _judge(model, self._valid)
                    limits = extended.limits(self._valid, "both" if judge is None else None)
                    standards = self._standards = _Standards(model, limits, judge)
        return standards


def _judge(model: Model, valid: Triples | None) -> FittedJudge | None:
    stored = model.judge
    if len(model.entities) > MOST_ENTITIES and (valid is None or stored is None or stored.learned_from_labels):
        return stored
    try:
        return model.judge_for(valid)
    except InputError:
        return stored


def _values(verdict: Verdict) -> dict[str, Any]:
    values = vars(verdict).copy()
    return {"is_true": values.pop("verdict")} | values
