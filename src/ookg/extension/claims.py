"""Judging claims from a state: scores of triples, and verdicts by thresholds or by a judge."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from ookg.errors import InputError
from ookg.evaluation.verdicts import Classification, Verdict, accuracy
from ookg.evidence.claims import JudgedScorer, feature_names
from ookg.evidence.strangers import Strangers
from ookg.extension.state import State
from ookg.extension.vectors import entity_vectors, relation_vector
from ookg.graph.names import MOST_LOOKED_UP, notes_on_names
from ookg.graph.triples import Triples
from ookg.newcomers.reducer import Degree
from ookg.scoring.thresholds import Thresholds, Worth, checked_thresholds
from ookg.simulation.claim_thresholds import FittedThresholds
from ookg.simulation.hidden_claims import labelled_claims, new_end
from ookg.simulation.hiding import NewEnd
from ookg.simulation.judge import FittedJudge, judge_in_words
from ookg.simulation.same_kind import Kind, thresholds_of_newcomers
from ookg.simulation.trust import Trust
from ookg.system.display import counted
from ookg.types import BoolArray, FloatArray, IntArray

# How many numbers the vectors of claims may hold at once.
SCORED_NUMBERS = 1 << 24
# No judge has learned from claims about strangers: it may be so sure of one, in log-odds, and no surer.
MOST_FOR_STRANGERS = 2.0
LEAST_SLOPE = 1e-3  # a judge whose log-odds say nothing at all has a slope of 0


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


@dataclass(frozen=True)
class Limits:
    """What the scores of claims are held against, and what that is worth.

    known: for claims about known entities; fitted: the same, to be stored with the model
    new: for those about newcomers, found on newcomers of the same kind; vectors: for those about entities that came
        with vectors alone, found on newcomers by the closed form. None where there are too few labelled claims for
        that, and then `known` serves
    """

    known: tuple[Thresholds, Worth | None]
    fitted: FittedThresholds
    new: tuple[Thresholds, Worth | None] | None = None
    vectors: tuple[Thresholds, Worth | None] | None = None


def limits_of(state: State, valid: Triples | None, new: NewEnd | None, *, vectors: bool = False) -> Limits:
    """The limits that labelled triples give, without any those that are stored, or those of triples of training.

    new: the end of claims that is new, None if none is; vectors: whether some are about entities with vectors alone
    """
    model = state.model
    stored = model.claim_thresholds if valid is None else None
    thresholds = None if stored is None else stored.for_model(model.relations, model.embedding.relations)
    if stored is not None and thresholds is not None and new is None and not vectors:
        return Limits((thresholds, stored.worth), stored)
    valid = valid if valid is not None else model.made_claims
    if valid.truth is None:
        raise InputError(f"{valid.source}: no label column; thresholds need triples labelled 1 and 0")
    ids = valid.encoded(state.entities, state.relations)
    if stored is not None and thresholds is not None:
        limits = Limits((thresholds, stored.worth), stored)
    else:
        limits = _limits_of_known(state, valid, ids)
    about_known = (ids[:, [0, 2]] < state.num_known).all(axis=1) & (ids[:, 1] < state.num_trained)
    sizes = state.num_known, state.num_trained
    labelled = labelled_claims(valid.source, model.known_triples, ids[about_known], valid.truth[about_known], *sizes)
    if new is not None:
        preparation = state.preparation
        ways = preparation.ways
        least = (ways.refine_from if ways is not None else None) or 1
        kind = Kind(preparation.weights, preparation.limit, preparation.refine, least)
        limits = replace(limits, new=thresholds_of_newcomers(model.embedding, labelled, kind, new))
    if vectors:
        found = thresholds_of_newcomers(model.embedding, labelled, Kind(Degree()), "both")
        limits = replace(limits, vectors=found)
    return limits


def _limits_of_known(state: State, valid: Triples, ids: IntArray) -> Limits:
    """Those of claims about known entities, fitted to labelled triples; ids: of these"""
    assert valid.truth is not None
    scores = scores_of(state, ids)
    scored = ~np.isnan(scores)
    about_known = (ids[:, [0, 2]] < state.num_known).all(axis=1)
    if (scored & about_known).any():  # without any, those about newcomers have to do
        scored &= about_known
    if not scored.any():
        remedy = "give triples of known entities and relations"
        raise InputError(f"{valid.source}: none of its {len(ids)} triples can be scored; {remedy}")
    known = checked_thresholds(scores[scored], ids[scored, 1], valid.truth[scored], len(state.relations))
    learned = {"source": Path(valid.source).name, "claims": int(scored.sum())}
    model = state.model
    fitted = FittedThresholds.of(*known, model.relations, model.embedding.relations, learned)
    if fitted.is_seen:  # how often they are right on what was learned says nothing
        fitted, known = replace(fitted, worth=None), (known[0], None)
    return Limits(known, fitted)


def new_end_of(state: State, ids: IntArray) -> NewEnd | None:
    """The end that is new in most of the claims about newcomers that have vectors; None where no claim is about one."""
    about_new = ids[_about_new(state, ids)]
    return new_end(about_new, state.num_known) if len(about_new) else None


def _about_new(state: State, ids: IntArray) -> BoolArray:
    """(claims,) whether each is about a newcomer that has a vector, over a relation that was trained."""
    ends = ids[:, [0, 2]]
    is_new = (ends >= state.num_known).any(axis=1) & (ends >= 0).all(axis=1)
    is_new &= (ids[:, 1] >= 0) & (ids[:, 1] < state.num_trained) & ~has_given_vectors(state, ids)
    for row in np.flatnonzero(is_new).tolist():
        is_new[row] = all(end < state.num_known or state.is_represented(end) for end in ends[row].tolist())
    return is_new


def has_given_vectors(state: State, ids: IntArray) -> BoolArray:
    """(claims,) whether each is about an entity that was not trained but came with its vector."""
    ends = ids[:, [0, 2]]
    came_with = (ends >= state.num_known - state.model.given_vectors) & (ends < state.num_known)
    return came_with[:, 0] | came_with[:, 1]


def refuse_given_vectors(state: State, ids: IntArray, source: str) -> None:
    """Refuse triples of entities that came with their vectors, unless they tie something new to them."""
    known = (ids[:, [0, 2]] < state.num_known).all(axis=1)
    of_vectors = np.flatnonzero(known & has_given_vectors(state, ids))
    if len(of_vectors):
        first = ids[of_vectors[0]][[0, 2]]
        label = state.entities.label(int(first.max()))  # those with vectors come last
        problem = f"{source}: {label!r} came with a vector of its own, which its triples would not change"
        raise InputError(f"{problem}; leave it out of the vectors, or leave out its triples")


def verdicts_on(state: State, claims: Triples, limits: Limits, judge: FittedJudge | None = None) -> Classification:
    """A verdict for each claim that can be scored. judge: of claims about newcomers; the state must have evidence

    Notes are about the claims alone.
    """
    ids = claims.encoded(state.entities, state.relations)
    scores, thresholds = scores_of(state, ids), limits.known[0].of(_trained(state, ids[:, 1]))
    worths = np.zeros(len(ids), dtype=np.int64)  # which worth is that of each claim
    strangers, scale = np.zeros(len(ids)), 1.0
    known_worth, new_worth, vectors_worth = limits.known[1], None, None
    about_new, notes = _about_new(state, ids), []
    rows = np.flatnonzero(about_new)
    if len(rows) and judge is not None:
        own = judge.for_model(state.model.relations, state.model.embedding.relations, feature_names())
        scores[rows] = JudgedScorer(state.claim_evidence, own).scores(ids[rows])
        thresholds[rows], new_worth = 0.0, judge.worth
        # The judge's log-odds are scaled to become those of the probability. What is said of strangers is not, so that
        # it has to be the larger among unscaled ones: a verdict is what is likelier.
        scale = 1.0 if new_worth is None else max(LEAST_SLOPE, new_worth.slope)
        strangers[rows] = state.claim_evidence.strangers.of_claims(ids[rows])
        scores = np.where(strangers < 0, np.minimum(scores, MOST_FOR_STRANGERS / scale), scores)
        if judge.new not in ("both", new_end(ids[rows], state.num_known)):
            notes.append(f"the judge learned on claims with a new {judge.new}, and not on such; fit one to these")
    elif len(rows) and limits.new is not None:
        thresholds[rows], new_worth = limits.new[0].of(ids[rows, 1]), limits.new[1]
    worths[rows] = 1
    by_vector = np.flatnonzero(has_given_vectors(state, ids) & ~np.isnan(scores))
    if len(by_vector):
        if limits.vectors is not None:
            thresholds[by_vector] = limits.vectors[0].of(_trained(state, ids[by_vector, 1]))
            vectors_worth = limits.vectors[1]
        worths[by_vector] = 2
        notes.append(_on_vectors(len(by_vector), limits))
    scored = ~np.isnan(scores)
    probability = np.full(len(ids), np.nan)
    for number, worth in enumerate((known_worth, new_worth, vectors_worth)):
        mine = scored & (worths == number)
        if worth is None:
            continue
        if judge is None or number != 1:  # a distance stays what it is: a stranger's is held against more
            said = _of_strangers(state, ids[mine])
            thresholds[mine] -= said / max(LEAST_SLOPE, worth.slope)
        probability[mine] = worth.probability((scores - thresholds)[mine], strangers[mine])
    scores += strangers / scale
    verdicts = _verdicts(claims, scores, thresholds, probability)
    if not scored.all():
        missing = f"{int((~scored).sum()):,} of {counted(len(scored), 'claim')} without a verdict"
        notes += [f"{missing}: an entity or the relation has no vector", *_on_names(state, claims.select(~scored))]
    if len(rows):
        notes += [] if judge is None else [judge_in_words(judge)]
        notes.append(_on_newcomers(len(rows), limits, judge, new_worth))
    notes += _on_known(int((scored & (worths == 0)).sum()), limits)
    accurate = accuracy(scores, thresholds, claims.truth)
    used = judge if len(rows) else None
    return Classification(verdicts, accurate, notes, _trusts(state, ids), used, limits.fitted, state.find_names)


def _verdicts(claims: Triples, scores: FloatArray, thresholds: FloatArray, probability: FloatArray) -> list[Verdict]:
    """NaN where there is no score, or no probability."""
    columns = zip(claims, scores.tolist(), thresholds.tolist(), probability.tolist(), strict=True)
    return [
        Verdict(*triple, None, None, None)
        if math.isnan(score)
        else Verdict(*triple, score, limit, score >= limit, None if math.isnan(chance) else chance)
        for triple, score, limit, chance in columns
    ]


def _of_strangers(state: State, ids: IntArray) -> FloatArray:
    """(claims,) what it says in log-odds, 0 or less, that neither an end nor any entity like it has stood there."""
    if not len(state.model.known_triples):
        return np.zeros(len(ids))
    return Strangers(state.graph, state.model.fitting).of_claims(ids)


def _on_names(state: State, claims: Triples) -> list[str]:
    """Which entities and relations of claims that cannot be scored are called by their names; of many, the first."""
    claims = claims.select(np.arange(min(len(claims), MOST_LOOKED_UP)))
    names, ids = state.find_names(), claims.encoded(state.entities, state.relations).tolist()
    rows = list(zip(claims, ids, strict=True))
    ends = dict.fromkeys(labels[end] for labels, ids in rows for end in (0, 2) if not state.has_entity(ids[end]))
    relations = dict.fromkeys(labels[1] for labels, ids in rows if not state.has_relation(ids[1]))

    def said(label: str, ids: str) -> str:
        return f"{label!r} has no vector: it is the name of {ids}; claims take ids, give that"

    return [
        *notes_on_names(ends, names, said, state.entities.__contains__),
        *notes_on_names(relations, names, said, state.relations.__contains__),
    ]


def _on_known(count: int, limits: Limits) -> list[str]:
    """What to know of the verdicts on claims about known entities."""
    worth = limits.known[1]
    if count and limits.fitted.is_seen:
        held = f"{counted(count, 'claim')} about known entities held against thresholds of training triples"
        return [f"{held}, which are too strict for what is true and new; labelled triples do better (`valid`)"]
    return (
        [f"claims about known entities: {_guessing(worth)}"] if count and worth is not None and not worth.tells else []
    )


def _on_newcomers(count: int, limits: Limits, judge: FittedJudge | None, worth: Worth | None) -> str:
    """How claims about newcomers were judged, and whether that tells true from false."""
    claims = counted(count, "claim") + " about new entities"
    if judge is not None:
        how = f"{claims} judged by all evidence: scores are log-odds"
    elif limits.new is None:
        why = "too few labelled claims, or no training triples"
        return f"{claims} held against thresholds of known entities, which are too strict: {why}"
    else:
        how = f"{claims} held against thresholds that known entities made new again have"
    if worth is None:
        return how
    if not worth.tells:
        return f"{how}; {_guessing(worth)}" + ("" if judge is not None else "; the judge looks at more than vectors")
    return f"{how}; {worth.accuracy:.0%} right on {worth.claims:,} simulated claims"


def _on_vectors(count: int, limits: Limits) -> str:
    """How claims about entities that came with vectors alone were judged."""
    claims = f"{counted(count, 'claim')} about entities that came with vectors and no triples"
    if limits.vectors is None:
        return f"{claims} held against thresholds of known entities, which are too strict for new vectors"
    how = f"{claims} held against thresholds that known entities made new again have, by the closed form"
    return f"{how}; give their triples instead, and all evidence is looked at"


def _guessing(worth: Worth) -> str:
    told = f"{worth.accuracy:.0%} right on {worth.claims:,} claims that it was not fitted to"
    return f"this cannot tell true from false here, do not rely on it ({told}; guessing has 50%)"


def _trained(state: State, relations: IntArray) -> IntArray:
    """The relations that thresholds may be there for; -1 for others."""
    return np.where(relations < len(state.relations), relations, -1)


def _trusts(state: State, ids: IntArray) -> dict[str, Trust]:
    """How far to trust the newcomers in claims, by label."""
    by_group: dict[int, list[int]] = {}
    for entity in np.unique(ids[:, [0, 2]]).tolist():
        if state.is_represented(entity):
            by_group.setdefault(state.group_of[entity], []).append(entity)
    trusts = {
        entity: trust for name, entities in by_group.items() for entity, trust in _of_group(state, name, entities)
    }
    return {state.entities.label(entity): trusts[entity] for entity in sorted(trusts)}


def _of_group(state: State, name: int, entities: list[int]) -> Iterable[tuple[int, Trust]]:
    group, is_refined = state.groups[name], state.preparation.refine is not None
    table = state.model.trust(group.newcomers, group.places(np.array(entities)), refine=is_refined)
    return zip(entities, table, strict=True)
