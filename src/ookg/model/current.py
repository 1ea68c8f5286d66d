"""A model directory as it stands: the stored version, without what was removed since, and what was added since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from ookg.errors import InputError
from ookg.graph.known import KnownGraph
from ookg.graph.triples import Triples, TripleSource, as_triples
from ookg.graph.vocabulary import Vocabulary
from ookg.model.model import Model
from ookg.storage.checkpoint import Checkpoint, load_checkpoint
from ookg.storage.journal import Difference, Journal, Triple
from ookg.storage.journals import open_journal
from ookg.types import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class Current:
    """A version of a model, and what the journal says after it.

    version: as it is stored; position: the last batch that counts
    difference: what the batches after the version's own amount to
    """

    version: Model
    position: int
    difference: Difference

    @classmethod
    def of(cls, checkpoint: Checkpoint, journal: Journal, until: int | None = None) -> Current:
        """A version with the batches up to one, or with all."""
        position = journal.last if until is None else until
        return cls(Model(checkpoint), position, journal.difference(checkpoint.journal, position))

    @classmethod
    def load(cls, directory: str | Path, device: str = "cpu", journal: str | None = None) -> Current:
        """Read a model directory and its journal; journal: its address, where it is not in the directory."""
        return cls.of(load_checkpoint(directory, device), open_journal(directory, journal))

    @cached_property
    def removed(self) -> IntArray:
        """(triples, 3) the training triples that were removed, as the model's ids."""
        ids = encoded(self.difference.removed, self.version.entities, self.version.relations)
        return ids[self.version.index.has(ids)]

    @cached_property
    def model(self) -> Model:
        """The version's vectors beside a graph without what was removed."""
        return self.version.without(self.removed)

    @cached_property
    def model_with_facts(self) -> Model:
        """The same, with added triples of known entities and relations in its graph, as if it had learned them."""
        model, graph = self.model, self.model.checkpoint.graph
        ids = encoded(self.difference.added, model.entities, model.relations)
        facts = ids[(ids >= 0).all(axis=1)]
        if graph is None or not len(facts):
            return model
        grown = KnownGraph(np.concatenate([graph.triples, facts]), graph.num_entities, graph.num_relations)
        return Model(replace(model.checkpoint, graph=grown))

    @property
    def is_changed(self) -> bool:
        """Whether anything was added or removed since the version."""
        return bool(self.difference.added or self.difference.removed)

    def given(self, more: TripleSource | None = None) -> Triples:
        """What was added, and triples that are given beside it."""
        if more is None:
            return as_triples(self.difference.added)
        triples = as_triples(more)
        if not self.difference.added:
            return triples
        if triples.truth is not None and not triples.truth.all():
            raise InputError(f"{triples.source}: it holds triples labelled false; what is given must be true")
        # Only what the journal does not hold: a triple that is added and given counts once.
        joined = as_triples([*self.difference.added, *triples])
        return replace(joined, source=triples.source, duplicates=triples.duplicates, skipped=triples.skipped)


def encoded(triples: Sequence[Triple], entities: Vocabulary, relations: Vocabulary) -> IntArray:
    """(triples, 3) ids, -1 for labels that there are none of."""
    return as_triples(triples, keep_duplicates=True).encoded(entities, relations)


def known_to(model: Model, triples: Sequence[Triple]) -> BoolArray:
    """(triples,) whether each is one of the model's training triples."""
    return model.index.has(encoded(triples, model.entities, model.relations))
