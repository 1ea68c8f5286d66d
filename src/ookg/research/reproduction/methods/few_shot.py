"""Ways to answer questions about newcomers with a few triples. A further one is a `ScorerOf` and a line at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from ookg.research.reproduction.methods.method import LINK_PREDICTION, Context, Method, Variant
from ookg.research.reproduction.methods.network import NETWORK_SECONDS, NetworkBase, network_of, network_settings
from ookg.research.reproduction.paper import FEW_SHOT_SETS, WITH_ALSO_TRUE
from ookg.research.reproduction.settings import PaperSettings

if TYPE_CHECKING:
    from ookg.datasets.encoded import Task
    from ookg.datasets.shots import EncodedFewShot, Shots, TaskSplit
    from ookg.evidence.network import AnswerNetwork
    from ookg.models.embedding import Embedding
    from ookg.scoring.scorer import Scorer
    from ookg.simulation.ways import Ways
    from ookg.training.network import NetworkSettings

# What differs from the default settings of a training.
TRAINING: Mapping[str, Any] = {}
SECONDS = {"gpu": 30.0, "cpu": 3_000.0}  # of a training, about
# For tuning: how many known entities are hidden, and for which numbers of triples newcomers are simulated.
MOST_HIDDEN, KNOTS = 1000, (1, 3)
MOST_LINKS = 5  # of an entity, that the network is given in training
NETWORK_STEPS = 7_000
WITH_ENCODER = {"encoder_steps": 8_000, "encoder_batch": 256}


@dataclass(frozen=True, eq=False)
class FewShotCase:
    """Vectors and questions, as a `ScorerOf` gets them.

    embeddings: one for each model, by the ids of the data set; shots: what is given and asked, of one split
    margins: of the trainings; ways: how newcomers are answered by their number of triples, where that was tuned
    network: what is asked beside all else, if anything is
    What a scorer is fitted on is known triples, or `dataset.at("valid", ...)`; `shots.asked` is not looked at.
    """

    embeddings: Sequence[Embedding]
    dataset: EncodedFewShot
    shots: Shots
    margins: Sequence[float]
    ways: Ways | None
    network: AnswerNetwork | None = None


ScorerOf = Callable[[FewShotCase], "Scorer"]


@dataclass(frozen=True)
class FewShotSettings:
    """The trainings of the vectors, and what else a method depends on."""

    bases: tuple[Mapping[str, Any], ...]
    options: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {"bases": [dict(base) for base in self.bases], **self.options}


@dataclass(frozen=True, eq=False)
class FewShotVectors:
    """The vectors of each model, how newcomers are answered, where that was tuned, and the network, if there is one."""

    embeddings: list[Embedding]
    ways: Ways | None
    network: AnswerNetwork | None = None


@dataclass(frozen=True)
class FewShotMethod(Method):
    """Answers by vectors of one model or several, trained on the known triples.

    models: "transe", "rotate"; scorer_of: what answers; options: all that the answers depend on beside the vectors
    network: whether a graph neural network of the known triples counts too; encoder: and whether it has one
    tuned_on: where how newcomers are answered is chosen: on known entities that are "hidden", after a training without
        them, or on the "valid" tasks; None: nowhere
    """

    name: str
    models: tuple[str, ...]
    scorer_of: ScorerOf
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    tuned_on: Literal["hidden", "valid"] | None = None
    network: bool = False
    encoder: bool = False
    tasks: tuple[Task, ...] = LINK_PREDICTION

    def training(self, dataset: str, seed: int) -> FewShotSettings:
        """The default settings of each model."""
        del dataset
        from ookg.evidence.network import default_weights
        from ookg.evidence.registry import LEARNED
        from ookg.simulation.ways import DEFAULT_WAYS

        options = self.options
        if options.get("ways") == "default":
            parts = LEARNED[: self.network + self.encoder]
            ways = DEFAULT_WAYS.with_learned(lambda triples: default_weights(triples, parts))
            options = {**options, "ways": [way.to_dict() for way in ways]}
        if self.network:
            options = {**options, "network": _network(seed, encoder=self.encoder).to_dict()}
        return FewShotSettings(tuple(_base(model, seed).to_dict() for model in self.models), options)

    def variants(self, dataset: str) -> tuple[Variant, ...]:
        """One: known and new answers are measured together."""
        del dataset
        return (Variant(protocol="all"),)

    def train(self, context: Context) -> FewShotVectors:
        """The vectors of what is known, the same ones for any number of shots."""
        there = context.within(_few_shot(context).known)
        embeddings = [there.embedding(_base(model, context.seed)) for model in self.models]
        if self.network:
            base = NetworkBase(embeddings[0], _base(self.models[0], context.seed)) if self.encoder else None
            settings = _network(context.seed, encoder=self.encoder)
            network = network_of(context, _few_shot(context).known, settings, base)
            ways = self._tuned_on_tasks(context, embeddings, network) if self.tuned_on == "valid" else None
            return FewShotVectors(embeddings, ways, network)
        if self.tuned_on == "valid":
            return FewShotVectors(embeddings, self._tuned_on_tasks(context, embeddings))
        return FewShotVectors(embeddings, self._tuned(context) if self.tuned_on == "hidden" else None)

    def _tuned_on_tasks(
        self, context: Context, embeddings: Sequence[Embedding], network: AnswerNetwork | None = None
    ) -> Ways | None:
        """How newcomers are answered: chosen on the valid-tasks, for the data set's number of shots."""
        from ookg.evaluation.task_tuning import task_simulation
        from ookg.newcomers.refinement import default_refinement
        from ookg.simulation.choosing import choose_ways_at

        dataset, shots = _few_shot(context), FEW_SHOT_SETS[context.name].shots
        refine = [
            default_refinement(embedding, _base(model, context.seed).margin)
            for model, embedding in zip(self.models, embeddings, strict=True)
        ]
        simulations = [
            task_simulation(embedding, dataset.dataset_of("valid", shots), dataset.at("valid", shots))
            for embedding in embeddings
        ]
        simulations[0] = replace(simulations[0], network=network)
        return choose_ways_at(lambda _: simulations, refine, (shots,), context.seed)

    def _tuned(self, context: Context) -> Ways | None:
        """How newcomers are answered: chosen on hidden entities of the known triples, for the numbers in `KNOTS`."""
        from ookg.datasets.encoded import EncodedDataset
        from ookg.newcomers.refinement import default_refinement
        from ookg.simulation.choosing import choose_ways
        from ookg.simulation.hiding import HidingSettings, hide
        from ookg.simulation.simulated import Simulation

        known = _few_shot(context).known
        sample = min(MOST_HIDDEN, known.num_known // 10)
        hidden = hide(known.train, known.num_known, known.num_trained, HidingSettings(sample=sample, seed=context.seed))
        sizes = hidden.num_known, hidden.num_known, hidden.num_relations, hidden.num_relations
        nothing = known.valid
        left = EncodedDataset(
            f"{known.name}-hidden", "link-prediction", *sizes, hidden.known, nothing, nothing, nothing
        )
        simulations, refine = [], []
        for model in self.models:
            settings = _base(model, context.seed)
            embedding = context.within(left).embedding(settings)
            simulations.append(Simulation.of(hidden, embedding, None, is_exact=True))
            refine.append(default_refinement(embedding, settings.margin))
        return choose_ways(simulations, refine, KNOTS, context.seed)

    def figures(self, context: Context, trained: FewShotVectors, variant: Variant) -> dict[str, float]:
        """The figures of test over all questions, by the kind of answer and by the number of given triples.

        Those of valid are what settings are chosen by. Where other data sets know more to be true, there are also
        figures in which that is no wrong answer.
        """
        import numpy as np

        from ookg.evaluation.few_shot import few_shot_figures

        dataset = _few_shot(context)
        figures: dict[str, float] = {}
        prefixes: dict[TaskSplit, str] = {"test": "", "valid": "valid-"}
        for split, prefix in prefixes.items():
            shots = dataset.at(split, FEW_SHOT_SETS[context.name].shots)
            margins = [_base(model, context.seed).margin for model in self.models]
            case = FewShotCase(trained.embeddings, dataset, shots, margins, trained.ways, trained.network)
            scorer = self.scorer_of(case)
            measured = few_shot_figures(scorer, dataset, shots, protocol=variant.protocol)
            parts = {"mrr": measured.all, "mrr-known": measured.known, "mrr-new": measured.new}
            found = {f"{prefix}{name}": summary.mrr for name, summary in parts.items() if summary.queries}
            found |= {f"{prefix}hits@{k}": measured.all.to_dict()[f"hits@{k}"] for k in (1, 3, 10)}
            found |= {f"{prefix}mrr.given-{row.given}": row.summary.mrr for row in measured.by_given}
            figures |= found
            if context.further_truth is not None:
                more = replace(dataset, also_true=np.concatenate([dataset.also_true, context.further_truth]))
                summary = few_shot_figures(scorer, more, shots, protocol=variant.protocol).all
                shares = {f"hits@{k}": summary.to_dict()[f"hits@{k}"] for k in (1, 3, 10)}
                without = {"mrr": summary.mrr, **shares}
                figures |= {f"{prefix}{name}{WITH_ALSO_TRUE}": value for name, value in without.items()}
        return figures

    def rough_seconds(self, dataset: str, on_gpu: bool) -> float:
        """As on an H200 and on two cores, about."""
        del dataset
        return len(self.models) * SECONDS["gpu" if on_gpu else "cpu"] + self.network * NETWORK_SECONDS


def _base(model: str, seed: int) -> PaperSettings:
    return PaperSettings().changed({"model": model, "seed": seed, **TRAINING})


def _network(seed: int, *, encoder: bool) -> NetworkSettings:
    """Newcomers have few triples here, and nothing else."""
    settings = {"steps": NETWORK_STEPS, "batch": 64, "most_links": MOST_LINKS}
    return network_settings(seed, **settings, **(WITH_ENCODER if encoder else {}))


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


def by_ways(case: FewShotCase) -> Scorer:
    """What `ookg predict` does where nothing is said: by each newcomer's number of triples, with all evidence."""
    from ookg.evidence.combined import GraphEvidence
    from ookg.graph.statistics import GraphStatistics, relations_with_loops
    from ookg.newcomers.embedder import find_newcomers
    from ookg.newcomers.reducer import Precision
    from ookg.newcomers.refinement import default_refinement
    from ookg.scoring.scorer import TranslationScorer
    from ookg.simulation.ways import DEFAULT_WAYS, WaysScorer

    dataset = case.dataset.dataset_of(case.shots.split, case.shots.shots)
    ways = case.ways or (DEFAULT_WAYS if case.network is None else DEFAULT_WAYS.with_learned(case.network.weights_at))
    graph = GraphStatistics.count(dataset.train, dataset.num_known, dataset.num_trained)
    loops = relations_with_loops(dataset.train, dataset.num_trained)
    scorers = []
    for embedding, margin in zip(case.embeddings, case.margins, strict=True):
        newcomers = find_newcomers(embedding, graph, dataset.train, dataset.given, Precision())
        if ways.refine_from is not None:
            newcomers = newcomers.refined_by(default_refinement(embedding, margin), least=ways.refine_from)
        newcomers = newcomers.with_room_for(dataset.num_entities - dataset.num_known)
        scorers.append(TranslationScorer(newcomers, loops))
    evidence = GraphEvidence.count(dataset.train, dataset.given, dataset.num_trained, network=case.network)
    return WaysScorer(scorers, evidence, ways, scorers[0].newcomers.counts)


TUNED = {"ways": "tuned", "hidden": MOST_HIDDEN, "triples": list(KNOTS)}
CHOSEN = {"ways": "chosen on valid-tasks"}
WITH_BOTH = "Default TransE, with network and encoder"
FEW_SHOT_METHODS = (
    FewShotMethod("InvTransE (uniform)", ("transe",), uniform_closed_form, {"weights": "uniform"}),
    FewShotMethod("InvRotatE (uniform)", ("rotate",), uniform_closed_form, {"weights": "uniform"}),
    FewShotMethod("Default TransE", ("transe",), by_ways, {"ways": "default"}),
    FewShotMethod("Default RotatE", ("rotate",), by_ways, {"ways": "default"}),
    FewShotMethod("Default TransE, with network", ("transe",), by_ways, {"ways": "default"}, network=True),
    FewShotMethod(WITH_BOTH, ("transe",), by_ways, {"ways": "default"}, network=True, encoder=True),
    FewShotMethod("Chosen TransE", ("transe",), by_ways, CHOSEN, tuned_on="valid"),
    FewShotMethod("Chosen TransE, with network", ("transe",), by_ways, CHOSEN, tuned_on="valid", network=True),
    FewShotMethod("Tuned TransE", ("transe",), by_ways, TUNED, tuned_on="hidden"),
    FewShotMethod("Tuned RotatE", ("rotate",), by_ways, TUNED, tuned_on="hidden"),
    FewShotMethod("Tuned TransE and RotatE", ("transe", "rotate"), by_ways, TUNED, tuned_on="hidden"),
)
