"""Choosing how newcomers are answered on the valid-tasks of a few-shot data set; its test-tasks report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ookg.datasets.encoded import EncodedDataset
from ookg.datasets.few_shot import FewShotDataset
from ookg.datasets.shots import Shots
from ookg.errors import InputError
from ookg.evaluation.evaluate import encoded_shots
from ookg.evaluation.few_shot import questions_of
from ookg.evaluation.subject import EvaluatedModel
from ookg.graph.statistics import GraphStatistics
from ookg.models.embedding import Embedding
from ookg.simulation.choice import NewcomerChoice
from ookg.simulation.choosing import FEWEST_QUESTIONS, Tried, choose_ways_at
from ookg.simulation.defaults import can_refine
from ookg.simulation.hiding import Hidden
from ookg.simulation.simulated import Simulation
from ookg.simulation.ways import Ways


@dataclass(frozen=True)
class TaskTuning:
    """What was chosen on valid-tasks.

    choice: to be stored with the model; tried: what came of each number of given triples
    """

    choice: NewcomerChoice
    tried: list[Tried]

    @property
    def ways(self) -> Ways:
        """How newcomers are answered, by their number of triples."""
        assert self.choice.ways is not None
        return self.choice.ways

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        tried = [vars(one) | {"ranking": one.ranking.to_dict()} for one in self.tried]
        return {"choice": self.choice.to_dict(), "tried": tried}


def tune_on_tasks(
    model: EvaluatedModel,
    dataset: FewShotDataset,
    shots: Sequence[int],
    *,
    seed: int = 0,
    note: Callable[[Tried], None] | None = None,
) -> TaskTuning:
    """Choose how newcomers with so many given triples are answered, on the valid-tasks of a few-shot data set.

    All else that is stored with the model stays, but for what was measured of answers that were made in another way.

    note: told of each that is tried
    """
    if model.defaults.ways is None:
        raise InputError("this model does not answer by the number of triples; it takes one with its training triples")
    models = [model, *model.companions]
    tried: list[Tried] = []

    def told(one: Tried) -> None:
        tried.append(one)
        if note is not None:
            note(one)

    def given(number: int) -> list[Simulation]:
        encoded, asked = encoded_shots(model, dataset.at("valid", number))
        simulations = [task_simulation(one.checkpoint.embedding.widened(), encoded, asked) for one in models]
        return [replace(simulations[0], network=model.known_evidence.network), *simulations[1:]]

    refine = [one.defaults.refine if can_refine(one.checkpoint.embedding) else None for one in models]
    ways = choose_ways_at(given, refine, shots, seed, told)
    if ways is None:
        problem = f"fewer than {FEWEST_QUESTIONS} questions in the valid-tasks of {dataset.name}"
        raise InputError(f"{problem}, too few to choose by; choose on hidden entities (`Model.tune`)")
    stored = model.defaults.choice
    calibration, likelihood = dict(stored.calibration), dict(stored.likelihood)
    calibration.pop("chosen", None)
    likelihood.pop("chosen", None)
    network = model.defaults.network
    choice = replace(stored, ways=ways, calibration=calibration, likelihood=likelihood, network=network)
    return TaskTuning(choice, tried)


def task_simulation(embedding: Embedding, dataset: EncodedDataset, shots: Shots) -> Simulation:
    """Newcomers of a few-shot data set as if they were hidden entities.

    dataset: by the ids of the embedding; its aux triples are what is given
    """
    nothing = np.empty((0, 3), dtype=np.int64)
    hidden = Hidden(
        entities=np.arange(dataset.num_entities),
        num_known=dataset.num_known,
        num_relations=dataset.num_trained,
        known=dataset.train,
        given=nothing,
        questions=nothing,
        true=dataset.true_triples,
        wanted=dataset.num_entities - dataset.num_known,
    )
    graph = GraphStatistics.count(dataset.train, dataset.num_known, dataset.num_trained)
    return Simulation(hidden, embedding, None, graph, True, dataset.given, questions_of(shots))
