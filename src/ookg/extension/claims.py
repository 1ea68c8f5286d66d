"""Judging claims from a state: scores of triples, and verdicts by thresholds."""

from __future__ import annotations

import numpy as np
import torch

from ookg.errors import InputError
from ookg.evaluation.verdicts import Classification, Verdict, accuracy
from ookg.extension.reasons import trust_in
from ookg.extension.state import State
from ookg.extension.vectors import entity_vectors, relation_vector
from ookg.graph.triples import Triples
from ookg.scoring.thresholds import Thresholds
from ookg.system.display import counted
from ookg.types import FloatArray, IntArray

# How many numbers the vectors of claims may hold at once.
SCORED_NUMBERS = 1 << 24


def scores_of(state: State, triples: IntArray) -> FloatArray:
    """-D(h, r, t) of triples of ids, (triples,); NaN where an end or the relation has no vector."""
    geometry = state.model.embedding.geometry
    scores = np.full(len(triples), np.nan)
    for relation in np.unique(triples[:, 1]).tolist():
        if not state.has_relation(relation):
            continue
        rows = np.flatnonzero((triples[:, 1] == relation) & (triples[:, [0, 2]] >= 0).all(axis=1))
        ends, place = np.unique(triples[rows][:, [0, 2]], return_inverse=True)
        vectors = entity_vectors(state, ends, relation)
        place = place.reshape(-1, 2)
        row = relation_vector(state, relation)
        size = max(1, SCORED_NUMBERS // max(1, vectors.shape[1]))
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            heads, tails = (vectors[torch.from_numpy(place[part, side].copy())] for side in (0, 1))
            distance = geometry.distance(heads, row.expand(len(heads), -1), tails)
            scores[rows[part]] = -distance.double().cpu().numpy()
    return scores


def classified(state: State, claims: Triples, valid: Triples) -> Classification:
    """A verdict for each claim that can be scored, by the thresholds that labelled triples give.

    Notes are about the claims alone.
    """
    thresholds = _thresholds(state, valid)
    ids = claims.encoded(state.entities, state.relations)
    scores, limits = scores_of(state, ids), thresholds.of(ids[:, 1])
    scored = ~np.isnan(scores)
    verdicts = [
        Verdict(*triple, score if known else None, limit, score >= limit if known else None)
        for triple, score, limit, known in zip(claims, scores.tolist(), limits.tolist(), scored.tolist(), strict=True)
    ]
    notes = [*claims.notes, *valid.notes]
    if not scored.all():
        missing = f"{int((~scored).sum()):,} of {counted(len(scored), 'claim')} without a verdict"
        notes.append(f"{missing}: an entity or the relation has no vector")
    trusts = {
        state.entities.label(entity): trust
        for entity in np.unique(ids[:, [0, 2]]).tolist()
        if state.is_represented(entity) and (trust := trust_in(state, entity, combine=False)) is not None
    }
    return Classification(verdicts, accuracy(scores, limits, claims.truth), notes, trusts)


def _thresholds(state: State, valid: Triples) -> Thresholds:
    """The thresholds that best separate the true from the false triples of `valid`."""
    if valid.truth is None:
        raise InputError(f"{valid.source}: no label column; thresholds need triples labelled 1 and 0")
    ids = valid.encoded(state.entities, state.relations)
    scores = scores_of(state, ids)
    scored = ~np.isnan(scores)
    if not scored.any():
        remedy = "give triples of known entities and relations"
        raise InputError(f"{valid.source}: none of its {len(ids)} triples can be scored; {remedy}")
    return Thresholds.fit(scores[scored], ids[scored, 1], valid.truth[scored], len(state.relations))
