"""Judging claims about new entities by all evidence.

A threshold that was found on claims about known entities is too strict or too lax for new ones: their vectors are
rougher, so their distances are larger. So the judge learns on known entities that were made new (see `simulated`), and
looks at how a claim stands among its rivals rather than at the distance alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ookg.datasets.encoded import EncodedDataset
from ookg.errors import InputError
from ookg.evidence.combined import GraphEvidence, standard_scores
from ookg.evidence.fitting import fit_grouped_logistic
from ookg.evidence.registry import SOURCES
from ookg.scoring.queries import Queries
from ookg.scoring.scorer import Scorer
from ookg.types import BoolArray, FloatArray, IntArray

SMALLEST_SHARE = 1e-4
REGULARISATION = 2e-3
# Of the known entities, at most this share is made new: the graph must stay what it is.
MOST_HIDDEN = 0.2
# A relation's own weights are held nearer to 0 than those that all relations share.
OWN_SCALE = 0.5


@dataclass(frozen=True)
class ClaimEvidence:
    """All that is looked at to judge a claim: some models' vectors and the graph of known and given triples.

    sources: the names of the evidence that is looked at; sorted, so that their order of registration does not matter
    """

    vectors: tuple[Scorer, ...]
    graph: GraphEvidence
    sources: tuple[str, ...]

    @classmethod
    def gather(cls, vectors: Sequence[Scorer], dataset: EncodedDataset) -> ClaimEvidence:
        """The evidence of a data set's train and aux triples."""
        graph = GraphEvidence.count(dataset.train, dataset.aux, dataset.num_trained)
        return cls(tuple(vectors), graph, tuple(sorted(SOURCES)))

    def features(self, claims: IntArray) -> FloatArray:
        """(claims, features); NaN where a claim cannot be scored."""
        columns: list[FloatArray] = []
        for scorer in self.vectors:
            columns.append(scorer.scores(claims))
            for asks_tail in (True, False):
                standing = standard_scores(scorer, claims, asks_tail=asks_tail)
                columns += [standing.position, -np.log(standing.share_better + SMALLEST_SHARE)]
        return np.concatenate([np.stack(columns, axis=1), self.graph.of_claims(claims, self.sources)], axis=1)


@dataclass(frozen=True)
class ClaimJudge:
    """A logistic regression: weights that all relations share, and each relation's own on top.

    centre, scale: (features,) of the claims it was fitted on
    shared: (1 + features,) the constant first; own: (relations, 1 + features)
    """

    centre: FloatArray
    scale: FloatArray
    shared: FloatArray
    own: FloatArray

    @classmethod
    def fit(cls, features: FloatArray, relations: IntArray, truth: BoolArray, num_relations: int) -> ClaimJudge:
        """Learn from labelled claims; those that cannot be scored are left out."""
        usable = np.isfinite(features).all(axis=1)
        cls.check(truth[usable])
        features, relations, truth = features[usable], relations[usable], truth[usable]
        spread = features.std(axis=0)
        centre, scale = features.mean(axis=0), np.where(spread > 0, spread, 1.0)
        columns = _with_constant((features - centre) / scale)
        shared, own = fit_grouped_logistic(columns, relations, truth, num_relations, REGULARISATION, OWN_SCALE)
        return cls(centre, scale, shared, own)

    @staticmethod
    def check(truth: BoolArray) -> None:
        """Refuse claims that nothing can be learned from: none, or all true, or all false."""
        if truth.all() or not truth.any():
            problem = "no labelled claims of both kinds that can be scored"
            raise InputError(f"{problem}; give more claims about known entities")

    def log_odds(self, features: FloatArray, relations: IntArray) -> FloatArray:
        """(claims,) of being true; NaN where a claim cannot be scored."""
        columns = _with_constant((features - self.centre) / self.scale)
        covered = (relations >= 0) & (relations < len(self.own))
        own = np.where(covered[:, None], self.own[np.where(covered, relations, 0)], 0.0)
        found: FloatArray = (columns * (self.shared + own)).sum(axis=1)
        return found


def _with_constant(values: FloatArray) -> FloatArray:
    return np.concatenate([np.ones((len(values), 1)), values], axis=1)


class JudgedScorer(Scorer):
    """Log-odds of claims; a claim is held true from 0 on."""

    threshold = 0.0

    def __init__(self, evidence: ClaimEvidence, judge: ClaimJudge) -> None:
        self.evidence, self.judge = evidence, judge
        first = evidence.vectors[0]
        self.num_known, self.num_relations = first.num_known, first.num_relations

    def answerable(self, queries: Queries) -> BoolArray:
        """Whether every model can score it."""
        found: BoolArray = np.logical_and.reduce([scorer.answerable(queries) for scorer in self.evidence.vectors])
        return found

    def scores(self, triples: IntArray) -> FloatArray:
        """The log-odds of each."""
        return self.judge.log_odds(self.evidence.features(triples), triples[:, 1])

    def answer_scores(self, queries: Queries) -> Tensor:
        """The log-odds of each query's triple with each known entity: one claim for each, so for few queries only."""
        everyone = np.arange(self.num_known)
        rows = []
        for entity, relation, asks_tail in zip(queries.entity, queries.relation, queries.asks_tail, strict=True):
            ends = (
                (np.full_like(everyone, entity), everyone) if asks_tail else (everyone, np.full_like(everyone, entity))
            )
            rows.append(self.scores(np.stack([ends[0], np.full_like(everyone, relation), ends[1]], axis=1)))
        return torch.from_numpy(np.stack(rows)) if rows else torch.empty(0, self.num_known)


def _among(triples: IntArray, others: IntArray) -> BoolArray:
    """(triples,) whether each is one of the others."""
    both = np.concatenate([triples, others])
    _, number = np.unique(both, axis=0, return_inverse=True)
    number = number.ravel()
    found: BoolArray = np.isin(number[: len(triples)], number[len(triples) :])
    return found


def _first_distinct(ids: IntArray, most: int) -> IntArray:
    """The first so many distinct ids, in their order."""
    distinct, first = np.unique(ids, return_index=True)
    return distinct[np.argsort(first)][:most]


def simulated(dataset: EncodedDataset, seed: int = 0, share: float = 0.5) -> EncodedDataset:
    """A data set like the given one, made of its train and valid parts alone: entities of valid claims become new.

    The ends that are new in the test claims are made new in a share of the valid claims; their train triples with
    known entities become aux, and the claims become test. Valid keeps the claims whose entities all stay known. At most
    a fifth of the known entities is made new.
    """
    if dataset.valid_truth is None:
        raise InputError(f"data set {dataset.name}: valid has no labels; claims about new entities cannot be simulated")
    ends = [end for end in (0, 2) if (dataset.test[:, end] >= dataset.num_known).mean() > 0.5] or [0, 2]
    inside = (dataset.valid[:, [0, 2]] < dataset.num_known).all(axis=1)
    claims, truth = dataset.valid[inside], dataset.valid_truth[inside]
    drawn = np.random.default_rng(seed).permutation(len(claims))[: max(1, round(share * len(claims)))]
    is_new = np.zeros(dataset.num_known, dtype=np.bool_)
    is_new[_first_distinct(claims[drawn][:, ends].ravel(), max(1, round(MOST_HIDDEN * dataset.num_known)))] = True
    new_ends = is_new[claims[:, [0, 2]]]  # (claims, 2)
    wanted = np.isin([0, 2], ends)
    asked = np.zeros(len(claims), dtype=np.bool_)
    asked[drawn] = True
    asked &= (new_ends == wanted).all(axis=1) | ((len(ends) == 2) & new_ends.any(axis=1))
    # What is asked must not be given: labelled claims may be training triples.
    stated = dataset.train[~_among(dataset.train, claims)]
    train_new = is_new[stated[:, [0, 2]]]
    train = stated[~train_new.any(axis=1)]
    is_known = np.zeros(dataset.num_known, dtype=np.bool_)
    is_known[train[:, [0, 2]]] = True
    aux = stated[train_new[:, 0] ^ train_new[:, 1]]
    aux = aux[(is_new | is_known)[aux[:, [0, 2]]].all(axis=1)]
    present = is_new | is_known
    test, valid = (
        asked & present[claims[:, [0, 2]]].all(axis=1),
        ~new_ends.any(axis=1) & is_known[claims[:, [0, 2]]].all(axis=1),
    )
    # Known entities first, then the new ones.
    order = np.concatenate([np.flatnonzero(is_known), np.flatnonzero(is_new)])
    number = np.full(dataset.num_known, -1)
    number[order] = np.arange(len(order))

    def renumbered(triples: IntArray) -> IntArray:
        return np.stack([number[triples[:, 0]], triples[:, 1], number[triples[:, 2]]], axis=1)

    return EncodedDataset(
        name=f"{dataset.name}, simulated",
        task=dataset.task,
        num_known=int(is_known.sum()),
        num_entities=len(order),
        num_trained=dataset.num_trained,
        num_relations=dataset.num_trained,
        train=renumbered(train),
        valid=renumbered(claims[valid]),
        aux=renumbered(aux),
        test=renumbered(claims[test]),
        valid_truth=truth[valid],
        test_truth=truth[test],
    )
