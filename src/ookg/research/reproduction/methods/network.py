"""A graph neural network for the methods that ask one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ookg.datasets.encoded import EncodedDataset
    from ookg.research.reproduction.cache import TrainedModel
    from ookg.research.reproduction.methods.method import Context
    from ookg.training.network import NetworkSettings, RelationNetwork

NETWORK_SECONDS = 900.0  # of a training on one core, about
TRAINING: Mapping[str, Any] = {}  # what differs from the settings of the methods


def network_settings(seed: int, **changes: Any) -> NetworkSettings:
    """How a network is trained."""
    from ookg.training.network import NetworkSettings

    return NetworkSettings(**({"seed": seed} | changes | dict(TRAINING)))


def network_of(context: Context, dataset: EncodedDataset, settings: NetworkSettings) -> RelationNetwork:
    """The network of a data set's train triples: the one that is kept, or one that is trained now."""
    from ookg.training.network import RelationNetwork

    trained = context.within(dataset).trained(settings, lambda: _trained(dataset, settings, context))
    arrays = {name: table.cpu().numpy() for name, table in trained.tensors.items()}
    return RelationNetwork.from_arrays(arrays, dataset.num_trained)


def _trained(dataset: EncodedDataset, settings: NetworkSettings, context: Context) -> TrainedModel:
    from ookg.graph.index import GraphIndex
    from ookg.research.reproduction.cache import TrainedModel
    from ookg.system.machine import device_name
    from ookg.training.network_training import train_network

    index, begun = GraphIndex.of(dataset.train, dataset.num_known, dataset.num_trained), time.perf_counter()
    with context.progress(f"network of {dataset.name}", settings.steps) as report:
        network = train_network(index, settings, context.device, report)
    return TrainedModel(network.state_dict(), time.perf_counter() - begun, device_name(context.device))
