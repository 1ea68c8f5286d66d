"""Training a graph neural network for a model, and storing it in the model's directory."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from torch import nn

from ookg.errors import InputError, lacks_triples
from ookg.graph.index import GraphIndex
from ookg.graph.triples import Triples
from ookg.storage.checkpoint import Checkpoint, load_checkpoint
from ookg.storage.network import ENCODER, StoredNetwork, write_network
from ookg.system.machine import device_name
from ookg.system.progress import Reporter
from ookg.training.encoder import train_encoder
from ookg.training.loop import choose_device
from ookg.training.network import NetworkSettings, network_settings
from ookg.training.network_training import train_network
from ookg.types import Array
from ookg.version import __version__


def network_of(
    checkpoint: Checkpoint,
    settings: NetworkSettings | None = None,
    given: Triples | None = None,
    device: str = "cpu",
    report: Reporter | None = None,
) -> StoredNetwork:
    """A network trained on the triples that a model was trained on, and on given ones over the same relations.

    report: called with the number of steps done, those of both its parts together
    """
    if checkpoint.graph is None or not len(checkpoint.graph):
        raise lacks_triples(checkpoint.graph is None, "a network is trained on triples")
    settings = network_settings(settings)
    place, begun = choose_device(device), time.perf_counter()
    index, further = _index_of(checkpoint, given)
    arrays = _parameters(checkpoint, index, settings, place, report)
    about = {
        "settings": settings.to_dict(),
        "version": checkpoint.number,
        "triples": len(index.link) // 2,
        "given": further,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.perf_counter() - begun, 3),
        "device": device_name(place),
        "ookg": __version__,
    }
    relations = tuple(checkpoint.relations.labels.to_pylist())
    return StoredNetwork(arrays, relations, about, len(relations))


def _parameters(
    checkpoint: Checkpoint,
    index: GraphIndex,
    settings: NetworkSettings,
    device: torch.device,
    report: Reporter | None,
) -> dict[str, Array]:
    """Those of both parts, by the names under which they are stored."""
    parts: dict[str, nn.Module] = {}
    if settings.steps:
        parts[""] = train_network(index, settings, device, report)
    if settings.encoder_steps:
        further = None if report is None else _after(settings.steps, report)
        parts[ENCODER] = train_encoder(index, checkpoint.embedding.entities, settings, device, further)
    tables = {
        f"{prefix}{name}": table.cpu().numpy()
        for prefix, part in parts.items()
        for name, table in part.state_dict().items()
    }
    if not all(np.isfinite(table).all() for table in tables.values()):
        raise InputError("the training of the network has diverged; take a smaller `learning_rate`")
    return tables


def _after(steps: int, report: Reporter) -> Reporter:
    """A reporter that counts on from so many steps."""

    def told(done: int, figure: Callable[[], str] | None = None) -> None:
        report(steps + done, figure)

    return told


def _index_of(checkpoint: Checkpoint, given: Triples | None) -> tuple[GraphIndex, int]:
    """The triples of a model by entity with those of given ones that are over its relations; how many these are."""
    if given is None or not len(given):
        return checkpoint.index, 0
    entities = checkpoint.entities.extended(given.entities.labels)
    ids = given.encoded(entities, checkpoint.relations)
    ids = ids[(ids >= 0).all(axis=1)]
    ids = ids[~checkpoint.index.has(ids)]
    triples = np.concatenate([checkpoint.triples, ids])
    return GraphIndex.of(triples, len(entities), len(checkpoint.relations)), len(ids)


def store_network(network: StoredNetwork, directory: str | Path) -> Path:
    """Store a network in the directory of the model that it was trained for; return its file."""
    there = load_checkpoint(directory).relations
    number = min(len(there), len(network.relations))
    if there.select(range(number)) != list(network.relations[:number]):
        problem = "another model has taken the place of the one that the network was trained for"
        raise InputError(f"{directory}: {problem}; nothing is stored, train it again")
    return write_network(directory, network)
