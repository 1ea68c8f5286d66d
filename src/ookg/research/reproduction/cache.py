"""Trained models that several runs share, kept on disk so that none is trained twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ookg.datasets.places import cache_folder
from ookg.system.files import atomic_write, save_tensors

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ookg.datasets.encoded import EncodedDataset

DIGITS = 16  # of a digest
ENDING = ".2.safetensors"  # with the number of the files' format: what is in another one is made again


class Settings(Protocol):
    """What a training depends on."""

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""


def model_folder() -> Path:
    """Where trained models are kept by default, beside the data sets' cache."""
    return cache_folder().parent / "models"


@dataclass(frozen=True)
class TrainedModel:
    """What a training came to: its tensors, how long it took, and on which device.

    about: plain values that belong to it
    """

    tensors: Mapping[str, Tensor]
    seconds: float
    device: str
    about: Mapping[str, Any] = field(default_factory=dict)


class ModelCache:
    """Trained models under a folder: DATASET/SETTINGS-TRIPLES.2.safetensors, both named by their digests."""

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = Path(folder) if folder is not None else model_folder()

    def holds(self, dataset: str, settings: Settings) -> bool:
        """Whether a model of these settings is there, without a look at the data set."""
        return any((self.folder / dataset).glob(f"{settings_digest(settings)}-{'?' * DIGITS}{ENDING}"))

    def path_of(self, dataset: EncodedDataset, settings: Settings) -> Path:
        """Where the model is, or will be."""
        return self.folder / dataset.name / f"{settings_digest(settings)}-{_triples_digest(dataset)}{ENDING}"

    def load(self, dataset: EncodedDataset, settings: Settings, device: torch.device) -> TrainedModel | None:
        """The model, if it is there and whole."""
        from safetensors import SafetensorError, safe_open

        path = self.path_of(dataset, settings)
        if not path.exists():
            return None
        try:
            with safe_open(path, framework="pt", device=str(device)) as file:
                header = json.loads(file.metadata()["ookg"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
                return TrainedModel(tensors, float(header["seconds"]), str(header["device"]), dict(header["about"]))
        except (SafetensorError, OSError, KeyError, TypeError, ValueError, OverflowError, RecursionError):
            return None  # what can be made again is made again

    def save(self, dataset: EncodedDataset, settings: Settings, trained: TrainedModel) -> None:
        """Keep a model, atomically."""
        # Each tensor is stored on its own: safetensors refuses tensors that share memory.
        tensors = {name: value.detach().clone().contiguous().cpu() for name, value in trained.tensors.items()}
        header = {"seconds": trained.seconds, "device": trained.device, "about": dict(trained.about)}
        text = json.dumps(header | {"settings": settings.to_dict()})
        with atomic_write(self.path_of(dataset, settings)) as temporary:
            save_tensors(tensors, temporary, {"ookg": text})


def settings_digest(settings: Settings) -> str:
    """A name for settings."""
    return hashlib.sha256(json.dumps(settings.to_dict(), sort_keys=True).encode()).hexdigest()[:DIGITS]


def _triples_digest(dataset: EncodedDataset) -> str:
    """A name for all triples and sizes: what a model is validated on and built with counts too."""
    digest = hashlib.sha256(f"{dataset.num_known} {dataset.num_entities} {dataset.num_trained}".encode())
    for part in (dataset.train, dataset.valid, dataset.aux):
        digest.update(part.tobytes())
    return digest.hexdigest()[:DIGITS]
