"""A data set as arrays of ids."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from ookg.graph.ids import TripleIds, Truth

if TYPE_CHECKING:
    from ookg.datasets.dataset import Dataset
    from ookg.graph.triples import Triples
    from ookg.graph.vocabulary import Vocabulary

Task = Literal["link-prediction", "triplet-classification"]


def no_triples() -> TripleIds:
    """An empty list."""
    return np.empty((0, 3), dtype=np.int64)


def encoded_also_true(triples: Triples | None, entities: Vocabulary, relations: Vocabulary) -> TripleIds:
    """As ids; triples with an entity or a relation that is in no other part can be no answer, and are left out."""
    if triples is None:
        return no_triples()
    ids = triples.encoded(entities, relations)
    return ids[(ids >= 0).all(axis=1)]


@dataclass(frozen=True, eq=False)
class EncodedDataset:
    """A data set as ids: known entities come first, then new ones; relations of train come first, then the others.

    num_known, num_entities: known entities, and all; num_trained, num_relations: relations in train, and all
    train, valid, aux, test: (triples, 3); valid_truth, test_truth: (triples,) where the claims are labelled
    also_true: (triples, 3) neither learned nor asked, and no wrong answers
    """

    name: str
    task: Task
    num_known: int
    num_entities: int
    num_trained: int
    num_relations: int
    train: TripleIds
    valid: TripleIds
    aux: TripleIds
    test: TripleIds
    valid_truth: Truth | None = None
    test_truth: Truth | None = None
    also_true: TripleIds = field(default_factory=no_triples)

    @classmethod
    def of(cls, dataset: Dataset) -> EncodedDataset:
        """The ids of a data set with labels."""
        entities = dataset.known_entities.extended(dataset.new_entities.labels)
        relations: Vocabulary = dataset.relations
        parts: list[Triples] = [dataset.train, dataset.valid, dataset.aux, dataset.test]
        for part in parts:
            entities, relations = entities.extended(part.entities.labels), relations.extended(part.relations.labels)
        train, valid, aux, test = (part.encoded(entities, relations) for part in parts)
        return cls(
            name=dataset.name,
            task=dataset.task,
            num_known=len(dataset.known_entities),
            num_entities=len(entities),
            num_trained=len(dataset.relations),
            num_relations=len(relations),
            train=train,
            valid=valid,
            aux=aux,
            test=test,
            valid_truth=dataset.valid.truth,
            test_truth=dataset.test.truth,
            also_true=encoded_also_true(dataset.also_true, entities, relations),
        )

    @property
    def given(self) -> TripleIds:
        """The aux triples with relation -1 where it is not in train, as `find_newcomers` takes them."""
        given = self.aux.copy()
        given[given[:, 1] >= self.num_trained, 1] = -1
        return given

    @property
    def true_triples(self) -> TripleIds:
        """All triples that are known to be true, of all parts."""
        valid = self.valid if self.valid_truth is None else self.valid[self.valid_truth]
        test = self.test if self.test_truth is None else self.test[self.test_truth]
        return np.concatenate([self.train, valid, self.aux, test, self.also_true])
