"""A trained model on disk: a directory of safetensors, JSON and Parquet, written atomically, read without executing.

    model.json            what it is: format, version, geometry, settings, provenance, the name of the data folder, the
                          sizes and digests of its files and a digest of its own; number: of this version of the model,
                          journal: the last batch of the journal that it has learned;
                          and, once chosen by simulation, the settings for new entities
    version-N.json        the same of an earlier version that is kept (`storage.versions`)
    journal.sqlite        what was added and removed since (`storage.journal`); or, where that lies in PostgreSQL,
    journal.json          which of the database's journals it is
    names.safetensors     what its ids are called, where that was said (`storage.names`)
    approximate.safetensors  an index of the vectors of one version, where one was made (`storage.approximate`)
    network.safetensors   a graph neural network, where one was trained (`storage.network`)
    companions/NAME/      models that answer together with it, each a directory like this one; model.json says which
                          version of each (`storage.companions`)
    data-XXXXXXXX/
      vectors.safetensors    entities and relations, float32; entities float16 in a model of 16 bits
      entities.safetensors   text: the labels' bytes one after the other; offsets: where each begins; order: the ids in
                             the order of their labels' bytes
      relations.safetensors  the same
      index.safetensors      the training triples by entity (`GraphIndex`): offsets, link, other; degree: how many ends
                             of training triples each entity is; and loops: how many triples over each relation join
                             an entity to itself, and how many there are
      cooccurrence.parquet   relation, other, entities (how many have both)
      triples.parquet        head, relation, tail: the training triples as ids, in the order of the training
      counted-*.safetensors  what was counted on a large graph when it was first needed (`storage.counts`)

A model that was imported without its training triples does not have the last three. Directories of version 1, which
have their labels and degrees in tables and no index, are read as well.

Saving writes a new data folder first and then replaces model.json, which names it: a crash leaves the old model or the
new one. The settings for new entities are stored by replacing model.json alone. One process writes at a time.

A reader looks again where the folder that model.json named has been replaced. While a model is open, its vectors file
has a shared lock, and a writer does not remove a folder so locked: that one, as all that a crash left, goes with the
next write. Folders of versions that are kept stay.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open

from ookg.errors import InputError, ModelFileError
from ookg.graph.index import GraphIndex
from ookg.graph.known import KnownGraph
from ookg.graph.statistics import GraphStatistics
from ookg.graph.vocabulary import Vocabulary
from ookg.models import GEOMETRIES, registered_name
from ookg.models.embedding import Embedding
from ookg.storage.approximate import INDEX_FILE, index_problem
from ookg.storage.counts import COUNTED, Counts, counts_problem
from ookg.storage.data import (
    CHECKED_BYTES,
    ENTITIES,
    FILES,
    OLD_FILES,
    RELATIONS,
    VECTORS,
    StoredData,
    damage_named,
    map_data,
    read_old_data,
    write_data,
)
from ookg.storage.journal import MARK_FILE
from ookg.storage.journals import open_journal
from ookg.storage.names import NAMES_FILE, names_problem
from ookg.storage.network import (
    NETWORK_FILE,
    StoredNetwork,
    network_problem,
    read_network,
    remove_network,
    write_network,
)
from ookg.system.files import (
    WRITE_ERRORS,
    PathLock,
    atomic_write,
    digest,
    held,
    remove_remains,
    sync,
    unwritable,
)
from ookg.types import IntArray

FORMAT, VERSION = "ookg model", 2
MODEL_FILE = "model.json"
COMPANIONS = "companions"  # the folder of the models that answer together with this one, and what model.json calls them
COMPANION_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
VERSION_NAME = re.compile(r"version-([1-9][0-9]{0,17})\.json")
STATE_FILE = "training-state.safetensors"
UPDATE_STATE_NAME = re.compile(r"update-to-([0-9]{1,18})\.safetensors")
PROBE_FILE = ".probe"  # written and removed, to see whether anything can be
NEWCOMERS = "newcomers"  # the section of model.json that holds the settings for new entities
BY_NAME = ("ranking", "calibration", "likelihood", "simulation")  # parts of that section that have parts of their own
DIGEST = "digest"  # in model.json and in that section: of all the rest
ENTITY_TYPES = (torch.float16, torch.float32, torch.float64)  # relations have the last two
DATA_NAME = re.compile(r"data-[0-9a-f]{8}")
ATTEMPTS = 1000  # at loading a model that is replaced all the time; each one but the first is after a replacement
RESTORE = "the model is damaged, restore it or train again"


@dataclass(frozen=True, eq=False)
class StoredVectors:
    """Vectors as they were read from a file; digest: as the description has it, None in directories of version 1."""

    embedding: Embedding
    path: Path
    digest: str | None

    @property
    def fingerprint(self) -> str | None:
        """The file's digest; None if it is gone."""
        with suppress(OSError):
            return self.digest or digest(self.path)
        return None


@dataclass(frozen=True)
class Checkpoint:
    """All that a trained model consists of.

    graph: what it was trained on; None for a model that came without its training triples
    settings and provenance: plain values, for people to read
    newcomers: what a simulation has chosen for new entities, in plain values (`simulation.choice` reads them), or None
    journal: the last batch of its directory's journal that it has learned; number: of this version of the model
    directory: where it was read from
    lock: what keeps the files of an open model from being removed
    companions: by their names, models with the same labels that answer together with it; they have none themselves
    stored_counts: of the version that was read, where it is stored (`counts`)
    stored_vectors: the same of its vectors (`fingerprint`)
    given_vectors: how many entities, the last ones, were not trained but came with their vectors
    network: a graph neural network that was trained for it, if there is one
    """

    embedding: Embedding
    entities: Vocabulary
    relations: Vocabulary
    graph: KnownGraph | None
    settings: dict[str, Any]
    provenance: dict[str, Any]
    newcomers: dict[str, Any] | None = None
    journal: int = field(default=0, kw_only=True, compare=False)
    number: int = field(default=1, kw_only=True, compare=False)
    companions: dict[str, Checkpoint] = field(default_factory=dict, kw_only=True, repr=False, compare=False)
    directory: Path | None = field(default=None, repr=False, compare=False)
    lock: PathLock | None = field(default=None, repr=False, compare=False)
    stored_counts: Counts | None = field(default=None, kw_only=True, repr=False, compare=False)
    given_vectors: int = field(default=0, kw_only=True, compare=False)
    stored_vectors: StoredVectors | None = field(default=None, kw_only=True, repr=False, compare=False)
    network: StoredNetwork | None = field(default=None, kw_only=True, repr=False, compare=False)

    @property
    def fingerprint(self) -> str | None:
        """The digest of the file of its vectors; None for vectors that are not stored as they are."""
        stored = self.stored_vectors
        return None if stored is None or stored.embedding is not self.embedding else stored.fingerprint

    @property
    def counts(self) -> Counts | None:
        """Where counts are kept; None for what is not stored as it is, with these vectors and this graph."""
        counts = self.stored_counts
        if counts is None or counts.embedding is not self.embedding or counts.graph is not self.graph:
            return None
        return counts

    @property
    def triples(self) -> IntArray:
        """(triples, 3) the training triples as ids; none for a model that came without them."""
        return np.empty((0, 3), dtype=np.int64) if self.graph is None else self.graph.triples

    @property
    def statistics(self) -> GraphStatistics | None:
        """What is counted on the training triples."""
        return None if self.graph is None else self.graph.statistics

    @property
    def index(self) -> GraphIndex:
        """The training triples by entity."""
        if self.graph is None:
            return GraphIndex.of(self.triples, len(self.entities), len(self.relations))
        return self.graph.index

    def __post_init__(self) -> None:
        for kind, labels, rows in (
            ("entity", self.entities, self.embedding.num_entities),
            ("relation", self.relations, self.embedding.num_relations),
        ):
            if len(labels) != rows:
                raise InputError(f"{len(labels)} {kind} labels for {rows} {kind} vectors; give one label per vector")


def save_checkpoint(checkpoint: Checkpoint, directory: str | Path) -> None:
    """Write a model directory, or replace the model in it; one that another process is writing is refused."""
    with held_model(directory):
        write_checkpoint(checkpoint, directory)


@contextmanager
def held_model(directory: str | Path) -> Iterator[None]:
    """Hold a model directory for writing, and remove what killed writers have left in it."""
    directory = Path(directory)
    with held(directory) as is_sure:
        if is_sure:
            _remove_remains(directory)
        yield


def write_checkpoint(checkpoint: Checkpoint, directory: str | Path) -> None:
    """As `save_checkpoint`, in a directory that the caller holds.

    A model that does not come from this directory begins anew there: no earlier version belongs to it, what the journal
    holds was not said of it, and its network is its own, or none.
    """
    directory = Path(directory)
    replaced = _data_of(directory)
    is_own = checkpoint.directory is not None and checkpoint.directory.resolve() == directory.resolve()
    if not is_own:
        checkpoint = replace(checkpoint, number=1, journal=open_journal(directory).last)
    description = write_new_data(checkpoint, directory)
    data = directory / description["data"]
    try:
        if not is_own:
            for path in version_files(directory).values():
                path.unlink(missing_ok=True)
        write_description(directory, description)
        if not is_own:
            remove_network(directory)
        network = checkpoint.network
        if network is not None and (not is_own or network.path is None):  # one that lies here is left as it is
            write_network(directory, network)
    except BaseException as error:
        if _data_of(directory) != data:
            shutil.rmtree(data, ignore_errors=True)
        if isinstance(error, OSError):
            raise unwritable(directory, error) from error
        raise
    if replaced is not None:
        _remove_data(replaced, unsure=True)
    if not is_own:
        remove_unnamed(directory)
        open_journal(directory).free_keys()


def write_new_data(checkpoint: Checkpoint, directory: Path) -> dict[str, Any]:
    """Write the files of a model to a new data folder; return the description that names it, which is not written."""
    name = registered_name(checkpoint.embedding.geometry)
    data = directory / f"data-{secrets.token_hex(4)}"
    try:
        data.mkdir(parents=True)
        _write_data(checkpoint, data)
        files = sorted(data.iterdir())
        digests = {path.name: digest(path) for path in files}
    except BaseException as error:
        shutil.rmtree(data, ignore_errors=True)
        if isinstance(error, WRITE_ERRORS):
            raise unwritable(directory, error) from error
        raise
    geometry = checkpoint.embedding.geometry
    description: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "model": name,
        **asdict(geometry),
        "entities": len(checkpoint.entities),
        "relations": len(checkpoint.relations),
        "triples": 0 if checkpoint.graph is None else len(checkpoint.graph),
        "number": checkpoint.number,
        "journal": checkpoint.journal,
        "data": data.name,
        "bytes": {path.name: path.stat().st_size for path in files},
        "digests": digests,
        "settings": checkpoint.settings,
        "provenance": checkpoint.provenance,
    }
    description = naming_companions(description, {name: one.number for name, one in checkpoint.companions.items()})
    if checkpoint.newcomers is not None:
        description[NEWCOMERS] = _newcomer_section(checkpoint.newcomers)
    return description


def naming_companions(description: dict[str, Any], numbers: dict[str, int]) -> dict[str, Any]:
    """A description with its digest that names these companions, each by the number of its version, and no others."""
    named = {name: value for name, value in description.items() if name not in (COMPANIONS, DIGEST)}
    if numbers:
        named[COMPANIONS] = numbers
    return named | {DIGEST: _content_digest(named)}


def save_newcomer_choice(
    values: dict[str, Any], directory: str | Path, checkpoint: Checkpoint, before: dict[str, Any] | None = None
) -> None:
    """Store the settings for new entities with the model in a directory; nothing else of it is written.

    values: plain ones, as `NewcomerChoice.to_dict` gives them
    checkpoint: the model they were chosen for, which must be the one that is still there
    before: what was stored when that was opened; what is as it was then stays as it is stored now
    """
    directory = Path(directory)
    read_description(directory)  # no lock is left where there is no model
    with held_model(directory):
        description = read_description(directory)
        there = [description["settings"], description["provenance"]]
        if there != json.loads(json.dumps([checkpoint.settings, checkpoint.provenance])):
            problem = "another model has taken the place of the one this was found for"
            raise InputError(f"{directory}: {problem}; nothing is stored, run it again")
        stored = {name: value for name, value in description.get(NEWCOMERS, {}).items() if name != DIGEST}
        changed = _changed(stored, json.loads(json.dumps(values)), json.loads(json.dumps(before or {})))
        write_description(directory, description | {NEWCOMERS: _newcomer_section(changed)})


def _changed(stored: dict[str, Any], values: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """What is stored, with what is not as it was before: another command may have stored something meanwhile."""
    changed = dict(stored)
    for name in values.keys() | before.keys():
        mine, old, theirs = (part.get(name) for part in (values, before, stored))
        if mine == old and name in stored:
            continue
        if name not in values:
            changed.pop(name, None)
        elif name in BY_NAME and isinstance(mine, dict) and isinstance(theirs, dict):
            changed[name] = _changed(theirs, mine, old or {})
        else:
            changed[name] = mine
    return changed


def _newcomer_section(values: dict[str, Any]) -> dict[str, Any]:
    return values | {DIGEST: _content_digest(values)}


def _content_digest(content: dict[str, Any]) -> str:
    """The SHA-256 of plain values, however they are laid out in JSON; a digest or a section for newcomers in them is
    no part of it, so that the section can be removed.
    """
    kept = {name: value for name, value in content.items() if name not in (DIGEST, NEWCOMERS)}
    text = json.dumps(json.loads(json.dumps(kept)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _fits_digest(content: dict[str, Any]) -> bool:
    try:
        return bool(content.get(DIGEST) == _content_digest(content))
    except (ValueError, RecursionError):  # values that can be read and not written
        return False


def write_description(directory: Path, description: dict[str, Any], name: str = MODEL_FILE) -> None:
    """Write the description of a version, atomically; in model.json it is the model from then on."""
    with atomic_write(directory / name) as temporary:
        text = json.dumps(description, indent=2, ensure_ascii=False)
        temporary.write_text(text + "\n", encoding="utf-8")


def _data_of(directory: Path) -> Path | None:
    """The data folder of the model in a directory, if there is one that can be read."""
    try:
        return directory / str(read_description(directory)["data"])
    except ModelFileError:
        return None


def version_name(number: int) -> str:
    """The file that describes an earlier version."""
    return f"version-{number}.json"


def version_files(directory: Path) -> dict[int, Path]:
    """The files of earlier versions, by their numbers, which ascend."""
    named = [(VERSION_NAME.fullmatch(path.name), path) for path in directory.glob("version-*.json")]
    return dict(sorted((int(name[1]), path) for name, path in named if name is not None))


def update_states(directory: Path) -> dict[int, Path]:
    """The states of unfinished updates, by the last batch that each learns."""
    named = [(UPDATE_STATE_NAME.fullmatch(path.name), path) for path in directory.glob("update-to-*")]
    return dict(sorted((int(name[1]), path) for name, path in named if name is not None))


def _remove_remains(directory: Path) -> None:
    """Remove what killed writers left, and versions whose last reader has gone; the caller holds the directory."""
    unfinished = (
        re.fullmatch(r"\.((version|update-to)-.*)\.[0-9a-f]{8}\.tmp", path.name) for path in directory.iterdir()
    )
    names = {match[1] for match in unfinished if match is not None}
    for name in (MODEL_FILE, STATE_FILE, PROBE_FILE, MARK_FILE, INDEX_FILE, NETWORK_FILE, *names):
        remove_remains(directory / name, alone=True)
    remove_unnamed(directory)


def remove_unnamed(directory: Path) -> None:
    """Remove the data folders that no version names, and what an interrupted writer has done twice.

    The caller holds the directory. A folder that somebody reads is left to the next write.
    """
    try:
        current = read_description(directory) if holds_model(directory) else None
        if current is not None:
            # A version is kept first, and then model.json replaced: what has its number is the model's.
            (directory / version_name(_number(current))).unlink(missing_ok=True)
            for number, path in update_states(directory).items():
                if number <= _journal(current):
                    path.unlink(missing_ok=True)
        kept = [read_description(directory, path.name) for path in version_files(directory).values()]
    except ModelFileError:
        return  # a damaged description: any of the folders may be the one that is to be restored
    named = {description["data"] for description in (current, *kept) if description is not None}
    for path in directory.glob("data-*"):
        if DATA_NAME.fullmatch(path.name) and path.name not in named and path.is_dir() and not path.is_symlink():
            _remove_data(path, unsure=False)


def _number(description: dict[str, Any]) -> int:
    return int(description.get("number") or 1)


def _journal(description: dict[str, Any]) -> int:
    return int(description.get("journal") or 0)


def _remove_data(data: Path, *, unsure: bool) -> None:
    """Remove a data folder, unless a reader has it open or it holds what is not ours.

    unsure: also where the file system cannot tell whether somebody reads it
    """
    with suppress(OSError):
        if not all(_is_own(path) for path in data.iterdir()):
            return
        try:
            lock = PathLock(data / VECTORS, shared=False)
        except FileNotFoundError:  # never finished, so that nobody reads it
            shutil.rmtree(data, ignore_errors=True)
            return
        if lock.is_sure or unsure:
            shutil.rmtree(data, ignore_errors=True)
        lock.close()


def _is_own(path: Path) -> bool:
    """Whether a file of a data folder is one that belongs there.

    One that was not finished has the name that safetensors gives to it, and counts have that of their scratch folder.
    """
    return path.name in {*FILES, *OLD_FILES} or path.match(COUNTED) or path.name.startswith((".tmp", ".counted-"))


def _write_data(checkpoint: Checkpoint, data: Path) -> None:
    write_data(data, checkpoint.embedding, StoredData(checkpoint.entities, checkpoint.relations, checkpoint.graph))
    for path in (*data.iterdir(), data):
        sync(path)


def load_checkpoint(directory: str | Path, device: str = "cpu") -> Checkpoint:
    """Read a model directory; a damaged or newer one is refused with a line that says why."""
    directory = Path(directory)
    description = read_description(directory)
    for attempt in range(ATTEMPTS):
        try:
            return _read(directory, description, device)
        except ModelFileError:
            newer = read_description(directory)
            if newer["data"] == description["data"] or attempt == ATTEMPTS - 1:
                raise
            description = newer  # it was replaced while it was read
    raise AssertionError("the last attempt returns or raises")


@dataclass(frozen=True)
class FileCheck:
    """What a file of a model directory is found to be.

    problem: what is wrong with it, or None; is_digested: whether there is a digest, or only a size, to hold it against
    """

    name: str
    bytes: int
    problem: str | None
    is_digested: bool


def check_model(directory: str | Path, journal: str | None = None) -> list[FileCheck]:
    """Read every file of a model, its earlier versions, journal and names, and hold it against what was written.

    journal: its address, where it is not in the directory. A damaged model.json is refused.
    """
    directory = Path(directory)
    while True:
        description = read_description(directory)
        _newcomer_values(directory, description)
        checks = _checked_version(directory, MODEL_FILE, description)
        if (
            any(file.problem is not None for file in checks)
            and read_description(directory)["data"] != description["data"]
        ):
            continue  # it was replaced meanwhile
        kept, changes = _checked_earlier(directory), _checked_journal(directory, journal)
        beside = [*_checked_names(directory), *_checked_index(directory), *_checked_network(directory)]
        return [*checks, *kept, *changes, *beside, *_checked_companions(directory, description)]


def _checked_companions(directory: Path, description: dict[str, Any]) -> list[FileCheck]:
    checks = []
    for name, number in description.get(COMPANIONS, {}).items():
        place = directory / COMPANIONS / name
        try:
            _version_description(place, number)  # it must be there
            checked = [*_checked_version(place, MODEL_FILE, read_description(place)), *_checked_earlier(place)]
        except ModelFileError as error:
            checked = [FileCheck(MODEL_FILE, 0, str(error).removeprefix(f"{place}: ").split(";")[0], True)]
        checks += [replace(file, name=f"{COMPANIONS}/{name}/{file.name}") for file in checked]
    return checks


def _checked_version(directory: Path, name: str, description: dict[str, Any]) -> list[FileCheck]:
    """A description and the files that it names."""
    data, own = directory / description["data"], directory / name
    lock = _reader_lock(data)
    checks = [FileCheck(name, own.stat().st_size if own.is_file() else 0, None, DIGEST in description)]
    for file, size in description["bytes"].items():
        problem = _problem(data / file, size, description.get("digests", {}).get(file))
        there = (data / file).stat().st_size if (data / file).is_file() else 0
        checks.append(FileCheck(f"{data.name}/{file}", there, problem, "digests" in description))
    for path in sorted(data.glob(COUNTED)):
        checks.append(FileCheck(f"{data.name}/{path.name}", path.stat().st_size, counts_problem(path), True))
    del lock
    return checks


def _checked_earlier(directory: Path) -> list[FileCheck]:
    current = read_description(directory)
    checks: list[FileCheck] = []
    for number, path in version_files(directory).items():
        try:
            description = read_description(directory, path.name)
            _newcomer_values(directory, description)
            checked = _checked_version(directory, path.name, description)
        except ModelFileError as error:
            problem = str(error).removeprefix(f"{path}: ").split(";")[0]
            checked = [FileCheck(path.name, path.stat().st_size if path.is_file() else 0, problem, True)]
        if number != _number(current) and path.is_file():  # else it is the model, or was removed meanwhile
            checks += checked
    return checks


def _checked_journal(directory: Path, address: str | None) -> list[FileCheck]:
    journal = open_journal(directory, address)
    if not journal.exists:
        return []
    # It has no digest, as it grows; its own check reads all of it.
    return [FileCheck(journal.path.name, journal.path.stat().st_size, journal.problem(), True)]


def _checked_names(directory: Path) -> list[FileCheck]:
    path = directory / NAMES_FILE
    if not path.is_file():
        return []
    return [FileCheck(path.name, path.stat().st_size, names_problem(directory), True)]


def _checked_index(directory: Path) -> list[FileCheck]:
    path = directory / INDEX_FILE
    if not path.is_file():
        return []
    return [FileCheck(path.name, path.stat().st_size, index_problem(directory), True)]


def _checked_network(directory: Path) -> list[FileCheck]:
    path = directory / NETWORK_FILE
    if not path.is_file():
        return []
    return [FileCheck(path.name, path.stat().st_size, network_problem(directory), True)]


def refuse_damage(directory: str | Path, journal: str | None = None) -> None:
    """Refuse a model any of whose files is not what was written; all of them are read.

    Damaged counts are none of it, nor a damaged index: they are made anew.
    """
    for file in check_model(directory, journal):
        if file.problem is not None and not Path(file.name).match(COUNTED) and file.name != INDEX_FILE:
            raise ModelFileError(f"{Path(directory) / file.name}: {file.problem}; {RESTORE}")


def _problem(path: Path, size: int, expected: str | None) -> str | None:
    """What is wrong with a file; without a digest only its size counts."""
    try:
        actual = path.stat().st_size
        if actual != size:
            return f"{actual} bytes instead of {size}"
        if expected is not None and digest(path) != expected:
            return "damaged model file (its content is not what was written)"
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None


def _reader_lock(data: Path) -> PathLock | None:
    """What keeps writers from removing a data folder; None where it is gone or cannot be locked."""
    try:
        return PathLock(data / VECTORS, shared=True)
    except OSError:
        return None


def _read(directory: Path, description: dict[str, Any], device: str) -> Checkpoint:
    data = directory / description["data"]
    lock = _reader_lock(data)
    for name, size in description["bytes"].items():
        # The vectors are mapped and not read; large files would take their time.
        is_checked = name != VECTORS and size <= CHECKED_BYTES
        problem = _problem(data / name, size, description.get("digests", {}).get(name) if is_checked else None)
        if problem is not None:
            raise ModelFileError(f"{data / name}: {problem}; {RESTORE}")
    with damage_named(directory):
        model = GEOMETRIES[description["model"]]
        # A field that an older version did not write has its default.
        stored = {field.name: description[field.name] for field in fields(model) if field.name in description}
        geometry = model(**stored)
        # The tensors are mapped into memory: what is not touched is not read.
        with safe_open(data / VECTORS, framework="pt", device=device) as file:
            embedding = Embedding(geometry, file.get_tensor("entities"), file.get_tensor("relations"))
        for table, kinds in ((embedding.entities, ENTITY_TYPES), (embedding.relations, ENTITY_TYPES[1:])):
            if table.dtype not in kinds:
                raise ValueError(f"vectors of {table.dtype}, expected float32")
        is_old = description["version"] < VERSION
        content = read_old_data(data) if is_old else map_data(data, description["bytes"], lock)
        return Checkpoint(
            embedding,
            content.entities,
            content.relations,
            content.graph,
            description["settings"],
            description["provenance"],
            _newcomer_values(directory, description),
            directory,
            lock,
            journal=_journal(description),
            number=_number(description),
            companions=_read_companions(directory, description, device),
            stored_counts=None if content.graph is None else Counts(data, embedding, content.graph),
            stored_vectors=StoredVectors(embedding, data / VECTORS, (description.get("digests") or {}).get(VECTORS)),
            network=None if content.graph is None else read_network(directory, content.relations),
        )


def _read_companions(directory: Path, description: dict[str, Any], device: str) -> dict[str, Checkpoint]:
    """The companions that a description names; one with other labels is refused."""
    companions = {}
    for name, number in description.get(COMPANIONS, {}).items():
        place = directory / COMPANIONS / name
        version = _version_description(place, number)
        for file in (ENTITIES, RELATIONS):  # the same labels in the same order are the same bytes
            if version.get("digests", {}).get(file) != description["digests"].get(file):
                problem = f"its {Path(file).stem} are not those of {directory}"
                raise ModelFileError(f"{place}: {problem}; {RESTORE}")
        companions[name] = _read(place, version, device)
    return companions


def _version_description(directory: Path, number: int) -> dict[str, Any]:
    """The description of the version with a number, the model or an earlier one."""
    description = read_description(directory)
    return description if _number(description) == number else read_description(directory, version_name(number))


def stored_newcomers(directory: str | Path) -> dict[str, Any] | None:
    """The plain values of the settings for new entities that are stored with a model, or None."""
    return _newcomer_values(Path(directory), read_description(Path(directory)))


def damaged_newcomers(directory: Path | None, reason: str) -> ModelFileError:
    """The error for settings for new entities that cannot be used."""
    place = MODEL_FILE if directory is None else directory / MODEL_FILE
    remedy = "remove that section from the file, then tune or audit the model again"
    return ModelFileError(f"{place}: damaged {NEWCOMERS!r} ({reason}); {remedy}")


def _newcomer_values(directory: Path, description: dict[str, Any]) -> dict[str, Any] | None:
    section = description.get(NEWCOMERS)
    if section is None:
        return None
    if not isinstance(section, dict):
        raise damaged_newcomers(directory, f"settings for new entities are {section!r} instead of an object")
    if DIGEST in section and not _fits_digest(section):
        raise damaged_newcomers(directory, "its digest is another")
    return {name: value for name, value in section.items() if name != DIGEST}


def read_description(directory: Path, name: str = MODEL_FILE) -> dict[str, Any]:
    """What model.json says, or the file of an earlier version; a damaged one is refused."""
    path = directory / name
    if not path.is_file() and name != MODEL_FILE:
        raise ModelFileError(f"{path}: no such version; `ookg history` lists those that are kept")
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
    for entry, fits in (
        ("data", lambda value: isinstance(value, str) and DATA_NAME.fullmatch(value)),
        ("bytes", lambda value: isinstance(value, dict) and _is_complete(set(value), description["version"])),
        (
            "digests",
            lambda value: value is None or (isinstance(value, dict) and set(value) == set(description["bytes"])),
        ),
        ("norm", lambda value: value in (1, 2)),
        ("unit_norm", lambda value: value in (None, 0, 1, 2)),
        ("settings", lambda value: isinstance(value, dict)),
        ("provenance", lambda value: isinstance(value, dict)),
        ("number", lambda value: value is None or (type(value) is int and value >= 1)),
        ("journal", lambda value: value is None or (type(value) is int and value >= 0)),
        (COMPANIONS, lambda value: value is None or ("digests" in description and _are_companions(value))),
    ):
        if not fits(description.get(entry)):
            problem = f"{path}: damaged ({entry!r} is {description.get(entry)!r})"
            raise ModelFileError(f"{problem}; restore it or train again")
    if name not in (MODEL_FILE, version_name(_number(description))):
        raise ModelFileError(f"{path}: damaged (it is version {_number(description)}); restore it or remove it")
    # Directories of older versions have neither digest.
    if (DIGEST in description or "digests" in description) and not _fits_digest(description):
        problem = "damaged model description (its content is not what was written)"
        raise ModelFileError(f"{path}: {problem}; restore it or train again")
    return description


def _are_companions(value: Any) -> bool:
    """Whether these are companions by name, each with the number of a version."""
    return isinstance(value, dict) and all(
        COMPANION_NAME.fullmatch(name) and type(number) is int and number >= 1 for name, number in value.items()
    )


def _is_complete(names: set[str], version: int) -> bool:
    """Whether these are the files of a model, with or without its training triples."""
    files = OLD_FILES if version < VERSION else FILES
    return names in (set(files[:3]), set(files))


def holds_model(directory: str | Path) -> bool:
    """Whether there is a model in the directory."""
    return (Path(directory) / MODEL_FILE).exists()
