"""What every importer shares: a foreign model, the check that it was understood, labels and safe reading of files."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ookg import __version__
from ookg.checkpoint import Checkpoint
from ookg.embedding import Embedding
from ookg.errors import FileError, InputError, ModelFileError
from ookg.model import Model, TripleSource
from ookg.statistics import FloatArray, GraphStatistics, IntArray
from ookg.triples import as_triples
from ookg.vocabulary import Vocabulary

CHECKED_TRIPLES = 1000
TOLERANCE = 1e-5


@dataclass(frozen=True)
class ImportOptions:
    """What a user can say about a source that does not say it itself.

    entities, relations: files of labels; vocabulary: a folder that holds them under the source's usual names
    model: "transe" or "rotate"; norm: 1 or 2; gamma: the margin, where a layout depends on it
    """

    entities: Path | None = None
    relations: Path | None = None
    vocabulary: Path | None = None
    model: str | None = None
    norm: int | None = None
    gamma: float | None = None


@dataclass(frozen=True)
class ForeignModel:
    """A model of another tool, converted to ours.

    tool: its name; convention: its distance, norm, layout and constraint, in one sentence
    scores: the negative distance of triples of ids, (triples, 3) -> (triples,), computed from the source's own numbers
        in the source's own convention, independently of `embedding`
    """

    tool: str
    convention: str
    embedding: Embedding
    entities: Vocabulary
    relations: Vocabulary
    scores: Callable[[IntArray], FloatArray]
    notes: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Refuse a model with numbers that are none, or whose scores are not those of its source."""
        for name, table in (("entity", self.embedding.entities), ("relation", self.embedding.relations)):
            bad = (~torch.isfinite(table).all(dim=1)).nonzero()
            if len(bad):
                row = int(bad[0])
                problem = f"{self.tool}: {name} row {row} holds NaN or infinity ({len(bad)} such rows)"
                raise ModelFileError(f"{problem}; train or export the model again")
        rng = np.random.default_rng(0)
        sizes = (self.embedding.num_entities, self.embedding.num_relations, self.embedding.num_entities)
        sample = np.stack([rng.integers(0, size, CHECKED_TRIPLES) for size in sizes], axis=1)
        head, relation, tail = torch.from_numpy(sample).unbind(dim=1)
        ours = -self.embedding.geometry.distance(
            self.embedding.entities[head].double(),
            self.embedding.relations[relation].double(),
            self.embedding.entities[tail].double(),
        ).numpy()
        theirs = self.scores(sample)
        difference = np.abs(ours - theirs) / np.maximum(np.abs(theirs), 1e-6)
        if not difference.max() < TOLERANCE:
            worst = int(np.nanargmax(difference))
            problem = (
                f"{self.tool}: triple {sample[worst].tolist()} scores {theirs[worst]:.6g} there, {ours[worst]:.6g} here"
            )
            raise ModelFileError(f"{problem}; the layout is not what was expected ({self.convention})")

    def to_model(self, triples: TripleSource | None = None, source: str = "") -> Model:
        """Our model, checked; with the training triples also the statistics that degree and correlation weights need."""
        self.check()
        ids, statistics = np.empty((0, 3), dtype=np.int64), None
        if triples is not None:
            read = as_triples(triples)
            ids = read.encoded(self.entities, self.relations)
            known = (ids >= 0).all(axis=1)
            if not known.any():
                raise InputError(f"{read.source}: none of its triples has entities and relations of the model")
            ids = ids[known]
            statistics = GraphStatistics.count(ids, len(self.entities), len(self.relations))
        provenance: dict[str, Any] = {
            "ookg": __version__,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "imported_from": self.tool,
            "source": Path(source).name,
            "convention": self.convention,
        }
        return Model(Checkpoint(self.embedding, self.entities, self.relations, ids, statistics, {}, provenance))


def load_tensors(path: Path, remedy: str) -> Any:
    """Read a `.pt` or pickle file of tensors and plain values; nothing in it is executed."""
    _must_exist(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for what it refuses; each is a refusal
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise FileError(path, f"holds more than tensors, or is damaged ({reason})", remedy) from error


def load_array(path: Path) -> np.ndarray[Any, Any]:
    """Read a `.npy` file of numbers, memory-mapped."""
    _must_exist(path)
    try:
        array: np.ndarray[Any, Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise FileError(
            path, f"not an array of numbers ({str(error).splitlines()[0]})", "save it with numpy.save"
        ) from error
    return array


def load_json(path: Path) -> Any:
    """Read a JSON file."""
    _must_exist(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileError(path, f"not JSON ({error})", "restore it from the tool that wrote it") from error


def table(array: Any, path: Path, name: str, width: int | None = None) -> torch.Tensor:
    """A table of float32 rows from an array or tensor, its shape checked."""
    tensor = array if isinstance(array, torch.Tensor) else torch.from_numpy(np.array(array))
    if tensor.ndim != 2 or not tensor.is_floating_point() or (width is not None and tensor.shape[1] != width):
        wanted = f"(rows, {width})" if width is not None else "(rows, dimension)"
        problem = f"{name} is {tensor.dtype} of shape {tuple(tensor.shape)}"
        raise FileError(path, problem, f"expected floating-point numbers of shape {wanted}")
    return tensor.detach().float().contiguous()


def read_labels(path: Path, rows: int, kind: str) -> Vocabulary:
    """Labels by id from a text file: `id<TAB>label`, `label<TAB>id` or one label a line; plain or gzip, with or without
    a header line `id<TAB>label`; or from JSON, a list of labels or an object of ids by label."""
    _must_exist(path)
    if path.suffix == ".json":
        found = load_json(path)
        labels = [str(label) for label in found] if isinstance(found, list) else _by_id(path, found.items(), rows, kind)
    else:
        opener = gzip.open if path.suffix == ".gz" else open
        try:
            with opener(path, "rt", encoding="utf-8", newline="\n") as file:
                lines = [line.rstrip("\r\n") for line in file]
        except (OSError, UnicodeDecodeError, EOFError) as error:
            raise FileError(path, f"cannot be read as text ({error})", "give a UTF-8 file of labels") from error
        cells = [line.split("\t") for line in lines if line]
        if cells and [cell.strip().lower() for cell in cells[0]] in (["id", "label"], ["label", "id"]):
            cells = cells[1:]
        if cells and len(cells[0]) == 1 and cells[0][0].isdecimal() and int(cells[0][0]) == len(cells) - 1 == rows:
            cells = cells[1:]  # a first line that counts the others
        labels = [cell[0] for cell in cells]
        if cells and len(cells[0]) == 2:
            by_first = all(cell[0].isdecimal() for cell in cells)
            pairs = [(cell[1], cell[0]) if by_first else (cell[0], cell[1]) for cell in cells if len(cell) == 2]
            labels = _by_id(path, pairs, rows, kind)
    if len(labels) != rows:
        raise FileError(
            path, f"{len(labels)} {kind} labels for {rows} rows", "give the labels the model was trained with"
        )
    try:
        return Vocabulary(labels)
    except InputError as error:
        raise FileError(path, str(error), "each row needs a label of its own") from error


def _by_id(path: Path, pairs: Any, rows: int, kind: str) -> list[str]:
    labels: list[str | None] = [None] * rows
    for label, number in pairs:
        if not str(number).isdecimal() or int(number) >= rows:
            raise FileError(path, f"{kind} id {number!r} for {rows} rows", "give the labels the model was trained with")
        labels[int(number)] = str(label)
    missing = [number for number, label in enumerate(labels) if label is None]
    if missing:
        problem = f"no label for {kind} id {missing[0]} ({len(missing)} of {rows} missing)"
        raise FileError(path, problem, "give the labels the model was trained with")
    return [label for label in labels if label is not None]


def first_existing(folder: Path, *names: str) -> Path | None:
    """The first of the files that is there."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _must_exist(path: Path) -> None:
    if not path.is_file():
        raise FileError(path, "no such file", "check the path")
