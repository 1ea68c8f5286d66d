"""The network of a model directory: `network.safetensors`, replaced as a whole.

    the parameters of the network, float32, by their names; those of its encoder as encoder.NAME
    metadata   a format, a digest of all, the labels of the relations that it knows, how it was trained, when, for how
               long and on which version

It belongs to the directory and not to a version: the network knows relations and no entities, and an update or a
rollback leaves ids of relations alone. Relations that came after its training are none of its own.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from ookg.errors import ModelFileError
from ookg.graph.vocabulary import Vocabulary
from ookg.storage.data import CHECKED_BYTES, mapped_arrays, write_arrays
from ookg.system.files import atomic_write, unwritable
from ookg.types import Array

NETWORK_FILE = "network.safetensors"
FORMAT = "ookg network 1"
ENCODER = "encoder."  # what the names of the encoder's parameters begin with
READINGS = 5  # tries to read a file that others replace

Stamp = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class StoredNetwork:
    """A trained network as it is stored.

    arrays: its parameters; relations: the labels of those that it knows, by their ids
    about: plain values: settings, version (the number of the one it was trained on), triples, created, seconds, device
    num_relations: how many of the first relations it is asked about: of an earlier version, not all that it knows
    path: the file that it was read from
    """

    arrays: dict[str, Array]
    relations: tuple[str, ...]
    about: dict[str, Any]
    num_relations: int
    path: Path | None = None

    @property
    def messages(self) -> dict[str, Array]:
        """The parameters of the part that reads the graph."""
        return {name: array for name, array in self.arrays.items() if not name.startswith(ENCODER)}

    @property
    def encoder(self) -> dict[str, Array]:
        """The parameters of the part that reads vectors, by their names in it."""
        return {name.removeprefix(ENCODER): array for name, array in self.arrays.items() if name.startswith(ENCODER)}

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of its parts, as weights have them."""
        return tuple(name for name, part in (("network", self.messages), ("encoder", self.encoder)) if part)

    @property
    def digest(self) -> str:
        """What tells it from any other network."""
        named: str = self.about.get("digest") or _digest(self)
        return named

    def damaged(self, problem: str) -> ModelFileError:
        """The error for a network that cannot be."""
        return _damaged(self.path or Path(NETWORK_FILE), problem)


def write_network(directory: str | Path, network: StoredNetwork) -> Path:
    """Write a network into a model directory, atomically; return the file."""
    path = Path(directory) / NETWORK_FILE
    about = {name: value for name, value in network.about.items() if name != "digest"}
    about |= {"format": FORMAT, "relations": list(network.relations), "digest": network.digest}
    with atomic_write(path) as temporary:
        write_arrays(temporary, network.arrays, {"ookg": json.dumps(about)})
    return path


def remove_network(directory: str | Path) -> bool:
    """Remove the network of a model directory; whether there was one."""
    path = Path(directory) / NETWORK_FILE
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unwritable(path, error) from error
    return True


def read_network(directory: str | Path, relations: Vocabulary) -> StoredNetwork | None:
    """The network of a model directory, mapped and not read; None if there is none.

    relations: of the version that it is for: what it knows must be called the same
    """
    path = Path(directory) / NETWORK_FILE
    try:
        network = _read_whole(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _damaged(path, str(error.strerror)) from error
    number = min(len(network.relations), len(relations))
    if relations.select(range(number)) != list(network.relations[:number]):
        raise _damaged(path, "it was trained for other relations")
    return replace(network, num_relations=number)


def _read_whole(path: Path) -> StoredNetwork:
    """A network, read again where another one has taken its place meanwhile."""
    for _ in range(READINGS - 1):
        stamp = network_stamp(path.parent)
        try:
            network = _read(path, is_checked=path.stat().st_size <= CHECKED_BYTES)
        except ModelFileError:
            if network_stamp(path.parent) == stamp:
                raise
            continue
        if network_stamp(path.parent) == stamp:
            return network
    return _read(path, is_checked=path.stat().st_size <= CHECKED_BYTES)


def _read(path: Path, *, is_checked: bool) -> StoredNetwork:
    """is_checked: whether it is held against its digest, which reads all of it."""
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {}).get("ookg", "{}"))
        if about.pop("format", None) != FORMAT:
            raise ValueError(f"it is no file of the format {FORMAT!r}")
        relations = about.pop("relations")
        if not isinstance(relations, list) or not all(isinstance(label, str) for label in relations):
            raise ValueError("its relations are no labels")
        if not isinstance(about.get("settings"), dict) or not isinstance(about.get("digest"), str):
            raise ValueError("how it was trained is not said")
        network = StoredNetwork(mapped_arrays(path), tuple(relations), about, len(relations), path)
        if is_checked and about["digest"] != _digest(network):
            raise ValueError("its content is not what was written")
    except FileNotFoundError:
        raise
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise _damaged(path, str(error).splitlines()[0] if str(error) else type(error).__name__) from error
    return network


def network_problem(directory: Path) -> str | None:
    """What is wrong with the file of the network, or None; all of it is read."""
    path = directory / NETWORK_FILE
    try:
        _read(path, is_checked=True)
    except ModelFileError as error:
        return str(error).removeprefix(f"{path}: ").split(";")[0]
    return None


def network_stamp(directory: str | Path) -> Stamp | None:
    """Something that changes whenever the network does; None where there is none."""
    try:
        status = (Path(directory) / NETWORK_FILE).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _damaged(path: Path, problem: str) -> ModelFileError:
    remedy = f"remove it with `ookg network {path.parent} --remove`, and train it anew"
    return ModelFileError(f"{path}: damaged network ({problem}); {remedy}")


def _digest(network: StoredNetwork) -> str:
    """Of what it says: when and how fast it was trained makes no other network of it."""
    said = [network.about.get("settings"), list(network.relations)]
    digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode())
    for name, array in sorted(network.arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
