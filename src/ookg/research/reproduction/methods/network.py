"""A graph neural network for the methods that ask one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from ookg.datasets.encoded import EncodedDataset
    from ookg.evidence.network import AnswerNetwork
    from ookg.models.embedding import Embedding
    from ookg.research.reproduction.cache import Settings, TrainedModel
    from ookg.research.reproduction.methods.method import Context
    from ookg.training.network import NetworkSettings
    from ookg.types import Array

NETWORK_SECONDS = 900.0  # of a training on one core, about
TRAINING: Mapping[str, Any] = {}  # what differs from the settings of the methods


def network_settings(seed: int, **changes: Any) -> NetworkSettings:
    """How a network is trained."""
    from ookg.training.network import NetworkSettings

    return NetworkSettings(**({"seed": seed} | changes | dict(TRAINING)))


@dataclass(frozen=True)
class NetworkBase:
    """The vectors that the encoder of a network reads, and the settings by which they were trained."""

    embedding: Embedding
    settings: Settings


@dataclass(frozen=True)
class _EncoderSettings:
    """What the training of an encoder depends on."""

    settings: NetworkSettings
    vectors: Settings

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return replace(self.settings, steps=0).to_dict() | {"vectors": self.vectors.to_dict()}


def network_of(
    context: Context, dataset: EncodedDataset, settings: NetworkSettings, base: NetworkBase | None = None
) -> AnswerNetwork:
    """The network of a data set's train triples: what is kept of it, or is trained now. base: for its encoder"""
    from ookg.evidence.network import AnswerNetwork
    from ookg.graph.index import GraphIndex
    from ookg.training.encoder import LinkEncoder, train_encoder
    from ookg.training.network import RelationNetwork
    from ookg.training.network_training import train_network

    there, size = context.within(dataset), dataset.num_trained

    def index() -> GraphIndex:
        return GraphIndex.of(dataset.train, dataset.num_known, size)

    def messages() -> TrainedModel:
        with context.progress(f"network of {dataset.name}", settings.steps) as report:
            return _timed(context, lambda: train_network(index(), settings, context.device, report))

    network = RelationNetwork.from_arrays(_arrays(there.trained(replace(settings, encoder_steps=0), messages)), size)
    if base is None:
        return AnswerNetwork(network)
    vectors = base.embedding.entities

    def encoder() -> TrainedModel:
        with context.progress(f"encoder of {dataset.name}", settings.encoder_steps) as report:
            return _timed(context, lambda: train_encoder(index(), vectors, settings, context.device, report))

    trained = there.trained(_EncoderSettings(settings, base.settings), encoder)
    return AnswerNetwork(network, LinkEncoder.from_arrays(_arrays(trained), size), base.embedding)


def _arrays(trained: TrainedModel) -> dict[str, Array]:
    return {name: table.cpu().numpy() for name, table in trained.tensors.items()}


def _timed(context: Context, train: Callable[[], nn.Module]) -> TrainedModel:
    """What a training came to, and how long it took."""
    from ookg.research.reproduction.cache import TrainedModel
    from ookg.system.machine import device_name

    begun = time.perf_counter()
    trained = train()
    return TrainedModel(trained.state_dict(), time.perf_counter() - begun, device_name(context.device))
