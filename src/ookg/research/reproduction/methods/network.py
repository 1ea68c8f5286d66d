"""A graph neural network of the known triples, for the methods that ask one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ookg.datasets.encoded import EncodedDataset
    from ookg.research.reproduction.cache import TrainedModel
    from ookg.research.reproduction.methods.method import Context
    from ookg.training.network import NetworkSettings, RelationNetwork

NETWORK_SECONDS = 900.0  # of a training on one core, about


def network_options(seed: int) -> dict[str, Any]:
    """What the network is trained by."""
    from ookg.training.network import NetworkSettings

    return {"network": NetworkSettings(seed=seed).to_dict()}


def network_of(context: Context, known: EncodedDataset) -> RelationNetwork:
    """The network of a data set's known triples: the one that is kept, or one that is trained now."""
    from ookg.training.network import NetworkSettings, RelationNetwork

    settings = NetworkSettings(seed=context.seed)
    trained = context.within(known).trained(settings, lambda: _trained(known, settings, context))
    return RelationNetwork.from_arrays(
        {name: table.cpu().numpy() for name, table in trained.tensors.items()}, known.num_trained
    )


def _trained(known: EncodedDataset, settings: NetworkSettings, context: Context) -> TrainedModel:
    from ookg.graph.index import GraphIndex
    from ookg.research.reproduction.cache import TrainedModel
    from ookg.system.machine import device_name
    from ookg.training.network_training import train_network

    index, begun = GraphIndex.of(known.train, known.num_known, known.num_trained), time.perf_counter()
    with context.progress(f"network of {known.name}", settings.steps) as report:
        network = train_network(index, settings, context.device, report)
    return TrainedModel(network.state_dict(), time.perf_counter() - begun, device_name(context.device))
