"""Ways to answer questions about newcomers with a few triples. A further one is a `ScorerOf` and a line at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ookg.research.reproduction.methods.method import LINK_PREDICTION, Context, Method, Variant
from ookg.research.reproduction.paper import FEW_SHOT_SETS
from ookg.research.reproduction.settings import PaperSettings

if TYPE_CHECKING:
    from ookg.datasets.encoded import Task
    from ookg.datasets.shots import EncodedFewShot, Shots, TaskSplit
    from ookg.models.embedding import Embedding
    from ookg.scoring.scorer import Scorer

# What differs from the default settings of a training.
TRAINING: Mapping[str, Any] = {}
SECONDS = {"gpu": 30.0, "cpu": 3_000.0}  # of a training, about


@dataclass(frozen=True, eq=False)
class FewShotCase:
    """Vectors and questions, as a `ScorerOf` gets them.

    embeddings: one for each model, by the ids of the data set; shots: what is given and asked, of one split
    What a scorer is fitted on is known triples, or `dataset.at("valid", ...)`; `shots.asked` is not looked at.
    """

    embeddings: Sequence[Embedding]
    dataset: EncodedFewShot
    shots: Shots
    seed: int


ScorerOf = Callable[[FewShotCase], "Scorer"]


@dataclass(frozen=True)
class FewShotSettings:
    """The trainings of the vectors, and what else a method depends on."""

    bases: tuple[Mapping[str, Any], ...]
    options: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {"bases": [dict(base) for base in self.bases], **self.options}


@dataclass(frozen=True)
class FewShotMethod(Method):
    """Answers by vectors of one model or several, trained on the known triples.

    models: "transe", "rotate"; scorer_of: what answers; options: all that the answers depend on beside the vectors
    """

    name: str
    models: tuple[str, ...]
    scorer_of: ScorerOf
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    tasks: tuple[Task, ...] = LINK_PREDICTION

    def training(self, dataset: str, seed: int) -> FewShotSettings:
        """The default settings of each model."""
        del dataset
        return FewShotSettings(tuple(_base(model, seed).to_dict() for model in self.models), self.options)

    def variants(self, dataset: str) -> tuple[Variant, ...]:
        """One: known and new answers are measured together."""
        del dataset
        return (Variant(protocol="all"),)

    def train(self, context: Context) -> list[Embedding]:
        """The vectors of what is known, the same ones for any number of shots."""
        there = context.within(_few_shot(context).known)
        return [there.embedding(_base(model, context.seed)) for model in self.models]

    def figures(self, context: Context, trained: list[Embedding], variant: Variant) -> dict[str, float]:
        """The figures of test over all questions, by the kind of answer and by the number of given triples.

        Those of valid are what settings are chosen by.
        """
        from ookg.evaluation.few_shot import few_shot_figures

        dataset = _few_shot(context)
        figures: dict[str, float] = {}
        prefixes: dict[TaskSplit, str] = {"test": "", "valid": "valid-"}
        for split, prefix in prefixes.items():
            shots = dataset.at(split, FEW_SHOT_SETS[context.name].shots)
            scorer = self.scorer_of(FewShotCase(trained, dataset, shots, context.seed))
            measured = few_shot_figures(scorer, dataset, shots, protocol=variant.protocol)
            parts = {"mrr": measured.all, "mrr-known": measured.known, "mrr-new": measured.new}
            found = {f"{prefix}{name}": summary.mrr for name, summary in parts.items() if summary.queries}
            found |= {f"{prefix}hits@{k}": measured.all.to_dict()[f"hits@{k}"] for k in (1, 3, 10)}
            found |= {f"{prefix}mrr.given-{row.given}": row.summary.mrr for row in measured.by_given}
            figures |= found
        return figures

    def rough_seconds(self, dataset: str, on_gpu: bool) -> float:
        """As on an H200 and on two cores, about."""
        del dataset
        return len(self.models) * SECONDS["gpu" if on_gpu else "cpu"]


def _base(model: str, seed: int) -> PaperSettings:
    return PaperSettings().changed({"model": model, "seed": seed, **TRAINING})


def _few_shot(context: Context) -> EncodedFewShot:
    if context.few_shot is None:
        raise TypeError(f"{context.dataset.name} has no tasks")
    return context.few_shot


def uniform_closed_form(case: FewShotCase) -> Scorer:
    """The mean of what the given triples determine, under the first model."""
    from ookg.graph.statistics import GraphStatistics, relations_with_loops
    from ookg.newcomers.embedder import find_newcomers
    from ookg.newcomers.reducer import Uniform
    from ookg.scoring.scorer import TranslationScorer

    dataset = case.dataset.dataset_of(case.shots.split, case.shots.shots)
    graph = GraphStatistics.count(dataset.train, dataset.num_known, dataset.num_trained)
    newcomers = find_newcomers(case.embeddings[0], graph, dataset.train, dataset.given, Uniform())
    newcomers = newcomers.with_room_for(dataset.num_entities - dataset.num_known)
    return TranslationScorer(newcomers, relations_with_loops(dataset.train, dataset.num_trained))


FEW_SHOT_METHODS = (
    FewShotMethod("InvTransE (uniform)", ("transe",), uniform_closed_form, {"weights": "uniform"}),
    FewShotMethod("InvRotatE (uniform)", ("rotate",), uniform_closed_form, {"weights": "uniform"}),
)
