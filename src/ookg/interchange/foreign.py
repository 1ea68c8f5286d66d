"""What every importer shares: a foreign model, the check that it was understood, labels and safe reading of files."""

from __future__ import annotations

import gzip
import io
import json
import mmap
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import torch

from ookg.errors import FileError, InputError, ModelFileError
from ookg.graph.known import KnownGraph
from ookg.graph.triples import TripleFormat, Triples, as_triples, read_triples
from ookg.graph.vocabulary import Vocabulary
from ookg.interchange import MODELS
from ookg.model.model import Model, TripleSource
from ookg.models.embedding import Embedding
from ookg.storage.checkpoint import Checkpoint
from ookg.system.display import counted
from ookg.system.limits import BoundedStream, check_expansion
from ookg.types import FloatArray, IntArray
from ookg.version import __version__

CHECKED_TRIPLES = 1000
# What NumPy raises for an array whose header is damaged: it is parsed as Python.
ARRAY_ERRORS = (
    *(ValueError, OSError, EOFError, OverflowError, TypeError, SyntaxError, RecursionError),
    *(TokenError, zipfile.BadZipFile),
)
TOLERANCE = 1e-5
# How a pickle names Python's byte array, which takes as much memory as the file says, and which no model needs.
BYTE_ARRAY = b"bytearray\n"

# Why a model of another kind cannot be used, by its name in lower case; all others score by a product or a network.
UNUSABLE = {
    **dict.fromkeys(
        ("transh", "transr", "transd", "stranse", "transparse"),
        "projects entities by relation: many entities fit a triple equally well, there is no closed form",
    ),
    "protate": "compares phases only, by |sin|: a triple leaves half-turns open, there is no closed form",
}
PRODUCT = "scores by a product or a network: there is no closed-form entity for a triple"


@dataclass(frozen=True)
class ImportOptions:
    """What a user can say about a source that does not say it itself.

    entities, relations: files of labels; vocabulary: a folder that holds them under the source's usual names
    model: "transe" or "rotate"; norm: 1 or 2; gamma: the margin, where a layout depends on it
    normalised: whether the source scales vectors to length 1 when it scores, where its files do not say (OpenKE)
    """

    entities: Path | None = None
    relations: Path | None = None
    vocabulary: Path | None = None
    model: str | None = None
    norm: int | None = None
    gamma: float | None = None
    normalised: bool | None = None


@dataclass(frozen=True)
class ForeignModel:
    """A model of another tool, converted to ours.

    tool: its name; convention: its distance, norm, layout and constraint, in one sentence
    scores: the negative distance of triples of ids, (triples, 3) -> (triples,), computed from the source's own numbers
        in the source's own convention, independently of `embedding`
    read_triples: reads a file of training triples, where the tool has a layout of its own for it
    gamma: the margin, where phases depend on it, kept for writing the model back
    """

    tool: str
    convention: str
    embedding: Embedding
    entities: Vocabulary
    relations: Vocabulary
    scores: Callable[[IntArray], FloatArray]
    notes: list[str] = field(default_factory=list)
    read_triples: Callable[[Path, TripleFormat], Triples] = read_triples
    gamma: float | None = None

    def check(self, source: str = "") -> None:
        """Refuse a model with NaN or infinity, or whose scores are not those of its source.

        source: where it was read from, for the message
        """
        origin = f"{source} ({self.tool})" if source else self.tool
        for name, table, labels in (
            ("entity", self.embedding.entities, self.entities),
            ("relation", self.embedding.relations, self.relations),
        ):
            bad = (~torch.isfinite(table).all(dim=1)).nonzero()
            if len(bad):
                row = int(bad[0])
                place = f"{name} row {row} ({labels.label(row)!r})"
                problem = f"{origin}: {place} holds NaN or infinity ({counted(len(bad), 'such row')})"
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
        # A distance near 0 is a difference of large numbers: it is held to the scale of the others.
        difference = np.abs(ours - theirs) / np.maximum(np.abs(theirs), max(1e-6, 1e-2 * np.abs(theirs).mean()))
        if not difference.max() < TOLERANCE:
            worst = int(np.argmax(np.nan_to_num(difference, nan=np.inf)))
            problem = (
                f"{origin}: triple {sample[worst].tolist()} scores {theirs[worst]:.6g} there, {ours[worst]:.6g} here"
            )
            raise ModelFileError(f"{problem}; the layout is not what was expected ({self.convention})")

    def to_model(self, triples: TripleSource | None = None, source: str = "") -> Model:
        """Our model, checked; with the training triples also the statistics of degree and correlation weights."""
        self.check(source)
        graph, unused = None, 0
        if triples is not None:
            if isinstance(triples, str | Path):
                triples = self.read_triples(Path(triples), TripleFormat())
            read = as_triples(triples)
            if read.truth is not None:
                read = read.select(read.truth)
            ids = read.encoded(self.entities, self.relations)
            known = (ids >= 0).all(axis=1)
            if not known.any():
                raise InputError(f"{read.source}: none of its triples has entities and relations of the model")
            graph, unused = KnownGraph(ids[known], len(self.entities), len(self.relations)), int((~known).sum())
        provenance: dict[str, Any] = {
            "ookg": __version__,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "imported_from": self.tool,
            "source": Path(source).name,
            "convention": self.convention,
            "triples_not_used": unused,
        }
        settings = {} if self.gamma is None else {"margin": self.gamma}
        return Model(Checkpoint(self.embedding, self.entities, self.relations, graph, settings, provenance))

    def separation(self, triples: IntArray) -> float:
        """How often a triple of ids scores above the same triple with another tail at random, from 0 to 1.

        Near 1 for a trained model that was read correctly; near 0.5 where labels, norm or gamma are not the model's.
        """
        rng = np.random.default_rng(0)
        sample = triples[rng.integers(0, len(triples), CHECKED_TRIPLES)]
        other = sample.copy()
        other[:, 2] = rng.integers(0, self.embedding.num_entities, len(sample))
        gain = (self.scores(sample) - self.scores(other))[sample[:, 2] != other[:, 2]]
        return float((gain > 0).mean()) if len(gain) else 1.0


def translation_scores(entities: Any, relations: Any, norm: int) -> Callable[[IntArray], FloatArray]:
    """-‖h + r - t‖ₚ from raw arrays, (triples, 3) -> (triples,)."""
    entities, relations = numbers(entities), numbers(relations)

    def scores(triples: IntArray) -> FloatArray:
        head, relation, tail = triples.T
        gap = entities[head].astype(np.float64) + relations[relation] - entities[tail]
        values: FloatArray = -np.linalg.norm(gap, ord=norm, axis=1)
        return values

    return scores


def rotation_scores(entities: Any, relations: Any, unit: float, norm: int = 1) -> Callable[[IntArray], FloatArray]:
    """-‖h∘exp(i·x / unit) - t‖ₚ over moduli from raw arrays: entities as halves re, im and relations as x."""
    entities, relations = numbers(entities), numbers(relations)

    def scores(triples: IntArray) -> FloatArray:
        head, relation, tail = triples.T
        d = relations.shape[1]
        h, t = (entities[end].astype(np.float64) for end in (head, tail))
        turn = np.exp(1j * (relations[relation].astype(np.float64) / unit))
        moduli = np.abs((h[:, :d] + 1j * h[:, d:]) * turn - (t[:, :d] + 1j * t[:, d:]))
        values: FloatArray = -np.linalg.norm(moduli, ord=norm, axis=1)
        return values

    return scores


def numbers(array: Any) -> np.ndarray[Any, Any]:
    """An array or tensor as a NumPy array, in its own precision where NumPy has it."""
    if isinstance(array, torch.Tensor):
        array = array.detach().to(torch.float64 if array.dtype == torch.float64 else torch.float32).numpy()
    values: np.ndarray[Any, Any] = array
    return values


def phases(relations: Any, unit: float) -> torch.Tensor:
    """Phases x / unit in radians, in double precision before they are rounded to float32."""
    return torch.from_numpy(numbers(relations).astype(np.float64) / unit).float()


def known_model(path: Path, name: str) -> str:
    """ "transe" or "rotate"; any other model is refused with the reason."""
    lowered = name.lower()
    if lowered not in MODELS:
        raise FileError(path, f"{name} {UNUSABLE.get(lowered, PRODUCT)}", "train TransE or RotatE")
    return lowered


def settled(option: str, given: Any, stated: Any, path: Path) -> Any:
    """A setting that the source states or the user gives; where both do, they must agree."""
    if stated is None:
        if given is None:
            raise FileError(path, f"does not say its {option}", f"say it with `{option}`")
        return given
    if given is not None and given != stated:
        raise FileError(path, f"its {option} is {stated}, not {given}", f"leave out `{option}`")
    return stated


def folder_of(source: Path) -> Path:
    """The folder that a source is, or is in."""
    if not source.exists():
        raise FileError(source, "no such file or folder", "check the path")
    return source if source.is_dir() else source.parent


def read_vocabularies(
    options: ImportOptions, folder: Path, names: tuple[list[str], list[str]], rows: tuple[int, int], hint: str = ""
) -> tuple[Vocabulary, Vocabulary]:
    """Labels of entities and relations: the files that the user names, or those with the tool's usual names.

    names: of the entity and the relation file, in the vocabulary folder (or else the source's own); rows: how many
    labels there must be; hint: where the tool had its data
    """
    vocabularies = []
    for kind, given, usual, size in zip(
        ("entity", "relation"), (options.entities, options.relations), names, rows, strict=True
    ):
        place = options.vocabulary or folder
        path = given or first_existing(place, *usual)
        if path is None:
            files = "entities" if kind == "entity" else "relations"
            remedy = f"give `vocabulary=...` with {usual[0]}, or `{files}=...`"
            raise FileError(place, f"no {kind} labels here ({', '.join(usual)})", f"{remedy}{hint}")
        vocabularies.append(read_labels(path, size, kind))
    return vocabularies[0], vocabularies[1]


def load_tensors(path: Path, remedy: str) -> Any:
    """Read a `.pt` or pickle file of tensors and plain values; nothing in it is executed."""
    _must_exist(path)
    _check_pickle(path, remedy)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of a pickle protocol before it refuses the file
            # What is not touched (an optimizer's state, say) is not read; only the newer, zipped layout can do that.
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except Exception as error:  # torch raises many kinds for what it refuses; each is a refusal
        raise FileError(path, "holds more than tensors, or is damaged", remedy) from error
    stored = path.stat().st_size
    for name, tensor in _tensors(content):
        kind = _odd_kind(tensor)  # what can be done with an array fails for these in many ways
        if kind is not None:
            raise FileError(path, f"{name or 'its content'} is a {kind} tensor", "save plain, dense tensors")
        # One stored number can be shown as a tensor of any size.
        check_expansion(path, stored, tensor.numel() * tensor.element_size(), f"a tensor {tuple(tensor.shape)}")
    return content


def _check_pickle(path: Path, remedy: str) -> None:
    """Refuse what takes memory while it is unpickled: compressed parts, and byte arrays of a stated size."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                unpacked = sum(part.file_size for part in archive.infolist())
                check_expansion(path, path.stat().st_size, unpacked)
                names = [name for name in archive.namelist() if name.endswith("data.pkl")]
                has_bytes = any(BYTE_ARRAY in archive.read(name) for name in names)
        else:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                has_bytes = content.find(BYTE_ARRAY) >= 0
    except FileError:
        raise
    except Exception as error:  # a damaged archive has many ways to be one
        raise FileError(path, "holds more than tensors, or is damaged", remedy) from error
    if has_bytes:
        raise FileError(path, "holds a byte array", remedy)


def _tensors(content: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors in dictionaries and lists, however they lie in one another, with the nearest key."""
    waiting: list[tuple[str, Any]] = [("", content)]
    seen = set()
    while waiting:
        name, item = waiting.pop()
        if isinstance(item, torch.Tensor):
            yield name, item
        elif isinstance(item, dict | list | tuple) and id(item) not in seen:
            seen.add(id(item))
            named = item.items() if isinstance(item, dict) else ((name, inner) for inner in item)
            waiting.extend((str(key), inner) for key, inner in named)


def _odd_kind(tensor: torch.Tensor) -> str | None:
    if tensor.is_nested:
        return "nested"
    if tensor.layout != torch.strided:
        return "sparse"
    if getattr(tensor, "is_quantized", False):
        return "quantised"
    return "meta" if tensor.device.type == "meta" else None


def load_array(path: Path) -> np.ndarray[Any, Any]:
    """Read a `.npy` file of numbers, memory-mapped."""
    _must_exist(path)
    try:
        array: np.ndarray[Any, Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise ValueError("an archive of arrays")
    except ARRAY_ERRORS as error:
        raise FileError(
            path, f"not an array of numbers ({str(error) or type(error).__name__})", "save it with numpy.save"
        ) from error
    return array


def load_json(path: Path) -> Any:
    """Read a JSON file."""
    _must_exist(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FileError(path, f"not JSON ({error})", "restore it from the tool that wrote it") from error


def load_object(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object."""
    content = load_json(path)
    if not isinstance(content, dict):
        problem = f"holds {type(content).__name__} instead of an object of settings"
        raise FileError(path, problem, "restore it from the tool that wrote it")
    return content


def number(value: Any, name: str, path: Path, above: float = 0.0) -> float:
    """A finite number above a bound, from a setting, a list of one or a tensor of one."""
    try:
        result = float(np.asarray(value, dtype=np.float64).item())
    except (TypeError, ValueError, OverflowError, RuntimeError):
        result = np.nan
    if not above < result < np.inf:
        raise FileError(path, f"{name} is {value!r}", f"expected a number above {above:g}; restore the file")
    return result


def table(array: Any, path: Path, name: str, width: int | None = None) -> torch.Tensor:
    """A table of float32 rows from an array or tensor, its shape checked."""
    if not isinstance(array, torch.Tensor):
        array = np.asarray(array)
        if array.dtype.kind not in "fiub":
            raise FileError(path, f"{name} is an array of {array.dtype}", "expected floating-point numbers")
        is_long = array.dtype.kind == "f" and array.dtype.itemsize > 8  # which PyTorch does not have
        array = torch.from_numpy(array.astype(np.float64 if is_long else array.dtype.newbyteorder("=")))
    tensor: torch.Tensor = array
    fits = tensor.ndim == 2 and tensor.is_floating_point() and tensor.numel() > 0
    if not fits or (width is not None and tensor.shape[1] != width):
        wanted = f"(rows, {width})" if width is not None else "(rows, dimension)"
        problem = f"{name} is {tensor.dtype} of shape {tuple(tensor.shape)}"
        raise FileError(path, problem, f"expected floating-point numbers of shape {wanted}")
    return tensor.detach().float().contiguous()


def read_labels(path: Path, rows: int, kind: str) -> Vocabulary:
    """Labels by id from a text file: `id<TAB>label`, `label<TAB>id` or one label per line; plain or gzip, with or
    without a header line `id<TAB>label` or a first line that counts the others; or from JSON, a list of labels or an
    object of ids by label."""
    _must_exist(path)
    if path.suffix == ".json":
        content = load_json(path)
        if not isinstance(content, list | dict):
            problem = f"holds {type(content).__name__} instead of a list of {kind} labels"
            raise FileError(path, problem, "give the labels the model was trained with")
        labels = (
            [str(label) for label in content]
            if isinstance(content, list)
            else _by_id(path, content.items(), rows, kind)
        )
    else:
        try:
            with open_text(path, newline="\n") as file:
                lines = [line.rstrip("\r\n") for line in file]
        except (OSError, UnicodeDecodeError, EOFError, zlib.error) as error:
            raise FileError(path, f"cannot be read as text ({error})", "give a UTF-8 file of labels") from error
        cells = [line.split("\t") for line in lines if line]
        if cells and [cell.strip().lower() for cell in cells[0]] in (["id", "label"], ["label", "id"]):
            cells = cells[1:]
        has_count = False
        if cells and len(cells[0]) == 1 and id_of(cells[0][0]) == len(cells) - 1 == rows:
            cells = cells[1:]  # a first line that counts the others
            has_count = True
        labels = [cell[0] for cell in cells]
        if cells and len(cells[0]) == 2:
            first, second = (_are_ids([cell[column] for cell in cells if len(cell) == 2]) for column in (0, 1))
            # Where labels are numbers, both may be ids: files with a count line (OpenKE's) have the labels first.
            by_first = first and not (second and has_count)
            if not (first or second):
                by_first = all(id_of(cell[0]) is not None for cell in cells)
            pairs = [(cell[1], cell[0]) if by_first else (cell[0], cell[1]) for cell in cells if len(cell) == 2]
            labels = _by_id(path, pairs, rows, kind)
    if len(labels) != rows:
        raise FileError(
            path, f"{len(labels)} {kind} labels for {rows} rows", "give the labels the model was trained with"
        )
    return vocabulary_of(labels, path)


def vocabulary_of(labels: list[str], path: Path, remedy: str = "each row needs a label of its own") -> Vocabulary:
    """The vocabulary of a file's labels; an error names the file."""
    try:
        return Vocabulary(labels)
    except InputError as error:
        raise FileError(path, str(error).split(";")[0], remedy) from error


def id_of(text: str) -> int | None:
    """The id that a text spells, or None; no table has as many rows as twenty digits say."""
    return int(text) if text.isdecimal() and len(text) < 20 else None


def open_text(path: Path, newline: str) -> io.TextIOWrapper:
    """A text file, gzip by its name; one that becomes far too large is refused while it is read."""
    stream = gzip.GzipFile(path) if path.suffix == ".gz" else path.open("rb")
    bounded = BoundedStream(stream, path, path.stat().st_size)
    return io.TextIOWrapper(io.BufferedReader(bounded, 1 << 20), encoding="utf-8", newline=newline)


def _are_ids(column: list[str]) -> bool:
    ids = [number for number in map(id_of, column) if number is not None]
    return len(ids) == len(column) and sorted(ids) == list(range(len(column)))


def _by_id(path: Path, pairs: Any, rows: int, kind: str) -> list[str]:
    labels: list[str | None] = [None] * rows
    for label, number in pairs:
        place = id_of(number) if isinstance(number, str) else number
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < rows:
            raise FileError(path, f"{kind} id {number!r} for {rows} rows", "give the labels the model was trained with")
        labels[place] = str(label)
    missing = [number for number, label in enumerate(labels) if label is None]
    if missing:
        problem = f"no label for {kind} id {missing[0]} ({len(missing)} of {rows} missing)"
        raise FileError(path, problem, "give the labels the model was trained with")
    return [label for label in labels if label is not None]


def own_file(path: Path, name: str) -> str:
    """A file's name that a foreign file states, which must not lead out of the folder."""
    if Path(name).name != name or "\\" in name:
        raise FileError(path, f"it names the file {name[:80]!r}", "files of the model's own folder alone are read")
    return name


def first_existing(folder: Path, *names: str) -> Path | None:
    """The first of the files that is there."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _must_exist(path: Path) -> None:
    if path.is_dir():
        raise FileError(path, "is a folder", "name the file in it")
    if not path.is_file():
        raise FileError(path, "no such file", "check the path")
