"""A model's vectors, with those of new entities after them, in the layouts that other tools read: one function each.

Every writer takes `Vectors` and a folder of its own to fill. Ids are rows: known entities keep theirs, new ones follow.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch
from torch import Tensor

from ookg.errors import InputError, unknown_name
from ookg.graph.vectors import write_vectors
from ookg.graph.vocabulary import Vocabulary
from ookg.interchange import knowledge_graph_embedding as kge
from ookg.interchange import pykeen
from ookg.interchange.arrays import DESCRIPTION_FILE
from ookg.model.model import Model, NewVectors
from ookg.models import Geometry, RotatE, TransE, registered_name
from ookg.system.files import save_tensors, staged_folder
from ookg.types import IntArray

DEFAULT_GAMMA = 12.0
TABLES = ("entities", "relations")


@dataclass(frozen=True)
class Vectors:
    """What is written: the labels and vectors of a model, new entities after the known ones.

    entity_vectors: (entities, geometry.entity_width); relation_vectors: (relations, geometry.relation_width)
    triples: (triples, 3) the training triples as ids; gamma: the margin, for layouts that scale phases by it
    """

    geometry: Geometry
    entities: Vocabulary
    relations: Vocabulary
    entity_vectors: Tensor
    relation_vectors: Tensor
    triples: IntArray
    gamma: float

    @property
    def tables(self) -> Sequence[tuple[str, Vocabulary, Tensor]]:
        """Entities and relations: name, labels, vectors."""
        labels, vectors = (self.entities, self.relations), (self.entity_vectors, self.relation_vectors)
        return list(zip(TABLES, labels, vectors, strict=True))


def collect(model: Model, new: NewVectors | None = None, gamma: float | None = None) -> Vectors:
    """The vectors of a model and of new entities.

    gamma: by default the margin the model was trained with here, else 12; scores there shift by it, ranks never change
    """
    settings, checkpoint = model.checkpoint.settings, model.checkpoint
    gamma = gamma if gamma is not None else float(settings.get("margin", DEFAULT_GAMMA))
    if not (math.isfinite(gamma) and gamma > 0):
        raise InputError(f"gamma {gamma}; it must be a number above 0")
    entities, vectors = model.entities, model.entity_vectors.detach().float().cpu()
    if new is not None:
        entities = entities.extended(new.entities)
        vectors = torch.cat([vectors, new.vectors.detach().float().cpu()])
        if len(entities) != len(vectors):
            raise InputError("some of the new entities are known to the model; embed them with this very model")
    relations = model.relation_vectors.detach().float().cpu()
    return Vectors(
        checkpoint.embedding.geometry,
        entities,
        model.relations,
        vectors.contiguous(),
        relations.contiguous(),
        checkpoint.triples,
        gamma,
    )


def export(vectors: Vectors, form: str, folder: str | Path, *, overwrite: bool = False) -> list[str]:
    """Write vectors in a format of `FORMATS`; return the names of the files, relative to the folder.

    A folder that holds such files is refused unless `overwrite` is set. All files are written beside the folder first
    and take its place in one step; other files in it stay. The same vectors give the same bytes.
    """
    if form not in FORMATS:
        raise unknown_name("format", form, list(FORMATS), f"the formats are {', '.join(FORMATS)}")
    folder = Path(folder)
    with staged_folder(folder) as staging:
        FORMATS[form](vectors, staging)
        names = sorted(str(path.relative_to(staging)) for path in staging.rglob("*") if path.is_file())
        held = [name for name in names if (folder / name).exists()]
        if held and not overwrite:
            raise InputError(f"{folder}: holds {held[0]}; choose another folder, or replace it with `overwrite=True`")
    return names


def write_parquet(vectors: Vectors, folder: Path) -> None:
    """`entities.parquet` (entity, vector), `relations.parquet` (relation, vector)."""
    for name, column, labels, rows in _with_columns(vectors):
        write_vectors(folder / f"{name}.parquet", column, labels.labels, rows)
    _write_description(vectors, folder)


def write_npy(vectors: Vectors, folder: Path) -> None:
    """`entities.npy`, `relations.npy`, and beside each its labels, one per line."""
    for name, labels, rows in vectors.tables:
        np.save(folder / f"{name}.npy", rows.numpy())
        _write_labels(folder / f"{name}.txt", labels)
    _write_description(vectors, folder)


def write_safetensors(vectors: Vectors, folder: Path) -> None:
    """`vectors.safetensors` with the tensors entities and relations, and the labels of each, one per line."""
    save_tensors({name: rows for name, _, rows in vectors.tables}, folder / "vectors.safetensors")
    for name, labels, _ in vectors.tables:
        _write_labels(folder / f"{name}.txt", labels)
    _write_description(vectors, folder)


def write_word2vec(vectors: Vectors, folder: Path) -> None:
    """`entities.vec`, `relations.vec`: a line `count width`, then one line `label number number ...` per row."""
    for name, labels, rows in vectors.tables:
        _refuse(labels, r"\s", "white space", "word2vec text")
        with (folder / f"{name}.vec").open("w", encoding="utf-8", newline="\n") as file:
            file.write(f"{len(rows)} {rows.shape[1]}\n")
            for label, row in zip(labels.labels, rows, strict=True):
                # Nine digits hold a float32 exactly.
                file.write(" ".join([label.as_py(), *(f"{number:.9g}" for number in row.tolist())]) + "\n")
    _write_description(vectors, folder)


def write_kge(vectors: Vectors, folder: Path) -> None:
    """KnowledgeGraphEmbedding's layout: two arrays, `config.json`, `checkpoint`, `entities.dict`, `relations.dict`.

    Its RotatE stores x with the phase x·π / embedding_range, embedding_range = (γ + 2) / d. It knows the L1 distance
    for TransE and the sum of moduli for RotatE, nothing else.
    """
    geometry, is_rotate = vectors.geometry, isinstance(vectors.geometry, RotatE)
    if type(geometry) not in (TransE, RotatE):
        raise _other_model("KnowledgeGraphEmbedding", geometry)
    if geometry.norm != 1 or (isinstance(geometry, TransE) and geometry.squared):
        raise _other_ranks("KnowledgeGraphEmbedding", "by norm 1", geometry)
    span = (vectors.gamma + kge.EPSILON) / geometry.dim
    relations = vectors.relation_vectors
    if is_rotate:
        relations = (relations.double() * (span / kge.PI)).float()
    tables = {"entity_embedding": vectors.entity_vectors, "relation_embedding": relations}
    for name, rows in tables.items():
        np.save(folder / f"{name}.npy", rows.numpy())
    settings = {"gamma": torch.tensor([vectors.gamma]), "embedding_range": torch.tensor([span])}
    _save({"model_state_dict": {**settings, **tables}, "step": 0}, folder / "checkpoint")
    config = {
        "model": "RotatE" if is_rotate else "TransE",
        "hidden_dim": geometry.dim,
        "gamma": vectors.gamma,
        "double_entity_embedding": is_rotate,
        "double_relation_embedding": False,
        "nentity": len(vectors.entities),
        "nrelation": len(vectors.relations),
        "countries": False,
        "test_batch_size": 4,
        "data_path": ".",
    }
    _write_json(folder / "config.json", config)
    for name, labels, _ in vectors.tables:
        _refuse(labels, r"[\t\r\n]", "a tab or a line break", f"{name}.dict")
        lines = (f"{number}\t{label}\n" for number, label in enumerate(labels.labels.to_pylist()))
        with (folder / f"{name}.dict").open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(lines)


def write_pykeen(vectors: Vectors, folder: Path) -> None:
    """PyKEEN's layout: `state_dict.pt` for a model of the extended size, `metadata.json` with that model's arguments,
    and `training_triples/`, which `TriplesFactory.from_path_binary` reads.

    Its RotatE measures the Euclidean length of the whole complex vector, whatever its arguments say.
    """
    geometry = vectors.geometry
    kwargs: dict[str, Any] = {"embedding_dim": geometry.dim}
    entities, relations = vectors.entity_vectors, vectors.relation_vectors
    if type(geometry) is RotatE:
        if geometry.norm != 2:
            raise _other_ranks("PyKEEN's RotatE", "by norm 2", geometry)
        entities = torch.stack(entities.chunk(2, dim=1), dim=2).flatten(1)  # (entities, 2·dim), re and im interleaved
        turns = relations.double()
        relations = torch.stack([turns.cos(), turns.sin()], dim=2).flatten(1).float()
    elif type(geometry) is TransE:
        if geometry.squared and geometry.norm != 2:
            raise _other_ranks("PyKEEN's TransE", "by norm 1, norm 2 or the square of norm 2", geometry)
        kwargs |= {"scoring_fct_norm": geometry.norm, "power_norm": geometry.squared}
        if geometry.unit_norm == 1:
            raise _other_ranks("PyKEEN's TransE", "entities of Euclidean length 1, or of any", geometry)
        if not geometry.unit_norm:
            kwargs["entity_constrainer"] = None
    else:
        raise _other_model("PyKEEN", geometry)
    _save({pykeen.ENTITIES: entities.contiguous(), pykeen.RELATIONS: relations}, folder / pykeen.STATE_FILE)
    model = "RotatE" if isinstance(geometry, RotatE) else "TransE"
    _write_json(folder / "metadata.json", {"model": model, "model_kwargs": kwargs})
    data = folder / pykeen.TRIPLES_FOLDER
    data.mkdir()
    for kind, labels in (("entity", vectors.entities), ("relation", vectors.relations)):
        rows = enumerate(labels.labels.to_pylist())
        _write_table(data / pykeen.LABEL_FILES[kind], ("id", "label"), rows)
    _write_table(data / pykeen.NUMERIC_TRIPLES, ("head", "relation", "tail"), vectors.triples.tolist())
    sizes = {"num_entities": len(vectors.entities), "num_relations": len(vectors.relations)}
    _save({**sizes, "create_inverse_triples": False, "metadata": {}}, data / "base.pth")


FORMATS: dict[str, Callable[[Vectors, Path], None]] = {
    "parquet": write_parquet,
    "npy": write_npy,
    "word2vec": write_word2vec,
    "safetensors": write_safetensors,
    "kge": write_kge,
    "pykeen": write_pykeen,
}


def _other_ranks(tool: str, measures: str, geometry: Geometry) -> InputError:
    squared = " squared" if isinstance(geometry, TransE) and geometry.squared else ""
    problem = f"{tool} measures {measures}, this model ({geometry.name}) by norm {geometry.norm}{squared}"
    return InputError(f"{problem}: its answers there would be others; export it as parquet, npy or safetensors")


def _other_model(tool: str, geometry: Geometry) -> InputError:
    problem = f"a {geometry.name} model, and what is written for {tool} is TransE or RotatE"
    return InputError(f"{problem}; export it as parquet, npy or safetensors")


def _with_columns(vectors: Vectors) -> list[tuple[str, str, Vocabulary, Tensor]]:
    return [(*row[:1], column, *row[1:]) for row, column in zip(vectors.tables, ("entity", "relation"), strict=True)]


def _write_description(vectors: Vectors, folder: Path) -> None:
    """What the numbers mean, so that `ookg import arrays` needs no options."""
    _write_json(folder / DESCRIPTION_FILE, {"model": registered_name(vectors.geometry), **asdict(vectors.geometry)})


def _write_json(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _write_labels(path: Path, labels: Vocabulary) -> None:
    _refuse(labels, r"[\t\r\n]", "a tab or a line break", path.name)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{label}\n" for label in labels.labels.to_pylist())


def _write_table(path: Path, header: Sequence[str], rows: Any) -> None:
    """A gzipped table as pandas writes and reads it: a label that holds a quote, a tab or a line break is quoted."""
    # With no time in its header: the same table gives the same bytes.
    with gzip.GzipFile(path, "wb", mtime=0) as packed, io.TextIOWrapper(packed, "utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def _refuse(labels: Vocabulary, pattern: str, what: str, where: str) -> None:
    bad = labels.labels.filter(pc.match_substring_regex(labels.labels, pattern))
    if len(bad):
        problem = f"label {bad[0].as_py()!r} has {what}, which {where} cannot hold ({len(bad)} such labels)"
        raise InputError(f"{problem}; export as parquet")


def _save(document: dict[str, Any], path: Path) -> None:
    """As PyTorch stores it; where the disk is full it raises a RuntimeError."""
    try:
        torch.save(document, path)
    except RuntimeError as error:
        raise OSError(str(error).splitlines()[0]) from error
