"""How a question about a newcomer is answered, by its number of triples.

With three triples a newcomer's vector is rough, and what others have in common with it says most; with thirty, much of
what is asked is stated in other words already. So there is not one way for all newcomers, but one for each range of
numbers of triples: whether the vector is fitted, and what it and each kind of evidence count for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from ookg.errors import InputError
from ookg.evidence.combined import CombinedScorer, GraphEvidence, RankingWeights
from ookg.evidence.registry import LEARNED
from ookg.scoring.queries import Queries
from ookg.scoring.scorer import Scorer, TranslationScorer
from ookg.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Way:
    """How newcomers with so many triples are answered.

    triples: from this many on; refine: their vectors are fitted to their triples
    ranking: what the vector and each kind of evidence count for
    """

    triples: int
    refine: bool
    ranking: RankingWeights

    def __post_init__(self) -> None:
        if self.triples < 1:
            raise InputError(f"a way from {self.triples} triples on; it must be from 1 or more")

    @property
    def evidence_weights(self) -> RankingWeights | None:
        """What the vector and all else count for; None if the vector alone ranks."""
        return self.ranking if self.ranking.has_evidence else None

    def __str__(self) -> str:
        return self.in_words()

    def in_words(self, models: int = 1) -> str:
        """What answers. models: how many answer together"""
        vector = "fitted vector" if self.refine else "vector of the closed form"
        if models > 1:
            vector = f"{'fitted vectors' if self.refine else 'vectors of the closed form'} of {models} models"
        return with_evidence(vector, self.ranking)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {"triples": self.triples, "refine": self.refine, "ranking": self.ranking.to_dict()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Way:
        """From plain values, each checked."""
        triples, refine, ranking = (values.get(name) for name in ("triples", "refine", "ranking"))
        if isinstance(triples, bool) or not isinstance(triples, int):
            raise InputError(f"a way from {triples!r} triples on, which is no whole number; tune the model again")
        if not isinstance(refine, bool) or not isinstance(ranking, dict):
            raise InputError("a way without refine or ranking; tune the model again")
        return cls(triples, refine, RankingWeights.from_dict(ranking))


def with_evidence(vector: str, ranking: RankingWeights | None) -> str:
    """A kind of vector and what counts beside it, in words."""
    evidence = "" if ranking is None else ", ".join(name for name, _ in ranking.of_sources())
    return f"{vector} with {evidence}" if evidence else vector


class Ways(Sequence[Way]):
    """Ways by number of triples, the first for the fewest; what has fewer still is answered by it too.

    `refine_from` says from how many triples on vectors are fitted: whoever has more triples is fitted as well.
    """

    def __init__(self, ways: Sequence[Way]) -> None:
        if not ways:
            raise InputError("no way to answer; give at least one")
        for one, other in pairwise(ways):
            if one.triples >= other.triples:
                raise InputError(f"ways from {one.triples} and {other.triples} triples on; each must start later")
            if one.refine and not other.refine:
                raise InputError(f"vectors are fitted from {one.triples} triples on, but not from {other.triples} on")
        self._ways = tuple(ways)

    @property
    def refine_from(self) -> int | None:
        """From how many triples on vectors are fitted; None: never."""
        return next((way.triples for way in self._ways if way.refine), None)

    def places(self, triples: IntArray) -> IntArray:
        """(newcomers,) which way each number of triples takes."""
        starts = np.array([way.triples for way in self._ways])
        return np.maximum(np.searchsorted(starts, triples, side="right") - 1, 0)

    def at(self, triples: int) -> Way:
        """The way for so many triples."""
        return self._ways[int(self.places(np.array([triples]))[0])]

    def without_refining(self) -> Ways:
        """The same for a model whose vectors cannot be fitted."""
        return Ways([replace(way, refine=False) for way in self._ways])

    def without_learned(self) -> Ways:
        """The same where no part of a network counts."""
        return self.with_learned(lambda triples: {})

    def with_learned(self, weights_at: Callable[[int], Mapping[str, float]]) -> Ways:
        """The same with other weights of the parts of a network.

        weights_at: by name, from so many triples on; what is not named does not count
        """
        learned = [dict.fromkeys(LEARNED, 0.0) | dict(weights_at(way.triples)) for way in self._ways]
        if all(way.ranking[name] == part[name] for way, part in zip(self._ways, learned, strict=True) for name in part):
            return self
        rankings = [
            RankingWeights.alone(**(way.ranking.to_dict() | part))
            for way, part in zip(self._ways, learned, strict=True)
        ]
        return Ways([replace(way, ranking=ranking) for way, ranking in zip(self._ways, rankings, strict=True)])

    def __len__(self) -> int:
        return len(self._ways)

    @overload
    def __getitem__(self, place: int) -> Way: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Way]: ...

    def __getitem__(self, place: int | slice) -> Way | Sequence[Way]:
        return self._ways[place]

    def __iter__(self) -> Iterator[Way]:
        return iter(self._ways)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ways) and self._ways == other._ways

    def __hash__(self) -> int:
        return hash(self._ways)

    def __repr__(self) -> str:
        return f"Ways({list(self._ways)!r})"


def _weights(**sources: float) -> RankingWeights:
    """The vector's weight is 1: only how much the others are against it matters."""
    return RankingWeights.alone(vector=1.0, **sources)


# How questions are answered where nothing is said and nothing was tuned, by the newcomer's number of triples. Rounded
# from what ranked well on hidden entities of five graphs (FB15k-237, NELL-995, CoDEx-S, WN11, FB15k): evidence is
# counted as confidences and as logarithms of shares, so that it means the same on other graphs
# (`benchmarks/few_triples.py`). Beside evidence, fitted vectors were no better there; `ookg tune` tries them.
DEFAULT_WAYS = Ways(
    [
        Way(1, False, _weights(links=10.0, paths=0.2, company=0.3, likeness=0.8, new=-0.5, hubness=0.5)),
        Way(6, False, _weights(links=12.0, paths=0.3, company=0.4, likeness=0.8, new=-0.5, hubness=0.5)),
    ]
)
# How questions about known entities may be answered. Where nothing was chosen, by trained vectors, direct links, for
# which a vector has no room, and likeness: both helped on every graph that was tried, or did nothing there. Paths and
# company help on most and cost on one (`benchmarks/known_entities.py`), so they count where held-out triples say so.
DEFAULT_KNOWN = _weights(links=10.0, likeness=1.0)
KNOWN_RANKINGS = (DEFAULT_KNOWN, _weights(links=10.0, paths=0.3, company=0.4, likeness=1.0))
# What `ookg tune` starts from with fitted vectors.
FITTED_RANKING = RankingWeights.alone(vector=1.5, links=8.0, paths=0.2, company=0.4, likeness=0.8, new=0.5, hubness=0.5)


class WaysScorer(Scorer):
    """Each question scored by the way for its newcomer's number of triples; those about known entities by vectors.

    vectors: of one model, or of several that answer together; newcomers with enough triples fitted already
    counts: (newcomers,) how many triples each has
    """

    def __init__(
        self, vectors: Sequence[TranslationScorer], evidence: GraphEvidence, ways: Ways, counts: IntArray
    ) -> None:
        first = vectors[0]
        self.ways, self.counts, self.device = ways, counts, first.newcomers.embedding.device
        self.num_known, self.num_relations = first.num_known, first.num_relations
        alone = RankingWeights.alone()
        self.vectors: Scorer = first if len(vectors) == 1 else CombinedScorer(vectors, evidence, alone)
        self.scorers: list[Scorer] = [
            self.vectors if way.evidence_weights is None else CombinedScorer(vectors, evidence, way.evidence_weights)
            for way in ways
        ]

    def _place(self, entity: IntArray) -> IntArray:
        """(entities,) which way each takes; -1 for a known one."""
        newcomer = entity - self.num_known
        counts = np.append(self.counts, 0)[np.clip(newcomer, 0, len(self.counts))]
        return np.where(newcomer < 0, -1, self.ways.places(counts))

    def _scorer(self, place: int) -> Scorer:
        return self.vectors if place < 0 else self.scorers[place]

    def answerable(self, queries: Queries) -> BoolArray:
        """Whether the entity and the relation have vectors."""
        return self.vectors.answerable(queries)

    def is_answer(self, entities: IntArray) -> BoolArray:
        """Whether each has a vector."""
        return self.vectors.is_answer(entities)

    def may_be_itself(self, queries: Queries) -> BoolArray:
        """As the vectors have it."""
        return self.vectors.may_be_itself(queries)

    def answer_scores(self, queries: Queries) -> Tensor:
        """The score of each known entity, by the way of the query's newcomer."""
        return self._by_way(queries, self.num_known, lambda scorer, part: scorer.answer_scores(part))

    def all_answer_scores(self, queries: Queries, num_entities: int) -> Tensor:
        """The score of each known and new entity, likewise."""
        return self._by_way(queries, num_entities, lambda scorer, part: scorer.all_answer_scores(part, num_entities))

    def _by_way(self, queries: Queries, size: int, score: Callable[[Scorer, Queries], Tensor]) -> Tensor:
        """(queries, size) what `score` makes of the queries of each way with its scorer."""
        place = self._place(queries.entity)
        scores = torch.empty(len(queries), size, device=self.device)
        for number in np.unique(place).tolist():
            rows = np.flatnonzero(place == number)
            scores[torch.from_numpy(rows).to(scores.device)] = score(self._scorer(number), queries.select(rows))
        return scores

    def scores(self, triples: IntArray) -> FloatArray:
        """The score of each triple's tail as the answer to (head, relation, ?)."""
        place = self._place(triples[:, 0])
        scores = np.full(len(triples), np.nan)
        for number in np.unique(place).tolist():
            rows = np.flatnonzero(place == number)
            scores[rows] = self._scorer(number).scores(triples[rows])
        return scores
