"""A large model with structure, without a training: vectors and triples that follow from latent places.

Entities are of 200 kinds, each kind a cloud in a latent space; a relation leads from one kind to another and moves
points as far as their centres are apart; the tail of a triple is, of 16 of its kind, the one nearest to where the
relation moves the head. The latent places are spread over all coordinates, and every vector has noise of its own.
LATENT, WITHIN and NOISE are chosen so that such questions are about as hard to search for as those of a trained model
(TransE, d 200, FB15k-237, 20,000 steps): there, the mean gap to all entities is 1.60 (tails) and 1.63 (heads) times
that to the tenth nearest one, and here 1.71 and 1.75 with a million entities, 1.64 and 1.66 with 100,000. Under random
vectors it is 1.2 to 1.3, and an index is of no use.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from ookg.graph.known import KnownGraph
from ookg.models import TransE
from ookg.models.embedding import Embedding
from ookg.storage.checkpoint import Checkpoint, save_checkpoint
from ookg.types import Array, IntArray
from opening import RELATIONS, labels

KINDS, LATENT, WITHIN, NOISE, DRAWN = 200, 64, 0.8, 0.6, 16


def normal(random: np.random.Generator, *shape: int) -> Array:
    return random.standard_normal(shape, dtype=np.float32)


def write_planted(directory: Path, entities: int, triples: int, dim: int) -> None:
    random = np.random.default_rng(0)
    centres, kind = normal(random, KINDS, LATENT), random.integers(KINDS, size=entities)
    place = centres[kind] + np.float32(WITHIN) * normal(random, entities, LATENT)
    spread = normal(random, LATENT, dim) / np.float32(LATENT**0.5)
    vectors = place @ spread + np.float32(NOISE) * normal(random, entities, dim)
    ends = random.integers(KINDS, size=(2, RELATIONS))
    moves = centres[ends[1]] - centres[ends[0]]
    by_kind = [np.flatnonzero(kind == number) for number in range(KINDS)]
    rows = [
        _triples(random, relation, place, moves[relation], [by_kind[end] for end in ends[:, relation]], triples)
        for relation in range(RELATIONS)
    ]
    graph = KnownGraph(np.unique(np.concatenate(rows), axis=0), entities, RELATIONS)
    embedding = Embedding(TransE(dim), torch.from_numpy(vectors), torch.from_numpy(moves @ spread))
    names = labels("entity", entities), labels("relation", RELATIONS)
    save_checkpoint(Checkpoint(embedding, *names, graph, {}, {}), directory)


def _triples(
    random: np.random.Generator, relation: int, place: Array, move: Array, ends: list[IntArray], triples: int
) -> IntArray:
    """Those of one relation, from one kind to another."""
    size = triples // RELATIONS
    head, drawn = random.choice(ends[0], size), random.choice(ends[1], (size, DRAWN))
    gaps = np.square((place[head] + move)[:, None] - place[drawn]).sum(axis=2)
    return np.stack([head, np.full(size, relation), drawn[np.arange(size), gaps.argmin(axis=1)]], axis=1)
