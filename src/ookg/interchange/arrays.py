"""Plain arrays with label files: `.npy`, safetensors, Parquet and word2vec text.

distance: TransE ‖h + r - t‖ₚ, RotatE ‖h∘r - t‖ₚ over complex moduli; which, and p, is said by options.model and
    options.norm, or by the `vectors.json` that `ookg export` writes beside the arrays; else TransE with norm 1
layout: TransE (rows, d); RotatE entities (rows, 2d), real parts then imaginary parts, or (rows, d) complex; relations
    (rows, d) phases in radians, or (rows, d) complex of modulus 1
constraint: none, unless `vectors.json` says that entities have length 1
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors import SafetensorError, safe_open

from ookg.errors import FileError, InputError
from ookg.graph.reading import read_parquet
from ookg.graph.vocabulary import Vocabulary
from ookg.interchange.foreign import (
    ForeignModel,
    ImportOptions,
    first_existing,
    folder_of,
    id_of,
    load_array,
    load_object,
    read_labels,
    table,
    translation_scores,
    vocabulary_of,
)
from ookg.models import Geometry, RotatE, TransE
from ookg.models.embedding import Embedding
from ookg.types import Array, FloatArray, IntArray

DESCRIPTION_FILE = "vectors.json"
STACKED_FILES = ("vectors.safetensors", "model.safetensors")
VECTOR_SUFFIXES = (".npy", ".safetensors", ".parquet", ".vec", ".w2v")
LABEL_SUFFIXES = (".txt", ".tsv", ".dict", ".json", ".txt.gz", ".tsv.gz")
LABEL_NAMES = {
    "entity": ("entity_to_id.tsv.gz", "entity_to_id.tsv", "entity2id.txt", "entity_ids.del"),
    "relation": ("relation_to_id.tsv.gz", "relation_to_id.tsv", "relation2id.txt", "relation_ids.del"),
}
PLURAL = {"entity": "entities", "relation": "relations"}


@dataclass(frozen=True)
class _StoredTable:
    """One table as it lies on disk: its file, its numbers, and its labels where the file holds them."""

    path: Path
    numbers: Any
    labels: list[str] | None = None


def read(source: Path, options: ImportOptions) -> ForeignModel:
    """A folder with `entities.*` and `relations.*`, or a safetensors file that holds both; labels inside or beside."""
    folder = folder_of(source)
    entities, relations = _find(source, options, "entity"), _find(source, options, "relation")
    geometry = _geometry(folder, options, relations)
    notes: list[str] = []
    embedding = Embedding(
        geometry,
        table(_halves(entities.numbers, geometry), entities.path, "entities", geometry.entity_width),
        table(_phases(relations.numbers, geometry), relations.path, "relations", geometry.relation_width),
    )
    constraint = ", entities of length 1" if isinstance(geometry, TransE) and geometry.unit_norm else ""
    return ForeignModel(
        "arrays",
        f"{geometry.name}, norm {geometry.norm}{', squared' if _squared(geometry) else ''}{constraint}",
        embedding,
        _vocabulary(entities, options, "entity", folder, notes),
        _vocabulary(relations, options, "relation", folder, notes),
        _scores(geometry, entities.numbers, relations.numbers),
        notes,
    )


def _geometry(folder: Path, options: ImportOptions, relations: _StoredTable) -> Geometry:
    path = folder / DESCRIPTION_FILE
    said = load_object(path) if path.is_file() else {}
    model, norm = options.model or said.get("model", TransE.name), options.norm or said.get("norm", 1)
    if model not in (TransE.name, RotatE.name) or norm not in (1, 2):
        raise InputError(f"model {model!r} with norm {norm!r}; give transe or rotate, and 1 or 2")
    squared, unit_norm = said.get("squared", False), said.get("unit_norm", 0)
    if not isinstance(squared, bool) or isinstance(unit_norm, bool) or unit_norm not in (0, 1, 2):
        problem = f"squared is {squared!r} and unit_norm {unit_norm!r}"
        raise FileError(path, problem, "expected true or false, and 0, 1 or 2; write it again with `ookg export`")
    shape = tuple(relations.numbers.shape)
    if len(shape) != 2 or shape[1] < 1:
        raise FileError(relations.path, f"relations have shape {shape}", "expected (rows, dimension)")
    if model == RotatE.name:
        return RotatE(shape[1], int(norm))
    return TransE(shape[1], int(norm), squared, int(unit_norm))


def _squared(geometry: Geometry) -> bool:
    return isinstance(geometry, TransE) and geometry.squared


def _halves(numbers: Any, geometry: Geometry) -> Any:
    if _is_complex(numbers) and isinstance(geometry, RotatE):
        return np.concatenate([numbers.real, numbers.imag], axis=-1)
    return numbers


def _phases(numbers: Any, geometry: Geometry) -> Any:
    return np.angle(numbers) if _is_complex(numbers) and isinstance(geometry, RotatE) else numbers


def _is_complex(numbers: Any) -> bool:
    return isinstance(numbers, np.ndarray) and bool(np.iscomplexobj(numbers))


def _scores(geometry: Geometry, entities: Any, relations: Any) -> Callable[[IntArray], FloatArray]:
    """Minus the distance, by the formulas above, from the numbers as they lie on disk."""

    if isinstance(geometry, TransE):
        plain = translation_scores(entities, relations, geometry.norm)
        return (lambda triples: -(plain(triples) ** 2)) if geometry.squared else plain

    def rotated(triples: IntArray) -> FloatArray:
        h, t = (_complex(entities[ids]) for ids in (triples[:, 0], triples[:, 2]))
        r = np.asarray(relations[triples[:, 1]])
        turned = r.astype(np.complex128) if np.iscomplexobj(r) else np.exp(1j * r.astype(np.float64))
        scores: FloatArray = -np.linalg.norm(np.abs(h * turned - t), ord=geometry.norm, axis=1)
        return scores

    return rotated


def _complex(rows: Any) -> Array:
    rows = np.asarray(rows)
    if np.iscomplexobj(rows):
        return np.asarray(rows, dtype=np.complex128)
    real, imaginary = np.split(rows.astype(np.float64), 2, axis=1)
    numbers: Array = real + 1j * imaginary
    return numbers


def _find(source: Path, options: ImportOptions, kind: str) -> _StoredTable:
    named = options.entities if kind == "entity" else options.relations
    if named is not None and named.suffix in VECTOR_SUFFIXES:
        return _read_rows(named, kind)
    if source.is_file():
        return _read_rows(source, kind)
    stem = PLURAL[kind]
    # A text file is word2vec text only where no array is beside it: else it holds the array's labels.
    path = first_existing(source, *(stem + suffix for suffix in VECTOR_SUFFIXES), *STACKED_FILES, f"{stem}.txt")
    if path is None:
        wanted = ", ".join(stem + suffix for suffix in VECTOR_SUFFIXES)
        raise FileError(source, f"no vectors of {stem} here", f"name them {wanted} or {stem}.txt (word2vec)")
    return _read_rows(path, kind)


def _read_rows(path: Path, kind: str) -> _StoredTable:
    if not path.is_file():
        raise FileError(path, "no such file", "check the path")
    if path.suffix == ".npy":
        return _StoredTable(path, load_array(path))
    if path.suffix == ".safetensors":
        return _StoredTable(path, _safetensors(path, kind))
    if path.suffix == ".parquet":
        return _parquet(path, kind)
    return _word2vec(path)


def _safetensors(path: Path, kind: str) -> Any:
    stem = PLURAL[kind]
    try:
        with safe_open(path, framework="pt") as file:
            names = list(file.keys())
            name = stem if stem in names else names[0] if len(names) == 1 and path.stem == stem else None
            if name is None:
                raise FileError(path, f"no tensor {stem!r} (it holds {', '.join(names)})", "name its tensors so")
            tensor = file.get_tensor(name)
    except (SafetensorError, OSError) as error:
        raise FileError(path, f"damaged safetensors data ({error})", "write it again") from error
    return tensor.numpy() if tensor.dtype in (torch.float32, torch.float64, torch.complex64) else tensor.float().numpy()


def _parquet(path: Path, kind: str) -> _StoredTable:
    try:
        names = pq.read_schema(path).names
        if names.count(kind) != 1 or names.count("vector") != 1:
            raise FileError(path, f"columns {', '.join(names)}", f"expected {kind} and vector, each once")
        columns = read_parquet(path, [kind, "vector"])
        texts = columns[kind].cast(pa.string()).to_pylist()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise FileError(path, f"damaged Parquet data ({error})", "write it again") from error
    labels, vectors = columns[kind], columns["vector"].combine_chunks()
    if labels.null_count or vectors.null_count:
        raise FileError(path, "rows without a label or a vector", "drop or fill them")
    if not any(fits(vectors.type) for fits in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)):
        raise FileError(path, f"column vector is {vectors.type}", "expected lists of numbers")
    flat = vectors.flatten()
    width = len(flat) // max(1, len(vectors))
    if flat.null_count or any(size != width for size in vectors.value_lengths().to_pylist()):
        raise FileError(path, "vectors of different lengths, or with gaps", "give every row the same dimension")
    numbers = flat.to_numpy(zero_copy_only=False).reshape(len(vectors), width)
    return _StoredTable(path, numbers, texts)


def _word2vec(path: Path) -> _StoredTable:
    """`count width`, then `label number number ...` for each row; without that first line, row 1 says the width."""
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            lines = [line.rstrip("\r\n ") for line in file]
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(
            path, f"not word2vec text ({error})", "give UTF-8 text, or .npy, .safetensors, .parquet"
        ) from error
    first = lines[0].split(" ") if lines else []
    counts = [number for number in map(id_of, first) if number is not None]
    counted = len(first) == len(counts) == 2
    width = counts[1] if counted else len(first) - 1
    if width < 1:
        raise FileError(path, "not word2vec text", "expected a line `count width`, then `label number number ...`", 1)
    labels, rows = [], []
    for number, line in enumerate(lines[counted:], start=1 + counted):
        cells = line.rsplit(" ", width)
        try:
            rows.append(np.array(cells[1:], dtype=np.float32))
        except ValueError:
            raise FileError(path, f"not numbers after {cells[0]!r}", "mend the line", number) from None
        if len(rows[-1]) != width:
            raise FileError(path, f"{len(rows[-1])} numbers instead of {width}", "mend the line", number)
        labels.append(cells[0])
    if counted and len(rows) != counts[0]:
        raise FileError(path, f"{len(rows)} rows, and its first line says {counts[0]}", "write the file again")
    return _StoredTable(path, np.stack(rows) if rows else np.empty((0, width), np.float32), labels)


def _vocabulary(rows: _StoredTable, options: ImportOptions, kind: str, folder: Path, notes: list[str]) -> Vocabulary:
    if rows.labels is None:
        return find_vocabulary(options, kind, len(rows.numbers), folder, notes)
    return vocabulary_of(rows.labels, rows.path)


def find_vocabulary(options: ImportOptions, kind: str, rows: int, folder: Path, notes: list[str]) -> Vocabulary:
    """Labels for a source that holds none: from the files the user names, else beside the source, else the ids."""
    named = options.entities if kind == "entity" else options.relations
    if named is not None and named.suffix not in VECTOR_SUFFIXES:
        return read_labels(named, rows, kind)
    names = (*(PLURAL[kind] + suffix for suffix in LABEL_SUFFIXES), *LABEL_NAMES[kind])
    if options.vocabulary is not None:
        path = first_existing(options.vocabulary, *names)
        if path is None:
            wanted = ", ".join(names)
            raise FileError(options.vocabulary, f"no labels of {PLURAL[kind]} here", f"expected one of {wanted}")
        return read_labels(path, rows, kind)
    path = first_existing(folder, *names)
    if path is not None:
        return read_labels(path, rows, kind)
    notes.append(f"no labels of {PLURAL[kind]} are with the model: ids are the labels; `{PLURAL[kind]}=...` gives them")
    return Vocabulary([str(number) for number in range(rows)])
