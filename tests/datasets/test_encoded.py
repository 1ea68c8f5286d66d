from __future__ import annotations

import numpy as np

from ookg.datasets.dataset import Dataset
from ookg.datasets.encoded import EncodedDataset
from ookg.graph.triples import as_triples


def test_known_entities_and_trained_relations_come_first() -> None:
    train = as_triples([("a", "r", "b"), ("b", "s", "c")])
    valid = as_triples([("a", "r", "c")])
    aux = as_triples([("new", "r", "a"), ("new", "other", "b")])
    test = as_triples([("new", "s", "c")])
    found = EncodedDataset.of(Dataset("small", "link-prediction", train, valid, aux, test))
    assert (found.num_known, found.num_entities, found.num_trained, found.num_relations) == (3, 4, 2, 3)
    assert found.aux[:, 0].tolist() == [3, 3]
    assert found.aux[:, 1].tolist() == [0, 2]
    assert found.given[:, 1].tolist() == [0, -1]
    assert found.test.tolist() == [[3, 1, 2]]
    assert len(found.true_triples) == 6


def test_only_true_claims_are_true_triples() -> None:
    train, aux = as_triples([("a", "r", "b")]), as_triples([("new", "r", "a")])
    valid = as_triples([("a", "r", "b", "1"), ("b", "r", "a", "0")])
    test = as_triples([("new", "r", "b", "1"), ("b", "r", "new", "0")])
    found = EncodedDataset.of(Dataset("small", "triplet-classification", train, valid, aux, test))
    assert found.test_truth is not None
    assert found.test_truth.tolist() == [True, False]
    assert np.array_equal(found.true_triples, np.array([[0, 0, 1], [0, 0, 1], [2, 0, 0], [2, 0, 1]]))
