"""PyTorch-BigGraph: a checkpoint folder of HDF5 files."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ookg.errors import FileError
from ookg.graph.vocabulary import Vocabulary
from ookg.interchange.foreign import (
    ForeignModel,
    ImportOptions,
    folder_of,
    load_json,
    load_object,
    number,
    own_file,
    read_labels,
    settled,
    table,
    vocabulary_of,
)
from ookg.models import TransE
from ookg.models.embedding import Embedding
from ookg.system.extras import missing
from ookg.system.limits import check_expansion
from ookg.types import FloatArray, IntArray

TOOL = "PyTorch-BigGraph"
COMPARATORS = {
    "dot": "is a dot product: it has no nearest entity, so there is no closed form",
    "cos": "is a cosine, in which the length of a vector is free: there is no closed form",
}
INSIDE = "write the checkpoint again, with all of it in its own files"
RETRAIN = "train with comparator l2 or squared_l2 and operator translation"


def read(source: Path, options: ImportOptions) -> ForeignModel:
    """Read a checkpoint folder: `config.json`, `checkpoint_version.txt`, `embeddings_<type>_<part>.v<N>.h5`,
    `model.v<N>.h5`.

    Comparator l2: D = ‖·‖₂; squared_l2: D = ‖·‖₂². A static relation compares h with t + translation, so our
    r = -translation. Dynamic relations have two operators, one per end; the left one, which answers for tails, compares
    h + translation with t: our r = translation. Operator none: r = 0. The global embedding of an entity type, where
    there is one, is added to its entities, and `max_norm` bounds the length of a row before that.

    Names: `entity_names_<type>_<part>.json` and `dynamic_rel_names.json` of the entity path; static relations have
    theirs in config.json.
    """
    folder = folder_of(source)
    config_path = folder / "config.json"
    config = load_object(config_path)
    comparator = _comparator(config_path, config)
    settled("model", options.model, "transe", folder)
    settled("norm", options.norm, 2, folder)
    version = _version(folder)
    with _opened(folder / f"model.v{version}.h5") as file:
        parameters = _parameters(file, folder / f"model.v{version}.h5")
    raw = _Raw.read(folder, config, version, parameters)
    relations = table(raw.signed, folder / f"model.v{version}.h5", "the relation table")
    entities = table(raw.entities, folder, "the entity table", width=relations.shape[1])
    squared = comparator == "squared_l2"
    place = "h + translation with t" if raw.dynamic else "h with t + translation"
    convention = f"translation, comparator {comparator} ({place}); no constraint"
    embedding = Embedding(TransE(relations.shape[1], norm=2, squared=squared), entities, relations)
    labels = _entity_names(folder, config, options, raw.sizes), _relation_names(folder, config, options, len(relations))
    notes = []
    if raw.dynamic:
        notes.append("dynamic relations: the left operators, which answer for tails, are used; the right ones are not")
    return ForeignModel(TOOL, convention, embedding, *labels, raw.scores(squared), notes)


class _Raw:
    """The numbers of a checkpoint: entities of all types and partitions in a row, and one translation per relation."""

    def __init__(self, entities: Any, translations: Any, dynamic: bool, sizes: dict[tuple[str, int], int]) -> None:
        self.entities, self.translations, self.dynamic, self.sizes = entities, translations, dynamic, sizes

    @property
    def signed(self) -> Any:
        """Our relation vectors. Without the zero's sign: 0 - x, not -x."""
        return self.translations if self.dynamic else 0 - self.translations

    @classmethod
    def read(cls, folder: Path, config: dict[str, Any], version: str, parameters: dict[str, Any]) -> _Raw:
        parts, sizes = [], {}
        for kind, count in _entity_types(folder / "config.json", config):
            for part in range(count):
                path = folder / f"embeddings_{kind}_{part}.v{version}.h5"
                with _opened(path) as file:
                    rows = _dataset(file, path, "embeddings")
                shift = parameters.get(f"entities/{kind}/global_embedding", np.zeros(rows.shape[-1:], np.float32))
                if rows.ndim != 2 or rows.dtype.kind != "f" or shift.shape != rows.shape[1:]:
                    problem = f"embeddings are {rows.dtype} of shape {rows.shape}, the global embedding {shift.shape}"
                    raise FileError(
                        path, problem, "expected (rows, dimension) and (dimension,); restore the checkpoint"
                    )
                if config.get("max_norm") is not None:
                    most = number(config["max_norm"], "max_norm", folder / "config.json")
                    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
                    rows = np.where(lengths > most, rows * (most / (lengths + 1e-7)), rows)
                parts.append(rows + shift)
                sizes[kind, part] = len(rows)
        widths = {rows.shape[1] for rows in parts}
        if len(widths) != 1:
            raise FileError(folder, f"entity vectors of {sorted(widths)} numbers", "only one dimension can be used")
        translations, dynamic = _translations(folder / f"model.v{version}.h5", config, parameters, widths.pop())
        return cls(np.concatenate(parts), translations, dynamic, sizes)

    def scores(self, squared: bool) -> Callable[[IntArray], FloatArray]:
        """-‖h - (t + translation)‖₂ (static) or -‖(h + translation) - t‖₂ (dynamic), or its square."""

        def scores(triples: IntArray) -> FloatArray:
            left, right = (self.entities[triples[:, end]].astype(np.float64) for end in (0, 2))
            moved = self.translations[triples[:, 1]].astype(np.float64)
            gap = (left + moved) - right if self.dynamic else left - (right + moved)
            square = (gap**2).sum(axis=1)
            values: FloatArray = -(square if squared else np.sqrt(square))
            return values

        return scores


def _comparator(path: Path, config: dict[str, Any]) -> str:
    comparator = str(config.get("comparator", "cos"))
    if comparator not in ("l2", "squared_l2"):
        reason = COMPARATORS.get(comparator, "is not a distance that ookg knows")
        raise FileError(path, f"its comparator {comparator} {reason}", RETRAIN)
    if config.get("bias"):
        raise FileError(
            path, "bias: a number of each entity is added to the score, which no triple determines", RETRAIN
        )
    return comparator


def _version(folder: Path) -> str:
    path = folder / "checkpoint_version.txt"
    try:
        version = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(path, f"cannot be read ({error})", "give PyTorch-BigGraph's checkpoint_path") from error
    if not version.isdecimal():
        raise FileError(path, f"version {version[:20]!r}", "expected a number; restore the checkpoint")
    return version


def _opened(path: Path) -> Any:
    try:
        h5py = import_module("h5py")
    except ImportError as error:
        raise missing(f"{path}: reading it", "h5py", "biggraph") from error
    if not path.is_file():
        raise FileError(path, "no such file", "the checkpoint is not complete; give PyTorch-BigGraph's checkpoint_path")
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise FileError(path, f"not HDF5, or damaged ({str(error).splitlines()[0]})", "restore it") from error


def _item(file: Any, path: Path, name: str) -> Any:
    """A group or data set of the file; a link to another place, which may be another file, is not followed."""
    link = file.get(name, getlink=True)
    if link is not None and not isinstance(link, import_module("h5py").HardLink):
        raise FileError(path, f"{name!r} is a link to another place", INSIDE)
    return file[name]


def _numbers(item: Any, path: Path) -> Any:
    """The numbers of a data set that lie in this file; others may be any file's, and are not read."""
    if item.is_virtual or item.external:
        raise FileError(path, f"the data set {item.name} has its numbers in other files", INSIDE)
    size = item.dtype.itemsize
    for count in (math.prod(item.shape), math.prod(item.chunks or ())):
        check_expansion(path, path.stat().st_size, count * size, f"a data set {item.shape}")
    return item[...]


def _dataset(file: Any, path: Path, name: str) -> Any:
    try:
        array = _numbers(_item(file, path, name), path)
    except FileError:
        raise
    except (KeyError, OSError, TypeError, RuntimeError, ValueError, AttributeError) as error:
        raise FileError(path, f"no readable data set {name!r}", "restore the checkpoint") from error
    if not isinstance(array, np.ndarray):
        raise FileError(path, f"data set {name!r} is empty", "restore the checkpoint")
    return array


def _parameters(file: Any, path: Path) -> dict[str, Any]:
    """The model's arrays by name, such as `relations/0/operator/rhs/translation`."""
    arrays: dict[str, Any] = {}

    def visit(name: str, item: Any) -> None:
        if getattr(item, "shape", None) is not None and item.dtype.kind == "f":
            arrays[name] = _numbers(item, path)

    try:
        _item(file, path, "model").visititems(visit)  # it follows no links to other places
    except FileError:
        raise
    except (KeyError, OSError, TypeError, RuntimeError, ValueError, AttributeError) as error:
        raise FileError(path, "no readable group 'model'", "restore the checkpoint") from error
    return arrays


def _entity_types(path: Path, config: dict[str, Any]) -> list[tuple[str, int]]:
    entities = config.get("entities")
    if not isinstance(entities, dict) or not all(isinstance(kind, dict) for kind in entities.values()) or not entities:
        raise FileError(path, "it lists no entity types", "restore the config.json of the checkpoint")
    for name, kind in entities.items():
        if kind.get("featurized"):
            problem = f"entity type {name!r} is featurized: its entities have no vectors of their own"
            raise FileError(path, problem, "only entity types with vectors can be read")
    for name in entities:
        own_file(path, f"embeddings_{name}")
    parts = {name: number(kind.get("num_partitions", 1), "num_partitions", path) for name, kind in entities.items()}
    return [(name, int(count)) for name, count in parts.items()]


def _relations(path: Path, config: dict[str, Any]) -> list[dict[str, Any]]:
    relations = config.get("relations")
    if not isinstance(relations, list) or not all(isinstance(one, dict) for one in relations) or not relations:
        raise FileError(path, "it lists no relations", "restore the config.json of the checkpoint")
    return relations


def _translations(path: Path, config: dict[str, Any], parameters: dict[str, Any], width: int) -> tuple[Any, bool]:
    """One translation per relation, (relations, width), and whether they are dynamic ones."""
    config_path = path.parent / "config.json"
    relations = _relations(config_path, config)
    for one in relations:
        if one.get("operator", "none") not in ("translation", "none"):
            problem = f"relation {one.get('name')!r} has operator {one['operator']}, which is not a translation"
            raise FileError(config_path, problem, RETRAIN)
    dynamic = bool(config.get("dynamic_relations"))
    if dynamic:
        wanted = ["relations/0/operator/lhs/translations"]
    else:
        wanted = [
            f"relations/{place}/operator/rhs/translation" if one.get("operator", "none") == "translation" else ""
            for place, one in enumerate(relations)
        ]
    missing = [name for name in wanted if name and name not in parameters]
    if missing:
        raise FileError(path, f"no model/{missing[0]}", "restore the checkpoint")
    rows = [parameters[name] if name else np.zeros(width, np.float32) for name in wanted]
    if any(row.shape[-1:] != (width,) or row.ndim != 1 + dynamic for row in rows):
        problem = f"translations of shape {rows[0].shape} for entities of {width} numbers"
        raise FileError(path, problem, "the files are of different runs; restore the checkpoint")
    return (rows[0] if dynamic else np.stack(rows)), dynamic


def _entity_names(
    folder: Path, config: dict[str, Any], options: ImportOptions, sizes: dict[tuple[str, int], int]
) -> Vocabulary:
    if options.entities is not None:
        return read_labels(options.entities, sum(sizes.values()), "entity")
    place, labels = options.vocabulary or folder, []
    for (kind, part), size in sizes.items():
        path = place / f"entity_names_{kind}_{part}.json"
        if not path.is_file():
            hint = f" (the run had them in {config['entity_path']})" if config.get("entity_path") else ""
            remedy = f"give `vocabulary=...`, the entity path of the run{hint}, or `entities=...`"
            raise FileError(path, "no such file", remedy)
        labels.extend(_names(path, size, "entity"))
    return vocabulary_of(labels, place, "give `entities=...` with a label of its own for each row")


def _relation_names(folder: Path, config: dict[str, Any], options: ImportOptions, size: int) -> Vocabulary:
    if options.relations is not None:
        return read_labels(options.relations, size, "relation")
    if config.get("dynamic_relations"):
        return read_labels((options.vocabulary or folder) / "dynamic_rel_names.json", size, "relation")
    path = folder / "config.json"
    labels = [str(one.get("name")) for one in _relations(path, config)]
    return vocabulary_of(labels, path, "give `relations=...` with a label of its own for each row")


def _names(path: Path, size: int, kind: str) -> list[str]:
    names = load_json(path)
    if not isinstance(names, list) or len(names) != size:
        got = f"{len(names)} labels" if isinstance(names, list) else type(names).__name__
        raise FileError(path, f"{got} for {size} {kind} rows", "give the labels the model was trained with")
    return [str(name) for name in names]
