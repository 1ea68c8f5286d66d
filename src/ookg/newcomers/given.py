"""Given triples, about what is new to a model, all at once: for evaluation, judging and vectors in bulk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ookg.errors import InputError
from ookg.graph.statistics import GraphStatistics
from ookg.graph.triples import Triples, TripleSource, as_triples
from ookg.graph.vocabulary import Vocabulary
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import NeighborLimit, Newcomers, find_newcomers
from ookg.newcomers.notes import Findings
from ookg.newcomers.reducer import Weights
from ookg.newcomers.refinement import RefineSettings
from ookg.system.progress import Reporter
from ookg.types import IntArray


class LabelledVectors(Protocol):
    """Trained vectors and their labels."""

    @property
    def embedding(self) -> Embedding:
        """The geometry and both tables."""

    @property
    def entities(self) -> Vocabulary:
        """The known entities."""

    @property
    def relations(self) -> Vocabulary:
        """The relations with a trained vector."""


class TrainedGraph(LabelledVectors, Protocol):
    """The same and the training triples, such as a checkpoint has them."""

    @property
    def triples(self) -> IntArray:
        """(triples, 3) the training triples; empty if it came without them."""

    @property
    def statistics(self) -> GraphStatistics | None:
        """What is counted on them; None if it came without them."""


@dataclass(frozen=True)
class Given:
    """A set of given triples as a model sees it.

    entities: the model's entities, then the new ones; relations: the model's, then untrained ones
    triples: (triples, 3) ids of these
    """

    newcomers: Newcomers
    entities: Vocabulary
    relations: Vocabulary
    triples: IntArray
    notes: list[str]

    def refined_by(self, settings: RefineSettings | None, report: Reporter | None = None, least: int = 1) -> Given:
        """The same with the new vectors fitted; with settings None they stay as they are.

        least: those with fewer known neighbours stay as they are too
        """
        if settings is None:
            return self
        return replace(self, newcomers=self.newcomers.refined_by(settings, report, least))


def find_given(
    known: TrainedGraph,
    triples: TripleSource,
    weights: Weights,
    limit: NeighborLimit | None = None,
    *,
    new_relations: bool = False,
) -> Given:
    """Find the new entities and their neighbours in given triples.

    new_relations: whether relations that only the given triples have get vectors; the published protocols have none
    """
    triples = as_triples(triples).beside(known.entities, known.relations)
    if triples.truth is not None and not triples.truth.all():
        raise InputError(f"{triples.source}: it holds triples labelled false; what is given must be true")
    entities = known.entities.extended(triples.entities.labels)
    relations = known.relations.extended(triples.relations.labels)
    ids = triples.encoded(entities, relations)
    used = ids
    if not new_relations and len(relations) > len(known.relations):
        used = ids.copy()
        used[ids[:, 1] >= len(known.relations), 1] = -1
    newcomers = find_newcomers(known.embedding, known.statistics, known.triples, used, weights, limit)
    return Given(newcomers, entities, relations, ids, _notes(triples, newcomers, entities, relations))


def _notes(triples: Triples, newcomers: Newcomers, entities: Vocabulary, relations: Vocabulary) -> list[str]:
    """Which given triples make no vector, and which relations they give one, in words."""
    unused, together = newcomers.unused, newcomers.together
    made = np.empty(0, dtype=np.int64) if together is None else np.flatnonzero(together.made)
    findings = Findings(
        list(triples.select(unused.untrained_relation)),
        list(triples.select(unused.between_newcomers)),
        list(triples.select(unused.self_loops)),
        list(triples.select(unused.without_newcomer)),
        made_relations=relations.select(made + len(relations) - (0 if together is None else len(together.made))),
        lacking=entities.select(np.flatnonzero(~newcomers.representable) + newcomers.embedding.num_entities),
    )
    makes_relations = together is not None and together.ties.num_new_relations > 0
    return [*triples.notes, *findings.in_words(newcomers.embedding.geometry, makes_relations=makes_relations)]
