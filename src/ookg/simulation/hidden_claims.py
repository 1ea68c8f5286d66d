"""Hiding known entities that labelled claims are about, to learn from claims about new entities."""

from __future__ import annotations

import numpy as np

from ookg.datasets.encoded import EncodedDataset
from ookg.errors import InputError
from ookg.graph.hiding import Hiding, mask
from ookg.simulation.hiding import NewEnd
from ookg.types import BoolArray, IntArray

# Of the known entities, at most this share is made new: the graph must stay what it is.
MOST_HIDDEN = 0.2
ENDS: dict[NewEnd, list[int]] = {"head": [0], "tail": [2], "both": [0, 2]}  # columns of the ids


def new_end(claims: IntArray, num_known: int) -> NewEnd:
    """The end that is new in most claims; "both" where both are or neither is."""
    head, tail = ((claims[:, end] >= num_known).mean() > 0.5 for end in (0, 2))
    return "both" if head == tail else "head" if head else "tail"


def labelled_claims(
    name: str, triples: IntArray, claims: IntArray, truth: BoolArray | None, num_entities: int, num_relations: int
) -> EncodedDataset:
    """Training triples and labelled claims as a data set; only claims about what is known. name: of their source"""
    nothing, known = np.empty((0, 3), dtype=np.int64), (claims >= 0).all(axis=1)
    return EncodedDataset(
        name=name,
        task="triplet-classification",
        num_known=num_entities,
        num_entities=num_entities,
        num_trained=num_relations,
        num_relations=num_relations,
        train=triples,
        valid=claims[known],
        aux=nothing,
        test=nothing,
        valid_truth=None if truth is None else truth[known],
    )


def hide_claims(
    dataset: EncodedDataset, seed: int = 0, share: float = 0.5, new: NewEnd | None = None
) -> EncodedDataset:
    """The data set of `hidden_claims`."""
    return hidden_claims(dataset, seed, share, new)[0]


def hidden_claims(
    dataset: EncodedDataset, seed: int = 0, share: float = 0.5, new: NewEnd | None = None
) -> tuple[EncodedDataset, IntArray]:
    """A data set like the given one, made of its train and valid parts alone: entities of valid claims become new.

    The ends named by `new` (by default those that are new in the test claims) are made new in a share of the valid
    claims; their train triples with known entities become the given ones (aux), and the claims become test. Valid keeps
    the claims whose entities all stay known. At most a fifth of the known entities is made new.

    Also returns the ids that its entities have in the given one.
    """
    if dataset.valid_truth is None:
        raise InputError(f"data set {dataset.name}: valid has no labels; claims about new entities cannot be simulated")
    ends = ENDS[new or new_end(dataset.test, dataset.num_known)]
    inside = (dataset.valid[:, [0, 2]] < dataset.num_known).all(axis=1)
    claims, truth = dataset.valid[inside], dataset.valid_truth[inside]
    drawn = np.random.default_rng(seed).permutation(len(claims))[: max(1, round(share * len(claims)))]
    most = max(1, round(MOST_HIDDEN * dataset.num_known))
    hidden = mask(_first_distinct(claims[drawn][:, ends].ravel(), most), dataset.num_known)
    # What is asked must not be given: labelled claims may be training triples.
    hiding = Hiding.of(dataset.train[~_among(dataset.train, claims)], hidden, dataset.num_trained)
    new_ends = hidden[claims[:, [0, 2]]]  # (claims, 2)
    asked = mask(drawn, len(claims))
    asked &= (new_ends == np.isin([0, 2], ends)).all(axis=1) | ((len(ends) == 2) & new_ends.any(axis=1))
    test = asked & (hidden | hiding.known)[claims[:, [0, 2]]].all(axis=1)
    valid = hiding.known[claims[:, [0, 2]]].all(axis=1)
    simulated = EncodedDataset(
        name=f"{dataset.name}, simulated",
        task=dataset.task,
        num_known=hiding.num_known,
        num_entities=len(hiding.entities),
        num_trained=dataset.num_trained,
        num_relations=dataset.num_trained,
        train=hiding.renumbered(hiding.triples[hiding.stays]),
        valid=hiding.renumbered(claims[valid]),
        aux=hiding.renumbered(hiding.triples[hiding.ties]),
        test=hiding.renumbered(claims[test]),
        valid_truth=truth[valid],
        test_truth=truth[test],
    )
    return simulated, hiding.entities


def _among(triples: IntArray, others: IntArray) -> BoolArray:
    """(triples,) whether each is one of the others."""
    both = np.concatenate([triples, others])
    _, number = np.unique(both, axis=0, return_inverse=True)
    number = number.ravel()
    is_among: BoolArray = np.isin(number[: len(triples)], number[len(triples) :])
    return is_among


def _first_distinct(ids: IntArray, most: int) -> IntArray:
    """The first `most` distinct ids, in their order."""
    distinct, first = np.unique(ids, return_index=True)
    return distinct[np.argsort(first)][:most]
