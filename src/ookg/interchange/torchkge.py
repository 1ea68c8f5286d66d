"""TorchKGE: a state dict of `TransEModel`, saved by `torch.save(model.state_dict(), FILE)`.

distance: ‖h/‖h‖₂ + r - t/‖t‖₂‖₂² for dissimilarity "L2" (TorchKGE's default), ‖h/‖h‖₂ + r - t/‖t‖₂‖₁ for "L1"
layout: `ent_emb.weight` (entities, d), `rel_emb.weight` (relations, d)
constraint: entities have Euclidean length 1; TorchKGE normalises them when it scores and after each epoch
labels: TorchKGE numbers the sorted labels of its data; options.vocabulary names that data, a file of triples, or a
    folder of label files
The file says neither the dissimilarity nor the model, and DistMult, HolE and TorusE have the same tables: options do.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ookg.errors import FileError, InputError
from ookg.graph.triples import Triples, read_triples
from ookg.graph.vocabulary import Vocabulary
from ookg.interchange.arrays import PLURAL, find_vocabulary
from ookg.interchange.foreign import ForeignModel, ImportOptions, table
from ookg.interchange.pyg import state_dict
from ookg.models import TransE
from ookg.models.embedding import Embedding
from ookg.types import FloatArray, IntArray

ENTITIES, RELATIONS = "ent_emb.weight", "rel_emb.weight"
REMEDY = "save it with `torch.save(model.state_dict(), FILE)` where the model was trained"


def read(source: Path, options: ImportOptions) -> ForeignModel:
    """A state dict of TransE, which is the one model of TorchKGE that can be inverted."""
    tables = state_dict(source, REMEDY)
    if set(tables) != {ENTITIES, RELATIONS}:
        problem = f"holds {', '.join(sorted(tables))}; TransE holds {ENTITIES} and {RELATIONS}"
        raise FileError(source, problem, "only TransE can be inverted; train TransEModel")
    if options.model is None:
        problem = "its tables fit TransE, DistMult, HolE and TorusE alike, and the file does not say which it is"
        raise InputError(f'{source}: {problem}; give `model="transe"` if it is TransE (the others cannot be inverted)')
    if options.model != TransE.name:
        raise InputError(f"{source}: TorchKGE has no {options.model} that can be inverted; train its TransEModel")
    notes: list[str] = []
    if options.norm is None:
        notes.append(
            'dissimilarity "L2" is taken for granted, TorchKGE\'s default: its files do not say; `norm=1` is "L1"'
        )
    norm = options.norm or 2
    relations = table(tables[RELATIONS], source, RELATIONS)
    raw = table(tables[ENTITIES], source, ENTITIES, relations.shape[1])
    entities = torch.nn.functional.normalize(raw, dim=-1)
    geometry = TransE(relations.shape[1], norm, squared=norm == 2, unit_norm=2)
    data = read_triples(options.vocabulary) if options.vocabulary and options.vocabulary.is_file() else None
    return ForeignModel(
        "TorchKGE",
        f"TransE: {'squared L2' if norm == 2 else 'L1'} distance, entities normalised to Euclidean length 1",
        Embedding(geometry, entities, relations),
        _vocabulary(data, options, "entity", len(entities), source.parent, notes),
        _vocabulary(data, options, "relation", len(relations), source.parent, notes),
        _scores(raw, relations, norm),
        notes,
    )


def _vocabulary(
    data: Triples | None, options: ImportOptions, kind: str, rows: int, folder: Path, notes: list[str]
) -> Vocabulary:
    """The labels the user names, else the sorted ones of the data."""
    named = options.entities if kind == "entity" else options.relations
    if data is None or named is not None:
        return find_vocabulary(options, kind, rows, folder, notes)
    labels = sorted((data.entities if kind == "entity" else data.relations).labels.to_pylist())
    if len(labels) != rows:
        problem = f"{len(labels)} {PLURAL[kind]}, and the model has {rows}"
        remedy = f"give all the triples that TorchKGE was given, or `{PLURAL[kind]}=...`"
        raise FileError(data.source, problem, remedy)
    return Vocabulary(labels)


def _scores(entities: Tensor, relations: Tensor, norm: int) -> Callable[[IntArray], FloatArray]:
    """-Σ|h/‖h‖₂ + r - t/‖t‖₂|ᵖ of the stored rows: the square for L2, the plain sum for L1."""

    def scores(triples: IntArray) -> FloatArray:
        rows = [entities[ids].numpy().astype(np.float64) for ids in (triples[:, 0], triples[:, 2])]
        h, t = (row / np.maximum(np.sqrt((row**2).sum(axis=1, keepdims=True)), 1e-12) for row in rows)
        values: FloatArray = -(np.abs(h + relations[triples[:, 1]].numpy() - t) ** norm).sum(axis=1)
        return values

    return scores
