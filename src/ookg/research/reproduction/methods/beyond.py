"""Methods that go past the paper. Their settings were chosen by simulation in the training triples, not on test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ookg.research.reproduction.methods.inverse import INV_ROTATE, INV_TRANSE, InverseMethod, preset_of
from ookg.research.reproduction.methods.method import (
    BOTH_TASKS,
    CLASSIFICATION,
    LINK_PREDICTION,
    Context,
    Method,
    Variant,
)
from ookg.research.reproduction.methods.network import NETWORK_SECONDS, network_of, network_settings

if TYPE_CHECKING:
    from ookg.datasets.encoded import EncodedDataset, Task
    from ookg.evidence.combined import RankingWeights
    from ookg.evidence.network import AnswerNetwork
    from ookg.models.embedding import Embedding
    from ookg.newcomers.embedder import Newcomers
    from ookg.scoring.scorer import Scorer
    from ookg.simulation.ways import Ways
    from ookg.training.network import NetworkSettings

# How new vectors are fitted, by family of data sets.
REFINEMENT: Mapping[str, Mapping[str, Any]] = {
    "fb15k": {"margin": 36.0, "lr": 1e-2, "steps": 300, "negatives": 256, "batch": 32},
    "wn11": {"margin": 1.0, "lr": 1e-3, "steps": 200, "negatives": 256, "batch": 32},
}


def _refinement(dataset: str, seed: int) -> dict[str, Any]:
    return {**REFINEMENT[preset_of(dataset)], "seed": seed}


@dataclass(frozen=True)
class BeyondSettings:
    """The trainings that a method starts from, and its own choices."""

    bases: tuple[Mapping[str, Any], ...]
    options: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {"bases": [dict(base) for base in self.bases], **self.options}


@dataclass(frozen=True)
class BeyondMethod(Method):
    """Starts from the vectors of the paper's methods.

    bases: whose vectors; refines: whether new vectors are fitted to their triples
    evidence: whether answers are also ranked by direct links and habits of relations
    """

    name: str
    bases: tuple[InverseMethod, ...]
    refines: bool = False
    evidence: bool = False
    tasks: tuple[Task, ...] = LINK_PREDICTION
    beyond_paper: ClassVar[bool] = True

    def training(self, dataset: str, seed: int) -> BeyondSettings:
        """The bases' settings, how vectors are fitted, and the weights of the evidence."""
        options: dict[str, Any] = {}
        if self.refines:
            options["refine"] = _refinement(dataset, seed)
        if self.evidence:
            options["weights"] = self._weights().to_dict()
        return BeyondSettings(tuple(base.training(dataset, seed).to_dict() for base in self.bases), options)

    def train(self, context: Context) -> list[Newcomers]:
        """The new entities under each base, fitted where the method does so."""
        return [self._newcomers(context, base) for base in self.bases]

    def _newcomers(self, context: Context, base: InverseMethod) -> Newcomers:
        found = _closed_form(context.dataset, base.train(context), context)
        if not self.refines:
            return found
        from ookg.newcomers.refinement import RefineSettings

        settings = RefineSettings(**_refinement(context.dataset.name, context.seed))
        label = f"fitting the new entities of {context.dataset.name}, {base.name}"
        with context.progress(label, settings.steps) as report:
            return found.refined_by(settings, report)

    def scorer(self, context: Context, trained: list[Newcomers], variant: Variant) -> Scorer:
        """Distances, or distances and evidence."""
        del variant
        from ookg.evidence.combined import CombinedScorer, GraphEvidence
        from ookg.scoring.scorer import TranslationScorer

        scorers = [TranslationScorer(newcomers) for newcomers in trained]
        if not self.evidence:
            return scorers[0]
        dataset = context.dataset
        evidence = GraphEvidence.count(dataset.train, dataset.aux, dataset.num_trained)
        return CombinedScorer(scorers, evidence, self._weights())

    def _weights(self) -> RankingWeights:
        """Those of the evidence beside fitted vectors, or beside closed-form ones."""
        from ookg.evidence.combined import CLOSED_FORM_WEIGHTS, RankingWeights

        return RankingWeights() if self.refines else CLOSED_FORM_WEIGHTS

    def rough_seconds(self, dataset: str, on_gpu: bool) -> float:
        """Mostly those of the bases."""
        return sum(base.rough_seconds(dataset, on_gpu) for base in self.bases)


@dataclass(frozen=True)
class ByDefault(Method):
    """What `ookg predict` does with nothing said: by each newcomer's number of triples, with all evidence."""

    name: str
    bases: tuple[InverseMethod, ...]
    tasks: tuple[Task, ...] = LINK_PREDICTION
    beyond_paper: ClassVar[bool] = True

    def training(self, dataset: str, seed: int) -> BeyondSettings:
        """The bases' settings, and the ways."""
        options = {"ways": [way.to_dict() for way in self.ways], "new_relations": True}
        return BeyondSettings(tuple(base.training(dataset, seed).to_dict() for base in self.bases), options)

    @property
    def ways(self) -> Ways:
        """How newcomers are answered, by their number of triples."""
        from ookg.simulation.ways import DEFAULT_WAYS

        return DEFAULT_WAYS

    def network(self, context: Context) -> AnswerNetwork | None:
        """What is asked beside all else."""
        del context
        return None

    def train(self, context: Context) -> list[Embedding]:
        """The vectors of the known entities."""
        return [base.train(context) for base in self.bases]

    def scorer(self, context: Context, trained: list[Embedding], variant: Variant) -> Scorer:
        """The new entities by precision weights, new relations with them, and the evidence of the graph."""
        del variant
        from ookg.evidence.combined import GraphEvidence
        from ookg.newcomers.embedder import find_newcomers
        from ookg.newcomers.reducer import Precision
        from ookg.scoring.scorer import TranslationScorer
        from ookg.simulation.ways import WaysScorer

        dataset = context.dataset
        room = dataset.num_entities - dataset.num_known
        scorers = []
        for embedding in trained:
            newcomers = find_newcomers(embedding, context.graph, dataset.train, dataset.aux, Precision())
            scorers.append(TranslationScorer(newcomers.with_room_for(room)))
        size, network = scorers[0].num_relations, self.network(context)
        evidence = GraphEvidence.count(dataset.train, dataset.aux, size, network=network)
        return WaysScorer(scorers, evidence, self.ways, scorers[0].newcomers.counts)

    def rough_seconds(self, dataset: str, on_gpu: bool) -> float:
        """Mostly those of the bases."""
        return sum(base.rough_seconds(dataset, on_gpu) for base in self.bases)


def _network(seed: int) -> NetworkSettings:
    """Answers are known entities here, none of them new."""
    return network_settings(seed, steps=7_000, batch=64, encoder_steps=0)


@dataclass(frozen=True)
class WithNetwork(ByDefault):
    """The same with a graph neural network that is trained on the known and the given triples."""

    def training(self, dataset: str, seed: int) -> BeyondSettings:
        """Those of the vectors and of the network, and the default ways with it."""
        default = super().training(dataset, seed)
        return BeyondSettings(default.bases, {**default.options, "network": _network(seed).to_dict()})

    def network(self, context: Context) -> AnswerNetwork | None:
        """Trained on all that is there when questions are asked, or kept."""
        dataset = context.dataset
        everything = replace(
            dataset,
            train=np.concatenate([dataset.train, dataset.aux]),
            aux=dataset.aux[:0],
            num_known=dataset.num_entities,
            num_trained=dataset.num_relations,
        )
        return network_of(context, everything, _network(context.seed))

    @property
    def ways(self) -> Ways:
        """The default ones, where there is a network."""
        from ookg.evidence.network import Network, default_weights

        return super().ways.with_learned(lambda triples: default_weights(triples, (Network.name,)))

    def rough_seconds(self, dataset: str, on_gpu: bool) -> float:
        """Those of the vectors and of the network."""
        return super().rough_seconds(dataset, on_gpu) + NETWORK_SECONDS


@dataclass(frozen=True)
class JudgeMethod(Method):
    """Claims are judged by closed-form vectors and the graph; the judge learns on known entities made new again."""

    name: str
    bases: tuple[InverseMethod, ...]
    tasks: tuple[Task, ...] = CLASSIFICATION
    beyond_paper: ClassVar[bool] = True
    fits_thresholds: ClassVar[bool] = False

    def training(self, dataset: str, seed: int) -> BeyondSettings:
        """The bases' settings, by which the judge's vectors are trained too, and what the judge looks at."""
        from ookg.evidence.claims import feature_names

        bases = tuple(base.training(dataset, seed).to_dict() for base in self.bases)
        judge = {"share": 0.5, "seed": seed, "features": feature_names(len(bases)), "without_vectors": "by the graph"}
        return BeyondSettings(bases, {"judge": judge})

    def train(self, context: Context) -> Scorer:
        """The judge, fitted in the simulation, on the data set's own vectors."""
        from ookg.evidence.claims import ClaimEvidence, JudgedScorer
        from ookg.simulation.judge import JudgeSettings, learn_judges

        def gather(dataset: EncodedDataset) -> ClaimEvidence:
            scorers = self._scorers(context.within(dataset), context.dataset.name)
            return ClaimEvidence.gather(scorers, dataset)

        judges = learn_judges(context.dataset, gather, JudgeSettings(seed=context.seed))
        return JudgedScorer(gather(context.dataset), *judges)

    def _scorers(self, context: Context, dataset: str) -> list[Scorer]:
        from ookg.scoring.scorer import TranslationScorer

        found: list[Scorer] = []
        for base in self.bases:
            embedding = context.embedding(base.training(dataset, context.seed))
            found.append(TranslationScorer(_closed_form(context.dataset, embedding, context)))
        return found

    def scorer(self, context: Context, trained: Scorer, variant: Variant) -> Scorer:
        """The judge itself."""
        del context, variant
        return trained

    def rough_seconds(self, dataset: str, on_gpu: bool) -> float:
        """Two trainings of each base."""
        return 2 * sum(base.rough_seconds(dataset, on_gpu) for base in self.bases)


def _closed_form(dataset: EncodedDataset, embedding: Embedding, context: Context) -> Newcomers:
    """The new entities by the paper's weights for the data set's task."""
    from ookg.newcomers.embedder import find_newcomers
    from ookg.newcomers.reducer import Correlation, Degree

    weights = Correlation() if dataset.task == "link-prediction" else Degree()
    found = find_newcomers(embedding, context.graph, dataset.train, dataset.given, weights)
    return found.with_room_for(dataset.num_entities - dataset.num_known)


BEYOND_METHODS = (
    BeyondMethod("InvTransE + links", (INV_TRANSE,), evidence=True),
    BeyondMethod("Refined TransE", (INV_TRANSE,), refines=True, tasks=BOTH_TASKS),
    BeyondMethod("Refined RotatE", (INV_ROTATE,), refines=True),
    BeyondMethod("Combined", (INV_TRANSE,), refines=True, evidence=True),
    BeyondMethod("Combined TransE + RotatE", (INV_TRANSE, INV_ROTATE), refines=True, evidence=True),
    ByDefault("By default", (INV_TRANSE,)),
    WithNetwork("By default, with network", (INV_TRANSE,)),
    JudgeMethod("Judged TransE", (INV_TRANSE,)),
)
