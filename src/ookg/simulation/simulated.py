"""A simulation: hidden entities with what is needed to represent them, ask about them and compare."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ookg.errors import InputError, lacks_triples
from ookg.evidence.combined import GraphEvidence
from ookg.evidence.network import AnswerNetwork
from ookg.graph.statistics import GraphStatistics
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import NeighborLimit, Newcomers, find_newcomers
from ookg.newcomers.prior import Residuals
from ookg.newcomers.reducer import Uniform, Weights, with_residuals
from ookg.scoring.link_prediction import link_prediction
from ookg.scoring.queries import Queries, test_queries
from ookg.scoring.scorer import Scorer, TranslationScorer
from ookg.simulation.hiding import Hidden, HidingSettings, hide
from ookg.simulation.retraining import Retraining, retrain
from ookg.system.display import counted
from ookg.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from ookg.storage.checkpoint import Checkpoint

HALVES = 17  # the purpose of the random stream that halves newcomers
FEW = 19  # and of the one that draws what is given of those that get few triples
FEWEST_HIDDEN = 2  # one to choose or fit on, one to check


@dataclass(frozen=True, eq=False)
class Simulation:
    """Hidden entities, and a model that does not know them.

    embedding: the vectors of the known entities; graph: statistics of the known triples
    trained: the vectors of a model that does know the hidden entities, with those of the hidden after the known; None
        where there is nothing to compare with
    is_exact: nothing here was trained with a question. Otherwise the vectors are those of a model that has seen all
        triples: newcomers come out better than they would, and trained entities are asked what they were trained on
    given, queries: what is given and asked, of all hidden entities or of a part of them
    network: one that has seen no newcomer, to be weighed too; None where entities are hidden, as it would see the gaps
        that they leave
    """

    hidden: Hidden
    embedding: Embedding
    trained: Embedding | None
    graph: GraphStatistics
    is_exact: bool
    given: IntArray
    queries: Queries
    network: AnswerNetwork | None = None

    @classmethod
    def of(cls, hidden: Hidden, embedding: Embedding, trained: Embedding | None, *, is_exact: bool) -> Simulation:
        """Count the statistics of what is known; the hidden triples are in none of them."""
        graph = GraphStatistics.count(hidden.known, hidden.num_known, hidden.num_relations)
        queries = test_queries(hidden.questions, hidden.num_known)
        return cls(hidden, embedding, trained, graph, is_exact, hidden.given, queries)

    @property
    def query_newcomer(self) -> IntArray:
        """(queries,) the newcomer that each asks about, counted from 0."""
        return self.queries.entity - self.hidden.num_known

    @property
    def query_triples(self) -> IntArray:
        """(queries,) how many triples are given of the entity that each asks about."""
        return self._given_counts[self.query_newcomer]

    @cached_property
    def _given_counts(self) -> IntArray:
        owner = np.maximum(self.given[:, 0], self.given[:, 2]) - self.hidden.num_known
        return np.bincount(owner, minlength=self.hidden.num_hidden)

    def newcomers(self, weights: Weights, limit: NeighborLimit | None = None) -> Newcomers:
        """The hidden entities as new ones."""
        weights = with_residuals(weights, lambda: self.residuals)
        newcomers = find_newcomers(self.embedding, self.graph, self.hidden.known, self.given, weights, limit)
        return newcomers.with_room_for(self.hidden.num_hidden)

    @cached_property
    def residuals(self) -> Residuals:
        """How far candidates are off among the known triples."""
        return Residuals.of(self.embedding, self.hidden.known)

    @cached_property
    def trained_scorer(self) -> Scorer:
        """Scores with the trained vectors of the hidden entities."""
        if self.trained is None:
            raise InputError("this simulation has no trained entities to compare with; retrain with a reference")
        size, table = self.hidden.num_known, self.trained.entities
        known = Embedding(self.trained.geometry, table[:size], self.trained.relations)
        return TranslationScorer(replace(self.newcomers(Uniform()), embedding=known, refined=table[size:]))

    @cached_property
    def evidence(self) -> GraphEvidence:
        """What known and given triples say beside the vectors."""
        hidden = self.hidden
        return GraphEvidence.count(hidden.known, self.given, hidden.num_relations, network=self.network)

    def ranks(self, scorer: Scorer) -> FloatArray:
        """(queries,) the rank of each right answer among the known entities, other right answers left out."""
        size = self.hidden.num_known
        return link_prediction(scorer, self.queries, self.hidden.true, size, "lan").ranks()

    def part(self, newcomers: BoolArray) -> Simulation:
        """The same with some of the hidden entities: nothing is given or asked about the others."""
        size = self.hidden.num_known
        mine = newcomers[np.maximum(self.given[:, 0], self.given[:, 2]) - size]
        asked = self.queries.select(newcomers[self.query_newcomer])
        return replace(self, given=self.given[mine], queries=asked)

    def asking(self, rows: BoolArray) -> Simulation:
        """The same with some of the questions; all that is given stays given."""
        return replace(self, queries=self.queries.select(rows))

    def with_few(self, triples: int, seed: int, most: int) -> Simulation:
        """The same with so many triples given of each hidden entity, and at most `most` of its others asked.

        Nothing is given or asked about those that have fewer. The answer to a question may be another hidden entity.
        """
        hidden, size = self.hidden, self.hidden.num_known
        random = np.random.default_rng([FEW, seed])
        ties = random.permutation(np.concatenate([hidden.given, hidden.questions]))
        owner = np.maximum(ties[:, 0], ties[:, 2])
        place = _places(owner)
        enough = np.bincount(owner, minlength=len(hidden.entities)) >= triples
        given = ties[(place < triples) & enough[owner]]
        rest = ties[(place >= triples) & enough[owner]]
        queries = test_queries(rest, size)
        head, relation, tail = hidden.between.T
        both = Queries(
            np.concatenate([queries.entity, head, tail]),
            np.concatenate([queries.relation, relation, relation]),
            np.concatenate([queries.answer, tail, head]),
            np.concatenate([queries.asks_tail, np.ones(len(head), np.bool_), np.zeros(len(head), np.bool_)]),
        )
        order = random.permutation(len(both))
        both = both.select(order)
        kept = enough[both.entity] & (_places(both.entity) < most)
        return replace(self, given=given, queries=both.select(np.flatnonzero(kept)))

    def limited_to(self, most: int, seed: int) -> Simulation:
        """The same with at most so many triples given of each hidden entity, drawn by the seed."""
        order = np.random.default_rng([FEW, seed]).permutation(len(self.given))
        given = self.given[order]
        kept = np.sort(order[_places(np.maximum(given[:, 0], given[:, 2])) < most])
        return replace(self, given=self.given[kept])

    def halves(self, seed: int) -> tuple[Simulation, Simulation]:
        """Two parts of about equal size, alike in the entities' numbers of triples: to choose on, and to check."""
        first = self.in_first_half(seed)
        return self.part(first), self.part(~first)

    def in_first_half(self, seed: int) -> BoolArray:
        """(hidden,) which of those that are asked about are in the first of their two halves."""
        asked = np.unique(self.query_newcomer)
        size = len(asked)
        require_two(size)
        random = np.random.default_rng([HALVES, seed])
        order = asked[random.permutation(size)]
        order = order[np.argsort(self._given_counts[order], kind="stable")]
        # Of every two neighbours in this order, one goes to each half.
        sides = random.permuted(np.tile([True, False], ((size + 1) // 2, 1)), axis=1)
        first = np.zeros(self.hidden.num_hidden, dtype=np.bool_)
        first[order] = sides.ravel()[:size]
        return first


def simulate(
    checkpoint: Checkpoint,
    settings: HidingSettings | None = None,
    retraining: Retraining | None = None,
) -> Simulation:
    """Make known entities of a model new again. The model itself is only read, and its network is left out.

    retraining: train without the hidden entities, and once more with their given triples, so that no vector has seen a
        question; None takes the model's own vectors as they are, which is quick and too kind
    """
    require_triples(checkpoint)
    embedding = checkpoint.embedding.widened()
    hidden = hide(checkpoint.triples, embedding.num_entities, embedding.num_relations, settings)
    require_two(hidden.num_hidden)
    if retraining is not None:
        known, trained = retrain(checkpoint, hidden, retraining)
        return Simulation.of(hidden, known, trained, is_exact=True)
    rows = _rows(embedding.entities, hidden.entities)
    known, trained = (replace(embedding, entities=part) for part in (rows[: hidden.num_known], rows))
    return Simulation.of(hidden, known, trained, is_exact=False)


def require_triples(checkpoint: Checkpoint) -> None:
    """Refuse a model without triples."""
    if checkpoint.statistics is None or not len(checkpoint.triples):
        raise lacks_triples(checkpoint.statistics is None, "known entities are made new again from their triples")


def require_two(num_hidden: int) -> None:
    """Refuse a simulation with too few hidden entities to be halved."""
    if num_hidden < FEWEST_HIDDEN:
        problem = f"{counted(num_hidden, 'entity', 'entities')} hidden, and it takes {FEWEST_HIDDEN}"
        raise InputError(f"{problem}, one to fit to and one to check; hide more with a larger `sample`")


def _places(owner: IntArray) -> IntArray:
    """(rows,) each one's place among those with the same owner, counted from 0."""
    order = np.argsort(owner, kind="stable")
    ranked = owner[order]
    places = np.empty_like(order)
    places[order] = np.arange(len(order)) - np.searchsorted(ranked, ranked)
    return places


def _rows(table: Tensor, ids: IntArray) -> Tensor:
    """Some rows of a table, as a table of their own."""
    return table[torch.from_numpy(ids).to(table.device)]
