from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ookg.errors import InputError, TrainingInterrupted
from ookg.models import GEOMETRIES, RotatE, TransE
from ookg.models.embedding import Embedding
from ookg.newcomers.propagation import propagated
from ookg.training.continuing import Continued, Decay, Growth, Mode, UpdateSettings, continue_training, pulls
from ookg.training.loss import batch_distances, self_adversarial_loss
from ookg.training.reference_step import ReferenceStep
from ookg.training.sampling import Sampler
from ookg.training.schedule import LinearSchedule
from ookg.training.settings import TrainingSettings
from ookg.training.trainer import Trainer
from ookg.types import IntArray

KNOWN, RELATIONS, NEW, NEW_RELATIONS = 40, 4, 10, 2
SETTINGS = TrainingSettings(dim=8, steps=300, batch=32, negatives=8, margin=4.0, lr=0.01)
MODES: tuple[Mode, ...] = ("all", "freeze", "new-only")
UPDATE = UpdateSettings(steps=40)
NOTHING = np.empty((0, 3), dtype=np.int64)


def ring(first: int, last: int, relations: tuple[int, ...], seed: int) -> IntArray:
    """Triples over entities in a circle, where relation r leads r + 1 places on; some are left out."""
    rng = np.random.default_rng(seed)
    places = np.arange(KNOWN + NEW)
    steps = [np.stack([places, places * 0 + r, (places + r + 1) % len(places)], axis=1) for r in relations]
    rows = np.concatenate(steps)
    inside = (rows[:, [0, 2]] < last).all(axis=1) & (rows[:, [0, 2]] >= first).any(axis=1)
    found: IntArray = rows[inside & (rng.random(len(rows)) < 0.9)]
    return found


def growth() -> Growth:
    """Ten new entities, tied to known ones and to each other, and two new relations."""
    known = ring(0, KNOWN, (0, 1, 2, 3), 0)
    added = np.concatenate([ring(KNOWN, KNOWN + NEW, (0, 1, 2, 3), 1), ring(0, KNOWN + NEW, (4, 5), 2)])
    return Growth(known, added, KNOWN + NEW, RELATIONS + NEW_RELATIONS)


def trained(settings: TrainingSettings) -> Embedding:
    trainer = Trainer(torch.from_numpy(growth().known), KNOWN, RELATIONS, settings)
    for _ in range(settings.steps):
        trainer.step()
    return Embedding(settings.geometry, trainer.entity_vectors, trainer.relation_vectors)


@pytest.fixture(scope="module", params=["transe", "rotate"])
def settings(request: pytest.FixtureRequest) -> TrainingSettings:
    return SETTINGS.changed({"model": request.param})


@pytest.fixture(scope="module")
def embedding(settings: TrainingSettings) -> Embedding:
    return trained(settings)


def without_known(whole: Growth) -> Growth:
    degree = np.bincount(whole.known[:, [0, 2]].ravel(), minlength=KNOWN)
    counts = np.bincount(whole.known[:, 1], minlength=RELATIONS)
    return replace(whole, known=NOTHING, degree=degree, relation_counts=counts)


def same(one: Continued, other: Continued) -> bool:
    return torch.equal(one.embedding.entities, other.embedding.entities) and torch.equal(
        one.embedding.relations, other.embedding.relations
    )


def loss(embedding: Embedding, triples: IntArray) -> float:
    """What training would lower, over all these triples, in both directions."""
    settings = SETTINGS.changed({"model": embedding.geometry.name, "batch": len(triples), "seed": 5})
    sampler = Sampler(torch.from_numpy(triples), embedding.num_entities, embedding.num_relations, settings)
    found = 0.0
    for batch in (sampler(0), sampler(1)):
        gaps = batch_distances(embedding.geometry, embedding.entities, embedding.relations, batch)
        found += float(self_adversarial_loss(*gaps, batch, settings))
    return found


# Where it starts.


def test_a_newcomer_with_one_neighbour_starts_at_the_closed_form(embedding: Embedding) -> None:
    geometry = embedding.geometry
    triples = np.array([[KNOWN, 2, 7], [9, 1, KNOWN + 1], [KNOWN + 1, 3, KNOWN + 2]])
    start = Embedding(geometry, torch.zeros(KNOWN + 4, geometry.entity_width), embedding.relations)
    found = propagated(embedding, triples, start, rounds=1).entities
    assert torch.equal(found[:KNOWN], embedding.entities)
    assert torch.equal(found[KNOWN], geometry.solve_head(embedding.relations[2], embedding.entities[7]))
    assert torch.equal(found[KNOWN + 1], geometry.solve_tail(embedding.entities[9], embedding.relations[1]))
    assert not found[KNOWN + 2 :].any()  # one is two triples away, of the other nothing is said
    further = propagated(embedding, triples, start, rounds=2).entities
    assert torch.equal(further[KNOWN + 2], geometry.solve_tail(found[KNOWN + 1], embedding.relations[3]))


def test_starts_are_means_worked_out_by_hand() -> None:
    known = Embedding(TransE(2), torch.tensor([[0.0, 0.0], [4.0, 2.0], [1.0, 5.0]]), torch.tensor([[1.0, 1.0]]))
    start = Embedding(TransE(2), torch.zeros(4, 2), torch.full((3, 2), 9.0))
    # The newcomer is 3: 1 - r = (3, 1) and 2 + r = (2, 6). Relation 1 has the pairs (0, 1) and (2, 1), relation 2 none.
    triples = np.array([[3, 0, 1], [2, 0, 3], [0, 1, 1], [2, 1, 1]])
    found = propagated(known, triples, start, rounds=1)
    assert found.entities[3].tolist() == [2.5, 3.5]
    assert found.relations.tolist() == [[1.0, 1.0], [3.5, -0.5], [9.0, 9.0]]
    # Over a new relation, once it has a vector: (3 + 1 - r) and the two above.
    more = np.concatenate([triples, [[3, 1, 1]]])
    found = propagated(known, more, start, rounds=1)
    assert found.entities[3].tolist() == pytest.approx([(3 + 2 + 0.5) / 3, (1 + 6 + 2.5) / 3])
    # A newcomer's triple with itself says nothing of it.
    assert propagated(known, np.array([[3, 0, 3]]), start, rounds=2).entities[3].tolist() == [0.0, 0.0]


def test_long_sums_are_the_same_in_one_piece_and_in_many(embedding: Embedding, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, geometry = growth(), embedding.geometry
    start = Embedding(
        geometry,
        torch.zeros(whole.num_entities, geometry.entity_width),
        torch.zeros(whole.num_relations, geometry.relation_width),
    )
    expected = propagated(embedding, whole.added, start, 3)
    monkeypatch.setattr("ookg.newcomers.propagation.CHUNK_NUMBERS", 3 * geometry.entity_width)
    found = propagated(embedding, whole.added, start, 3)
    torch.testing.assert_close(found.entities, expected.entities)
    torch.testing.assert_close(found.relations, expected.relations)
    assert expected.entities[KNOWN:].any(dim=1).all()
    assert expected.relations[RELATIONS:].any(dim=1).all()


@pytest.mark.parametrize("model", list(GEOMETRIES))
def test_parameters_of_relations_lead_back_to_their_vectors(model: str) -> None:
    geometry = TrainingSettings(model=model, dim=6).geometry
    parameters = torch.randn(5, geometry.relation_width, generator=torch.Generator().manual_seed(0))
    vectors = geometry.relation_vectors(parameters, 0.7)
    back = geometry.relation_parameters(vectors, 0.7)
    torch.testing.assert_close(geometry.relation_vectors(back, 0.7), vectors)
    if model in ("transe", "rotate", "transr"):
        torch.testing.assert_close(back, parameters)


def test_a_model_without_a_way_back_from_its_relation_vectors_is_refused() -> None:
    @dataclass(frozen=True)
    class Doubled(RotatE):
        def relation_vectors(self, parameters: torch.Tensor, initial_range: float) -> torch.Tensor:
            return 2 * super().relation_vectors(parameters, initial_range)

    with pytest.raises(InputError, match="give it a `relation_parameters`"):
        Doubled(4).relation_parameters(torch.zeros(1, 4), 1.0)


def test_no_steps_give_the_start(embedding: Embedding, settings: TrainingSettings) -> None:
    found = continue_training(embedding, growth(), settings, UpdateSettings(steps=0))
    assert found.steps == 0
    assert found.moved.largest == 0
    assert torch.equal(found.embedding.entities[:KNOWN], embedding.entities)
    fresh = Trainer(torch.from_numpy(growth().added), KNOWN + NEW, RELATIONS + NEW_RELATIONS, settings)
    assert not torch.equal(found.embedding.entities[KNOWN:], fresh.entity_vectors[KNOWN:])
    # Of what nothing is said: the random values that training starts from.
    lonely = Growth(growth().known, NOTHING, KNOWN + NEW, RELATIONS + NEW_RELATIONS)
    start = continue_training(embedding, lonely, settings, UpdateSettings()).embedding
    assert torch.equal(start.entities[KNOWN:], fresh.entity_vectors[KNOWN:])
    assert torch.equal(start.relations[RELATIONS:], fresh.relation_vectors[RELATIONS:])


# The three ways.


@pytest.mark.parametrize("mode", MODES)
def test_each_way_fits_what_is_new_better_than_its_start(
    embedding: Embedding, settings: TrainingSettings, mode: Mode
) -> None:
    whole = growth()
    start = continue_training(embedding, whole, settings, UpdateSettings(mode, steps=0)).embedding
    found = continue_training(embedding, whole, settings, UpdateSettings(mode, steps=150))
    assert found.steps == 150
    assert found.seconds > 0
    assert loss(found.embedding, whole.added) < 0.9 * loss(start, whole.added)
    kept = found.embedding.entities[:KNOWN], found.embedding.relations[:RELATIONS]
    stays = torch.equal(kept[0], embedding.entities), torch.equal(kept[1], embedding.relations)
    assert stays == ((True, True) if mode == "freeze" else (False, False))
    assert (found.moved.mean == 0) == (mode == "freeze")
    assert found.moved.largest >= found.moved.mean


def test_how_far_vectors_moved_is_counted_in_mean_gaps(embedding: Embedding, settings: TrainingSettings) -> None:
    found = continue_training(embedding, growth(), settings, UPDATE)
    gaps = embedding.geometry.gap(embedding.entities, found.embedding.entities[:KNOWN]) / embedding.mean_gap
    assert found.moved.mean == pytest.approx(float(gaps.mean()))
    assert found.moved.largest == pytest.approx(float(gaps.max()))


def test_freezing_learns_nothing_from_known_triples_nor_from_added_ones_between_known(
    embedding: Embedding, settings: TrainingSettings
) -> None:
    whole, update = growth(), replace(UPDATE, mode="freeze")
    expected = continue_training(embedding, whole, settings, update)
    more = replace(whole, known=NOTHING, added=np.concatenate([whole.added, [[0, 0, 20], [1, 2, 30]]]))
    assert same(continue_training(embedding, more, settings, update), expected)
    between = Growth(NOTHING, np.array([[0, 0, 20]]), KNOWN, RELATIONS)
    found = continue_training(embedding, between, settings, update)
    assert found.steps == 0
    assert torch.equal(found.embedding.entities, embedding.entities)


def test_only_new_triples_are_needed_and_a_stronger_pull_holds_more(
    embedding: Embedding, settings: TrainingSettings
) -> None:
    whole, moved = growth(), []
    for pull in (0.0, 0.4, 4.0, 1e9):
        update = replace(UPDATE, mode="new-only", pull=pull)
        found = continue_training(embedding, without_known(whole), settings, update)
        assert same(found, continue_training(embedding, whole, settings, update))
        moved.append(found.moved.mean)
    assert moved == sorted(moved, reverse=True)
    assert len(set(moved)) == 4
    # Held wholly, they stay, but for what parameters and back cost.
    assert moved[-1] == 0
    torch.testing.assert_close(found.embedding.relations[:RELATIONS], embedding.relations)


def test_pulls_weigh_what_was_known_against_what_is_new() -> None:
    known = Embedding(TransE(2), torch.rand(4, 2), torch.rand(2, 2))
    added = np.array([[0, 0, 4], [0, 0, 1], [2, 1, 4], [4, 2, 0]])
    whole = Growth(NOTHING, added, 5, 3, degree=np.array([6, 20, 0, 5]), relation_counts=np.array([8, 9]))
    update = UpdateSettings("new-only", pull=2.0, relation_pull=10.0)
    entities, relations = pulls(known, whole, update, 100)
    assert entities.tolist() == pytest.approx([0.02 * 6 / 3, 0.02 * 20 / 1, 0.0, 1.0])
    assert relations.tolist() == pytest.approx([0.1 * 8 / 2, 0.1 * 9 / 1])
    entities, relations = pulls(known, whole, replace(update, pull_power=0.5, relation_pull=None), 10)
    assert entities.tolist() == pytest.approx([0.2 * 2**0.5, 0.2 * 20**0.5, 0.0, 1.0])
    assert relations.tolist() == pytest.approx([0.2 * 2, 0.2 * 3])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("model", ["transh", "transr"])
def test_models_that_project_are_updated(model: str, mode: Mode) -> None:
    settings = SETTINGS.changed({"model": model, "steps": 60})
    embedding, whole = trained(settings), growth()
    start = continue_training(embedding, whole, settings, UpdateSettings(mode, steps=0)).embedding
    found = continue_training(embedding, whole, settings, UpdateSettings(mode, steps=80))
    assert loss(found.embedding, whole.added) < loss(start, whole.added)
    assert torch.equal(found.embedding.entities[:KNOWN], embedding.entities) == (mode == "freeze")
    assert torch.equal(found.embedding.relations[:RELATIONS], embedding.relations) == (mode == "freeze")
    assert found.note is not None
    assert "no fast kernel" in found.note


@pytest.mark.parametrize("mode", MODES)
def test_the_reference_step_goes_the_same_way(
    embedding: Embedding, settings: TrainingSettings, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = UpdateSettings(mode, steps=10)
    fast = continue_training(embedding, growth(), settings, update).embedding
    monkeypatch.setattr(
        "ookg.training.trainer.fastest_step", lambda *arguments: (ReferenceStep(*arguments), "the reference")
    )
    slow = continue_training(embedding, growth(), settings, update)
    assert slow.note == "the reference"
    torch.testing.assert_close(fast.entities, slow.embedding.entities, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(fast.relations, slow.embedding.relations, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("optimizer", ["compact-adam", "adagrad"])
def test_adam_takes_the_place_of_what_is_for_gpus_and_of_what_begins_with_large_steps(
    embedding: Embedding, settings: TrainingSettings, optimizer: str
) -> None:
    other, sparse = (
        continue_training(embedding, growth(), settings.changed({"optimizer": name}), UPDATE).embedding.entities
        for name in (optimizer, "sparse-adam")
    )
    assert torch.equal(other, sparse)


def test_the_steps_of_a_gpu_go_the_same_way(interpreted: Callable[[str], str]) -> None:
    pytest.importorskip("triton", reason="Triton is not installed: its kernels cannot be interpreted")
    assert "both ways equal" in interpreted(__file__)


def compare_gpu_steps(model: str, mode: Mode) -> None:
    """Steps by Triton's interpreter against the reference, from the same start."""
    from ookg.training.gpu_step import TritonStep

    settings = SETTINGS.changed({"model": model, "dim": 4, "batch": 4, "negatives": 2, "steps": 20})
    embedding, found = trained(settings), []
    for step in (TritonStep, ReferenceStep):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "ookg.training.trainer.fastest_step", lambda *arguments, step=step: (step(*arguments), step.name)
            )
            found.append(continue_training(embedding, growth(), settings, UpdateSettings(mode, steps=3)))
    assert [one.note for one in found] == ["triton", "reference"]
    for table in ("entities", "relations"):
        fast, slow = (getattr(one.embedding, table) for one in found)
        torch.testing.assert_close(fast, slow, rtol=2e-3, atol=2e-4)
    if mode == "freeze":
        assert torch.equal(found[0].embedding.entities[:KNOWN], embedding.entities)


def test_what_was_removed_is_not_learned_and_entities_without_triples_keep_their_vectors(
    embedding: Embedding, settings: TrainingSettings
) -> None:
    known = growth().known
    rest = known[(known[:, [0, 2]] != 5).all(axis=1)]
    less = Growth(rest, NOTHING, KNOWN, RELATIONS, removed=len(known) - len(rest))
    update = UpdateSettings(least_steps=20, full_steps=0.01)
    assert update.steps_for(less, settings) == 20
    found = continue_training(embedding, less, settings, update)
    assert found.steps == 20
    assert torch.isfinite(found.embedding.entities).all()
    assert len(found.embedding.entities) == KNOWN


# Budgets.


def test_steps_follow_the_share_that_is_new() -> None:
    settings = TrainingSettings(steps=20_000)
    update = UpdateSettings(full_steps=0.15, full_share=0.3, least_steps=200)

    def steps(known: int, added: int, removed: int = 0) -> int:
        rows = np.zeros((known + added, 3), dtype=np.int64)
        return update.steps_for(Growth(rows[:known], rows[known:], 1, 1, removed), settings)

    assert steps(700, 300) == steps(100, 900) == 3000
    assert steps(900, 100) == steps(900, 50, 50) == 1000
    assert steps(999, 1) == 200
    unread = Growth(NOTHING, growth().added, 1, 1, degree=np.array([2 * 9 * len(growth().added)]))
    assert update.steps_for(unread, settings) == 1000
    assert steps(1000, 0) == 0
    assert replace(update, steps=7).steps_for(Growth(NOTHING, NOTHING, 1, 1), settings) == 7
    assert update.steps_for(Growth(NOTHING, growth().added, 1, 1), settings.changed({"steps": 50})) == 50


def test_the_rate_is_lower_where_little_has_changed() -> None:
    rows = np.zeros((100, 3), dtype=np.int64)
    half, few, hardly = (Growth(rows[:100], rows[:size], 1, 1) for size in (100, 4, 0))
    update = UpdateSettings(full_share=4 / 26)
    assert update.rate_for(half) == 2.0
    assert update.rate_for(few) == pytest.approx(0.5)  # a quarter of that share
    assert update.rate_for(hardly) == 0.1
    assert [replace(update, mode=mode).rate_for(few) for mode in ("freeze", "new-only")] == [5.0, 2.0]
    assert replace(update, lr_factor=3.0).rate_for(few) == 3.0
    training = replace(update, lr_factor=3.0, steps=7).training(few, SETTINGS.changed({"validate_every": 5}))
    assert training.lr == pytest.approx(0.03)
    assert (training.steps, training.validate_every) == (7, 0)


def test_what_is_new_is_placed_before_all_move(embedding: Embedding, settings: TrainingSettings) -> None:
    whole, update = growth(), UpdateSettings(steps=10, placing=0.0)
    placed = replace(update, placing=2.0)
    first = continue_training(embedding, whole, settings, replace(placed, mode="freeze", steps=20)).embedding
    found = continue_training(embedding, whole, settings, placed)
    assert found.steps == 10
    trainer = Trainer(
        torch.from_numpy(np.concatenate([whole.known, whole.added])),
        whole.num_entities,
        whole.num_relations,
        placed.training(whole, settings),
    )
    trainer.follow(LinearSchedule(trainer.settings))
    trainer.start_from(first.entities, first.relations)
    for _ in range(10):
        trainer.step()
    assert torch.equal(found.embedding.entities, trainer.entity_vectors)
    assert not same(found, continue_training(embedding, whole, settings, update))
    # Where nothing is new there is nothing to place.
    more = Growth(whole.known[5:], whole.known[:5], KNOWN, RELATIONS)
    assert same(*(continue_training(embedding, more, settings, one) for one in (update, placed)))


def test_the_rate_of_an_update_falls_evenly_to_nothing(settings: TrainingSettings) -> None:
    schedule = LinearSchedule(replace(settings, steps=4, lr=0.8))
    assert [schedule.rate(step) for step in range(4)] == pytest.approx([0.8, 0.6, 0.4, 0.2])
    assert not schedule.drop_steps
    schedule.hurry(1, 0.9)  # by the clock nearly all is over
    assert schedule.rate(1) == pytest.approx(0.1)  # half a step's share at least
    linear = {mode: UpdateSettings(mode=mode).is_linear for mode in ("all", "freeze", "new-only")}
    assert linear == {"all": True, "freeze": False, "new-only": False}
    assert not UpdateSettings(decay="drops").is_linear
    with pytest.raises(InputError, match="decay 'cosine'; choose linear or drops"):
        UpdateSettings(decay="cosine")  # type: ignore[arg-type]


@pytest.mark.parametrize("decay", ["linear", "drops"])
def test_time_stops_an_update_after_its_rate_has_dropped(
    embedding: Embedding, settings: TrainingSettings, monkeypatch: pytest.MonkeyPatch, decay: Decay
) -> None:
    rates = []
    take = Trainer.step

    def step(self: Trainer) -> torch.Tensor:
        rates.append(self.schedule.rate(self.step_number))
        return take(self)

    class Clock:
        """Goes on by a millisecond each time it is asked, however busy the machine is."""

        now = 0.0

        def monotonic(self) -> float:
            self.now += 0.001
            return self.now

    monkeypatch.setattr(Trainer, "step", step)
    for module in ("loop", "continuing"):
        monkeypatch.setattr(f"ookg.training.{module}.time", Clock())
    update = UpdateSettings(steps=10_000_000, seconds=0.5, lr_factor=2.0, placing=0.0, decay=decay)
    found = continue_training(embedding, growth(), settings, update)
    assert 0 < found.steps < 10_000_000
    if decay == "linear":
        assert 0 < rates[-1] < 0.2 * settings.lr  # it came down in time
    else:
        assert rates[0] == pytest.approx(2 * settings.lr)
        assert rates[-1] == pytest.approx(0.02 * settings.lr)  # both drops came in time
    assert rates == sorted(rates, reverse=True)
    none = continue_training(embedding, growth(), settings, replace(update, seconds=0.0))
    assert none.steps == 0


# Stopping and going on.


@pytest.mark.parametrize("mode", MODES)
def test_an_interrupted_update_ends_as_an_uninterrupted_one(
    embedding: Embedding, settings: TrainingSettings, mode: Mode, tmp_path: Path
) -> None:
    update, whole, state = replace(UPDATE, mode=mode), growth(), tmp_path / "state.safetensors"
    expected = continue_training(embedding, whole, settings, update)
    reported: list[int] = []

    def report(done: int, figure: object = None) -> None:
        del figure
        reported.append(done)
        if done == 17:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(TrainingInterrupted, match="stopped after step 17 of 40; the same command continues"):
        continue_training(embedding, whole, settings, update, report, state)
    found = continue_training(embedding, whole, settings, update, report, state)
    assert reported == list(range(1, 41))
    assert found.steps == 40
    assert same(found, expected)


def test_a_state_of_another_update_is_replaced(
    embedding: Embedding, settings: TrainingSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, state = growth(), tmp_path / "state.safetensors"

    def report(done: int, figure: object = None) -> None:
        del figure
        if done == 5:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(TrainingInterrupted):
        continue_training(embedding, whole, settings, UPDATE, report, state)
    other = replace(whole, added=whole.added[1:])
    found = continue_training(embedding, other, settings, UPDATE, None, state)
    assert "was started with added triples" in capsys.readouterr().err
    assert same(found, continue_training(embedding, other, settings, UPDATE))


# What is refused.


def test_what_does_not_fit_is_refused(embedding: Embedding, settings: TrainingSettings) -> None:
    whole = growth()

    def refused(message: str, changed: Growth = whole, other: TrainingSettings = settings) -> None:
        with pytest.raises(InputError, match=message):
            continue_training(embedding, changed, other, UPDATE)

    refused("cannot be trained on as", other=settings.changed({"dim": 9}))
    refused("cannot be trained on as", other=settings.changed({"norm": 2}))
    refused("39 entities after growth, of 40", replace(whole, num_entities=39))
    refused("added triples with ids outside of 45 entities", replace(whole, num_entities=45))
    refused("known triples with ids outside", replace(whole, known=np.array([[KNOWN, 0, 1]])))
    refused("give \\(triples, 3\\) ids", replace(whole, known=np.empty((0, 2), dtype=np.int64)))
    refused("a number for each of the 40 known", replace(whole, degree=np.zeros(3, dtype=np.int64)))
    with pytest.raises(InputError, match="mode 'all of it'; choose all, freeze, new-only"):
        UpdateSettings("all of it")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="pull -1; it must be 0 or more"):
        UpdateSettings(pull=-1)
    with pytest.raises(InputError, match="lr_factor 0; it must be a number above 0"):
        UpdateSettings(lr_factor=0)
    squared = Embedding(TransE(8, squared=True), torch.rand(KNOWN, 8), torch.rand(RELATIONS, 8))
    with pytest.raises(InputError, match="cannot be trained on as"):
        continue_training(squared, whole, SETTINGS, UPDATE)


if __name__ == "__main__":
    compare_gpu_steps("transe", "freeze")
    compare_gpu_steps("rotate", "new-only")
    print("both ways equal")
