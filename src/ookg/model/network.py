"""Training a graph neural network for a model, and storing it in the model's directory."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

from ookg.errors import InputError
from ookg.storage.checkpoint import Checkpoint, load_checkpoint
from ookg.storage.network import StoredNetwork, write_network
from ookg.system.machine import device_name
from ookg.system.progress import Reporter
from ookg.training.loop import choose_device
from ookg.training.network import NetworkSettings
from ookg.training.network_training import train_network
from ookg.version import __version__


def network_of(
    checkpoint: Checkpoint,
    settings: NetworkSettings | None = None,
    device: str = "cpu",
    report: Reporter | None = None,
) -> StoredNetwork:
    """A network trained on the triples that a model was trained on; what was added since is none of them.

    report: called with the number of steps done
    """
    if checkpoint.graph is None or not len(checkpoint.graph):
        problem = "this model came without its training triples, and a network is trained on these"
        raise InputError(f"{problem}; import it with --triples")
    settings, place, begun = settings or NetworkSettings(), choose_device(device), time.perf_counter()
    network = train_network(checkpoint.index, settings, place, report)
    about = {
        "settings": settings.to_dict(),
        "version": checkpoint.number,
        "triples": len(checkpoint.graph),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.perf_counter() - begun, 3),
        "device": device_name(place),
        "ookg": __version__,
    }
    relations = tuple(checkpoint.relations.labels.to_pylist())
    return StoredNetwork(network.to_arrays(), relations, about, len(relations))


def store_network(network: StoredNetwork, directory: str | Path) -> Path:
    """Store a network in the directory of the model that it was trained for; return its file."""
    there = load_checkpoint(directory).relations
    number = min(len(there), len(network.relations))
    if there.select(range(number)) != list(network.relations[:number]):
        problem = "another model has taken the place of the one that the network was trained for"
        raise InputError(f"{directory}: {problem}; nothing is stored, train it again")
    return write_network(directory, network)
