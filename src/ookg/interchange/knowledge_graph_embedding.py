"""KnowledgeGraphEmbedding, the code of the RotatE paper, and whatever writes its layout (the paper's code too)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ookg.errors import FileError
from ookg.interchange.foreign import (
    ForeignModel,
    ImportOptions,
    folder_of,
    known_model,
    load_array,
    load_object,
    load_tensors,
    number,
    numbers,
    phases,
    read_vocabularies,
    rotation_scores,
    settled,
    table,
    translation_scores,
)
from ookg.models import Geometry, RotatE, TransE
from ookg.models.embedding import Embedding

TOOL = "KnowledgeGraphEmbedding"
PI = 3.14159262358979323846  # as its code spells it; the eighth digit is not π's
EPSILON = 2.0
ARRAYS = ("entity_embedding", "relation_embedding")


def read(source: Path, options: ImportOptions) -> ForeignModel:
    """Read a run's folder: `entity_embedding.npy`, `relation_embedding.npy`, `config.json`, `checkpoint`.

    TransE: D = ‖h + r - t‖₁. RotatE: D = Σ |h∘r - t| over complex moduli; an entity is d real parts, then d imaginary
    parts; a relation holds x with the phase x·π / embedding_range, embedding_range = (γ + 2) / d. No constraint.

    embedding_range comes from `checkpoint` where there is one, as a resumed run can leave a wrong γ in config.json;
    without it from `gamma`, or else from config.json. The labels, `entities.dict` and `relations.dict`, are with the
    data, not with the model.
    """
    folder = folder_of(source)
    config_path, state_path = folder / "config.json", folder / "checkpoint"
    if not any(path.is_file() for path in (config_path, state_path, folder / f"{ARRAYS[0]}.npy")):
        problem = f"no config.json, checkpoint or {ARRAYS[0]}.npy here"
        raise FileError(source, problem, f"give the folder that {TOOL} saved a model in")
    config = load_object(config_path) if config_path.is_file() else {}
    state = _state(state_path) if state_path.is_file() else {}
    name = _model_name(folder, config, state, options)
    settled("norm", options.norm, 1, folder)
    raw_entities, raw_relations = _arrays(folder, state)
    path = folder / f"{ARRAYS[0]}.npy"
    relations = table(raw_relations, folder / f"{ARRAYS[1]}.npy", "the relation table")
    d = relations.shape[1]
    entities = table(raw_entities, path, "the entity table", width=2 * d if name == "rotate" else d)
    notes: list[str] = []
    gamma: float | None = None
    geometry: Geometry = TransE(d, norm=1)
    convention = "TransE: L1 norm of h + r - t; no constraint"
    scores = translation_scores(raw_entities, raw_relations, 1)
    if name == "rotate":
        span = _range(folder, config, state, options, d, notes)
        gamma = round(span * d - EPSILON, 6)
        geometry, relations = RotatE(d, norm=1), phases(raw_relations, span / PI)
        convention = f"RotatE: sum of moduli; entities as halves re, im; phase = x·π / {span:.6g}; no constraint"
        scores = rotation_scores(raw_entities, raw_relations, span / PI)
    hint = f" (the run had its data in {config['data_path']})" if config.get("data_path") else ""
    names = (["entities.dict"], ["relations.dict"])
    labels = read_vocabularies(options, folder, names, (len(entities), len(relations)), hint)
    return ForeignModel(TOOL, convention, Embedding(geometry, entities, relations), *labels, scores, notes, gamma=gamma)


def _state(path: Path) -> dict[str, Any]:
    content = load_tensors(path, "write it again, or remove it to go by the .npy files and config.json alone")
    state = content.get("model_state_dict") if isinstance(content, dict) else None
    if not isinstance(state, dict):
        raise FileError(path, "holds no model_state_dict", f"give a checkpoint that {TOOL} wrote")
    for name in ARRAYS:
        if name in state and not isinstance(state[name], torch.Tensor):
            problem = f"{name} is a {type(state[name]).__name__} instead of a tensor"
            raise FileError(path, problem, f"give a checkpoint that {TOOL} wrote")
    return state


def _model_name(folder: Path, config: dict[str, Any], state: dict[str, Any], options: ImportOptions) -> str:
    if "modulus" in state:
        return known_model(folder, "pRotatE")
    stated = config.get("model")
    name: str = settled("model", options.model, None if stated is None else known_model(folder, str(stated)), folder)
    return name


def _arrays(folder: Path, state: dict[str, Any]) -> tuple[Any, Any]:
    arrays = []
    for name in ARRAYS:
        path = folder / f"{name}.npy"
        array = load_array(path) if path.is_file() else state.get(name)
        if array is None:
            raise FileError(path, "no such file", f"give the folder that {TOOL} saved a model in")
        other = state.get(name)
        if other is not None and tuple(other.shape) != tuple(array.shape):
            problem = f"shape {tuple(array.shape)}, but {tuple(other.shape)} in checkpoint"
            raise FileError(path, problem, "the files are of different runs; save the model again")
        arrays.append(array if path.is_file() else numbers(array))
    return arrays[0], arrays[1]


def _range(
    folder: Path, config: dict[str, Any], state: dict[str, Any], options: ImportOptions, d: int, notes: list[str]
) -> float:
    """embedding_range: of the checkpoint, or else from γ."""
    stated = config.get("gamma")
    if "embedding_range" in state:
        path = folder / "checkpoint"
        span = number(state["embedding_range"], "embedding_range", path)
        gamma = round(number(state.get("gamma", span * d - EPSILON), "gamma", path, above=-EPSILON), 4)
        settled("gamma", options.gamma, gamma, path)
        if stated is not None and abs(number(stated, "gamma", folder / "config.json", -EPSILON) - gamma) > 1e-3:
            notes.append(f"config.json says gamma {stated}, the checkpoint {gamma:g}; the checkpoint's was used")
        return span
    path = folder / "config.json"
    if options.gamma is not None and stated is not None and stated != options.gamma:
        notes.append(f"config.json says gamma {stated}; the given {options.gamma:g} was used")
        stated = None
    gamma = number(settled("gamma", options.gamma, stated, path), "gamma", path, above=-EPSILON)
    return (gamma + EPSILON) / d
