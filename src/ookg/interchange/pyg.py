"""PyTorch Geometric (`torch_geometric.nn.kge`): a state dict saved by `torch.save(model.state_dict(), FILE)`.

distance: TransE ‖h/‖h‖ₚ + r - t/‖t‖ₚ‖ₚ, with p = `p_norm`, 1 unless the model was made with another; RotatE the
    Euclidean length of h∘r - t over all real and imaginary parts
layout: `node_emb.weight` (entities, d), `rel_emb.weight` (relations, d); RotatE also `node_emb_im.weight`, and its
    `rel_emb.weight` holds phases in radians
constraint: TransE normalises head and tail when it scores; here the entities are normalised once, on import
The file says neither p nor the labels, and TransE and DistMult have the same tables: options say these.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ookg.errors import FileError, InputError
from ookg.interchange.arrays import find_vocabulary
from ookg.interchange.foreign import ForeignModel, ImportOptions, load_tensors, rotation_scores, settled, table
from ookg.models import Geometry, RotatE, TransE
from ookg.models.embedding import Embedding
from ookg.types import FloatArray, IntArray

REAL, IMAGINARY, RELATIONS = "node_emb.weight", "node_emb_im.weight", "rel_emb.weight"
REMEDY = "save it with `torch.save(model.state_dict(), FILE)` where the model was trained"
SMALLEST_LENGTH = 1e-12  # what torch.nn.functional.normalize divides by at least


def read(source: Path, options: ImportOptions) -> ForeignModel:
    """A state dict of TransE or RotatE."""
    tables = state_dict(source, REMEDY)
    names = set(tables)
    if names == {REAL, IMAGINARY, RELATIONS}:
        model = RotatE.name
    elif names == {REAL, RELATIONS}:
        model = TransE.name
    else:
        problem = f"holds {', '.join(sorted(names))}, which is neither TransE nor RotatE"
        raise FileError(source, problem, "only these can be inverted; train one of them")
    _agree(source, options, model)
    notes: list[str] = []
    width = table(tables[RELATIONS], source, RELATIONS).shape[1]
    real = table(tables[REAL], source, REAL, width)
    relations = table(tables[RELATIONS], source, RELATIONS)
    geometry: Geometry
    if model == RotatE.name:
        imaginary = table(tables[IMAGINARY], source, IMAGINARY, width)
        if len(imaginary) != len(real):
            problem = f"{len(real)} real and {len(imaginary)} imaginary rows"
            raise FileError(source, problem, "save the state dict again")
        geometry, entities = RotatE(width, norm=2), torch.cat([real, imaginary], dim=1)
        scores = rotation_scores(entities, relations, unit=1.0, norm=2)
        convention = "RotatE: Euclidean length over real and imaginary parts; phases in radians"
    else:
        norm = options.norm or 1
        if options.norm is None:
            notes.append("norm 1 is taken for granted, PyG's default: its files do not say p_norm; `norm=2` sets it")
        entities = torch.nn.functional.normalize(real, p=norm, dim=-1)
        geometry = TransE(width, norm, unit_norm=norm)
        scores = _transe_scores(real, relations, norm)
        convention = f"TransE, p_norm {norm}: head and tail are normalised by L{norm} when scoring"
    return ForeignModel(
        "PyG",
        convention,
        Embedding(geometry, entities, relations),
        find_vocabulary(options, "entity", len(entities), source.parent, notes),
        find_vocabulary(options, "relation", len(relations), source.parent, notes),
        scores,
        notes,
    )


def state_dict(path: Path, remedy: str) -> dict[str, Tensor]:
    """The tensors of a state dict by name; one that lies under `model_state_dict` or `state_dict` is taken out."""
    content = load_tensors(path, remedy)
    for name in ("model_state_dict", "state_dict"):
        if isinstance(content, dict) and isinstance(content.get(name), dict):
            content = content[name]
    if not isinstance(content, dict) or not content or not all(isinstance(value, Tensor) for value in content.values()):
        raise FileError(path, f"holds a {type(content).__name__} that is no state dict", remedy)
    return {str(name): tensor for name, tensor in content.items()}


def _agree(source: Path, options: ImportOptions, model: str) -> None:
    settled("model", options.model, model, source)
    if model == TransE.name and options.model is None:
        problem = "its tables fit TransE and DistMult alike, and the file does not say which it is"
        raise InputError(f'{source}: {problem}; give `model="transe"` if it is TransE (DistMult cannot be inverted)')
    if model == RotatE.name:
        settled("norm", options.norm, 2, source)


def _transe_scores(entities: Tensor, relations: Tensor, norm: int) -> Callable[[IntArray], FloatArray]:
    """-‖h/‖h‖ₚ + r - t/‖t‖ₚ‖ₚ of the stored rows."""

    def scores(triples: IntArray) -> FloatArray:
        h, t = (_unit(entities[ids].numpy().astype(np.float64), norm) for ids in (triples[:, 0], triples[:, 2]))
        r = relations[triples[:, 1]].numpy().astype(np.float64)
        values: FloatArray = -np.linalg.norm(h + r - t, ord=norm, axis=1)
        return values

    return scores


def _unit(rows: FloatArray, norm: int) -> FloatArray:
    units: FloatArray = rows / np.maximum(np.linalg.norm(rows, ord=norm, axis=1, keepdims=True), SMALLEST_LENGTH)
    return units
