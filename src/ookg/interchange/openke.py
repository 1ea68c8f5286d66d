"""OpenKE: a state dict (`.ckpt`, `.pt`) or its parameters as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ookg.errors import FileError
from ookg.graph.triples import TripleFormat, Triples, as_triples, read_triples
from ookg.graph.vocabulary import Vocabulary
from ookg.interchange.foreign import (
    ForeignModel,
    ImportOptions,
    folder_of,
    known_model,
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
from ookg.types import FloatArray, IntArray

TOOL = "OpenKE"
EPSILON = 2.0
ENTITIES, RELATIONS = "ent_embeddings.weight", "rel_embeddings.weight"
CONVERSION = (
    "in OpenKE's environment save the parameters alone: model.save_checkpoint('model.ckpt') or "
    "model.save_parameters('model.json')"
)
# Parameters that only models of other kinds have.
OTHERS = {
    "norm_vector.weight": "TransH",
    "transfer_matrix.weight": "TransR",
    "ent_transfer.weight": "TransD",
    "rel_matrices.weight": "RESCAL",
    "ent_re_embeddings.weight": "ComplEx",
    "rel_inv_embeddings.weight": "SimplE",
}


def read(source: Path, options: ImportOptions) -> ForeignModel:
    """Read the parameters of a model.

    TransE: D = ‖h + r - t‖ₚ, p = `p_norm`, by default 1; with `norm_flag`, the default, h, r and t are scaled to
    Euclidean length 1 first: the tables here hold them so, and a new entity is scaled to it too. RotatE:
    D = Σ |h∘r - t| over complex moduli; an entity is d real parts, then d imaginary parts; a relation holds x with the
    phase x·π / `rel_embedding_range`; no constraint.

    RotatE is recognised by its `rel_embedding_range`. TransE's parameters look like DistMult's, and the file has no
    `p_norm` and no `norm_flag`: give them with `model`, `norm` and `normalised`. Labels: `entity2id.txt` and
    `relation2id.txt` of the data folder; `train2id.txt` can be given as the training triples.
    """
    folder = folder_of(source)
    state, path = _state(source)
    raw_entities, raw_relations = numbers(state[ENTITIES]), numbers(state[RELATIONS])
    relations = table(raw_relations, path, "the relation table")
    d = relations.shape[1]
    notes: list[str] = []
    if "rel_embedding_range" in state:
        settled("model", options.model, "rotate", path)
        settled("norm", options.norm, 1, path)
        entities = table(raw_entities, path, "the entity table", width=2 * d)
        span = _range(path, state, options, d)
        geometry: Geometry = RotatE(d, norm=1)
        relations = phases(raw_relations, span / math.pi)
        convention = f"RotatE: sum of moduli; entities as halves re, im; phase = x·π / {span:.6g}; no constraint"
        scores = rotation_scores(raw_entities, raw_relations, span / math.pi)
    else:
        _must_be_transe(path, options)
        entities = table(raw_entities, path, "the entity table", width=d)
        norm, normalised = _settings(path, state, options, notes)
        geometry = TransE(d, norm=norm, unit_norm=2 if normalised else 0)
        if normalised:
            entities, relations = (
                torch.nn.functional.normalize(rows.double()).float() for rows in (entities, relations)
            )
        constraint = "h, r and t scaled to length 1 when scoring" if normalised else "no constraint"
        convention = f"TransE: L{norm} norm of h + r - t; {constraint}"
        scores = _transe_scores(raw_entities, raw_relations, norm, normalised)
    names = (["entity2id.txt"], ["relation2id.txt"])
    labels = read_vocabularies(options, folder, names, (len(entities), len(relations)))
    embedding = Embedding(geometry, entities, relations)
    return ForeignModel(TOOL, convention, embedding, *labels, scores, notes, _triples_reader(*labels))


def _state(source: Path) -> tuple[dict[str, Any], Path]:
    path = source
    if source.is_dir():
        files = sorted(file for file in source.iterdir() if file.suffix in (".ckpt", ".pt"))
        if len(files) != 1:
            raise FileError(source, f"{len(files)} .ckpt or .pt files here", "name the model's file")
        path = files[0]
    if path.suffix == ".json":
        content: Any = load_object(path)
    else:
        content = load_tensors(path, CONVERSION)
    if not isinstance(content, dict):
        raise FileError(path, "is not a state dict", CONVERSION)
    # A training strategy that wraps the model writes its parameters as `model.ent_embeddings.weight`.
    state = {str(key).removeprefix("model."): value for key, value in content.items()}
    for key, model in OTHERS.items():
        if key in state:
            known_model(path, model)
    for key in (ENTITIES, RELATIONS):
        if key not in state:
            raise FileError(path, f"no {key}", CONVERSION)
        state[key] = _rows(path, key, state[key])
    return state, path


def _rows(path: Path, key: str, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value
    try:
        return np.array(value, dtype=np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise FileError(path, f"{key} is not a table of numbers", CONVERSION) from error


def _must_be_transe(path: Path, options: ImportOptions) -> None:
    if options.model is None:
        problem = "its parameters fit TransE, and DistMult as well, which has no closed form"
        raise FileError(path, problem, 'if it is TransE, say `model="transe"`')
    if options.model != "transe":
        raise FileError(path, "no rel_embedding_range, so it is not RotatE", CONVERSION)


def _range(path: Path, state: dict[str, Any], options: ImportOptions, d: int) -> float:
    span = number(state["rel_embedding_range"], "rel_embedding_range", path)
    if options.gamma is not None and not math.isclose((options.gamma + EPSILON) / d, span, rel_tol=1e-4):
        problem = f"rel_embedding_range is {span:.6g}; a `gamma` of {options.gamma:g} would make it"
        raise FileError(path, f"{problem} {(options.gamma + EPSILON) / d:.6g}", "leave out `gamma`")
    return span


def _settings(path: Path, state: dict[str, Any], options: ImportOptions, notes: list[str]) -> tuple[int, bool]:
    norm, normalised = state.get("p_norm"), state.get("norm_flag")
    if norm is None and options.norm is None:
        notes.append("the file does not say its p_norm; OpenKE's default, 1, was taken (`norm` says another)")
        norm = 1
    norm = number(settled("norm", options.norm, norm, path), "p_norm", path)
    if norm not in (1, 2):
        raise FileError(path, f"p_norm is {norm:g}", "only the norms 1 and 2 can be used")
    if normalised is None and options.normalised is None:
        notes.append(
            "the file does not say its norm_flag; OpenKE's default, true, was taken (or say `normalised=False`)"
        )
        normalised = True
    return int(norm), bool(settled("normalised", options.normalised, normalised, path))


def _transe_scores(entities: Any, relations: Any, norm: int, normalised: bool) -> Callable[[IntArray], FloatArray]:
    if not normalised:
        return translation_scores(entities, relations, norm)

    def unit(rows: Any) -> Any:
        rows = rows.astype(np.float64)
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)

    def scores(triples: IntArray) -> FloatArray:
        h, r, t = unit(entities[triples[:, 0]]), unit(relations[triples[:, 1]]), unit(entities[triples[:, 2]])
        values: FloatArray = -np.linalg.norm(h + r - t, ord=norm, axis=1)
        return values

    return scores


def _triples_reader(entities: Vocabulary, relations: Vocabulary) -> Callable[[Path, TripleFormat], Triples]:
    """Reads `train2id.txt`, a count and then `head tail relation` as ids; any other file as triples of labels."""

    def read_file(path: Path, form: TripleFormat) -> Triples:
        if not _has_count_line(path):
            return read_triples(path, form)
        try:
            ids = np.loadtxt(path, dtype=np.int64, skiprows=1, ndmin=2)
        except (ValueError, OSError) as error:
            problem = f"not lines of three ids ({str(error).splitlines()[0]})"
            raise FileError(path, problem, "give OpenKE's train2id.txt") from error
        if ids.shape[1:] != (3,) or ids.min(initial=0) < 0 or not len(ids):
            raise FileError(path, f"ids of shape {ids.shape}", "expected lines of head, tail and relation")
        if ids[:, :2].max() >= len(entities) or ids[:, 2].max() >= len(relations):
            problem = f"ids up to {ids[:, :2].max()} and {ids[:, 2].max()}"
            remedy = f"the model has {len(entities)} entities and {len(relations)} relations"
            raise FileError(path, problem, remedy)
        columns = entities.select(ids[:, 0]), relations.select(ids[:, 2]), entities.select(ids[:, 1])
        return as_triples(zip(*columns, strict=True))

    return read_file


def _has_count_line(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.readline(64).strip().isdigit()
