"""A trained model on disk: a directory of safetensors, JSON and Parquet, written atomically, read without executing.

    model.json            what it is: format, version, geometry, settings, provenance, and the name of the data folder;
                          and, once chosen by simulation, the settings for new entities
    data-XXXXXXXX/
      vectors.safetensors   entities and relations, float32
      entities.parquet      entity, degree (how many ends of training triples it is)
      relations.parquet     relation, entities (how many have it)
      cooccurrence.parquet  relation, other, entities (how many have both)
      triples.parquet       head, relation, tail: the training triples as ids

A model that was imported without its training triples has neither degrees nor the last two files.

Saving writes a new data folder first and then replaces model.json, which names it: a crash leaves the old model or the
new one. The settings for new entities are stored by replacing model.json alone.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from scipy import sparse

from ookg.embedding import Embedding
from ookg.errors import InputError, ModelFileError
from ookg.files import WRITE_ERRORS, atomic_write, held, sync, unwritable
from ookg.models import GEOMETRIES
from ookg.simulation.choice import NewcomerChoice
from ookg.statistics import GraphStatistics, IntArray
from ookg.vocabulary import Vocabulary

FORMAT, VERSION = "ookg model", 1
MODEL_FILE = "model.json"
STATE_FILE = "training-state.safetensors"
NEWCOMERS = "newcomers"  # the section of model.json that holds the settings for new entities
DATA_NAME = re.compile(r"data-[0-9a-f]{8}")
FILES = ("vectors.safetensors", "entities.parquet", "relations.parquet", "cooccurrence.parquet", "triples.parquet")


@dataclass(frozen=True)
class Checkpoint:
    """All that a trained model consists of.

    triples: (triples, 3) the training triples as ids; statistics: what is counted on them. Empty and None for a model
        that came without its training triples
    settings and provenance: plain values, for people to read
    newcomers: what a simulation has chosen for new entities, or None
    """

    embedding: Embedding
    entities: Vocabulary
    relations: Vocabulary
    triples: IntArray
    statistics: GraphStatistics | None
    settings: dict[str, Any]
    provenance: dict[str, Any]
    newcomers: NewcomerChoice | None = None

    def __post_init__(self) -> None:
        for kind, labels, rows in (
            ("entity", self.entities, self.embedding.num_entities),
            ("relation", self.relations, self.embedding.num_relations),
        ):
            if len(labels) != rows:
                raise InputError(f"{len(labels)} {kind} labels for {rows} {kind} vectors; give one label a vector")


def save_checkpoint(checkpoint: Checkpoint, directory: str | Path) -> None:
    """Write a model directory, or replace the model in it."""
    directory = Path(directory)
    replaced = _data_of(directory)
    data = directory / f"data-{secrets.token_hex(4)}"
    try:
        data.mkdir(parents=True)
        _write_data(checkpoint, data)
    except BaseException as error:
        shutil.rmtree(data, ignore_errors=True)
        if isinstance(error, WRITE_ERRORS):
            raise unwritable(directory, error) from error
        raise
    geometry = checkpoint.embedding.geometry
    description: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "model": geometry.name,
        **asdict(geometry),
        "entities": len(checkpoint.entities),
        "relations": len(checkpoint.relations),
        "triples": len(checkpoint.triples),
        "data": data.name,
        "bytes": {path.name: path.stat().st_size for path in sorted(data.iterdir())},
        "settings": checkpoint.settings,
        "provenance": checkpoint.provenance,
    }
    if checkpoint.newcomers is not None:
        description[NEWCOMERS] = checkpoint.newcomers.to_dict()
    _write_description(directory, description)
    if replaced is not None:
        shutil.rmtree(replaced, ignore_errors=True)


def save_newcomer_choice(choice: NewcomerChoice, directory: str | Path, checkpoint: Checkpoint) -> None:
    """Store the settings for new entities with the model in a directory; nothing else of it is written.

    checkpoint: the model they were chosen for, which must be the one that is still there
    """
    directory = Path(directory)
    _description(directory)  # no lock is left where there is no model
    with held(directory):
        description = _description(directory)
        there = [description["settings"], description["provenance"]]
        if there != json.loads(json.dumps([checkpoint.settings, checkpoint.provenance])):
            problem = "another model has taken the place of the one this was found for"
            raise InputError(f"{directory}: {problem}; nothing is stored, run it again")
        _write_description(directory, description | {NEWCOMERS: choice.to_dict()})


def _write_description(directory: Path, description: dict[str, Any]) -> None:
    with atomic_write(directory / MODEL_FILE) as temporary:
        text = json.dumps(description, indent=2, ensure_ascii=False)
        temporary.write_text(text + "\n", encoding="utf-8")


def _data_of(directory: Path) -> Path | None:
    """The data folder of the model in a directory, if there is one that can be read."""
    try:
        return directory / str(_description(directory)["data"])
    except ModelFileError:
        return None


def _write_data(checkpoint: Checkpoint, data: Path) -> None:
    embedding, statistics = checkpoint.embedding, checkpoint.statistics
    vectors = {"entities": embedding.entities, "relations": embedding.relations}
    save_file({name: table.detach().cpu().contiguous() for name, table in vectors.items()}, data / FILES[0])
    tables: dict[str, dict[str, Any]] = {
        "entities.parquet": {"entity": checkpoint.entities.labels},
        "relations.parquet": {"relation": checkpoint.relations.labels},
    }
    if statistics is not None:
        pairs = statistics.cooccurrence.tocoo()
        tables["entities.parquet"]["degree"] = statistics.degree
        tables["relations.parquet"]["entities"] = statistics.cooccurrence.diagonal()
        tables["cooccurrence.parquet"] = {"relation": pairs.coords[0], "other": pairs.coords[1], "entities": pairs.data}
        ends = dict(zip(("head", "relation", "tail"), checkpoint.triples.T, strict=True))
        tables["triples.parquet"] = ends
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), data / name)
    for path in (*data.iterdir(), data):
        sync(path)


def load_checkpoint(directory: str | Path, device: str = "cpu") -> Checkpoint:
    """Read a model directory; a damaged or newer one is refused with a line that says why."""
    directory = Path(directory)
    description = _description(directory)
    data = directory / description["data"]
    for name, size in description["bytes"].items():
        if not (data / name).is_file():
            raise ModelFileError(f"{data / name}: missing; the model is damaged, restore it or train again")
        if (data / name).stat().st_size != size:
            found = (data / name).stat().st_size
            raise ModelFileError(f"{data / name}: {found} bytes instead of {size}; the model is damaged, restore it")
    try:
        model = GEOMETRIES[description["model"]]
        # A field that an older version did not write has its default.
        stored = {field.name: description[field.name] for field in fields(model) if field.name in description}
        geometry = model(**stored)
        # The tensors are mapped into memory: what is not touched is not read.
        with safe_open(data / FILES[0], framework="pt", device=device) as file:
            embedding = Embedding(geometry, file.get_tensor("entities"), file.get_tensor("relations"))
        for table in (embedding.entities, embedding.relations):
            if table.dtype not in (torch.float32, torch.float64):
                raise ValueError(f"vectors of {table.dtype}, expected float32")
        entities, relations = (pq.read_table(data / name, memory_map=True) for name in FILES[1:3])
        triples, statistics = np.empty((0, 3), dtype=np.int64), None
        if "degree" in entities.column_names:
            pairs, table = (pq.read_table(data / name, memory_map=True) for name in FILES[3:])
            ends = {"head": len(entities), "relation": len(relations), "tail": len(entities)}
            triples = np.stack([_numbers(table, name, below) for name, below in ends.items()], axis=1)
            shape = (len(relations), len(relations))
            coordinates = tuple(_numbers(pairs, name, len(relations)) for name in ("relation", "other"))
            cooccurrence = sparse.csr_array((_numbers(pairs, "entities"), coordinates), shape=shape)
            statistics = GraphStatistics(_numbers(entities, "degree"), cooccurrence)
        return Checkpoint(
            embedding,
            _labels(entities, "entity"),
            _labels(relations, "relation"),
            triples,
            statistics,
            description["settings"],
            description["provenance"],
            _newcomer_choice(directory, description),
        )
    except (SafetensorError, pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelFileError(f"{directory}: damaged model ({reason}); restore it or train again") from error


def _labels(table: Any, name: str) -> Vocabulary:
    """A column of labels; whether they are distinct is not checked, which takes seconds for millions."""
    column = table[name].combine_chunks()
    if column.type != pa.string() or column.null_count:
        raise ValueError(f"column {name!r} is {column.type} with {column.null_count} gaps, expected text")
    return Vocabulary.distinct(column)


def _numbers(table: Any, name: str, below: int | None = None) -> IntArray:
    """A column of whole numbers from 0 on, of ids below a number."""
    column = table[name]
    if not pa.types.is_integer(column.type) or column.null_count:
        raise ValueError(f"column {name!r} is {column.type} with {column.null_count} gaps, expected whole numbers")
    found: IntArray = column.to_numpy().astype(np.int64, copy=False)
    if len(found) and (found.min() < 0 or (below is not None and found.max() >= below)):
        limit = "" if below is None else f" and below {below}"
        raise ValueError(f"column {name!r} has numbers from {found.min()} to {found.max()}, expected 0 or more{limit}")
    return found


def _newcomer_choice(directory: Path, description: dict[str, Any]) -> NewcomerChoice | None:
    if description.get(NEWCOMERS) is None:
        return None
    try:
        return NewcomerChoice.from_dict(description[NEWCOMERS])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        reason = str(error).split(";")[0]
        remedy = "remove that section from the file, then tune or audit the model again"
        raise ModelFileError(f"{directory / MODEL_FILE}: damaged {NEWCOMERS!r} ({reason}); {remedy}") from error


def _description(directory: Path) -> dict[str, Any]:
    path = directory / MODEL_FILE
    if not path.is_file():
        if (directory / STATE_FILE).exists():
            raise ModelFileError(f"{directory}: training is not finished; continue it with `ookg train ... --resume`")
        remedy = "train one with `ookg train TRIPLES --out DIR`"
        raise ModelFileError(f"{directory}: no model here (there is no {MODEL_FILE}); {remedy}")
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{path}: damaged ({error}); restore it or train again") from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise ModelFileError(f"{path}: not the description of an ookg model; name a directory that `ookg train` wrote")
    if type(description.get("version")) is not int or description["version"] > VERSION:
        newer = f"version {description.get('version')}, and this ookg reads up to {VERSION}"
        raise ModelFileError(f"{path}: {newer}; upgrade ookg")
    for name, fits in (
        ("data", lambda value: isinstance(value, str) and DATA_NAME.fullmatch(value)),
        ("bytes", lambda value: isinstance(value, dict) and set(FILES[:3]) <= set(value) <= set(FILES)),
        ("norm", lambda value: value in (1, 2)),
        ("settings", lambda value: isinstance(value, dict)),
        ("provenance", lambda value: isinstance(value, dict)),
    ):
        if not fits(description.get(name)):
            problem = f"{path}: damaged ({name!r} is {description.get(name)!r})"
            raise ModelFileError(f"{problem}; restore it or train again")
    return description


def holds_model(directory: str | Path) -> bool:
    """Whether there is a model in the directory."""
    return (Path(directory) / MODEL_FILE).exists()
