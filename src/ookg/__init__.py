"""Vectors for entities that are new to a trained knowledge graph, without retraining.

model = ookg.train("graph.tsv", out="model")
new = model.embed([("TENET", "directed_by", "Christopher Nolan")])
model.predict([("TENET", "directed_by", "Christopher Nolan")], head="TENET", relation="language")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ookg.version import __version__ as __version__

if TYPE_CHECKING:
    from pathlib import Path

    from ookg.datasets.few_shot import load_few_shot as load_few_shot
    from ookg.datasets.folder import load_dataset as load_dataset
    from ookg.datasets.growing import load_growing as load_growing
    from ookg.errors import OokgError as OokgError
    from ookg.evaluation.evaluate import evaluate as evaluate
    from ookg.evaluation.judging import judge as judge
    from ookg.evaluation.ranks import compare as compare
    from ookg.evaluation.ranks import read_ranks as read_ranks
    from ookg.evidence.combined import RankingWeights as RankingWeights
    from ookg.extension.bulk import answer_all as answer_all
    from ookg.extension.bulk import read_questions as read_questions
    from ookg.extension.extended import ExtendedModel as ExtendedModel
    from ookg.extension.questions import AnswerOptions as AnswerOptions
    from ookg.extension.questions import Question as Question
    from ookg.graph.triples import read_triples as read_triples
    from ookg.graph.triples import write_triples as write_triples
    from ookg.model.living import LivingModel as LivingModel
    from ookg.model.model import Model as Model
    from ookg.model.train import plan_training as plan_training
    from ookg.model.train import train as train
    from ookg.model.train import train_together as train_together
    from ookg.newcomers.embedder import NeighborLimit as NeighborLimit
    from ookg.newcomers.reducer import Correlation as Correlation
    from ookg.newcomers.reducer import Degree as Degree
    from ookg.newcomers.reducer import Precision as Precision
    from ookg.newcomers.reducer import Uniform as Uniform
    from ookg.newcomers.refinement import RefineSettings as RefineSettings
    from ookg.simulation.audit import AuditSettings as AuditSettings
    from ookg.simulation.hiding import HidingSettings as HidingSettings
    from ookg.simulation.judge import JudgeSettings as JudgeSettings
    from ookg.simulation.retraining import Retraining as Retraining
    from ookg.simulation.tuning import TuningSettings as TuningSettings
    from ookg.training.continuing import UpdateSettings as UpdateSettings
    from ookg.training.network import NetworkSettings as NetworkSettings
    from ookg.training.settings import TrainingSettings as TrainingSettings
    from ookg.training.settings import preset as preset


# Where each public name lives. They are imported when first used: `import ookg` is instant, and training works on a
# machine that lacks what only reading and writing files needs.
_HOMES = {
    "AnswerOptions": "ookg.extension.questions",
    "AuditSettings": "ookg.simulation.audit",
    "Correlation": "ookg.newcomers.reducer",
    "Degree": "ookg.newcomers.reducer",
    "ExtendedModel": "ookg.extension.extended",
    "HidingSettings": "ookg.simulation.hiding",
    "JudgeSettings": "ookg.simulation.judge",
    "LivingModel": "ookg.model.living",
    "Model": "ookg.model.model",
    "NeighborLimit": "ookg.newcomers.embedder",
    "NetworkSettings": "ookg.training.network",
    "OokgError": "ookg.errors",
    "Precision": "ookg.newcomers.reducer",
    "Question": "ookg.extension.questions",
    "RankingWeights": "ookg.evidence.combined",
    "RefineSettings": "ookg.newcomers.refinement",
    "Retraining": "ookg.simulation.retraining",
    "TrainingSettings": "ookg.training.settings",
    "TuningSettings": "ookg.simulation.tuning",
    "Uniform": "ookg.newcomers.reducer",
    "UpdateSettings": "ookg.training.continuing",
    "answer_all": "ookg.extension.bulk",
    "compare": "ookg.evaluation.ranks",
    "evaluate": "ookg.evaluation.evaluate",
    "judge": "ookg.evaluation.judging",
    "load_dataset": "ookg.datasets.folder",
    "load_few_shot": "ookg.datasets.few_shot",
    "load_growing": "ookg.datasets.growing",
    "plan_training": "ookg.model.train",
    "preset": "ookg.training.settings",
    "read_questions": "ookg.extension.bulk",
    "read_ranks": "ookg.evaluation.ranks",
    "read_triples": "ookg.graph.triples",
    "train": "ookg.model.train",
    "train_together": "ookg.model.train",
    "write_triples": "ookg.graph.triples",
}
__all__ = [*_HOMES, "__version__", "load"]  # noqa: PLE0604 (all of them are strings)


def load(directory: "str | Path", device: str = "cpu") -> "Model":
    """Read a model directory. device: "cpu", "cuda", or "auto", which is the GPU where there is one"""
    from ookg.model.model import Model

    return Model.load(directory, device)


def open(directory: "str | Path", device: str = "cpu", **options: Any) -> "LivingModel":
    """Open a model directory, to ask it, add to it, remove from it and update it; options as for `Model.extend`.

    journal=URL: what is added and removed lies in PostgreSQL (`postgresql://user@host/database`), not in the directory
    """
    from ookg.model.living import LivingModel

    return LivingModel(directory, device, **options)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ookg' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "open"])  # which a star import would put in the place of the builtin
