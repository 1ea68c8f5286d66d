"""PyKEEN: a result directory, or a file of tensors made from a trained model or a training checkpoint.

distance: TransE ‖h + r - t‖ₚ with p = `scoring_fct_norm` (default 1), its p-th power with `power_norm`; RotatE the
    Euclidean length of h∘r - t over the whole complex vector
layout: TransE (rows, d); RotatE (rows, 2d) with real and imaginary parts interleaved, its relations complex too, of
    modulus 1. With inverse triples there are two rows per relation: the even one is the relation, the odd its inverse
constraint: TransE entities are held to Euclidean length 1 unless the model was made otherwise; the numbers show it
`trained_model.pkl` and training checkpoints are pickles of objects, which are never read here: the refusal gives the
command that takes the tensors out where PyKEEN is installed.
"""

from __future__ import annotations

import csv
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ookg.errors import FileError, InputError
from ookg.graph.triples import TripleFormat, Triples, read_triples
from ookg.graph.vocabulary import Vocabulary
from ookg.interchange.foreign import (
    ForeignModel,
    ImportOptions,
    first_existing,
    folder_of,
    id_of,
    known_model,
    load_json,
    load_tensors,
    open_text,
    read_labels,
    settled,
    table,
    translation_scores,
    vocabulary_of,
)
from ookg.models import Geometry, RotatE, TransE
from ookg.models.embedding import Embedding
from ookg.types import FloatArray, IntArray

ENTITIES = "entity_representations.0._embeddings.weight"
RELATIONS = "relation_representations.0._embeddings.weight"
STATE_FILE, MODEL_FILE, TRIPLES_FOLDER = "state_dict.pt", "trained_model.pkl", "training_triples"
NUMERIC_TRIPLES = "numeric_triples.tsv.gz"
LABEL_FILES = {"entity": "entity_to_id.tsv.gz", "relation": "relation_to_id.tsv.gz"}
DESCRIPTIONS = ("metadata.json", "pipeline_config.json", "config.json", "results.json")
UNIT_TOLERANCE = 1e-3


@dataclass(frozen=True)
class _Source:
    """What a source holds: the tensors, what it says about the model, and ids by label where the file holds them."""

    path: Path
    tables: dict[str, Tensor]
    model: str | None = None
    norm: int | None = None
    power_norm: bool = False
    ids: dict[str, dict[str, int]] = field(default_factory=dict)


def read(source: Path, options: ImportOptions) -> ForeignModel:
    """TransE or RotatE with its labels."""
    folder = folder_of(source)
    stored = _read_source(_find(source), folder)
    model = _model(stored, options)
    notes: list[str] = []
    raw_relations = table(stored.tables[RELATIONS], stored.path, "relations")
    raw_entities = table(stored.tables[ENTITIES], stored.path, "entities", raw_relations.shape[1])
    relation_labels, step = _relation_labels(stored, options, folder, len(raw_relations))
    if step == 2:
        notes.append("trained with inverse triples: each relation is its even row, its inverse's row is not used")
    norm = _norm(stored, options, model, notes)
    geometry: Geometry
    if model == RotatE.name:
        entities, relations = _from_interleaved(stored, raw_entities, raw_relations[::step])
        geometry = RotatE(relations.shape[1], norm=2)
        scores = _rotate_scores(raw_entities, raw_relations, step)
        convention = "RotatE: Euclidean length of the whole complex vector; interleaved, relations complex of modulus 1"
    else:
        lengths = torch.linalg.vector_norm(raw_entities, dim=1)
        unit = bool(((lengths - 1).abs() < UNIT_TOLERANCE).all())
        if not unit:
            notes.append("its entities are not of length 1: new ones are not scaled to it either")
        squared = stored.power_norm and norm == 2
        entities, relations = raw_entities, raw_relations[::step].contiguous()
        geometry = TransE(relations.shape[1], norm, squared, unit_norm=2 if unit else 0)
        plain = translation_scores(raw_entities, raw_relations[::step], norm)
        scores = (lambda triples: -(np.abs(plain(triples)) ** norm)) if stored.power_norm else plain
        power = f", its {'square' if squared else 'first power'}" if stored.power_norm else ""
        convention = f"TransE: L{norm} distance{power}; entities {'of' if unit else 'not of'} length 1"
    entity_labels = _labels(stored, options, folder, "entity", len(entities))
    return ForeignModel(
        "PyKEEN",
        convention,
        Embedding(geometry, entities, relations),
        entity_labels,
        relation_labels,
        scores,
        notes,
        partial(_read_triples, entity_labels, relation_labels),
    )


def _read_triples(entities: Vocabulary, relations: Vocabulary, path: Path, form: TripleFormat) -> Triples:
    """A file of labels, or PyKEEN's own `numeric_triples.tsv.gz` of ids."""
    triples = read_triples(path, form)
    if path.name != NUMERIC_TRIPLES:
        return triples
    labels = []
    for vocabulary, numbers in ((entities, triples.entities), (relations, triples.relations)):
        ids = [-1 if (number := id_of(text)) is None else number for text in numbers.labels.to_pylist()]
        if ids and not 0 <= min(ids) <= max(ids) < len(vocabulary):
            raise FileError(path, f"ids that are not below {len(vocabulary)}", "give the triples of this very model")
        labels.append(vocabulary_of(vocabulary.select(ids), path))
    return replace(triples, entities=labels[0], relations=labels[1])


def conversion(path: Path) -> str:
    """The command that takes the tensors, and what is needed beside them, out of a pickle of PyKEEN's objects."""
    out = str(path.with_name(STATE_FILE))
    if path.suffix == ".pkl":
        facts = (
            "'model': type(m.interaction).__name__, 'norm': getattr(m.interaction, 'p', None), "
            "'power_norm': getattr(m.interaction, 'power_norm', False), 'model_state_dict': m.state_dict()"
        )
        code = f"import torch; m = torch.load({str(path)!r}, weights_only=False); torch.save({{{facts}}}, {out!r})"
    else:
        names = "('model_state_dict', 'entity_to_id_dict', 'relation_to_id_dict')"
        taken = f"{{k: c[k] for k in {names}}}"
        code = f"import torch; c = torch.load({str(path)!r}, weights_only=False); torch.save({taken}, {out!r})"
    return f'python -c "{code}"'


def _find(source: Path) -> Path:
    if source.is_file():
        return source
    checkpoints = sorted(path for path in source.glob("*.pt") if path.name != STATE_FILE)
    path = first_existing(source, STATE_FILE) or next(iter(checkpoints), None) or first_existing(source, MODEL_FILE)
    if path is None:
        raise FileError(source, f"neither {STATE_FILE} nor a checkpoint nor {MODEL_FILE} here", "name PyKEEN's results")
    return path


def _read_source(path: Path, folder: Path) -> _Source:
    remedy = f"take the tensors out where PyKEEN is installed, and import again: {conversion(path)}"
    content = load_tensors(path, remedy)
    if not isinstance(content, dict):
        raise FileError(path, f"holds a {type(content).__name__} that is no state dict", remedy)
    said, ids = dict(content) if "model_state_dict" in content else {}, {}
    tables = content.get("model_state_dict", content)
    for kind in LABEL_FILES:
        if isinstance(said.get(f"{kind}_to_id_dict"), dict):
            ids[kind] = said[f"{kind}_to_id_dict"]
    if not isinstance(tables, dict) or not all(isinstance(tables.get(name), Tensor) for name in (ENTITIES, RELATIONS)):
        problem = f"no {ENTITIES} and {RELATIONS} in it"
        raise FileError(path, problem, "give the state dict of a TransE or RotatE model")
    # Regularisers keep numbers of their own, which scores do not depend on; any other tensor makes another model.
    others = [name for name in tables if name not in (ENTITIES, RELATIONS) and "regularizer" not in str(name)]
    if others:
        raise FileError(path, f"holds {others[0]}, which is neither TransE nor RotatE", _ONLY)
    if "model" not in said:
        said = _description(folder)
    model = said.get("model")
    kwargs: Any = said.get("model_kwargs")
    kwargs = kwargs if isinstance(kwargs, dict) else {}
    norm = said.get("norm", kwargs.get("scoring_fct_norm", 1 if isinstance(model, str) else None))
    power_norm = said.get("power_norm", kwargs.get("power_norm", False))
    name = model.removesuffix("Interaction") if isinstance(model, str) else None
    return _Source(path, tables, name, norm, power_norm is True, ids)


_ONLY = "only models that translate or rotate can be inverted; train TransE or RotatE there"


def _description(folder: Path) -> dict[str, Any]:
    """What the JSON files of a result directory say of the model; PyKEEN itself writes it only for searched ones."""
    for path in (folder / name for name in DESCRIPTIONS):
        said = load_json(path) if path.is_file() else None
        places = (said, *(said.get(key) for key in ("pipeline", "config"))) if isinstance(said, dict) else ()
        for place in places:
            if isinstance(place, dict) and isinstance(place.get("model"), str):
                return place
    return {}


def _model(stored: _Source, options: ImportOptions) -> str:
    """The model's name, from the file, the user, or the numbers: only RotatE's relations have modulus 1 throughout."""
    stated = None if stored.model is None else known_model(stored.path, stored.model)
    if stated or options.model:
        name: str = settled("model", options.model, stated, stored.path)
        return name
    relations = table(stored.tables[RELATIONS], stored.path, "relations")
    if relations.shape[1] % 2 == 0 and _turns(relations):
        return RotatE.name
    problem = "its tables fit TransE and DistMult alike, and nothing here says which it is"
    raise InputError(f'{stored.path}: {problem}; give `model="transe"` if it is TransE (DistMult cannot be inverted)')


def _turns(relations: Tensor) -> bool:
    """Whether pairs of numbers have modulus 1, each a rotation; rows that are no numbers are judged later."""
    moduli = torch.linalg.vector_norm(relations.reshape(len(relations), -1, 2), dim=2)
    moduli = moduli[torch.isfinite(moduli)]
    return bool(((moduli - 1).abs() < UNIT_TOLERANCE).all())


def _norm(stored: _Source, options: ImportOptions, model: str, notes: list[str]) -> int:
    if model == RotatE.name:
        settled("norm", options.norm, 2, stored.path)
        return 2
    if stored.norm is None and options.norm is None:
        notes.append(
            "norm 1 is taken for granted, PyKEEN's default: nothing here says scoring_fct_norm; `norm=2` sets it"
        )
        return 1
    norm = settled("norm", options.norm, stored.norm, stored.path)
    if norm not in (1, 2):
        raise InputError(f"{stored.path}: norm {norm!r}; 1 and 2 can be imported")
    return int(norm)


def _from_interleaved(stored: _Source, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
    """Interleaved complex tables as real parts then imaginary parts, and as phases."""
    if entities.shape[1] % 2:
        raise FileError(stored.path, f"{entities.shape[1]} numbers per entity", "RotatE has pairs: real and imaginary")
    if not _turns(relations):
        raise FileError(
            stored.path, "relations whose complex numbers are not of modulus 1", "RotatE has only rotations"
        )
    halves = torch.cat([entities[:, 0::2], entities[:, 1::2]], dim=1)
    return halves, torch.atan2(relations[:, 1::2], relations[:, 0::2])


def _relation_labels(stored: _Source, options: ImportOptions, folder: Path, rows: int) -> tuple[Vocabulary, int]:
    """The labels of the relations, and how many rows each has: 2 where the model was trained with inverse triples."""
    if rows % 2 == 0:
        try:
            return _labels(stored, options, folder, "relation", rows // 2), 2
        except InputError:
            pass  # as many labels as rows, then; if that does not fit either, that is what is reported
    return _labels(stored, options, folder, "relation", rows), 1


def _labels(stored: _Source, options: ImportOptions, folder: Path, kind: str, rows: int) -> Vocabulary:
    named = options.entities if kind == "entity" else options.relations
    if named is not None:
        return read_labels(named, rows, kind)
    if kind in stored.ids and options.vocabulary is None:
        return _by_id(stored.path, stored.ids[kind], rows, kind)
    places = (options.vocabulary,) if options.vocabulary else (folder / TRIPLES_FOLDER, folder)
    path = next((place / LABEL_FILES[kind] for place in places if (place / LABEL_FILES[kind]).is_file()), None)
    if path is None:
        remedy = f"name PyKEEN's {TRIPLES_FOLDER} folder with `vocabulary`"
        raise FileError(places[0] / LABEL_FILES[kind], "no such file", remedy)
    return _by_id(path, _label_file(path), rows, kind)


def _label_file(path: Path) -> dict[str, int]:
    """Ids by label from `id<TAB>label` lines under that header; pandas quotes a label that holds quotes."""
    try:
        with open_text(path, newline="") as file:
            lines = list(csv.reader(file, delimiter="\t"))
        return {label: int(number) for number, label in lines[1:]}
    except FileError:
        raise
    except (OSError, EOFError, ValueError, zlib.error, csv.Error) as error:
        raise FileError(path, f"not a table of ids and labels ({error})", "restore it from PyKEEN's results") from error


def _by_id(path: Path, ids: dict[str, int], rows: int, kind: str) -> Vocabulary:
    if not all(isinstance(number, int) for number in ids.values()) or sorted(ids.values()) != list(range(rows)):
        problem = f"{len(ids)} {kind} labels for {rows} rows"
        raise FileError(path, problem, "give the labels the model was trained with")
    return vocabulary_of([str(label) for label in sorted(ids, key=ids.__getitem__)], path)


def _rotate_scores(entities: Tensor, relations: Tensor, step: int) -> Callable[[IntArray], FloatArray]:
    """-‖h∘r - t‖₂ of the stored rows as complex numbers, r not made a rotation; relation i has row step·i."""

    def scores(triples: IntArray) -> FloatArray:
        rows = (entities[triples[:, 0]], relations[step * triples[:, 1]], entities[triples[:, 2]])
        h, r, t = (row.numpy().astype(np.float64).view(np.complex128) for row in rows)
        values: FloatArray = -np.linalg.norm(h * r - t, axis=1)
        return values

    return scores
