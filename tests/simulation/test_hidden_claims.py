"""Known entities of labelled claims made new again: the simulation that a judge learns in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ookg.datasets.encoded import EncodedDataset
from ookg.errors import InputError
from ookg.simulation.hidden_claims import MOST_HIDDEN, hide_claims, new_end

KNOWN, NEW, TRAIN, VALID = 120, 5, 400, 60
ENDS = {"head": (0,), "tail": (2,), "both": (0, 2)}


def traceable(position: str, seed: int = 0) -> EncodedDataset:
    """A data set in which every triple has a relation of its own, so that it can be told after entities are renumbered.

    All known entities are in train.
    """
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, KNOWN, size=(TRAIN + VALID, 2))
    ends[:KNOWN, 0] = np.arange(KNOWN)
    triples = np.stack([ends[:, 0], np.arange(TRAIN + VALID), ends[:, 1]], axis=1)
    test = rng.integers(0, KNOWN, size=(20, 3))
    test[:, ENDS[position]] = rng.integers(KNOWN, KNOWN + NEW, size=(20, len(ENDS[position])))
    aux = np.stack([np.arange(KNOWN, KNOWN + NEW), np.arange(NEW), np.arange(NEW)], axis=1)
    return EncodedDataset(
        f"toy {position}",
        "triplet-classification",
        num_known=KNOWN,
        num_entities=KNOWN + NEW,
        num_trained=TRAIN + VALID,
        num_relations=TRAIN + VALID,
        train=triples[:TRAIN],
        valid=triples[TRAIN:],
        aux=aux,
        test=test,
        valid_truth=rng.random(VALID) < 0.5,
        test_truth=np.ones(20, dtype=np.bool_),
    )


@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize("position", ENDS)
def test_simulated_entities_are_new(position: str, share: float) -> None:
    dataset = traceable(position)
    found = hide_claims(dataset, share=share)
    assert len(found.test) > 0
    assert len(found.aux) > 0
    assert found.train[:, [0, 2]].max() < found.num_known  # what is new is in no train triple
    assert found.valid[:, [0, 2]].max() < found.num_known
    assert set(np.unique(found.train[:, [0, 2]])) == set(range(found.num_known))
    assert ((found.aux[:, [0, 2]] >= found.num_known).sum(axis=1) == 1).all()  # one new and one known
    is_new = found.test[:, [0, 2]] >= found.num_known
    wanted = {"head": [True, False], "tail": [False, True], "both": [True, True]}[position]
    capped = found.num_entities - found.num_known == round(MOST_HIDDEN * KNOWN)
    if position == "both" and capped:  # not all of the drawn ends could be made new
        assert is_new.any(axis=1).all()
    else:
        assert (is_new == wanted).all()
    assert 0 < found.num_entities - found.num_known <= round(MOST_HIDDEN * KNOWN)
    assert capped == (share == 0.5)
    assert found.num_entities <= KNOWN
    for part in (found.train, found.valid, found.aux, found.test):
        assert 0 <= part.min() <= part[:, [0, 2]].max() < found.num_entities


@pytest.mark.parametrize("position", ENDS)
def test_simulated_triples_are_those_of_train_and_valid(position: str) -> None:
    dataset = traceable(position)
    assert dataset.valid_truth is not None
    found = hide_claims(dataset, seed=3)
    original = {relation: (head, tail) for head, relation, tail in [*dataset.train.tolist(), *dataset.valid.tolist()]}
    old: dict[int, int] = {}
    for head, relation, tail in np.concatenate([found.train, found.valid, found.aux, found.test]).tolist():
        for new, before in zip((head, tail), original[relation], strict=True):
            assert old.setdefault(new, before) == before
    assert len(set(old.values())) == len(old)
    assert (np.concatenate([found.train, found.aux])[:, 1] < TRAIN).all()
    for claims, truth in ((found.valid, found.valid_truth), (found.test, found.test_truth)):
        assert truth is not None
        assert truth.tolist() == dataset.valid_truth[claims[:, 1] - TRAIN].tolist()
    assert not set(found.valid[:, 1]) & set(found.test[:, 1])
    # All train triples without a new end are kept, and all that tie a new entity to a known one are given.
    number = {before: new for new, before in old.items()}
    for row, (head, _, tail) in enumerate(dataset.train.tolist()):
        ends = [number.get(end, found.num_known) for end in (head, tail)]
        new = sum(end >= found.num_known for end in ends)
        assert (row in found.train[:, 1]) == (new == 0)
        if row in found.aux[:, 1]:
            assert new == 1


def test_a_simulation_follows_from_its_seed() -> None:
    dataset = traceable("head")
    first, again, other = (hide_claims(dataset, seed) for seed in (1, 1, 2))
    for name in ("train", "valid", "aux", "test"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert first.test.tolist() != other.test.tolist()
    assert first.name == "toy head, simulated"
    assert (first.task, first.num_trained) == (dataset.task, dataset.num_trained)


def test_both_ends_are_made_new_where_test_claims_favour_neither() -> None:
    dataset = traceable("head")
    mixed = dataset.test.copy()
    mixed[:12, 0] = 0  # the head is new in less than half of the claims, the tail in none
    found = hide_claims(replace(dataset, test=mixed), share=0.1)
    expected = hide_claims(traceable("both"), share=0.1)
    assert found.test.tolist() == expected.test.tolist()
    assert len(found.test) > 0


def test_a_simulation_without_claims_is_empty() -> None:
    dataset = traceable("head")
    found = hide_claims(replace(dataset, valid=dataset.valid[:0], valid_truth=np.empty(0, dtype=np.bool_)))
    assert (len(found.test), len(found.valid), len(found.aux)) == (0, 0, 0)
    assert found.train.tolist() == dataset.train.tolist()


def test_claims_without_labels_cannot_be_simulated() -> None:
    with pytest.raises(InputError, match="valid has no labels"):
        hide_claims(replace(traceable("head"), valid_truth=None))


def test_the_end_to_be_new_may_be_named() -> None:
    dataset = traceable("head")
    assert new_end(dataset.test, dataset.num_known) == "head"
    assert hide_claims(dataset, new="head").test.tolist() == hide_claims(dataset).test.tolist()
    assert hide_claims(dataset, new="tail").test.tolist() == hide_claims(traceable("tail")).test.tolist()
    assert hide_claims(dataset, new="tail").test.tolist() != hide_claims(dataset).test.tolist()
