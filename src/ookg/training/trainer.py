"""The state of a training run and its step."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ookg.training.sampling import Sampler
from ookg.training.schedule import Schedule
from ookg.training.settings import TrainingSettings
from ookg.training.step import fastest_step
from ookg.training.tables import Room, Tables

RATE_OVERFLOW = "without overflow"  # PyTorch's words for a rate that float32 does not hold


class Trainer:
    """The tables, the sampler, and the number of the next step.

    triples: (triples, 3) int64 ids, on the device to train on
    untrained_rows: entities beyond those of the triples, which negatives are drawn from too. The authors' code has such
        rows for every new entity of a data set; they are no part of the resulting model.
    room: where the tables lie
    """

    def __init__(
        self,
        triples: Tensor,
        num_entities: int,
        num_relations: int,
        settings: TrainingSettings,
        *,
        untrained_rows: int = 0,
        room: Room | None = None,
    ) -> None:
        rows = num_entities + untrained_rows
        settings = settings.with_steps(len(triples)).resolved(rows)
        settings.refuse_without_gpu(triples.device)
        self.settings, self.geometry = settings, settings.geometry
        self.num_entities = num_entities
        self.sampler = Sampler(triples, rows, num_relations, settings)
        self.room = room or Room()
        self.tables = Tables.initial(rows, num_relations, settings, triples.device, self.room)
        self.take_step, self.note = fastest_step(self.tables, self.sampler, settings)
        self.follow(Schedule(settings))
        self.after_step: Callable[[Tables], None] | None = None  # what is done to the tables, in place, after each step
        self.step_number = 0

    def follow(self, schedule: Schedule) -> None:
        """Take the learning rates of a schedule, before the first step."""
        self.schedule = schedule
        self.take_step.rate_of = schedule.rate

    def start_from(self, entities: Tensor, relations: Tensor) -> None:
        """Take these entity and relation vectors in place of random values, before the first step."""
        self.tables.entities[: self.num_entities].copy_(entities)
        self.tables.relations.copy_(self.geometry.relation_parameters(relations, self.settings.initial_range))
        self._tables_changed()

    def restart(self) -> None:
        """Begin anew, as if no step had been taken."""
        self.tables.draw(self.settings)
        self._tables_changed()
        self.step_number = 0

    def prepare(self) -> float:
        """Compile what the steps need, without taking one; return the seconds it took."""
        prepare = getattr(self.take_step, "prepare", None)
        return float(prepare()) if prepare is not None else 0.0

    def step(self) -> Tensor:
        """Take one step; return its loss (without the L2 term), not yet read from the device."""
        if self.step_number in self.schedule.drop_steps:
            self.tables.restart_adam()
            self._tables_changed()
        loss = self.take_step(self.step_number)
        if self.after_step is not None:
            self.after_step(self.tables)
            self._tables_changed()
        self.step_number += 1
        return loss

    def _tables_changed(self) -> None:
        """Let a step know that reads rows ahead."""
        changed = getattr(self.take_step, "tables_changed", None)
        if changed is not None:
            changed()

    @property
    def entity_vectors(self) -> Tensor:
        """The entity vectors, without the rows that no triple trains; a further step changes them in place."""
        return self.tables.entities[: self.num_entities]

    @property
    def untrained_vectors(self) -> Tensor:
        """The rows that no triple trains, as they are now."""
        return self.tables.entities[self.num_entities :].clone()

    @property
    def relation_vectors(self) -> Tensor:
        """The relation vectors as they are now, where the entity vectors lie."""
        vectors = self.geometry.relation_vectors(self.tables.relations, self.settings.initial_range).clone()
        return vectors.to(self.tables.entities.device)

    def copied(self, vectors: Tensor, earlier: Tensor | None = None) -> Tensor:
        """A copy of entity vectors: beside them where there is room, or in the machine's memory.

        earlier: a copy in a file that is no longer needed, and is written over
        """
        if self.room.place == "disk":
            place = self.room.zeros(tuple(vectors.shape), "cpu") if earlier is None else earlier
            return place.copy_(vectors)
        try:
            return vectors.clone()
        except torch.cuda.OutOfMemoryError:  # of a GPU
            return vectors.cpu()

    def state(self) -> dict[str, Tensor]:
        """All that the next step depends on."""
        numbers = {"step_number": self.step_number, "updates": self.tables.updates}
        state = self.tables.tensors() | {name: torch.tensor(value) for name, value in numbers.items()}
        if self.schedule.drop_steps not in ((), self.settings.drop_steps):  # only where time ran short
            state["drop_steps"] = torch.tensor(self.schedule.drop_steps)
        return state

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a state."""
        for name, table in self.tables.tensors().items():
            table.copy_(tensors[name])
        self.tables.updates = int(tensors["updates"])
        self.step_number = int(tensors["step_number"])
        if "drop_steps" in tensors:
            self.schedule.drop_steps = tuple(tensors["drop_steps"].tolist())
        self._tables_changed()
