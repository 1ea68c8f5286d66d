"""One score from all evidence: where the vector points, what direct links say, what the relation usually has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ookg.errors import InputError
from ookg.evidence.habits import Habits
from ookg.evidence.links import LinkEvidence, LinkRules
from ookg.kernels.threads import one_torch_thread
from ookg.scoring.queries import Queries
from ookg.scoring.scorer import SCORES_AT_ONCE, Scorer
from ookg.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class RankingWeights:
    """What each kind of evidence counts for in the score of an answer.

    vector: of -D, standardised over the known entities of the query, so that it fits any model's scale
    links: of the confidence of the best direct link, 0 to 1; habits: of log(1 + times seen at this end of the relation)

    The defaults are what a simulation in the training triples of FB15k-Head-10 came to; `ookg tune` fits them to a
    graph.
    """

    vector: float = 1.73
    links: float = 7.8
    habits: float = 0.69

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not np.isfinite(value):
                raise InputError(f"weight {name} is {value}; it must be a finite number")

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RankingWeights:
        """From plain values."""
        unknown = sorted(set(values) - set(cls.__dataclass_fields__))
        if unknown:
            raise InputError(f"unknown weight {unknown[0]!r}; the weights are {', '.join(cls.__dataclass_fields__)}")
        return cls(**{name: float(value) for name, value in values.items()})


# For vectors of the closed form, which say less than fitted ones.
CLOSED_FORM_WEIGHTS = RankingWeights(vector=1.33, links=10.2, habits=0.62)


@dataclass(frozen=True)
class GraphEvidence:
    """What known and given triples say beside the vectors."""

    links: LinkEvidence
    habits: Habits

    @classmethod
    def count(cls, known: IntArray, given: IntArray, num_relations: int) -> GraphEvidence:
        """From triples, (triples, 3), known and given. Relations outside the first `num_relations` do not count."""
        return cls._of(np.concatenate([known, given]), num_relations)

    @classmethod
    def _of(cls, triples: IntArray, num_relations: int) -> GraphEvidence:
        rules = LinkRules.count(triples, num_relations)
        return cls(LinkEvidence(rules, triples), Habits.count(triples, num_relations))

    def with_given(self, given: IntArray, num_known: int) -> GraphEvidence:
        """This evidence of known triples with given ones counted in, the same as counting all together."""
        num_relations = self.habits.num_relations
        triples = np.concatenate([self.links.triples, given])
        if (given[:, [0, 2]] < num_known).all(axis=1).any():  # a pair of known entities may be in both
            return self._of(triples, num_relations)
        rules = self.links.rules.plus(LinkRules.count(given, num_relations))
        return GraphEvidence(LinkEvidence(rules, triples), self.habits.plus(Habits.count(given, num_relations)))

    def of_answers(
        self, queries: Queries, num_answers: int, weights: RankingWeights, device: torch.device | str
    ) -> Tensor:
        """(queries, answers) what it adds to the score of each of the first `num_answers` entities."""
        links = self.links.of_answers(queries, num_answers, device)
        return links.mul_(weights.links).add_(
            self.habits.of_answers(queries, num_answers, device), alpha=weights.habits
        )


@one_torch_thread()
def standardised(scores: Tensor, num_known: int) -> Tensor:
    """(queries, entities) scores minus their mean over the known entities, over their standard deviation."""
    known = scores[:, :num_known]
    spread = known.std(dim=1, keepdim=True, correction=0) if num_known > 1 else torch.ones_like(known[:, :1])
    return (scores - known.mean(dim=1, keepdim=True)) / spread.clamp_min(torch.finfo(scores.dtype).tiny)


class CombinedScorer(Scorer):
    """Vectors of one model, or the mean over several, together with the evidence of the graph."""

    def __init__(self, vectors: Sequence[Scorer], evidence: GraphEvidence, weights: RankingWeights) -> None:
        if not vectors:
            raise InputError("no scorer to combine; give at least one")
        self.vectors, self.evidence, self.weights = tuple(vectors), evidence, weights
        self.num_known, self.num_relations = vectors[0].num_known, vectors[0].num_relations

    def answerable(self, queries: Queries) -> BoolArray:
        """Whether every model can score it."""
        found: BoolArray = np.logical_and.reduce([scorer.answerable(queries) for scorer in self.vectors])
        return found

    def answer_scores(self, queries: Queries) -> Tensor:
        """The weighted sum for each known entity."""
        found = standardised(self.vectors[0].answer_scores(queries), self.num_known)
        for scorer in self.vectors[1:]:
            found += standardised(scorer.answer_scores(queries), self.num_known)
        found *= self.weights.vector / len(self.vectors)
        return found.add_(self.evidence.of_answers(queries, self.num_known, self.weights, found.device))

    def scores(self, triples: IntArray) -> FloatArray:
        """The score of each triple's tail as the answer to (head, relation, ?)."""
        found = np.zeros(len(triples))
        for scorer in self.vectors:
            found += standard_scores(scorer, triples, asks_tail=True).position / len(self.vectors)
        links, habits = self.evidence.links.of_claims(triples), self.evidence.habits.of_claims(triples)[:, 1]
        return self.weights.vector * found + self.weights.links * links + self.weights.habits * habits


@dataclass(frozen=True)
class Standing:
    """How a triple's end stands among all known entities at that end.

    position: (triples,) its score, standardised; share_better: (triples,) the share of known entities that score higher
    """

    position: FloatArray
    share_better: FloatArray


def standard_scores(scorer: Scorer, triples: IntArray, *, asks_tail: bool) -> Standing:
    """The standing of each triple's tail (or head); NaN where the triple cannot be scored."""
    own = scorer.scores(triples)
    position, better = np.full(len(triples), np.nan), np.full(len(triples), np.nan)
    near, far = (0, 2) if asks_tail else (2, 0)
    rows = np.flatnonzero(~np.isnan(own))
    size = max(1, SCORES_AT_ONCE // max(1, scorer.num_known))
    for start in range(0, len(rows), size):
        chunk = rows[start : start + size]
        asked = triples[chunk]
        queries = Queries(asked[:, near], asked[:, 1], asked[:, far], np.full(len(chunk), asks_tail))
        scores = scorer.answer_scores(queries)
        # The same number as its rival's, where the end is known: two ways to sum up a distance round differently.
        end = torch.from_numpy(asked[:, far].copy()).to(scores.device)[:, None]
        is_known = end < scorer.num_known
        mine = torch.from_numpy(own[chunk]).to(scores)[:, None]
        mine = torch.where(is_known, scores.gather(1, torch.where(is_known, end, 0)), mine)
        with one_torch_thread():
            mean, spread = scores.mean(dim=1, keepdim=True), scores.std(dim=1, keepdim=True, correction=0)
            better[chunk] = (scores > mine).float().mean(dim=1).double().cpu().numpy()
        spread.clamp_min_(torch.finfo(scores.dtype).tiny)
        position[chunk] = ((mine - mean) / spread)[:, 0].double().cpu().numpy()
    return Standing(position, better)
