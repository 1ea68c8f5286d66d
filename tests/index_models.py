"""A model directory whose entities lie in bunches, and an index of it that is made by hand, without faiss."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

import ookg
from ookg.graph.known import KnownGraph
from ookg.graph.vocabulary import Vocabulary
from ookg.model.approximate import store_index
from ookg.models import TransE
from ookg.models.embedding import Embedding
from ookg.scoring.approximate import ApproximateIndex, Measured
from ookg.storage.checkpoint import Checkpoint, save_checkpoint

BUNCHES, EACH, RELATIONS, DIM = 20, 40, 4, 16
MEASURED = Measured(100, 0.99, 0.97, 10.0, 2.0)


def write_bunches(directory: Path, seed: int = 0) -> None:
    """Triples lead from an entity to others of its bunch, and relations move nothing."""
    random = np.random.default_rng(seed)
    place = random.standard_normal((BUNCHES, DIM)) * 5
    bunch = np.repeat(np.arange(BUNCHES), EACH)
    vectors = place[bunch] + random.standard_normal((len(bunch), DIM)) * 0.5
    heads, relations = random.integers(len(bunch), size=3000), random.integers(RELATIONS, size=3000)
    tails = bunch[heads] * EACH + random.integers(EACH, size=3000)
    triples = np.unique(np.stack([heads, relations, tails], axis=1)[heads != tails], axis=0)
    names = Vocabulary([f"e{number}" for number in range(len(bunch))]), Vocabulary([f"r{n}" for n in range(RELATIONS)])
    tables = torch.from_numpy(vectors).float(), torch.zeros(RELATIONS, DIM)
    graph = KnownGraph(triples, len(bunch), RELATIONS)
    save_checkpoint(Checkpoint(Embedding(TransE(DIM), *tables), *names, graph, {}, {}), directory)


def index_by_hand(directory: Path, probes: int = 2) -> None:
    """Lists of entities by their ids; each bunch is one."""
    model = ookg.load(directory)
    size = len(model.entities)
    offsets = np.linspace(0, size, BUNCHES + 1).astype(np.int64)
    parts = np.split(model.entity_vectors.float().numpy(), offsets[1:-1])
    centres = torch.from_numpy(np.stack([part.mean(axis=0) for part in parts]))
    index = ApproximateIndex(model.embedding, centres, offsets, np.arange(size), probes, MEASURED)
    store_index(index, model, directory)
