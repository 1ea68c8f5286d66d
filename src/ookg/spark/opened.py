"""A model in a process that works for Spark: opened once, its large files mapped, so that an executor has them once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ookg.errors import ModelFileError
from ookg.model.model import Model
from ookg.newcomers.reducer import Weights
from ookg.spark.labels import LabelIndex
from ookg.storage.checkpoint import read_description


@dataclass(frozen=True)
class ModelPlace:
    """Where a model lies, for every process that works, and which one it is.

    digest: of its description; what lies there must be the same on all machines, from the beginning of a job to its end
    weights: how vectors are made with it
    """

    path: str
    digest: str
    weights: Weights

    def open(self) -> OpenedModel:
        """The model, opened when it is first needed in this process."""
        return _opened(self.path, self.digest)


@dataclass(frozen=True, eq=False)
class OpenedModel:
    """A model and where its labels are found."""

    model: Model
    entities: LabelIndex
    relations: LabelIndex


def digest_of(path: str) -> str:
    """Which model lies there."""
    description = read_description(Path(path))
    return str(description.get("digest") or description["data"])  # directories of old versions have no digest


@lru_cache(maxsize=2)
def _opened(path: str, digest: str) -> OpenedModel:
    there = digest_of(path)
    if there != digest:
        problem = "not the model that the job began with, on this machine or any more"
        raise ModelFileError(f"{path}: {problem}; put the same one on all machines and run it again")
    model, folder = Model.load(path), scratch_folder()
    table = None if folder is None else Path(folder) / f"ookg-labels-{digest[:16]}.npy"
    return OpenedModel(model, LabelIndex.of(model.entities, table), LabelIndex.of(model.relations))


def scratch_folder() -> str | None:
    """The folder of this executor, which Spark removes with it; None outside of one."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
