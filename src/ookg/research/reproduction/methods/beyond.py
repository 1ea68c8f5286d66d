"""Methods that go past the paper. Their settings were chosen by simulation in the training triples, not on test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
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
from ookg.research.reproduction.settings import PaperSettings

if TYPE_CHECKING:
    from ookg.datasets.encoded import EncodedDataset, Task
    from ookg.evidence.combined import RankingWeights
    from ookg.evidence.network import AnswerNetwork
    from ookg.graph.ids import TripleIds
    from ookg.models.embedding import Embedding
    from ookg.newcomers.embedder import Newcomers
    from ookg.scoring.queries import Queries
    from ookg.scoring.scorer import Scorer
    from ookg.simulation.ways import Ways
    from ookg.training.continuing import UpdateSettings
    from ookg.training.network import NetworkSettings

# How new vectors are fitted, by family of data sets.
REFINEMENT: Mapping[str, Mapping[str, Any]] = {
    "fb15k": {"margin": 36.0, "lr": 1e-2, "steps": 300, "negatives": 256, "batch": 32},
    "wn11": {"margin": 1.0, "lr": 1e-3, "steps": 200, "negatives": 256, "batch": 32},
}


# After an update: changes of the default training, how many given triples are held out, and the stream that draws them.
TRAINING: Mapping[str, Any] = {}
HELD_OUT, HOLDING = 3_000, 77


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
    """What `ookg predict` does with nothing said: by each newcomer's number of triples, with all evidence.

    Vectors are those of the default settings, not of the paper's.

    models: which answer, together if they are several
    network: whether a graph neural network counts, trained on the known and the given triples
    """

    name: str
    models: tuple[str, ...]
    network: bool = False
    tasks: tuple[Task, ...] = LINK_PREDICTION
    beyond_paper: ClassVar[bool] = True

    def training(self, dataset: str, seed: int) -> BeyondSettings:
        """Those of the vectors, the ways, and those of the network."""
        del dataset
        options: dict[str, Any] = {"ways": [way.to_dict() for way in self.ways], "new_relations": True}
        if self.network:
            options["network"] = _network(seed).to_dict()
        return BeyondSettings(tuple(_default_training(model, seed).to_dict() for model in self.models), options)

    @property
    def ways(self) -> Ways:
        """How newcomers are answered, by their number of triples."""
        from ookg.evidence.network import Network, default_weights
        from ookg.simulation.ways import DEFAULT_WAYS

        if not self.network:
            return DEFAULT_WAYS
        return DEFAULT_WAYS.with_learned(lambda triples: default_weights(triples, (Network.name,)))

    def train(self, context: Context) -> list[Newcomers]:
        """The new entities under each model, by precision weights."""
        from ookg.newcomers.embedder import find_newcomers
        from ookg.newcomers.reducer import Precision

        dataset = context.dataset
        return [
            find_newcomers(
                context.embedding(_default_training(model, context.seed)),
                context.graph,
                dataset.train,
                dataset.aux,
                Precision(),
            )
            for model in self.models
        ]

    def scorer(self, context: Context, trained: list[Newcomers], variant: Variant) -> Scorer:
        """The new entities and relations, and the evidence of the graph."""
        del variant
        from ookg.evidence.combined import GraphEvidence
        from ookg.scoring.scorer import TranslationScorer
        from ookg.simulation.ways import WaysScorer

        dataset = context.dataset
        room = dataset.num_entities - dataset.num_known
        scorers = [TranslationScorer(newcomers.with_room_for(room)) for newcomers in trained]
        network = _network_of(context, dataset) if self.network else None
        evidence = GraphEvidence.count(dataset.train, dataset.aux, scorers[0].num_relations, network=network)
        return WaysScorer(scorers, evidence, self.ways, scorers[0].newcomers.counts)

    def rough_seconds(self, dataset: str, on_gpu: bool) -> float:
        """Those of a default training of each model, and of the network."""
        del dataset
        return len(self.models) * (10.0 if on_gpu else 200.0) + self.network * NETWORK_SECONDS


def _network(seed: int) -> NetworkSettings:
    """Answers are known entities here, none of them new."""
    return network_settings(seed, steps=10_000, batch=64, encoder_steps=0)


def _network_of(context: Context, dataset: EncodedDataset) -> AnswerNetwork:
    """Trained on all that is there when questions are asked, or kept."""
    everything = replace(
        dataset,
        train=np.concatenate([dataset.train, dataset.aux]),
        aux=dataset.aux[:0],
        num_known=dataset.num_entities,
        num_trained=dataset.num_relations,
    )
    return network_of(context, everything, _network(context.seed))


@dataclass(frozen=True)
class _UpdatedSettings:
    """What updated vectors depend on."""

    vectors: PaperSettings
    update: UpdateSettings

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {"vectors": self.vectors.to_dict(), "update": asdict(self.update)}


@dataclass(frozen=True, eq=False)
class Updated:
    """What answers after an update: vectors of all entities, what evidence counts for, and what it is counted on."""

    embeddings: list[Embedding]
    ranking: RankingWeights
    dataset: EncodedDataset


@dataclass(frozen=True)
class AfterUpdate(Method):
    """What `ookg predict` does once `ookg update` has let all vectors learn the given triples: new entities are known.

    Some given triples are held out at first. On them is chosen what evidence counts, as `ookg calibrate` does it, by
    such questions as the data set asks, one for each newcomer that has one there. Then they are added and learned as
    well, by a second update. Vectors are those of the default settings, not of the paper's.

    models: which answer, together if they are several
    """

    name: str
    models: tuple[str, ...]
    tasks: tuple[Task, ...] = LINK_PREDICTION
    beyond_paper: ClassVar[bool] = True

    def training(self, dataset: str, seed: int) -> BeyondSettings:
        """Those of the vectors and of the update."""
        del dataset
        from ookg.simulation.ways import KNOWN_RANKINGS

        rankings = [ranking.to_dict() for ranking in KNOWN_RANKINGS]
        options = {"update": asdict(_update()), "held_out": HELD_OUT, "chosen_of": rankings, "updates": 2}
        return BeyondSettings(tuple(_default_training(model, seed).to_dict() for model in self.models), options)

    def train(self, context: Context) -> Updated:
        """The vectors, and the weights."""
        from ookg.simulation.choosing import choose_known
        from ookg.simulation.ways import DEFAULT_KNOWN
        from ookg.training.continuing import Growth, continue_training

        dataset = context.dataset
        held_out = _held_out(dataset, context.seed)
        embeddings = [_updated(context.within(held_out.left), model) for model in self.models]
        known = np.concatenate([held_out.left.train, held_out.left.aux])
        tried = choose_known(
            embeddings,
            known,
            held_out.questions,
            dataset.num_relations,
            also_true=held_out.triples,
            num_answers=dataset.num_known,  # as the protocol has it
            seed=context.seed,
        )
        growth = Growth(known, held_out.triples, dataset.num_entities, dataset.num_relations)
        embeddings = [
            continue_training(embedding, growth, _default_training(model, context.seed), _update()).embedding
            for embedding, model in zip(embeddings, self.models, strict=True)
        ]
        return Updated(embeddings, DEFAULT_KNOWN if tried is None else tried.ranking, dataset)

    def scorer(self, context: Context, trained: Updated, variant: Variant) -> Scorer:
        """The vectors, and the evidence of the graph; what is new comes after what is known, as the protocol has it."""
        del context, variant
        from ookg.evidence.combined import CombinedScorer, GraphEvidence
        from ookg.graph.statistics import GraphStatistics
        from ookg.newcomers.embedder import find_newcomers
        from ookg.newcomers.reducer import Uniform
        from ookg.scoring.scorer import TranslationScorer

        dataset = trained.dataset
        graph = GraphStatistics.count(dataset.train, dataset.num_known, dataset.num_relations)
        vectors = []
        for embedding in trained.embeddings:
            entities = embedding.entities
            known = replace(embedding, entities=entities[: dataset.num_known])
            found = find_newcomers(known, graph, dataset.train, dataset.aux, Uniform())
            found = found.with_room_for(dataset.num_entities - dataset.num_known)
            vectors.append(TranslationScorer(replace(found, refined=entities[dataset.num_known :])))
        triples = np.concatenate([dataset.train, dataset.aux])  # after an update, all are known
        evidence = GraphEvidence.count(triples, dataset.aux[:0], dataset.num_relations)
        return CombinedScorer(vectors, evidence, trained.ranking)

    def rough_seconds(self, dataset: str, on_gpu: bool) -> float:
        """Those of a default training and two updates of each model."""
        del dataset
        return len(self.models) * (10.0 if on_gpu else 300.0)


@dataclass(frozen=True, eq=False)
class _HeldOut:
    """Given triples that nothing is trained on at first.

    left: the data set without them; triples: (triples, 3) themselves; questions: about one of each newcomer
    """

    left: EncodedDataset
    triples: TripleIds
    questions: Queries


def _default_training(model: str, seed: int) -> PaperSettings:
    return PaperSettings().changed({"model": model, "seed": seed, **TRAINING})


def _update() -> UpdateSettings:
    """As `ookg update` does it."""
    from ookg.training.continuing import UpdateSettings

    return UpdateSettings()


def _held_out(dataset: EncodedDataset, seed: int) -> _HeldOut:
    """Some given triples of a data set, drawn among those that are like its test triples."""
    from ookg.scoring.queries import test_queries

    side = 0 if (dataset.test[:, 0] >= dataset.num_known).all() else 2
    is_new = dataset.aux >= dataset.num_known
    rows = np.flatnonzero(is_new[:, side] & ~is_new[:, 2 - side])
    random = np.random.default_rng([seed, HOLDING])
    drawn = np.sort(random.choice(rows, min(HELD_OUT, len(rows) // 10), replace=False))
    shuffled = dataset.aux[random.permutation(drawn)]
    one_each = np.sort(np.unique(shuffled[:, side], return_index=True)[1])
    left = replace(dataset, aux=np.delete(dataset.aux, drawn, axis=0))
    return _HeldOut(left, shuffled, test_queries(shuffled[one_each], dataset.num_known))


def _updated(context: Context, model: str) -> Embedding:
    """The vectors of known and new entities after an update with the given triples, or what is kept of them.

    Its seconds are those of both trainings: where it is kept, the vectors before it are not looked at.
    """
    from ookg.models.embedding import Embedding
    from ookg.research.reproduction.cache import TrainedModel
    from ookg.system.machine import device_name
    from ookg.training.continuing import Growth, continue_training

    dataset, update, vectors = context.dataset, _update(), _default_training(model, context.seed)

    def train() -> TrainedModel:
        growth = Growth(dataset.train, dataset.aux, dataset.num_entities, dataset.num_relations)
        before = context.apart
        embedding = before.embedding(vectors)
        with context.progress(f"update of {dataset.name}", update.steps_for(growth, vectors)) as report:
            found = continue_training(embedding, growth, vectors, update, report)
        tensors = {"entities": found.embedding.entities, "relations": found.embedding.relations}
        return TrainedModel(tensors, before.seconds_trained + found.seconds, device_name(context.device))

    tensors = context.trained(_UpdatedSettings(vectors, update), train).tensors
    return Embedding(vectors.geometry, tensors["entities"], tensors["relations"])


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
    ByDefault("By default", ("transe",)),
    ByDefault("By default, with network", ("transe",), network=True),
    AfterUpdate("After an update (TransE)", ("transe",)),
    AfterUpdate("After an update (TransE + RotatE)", ("transe", "rotate")),
    JudgeMethod("Judged TransE", (INV_TRANSE,)),
)
