"""A network with a model: kept, followed, and through the model's life."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ookg
from conftest import SMALL, random_triples
from ookg.errors import InputError, ModelFileError
from ookg.evidence.source import Asked
from ookg.extension.answers import ByEncoder, ByNetwork
from ookg.graph.index import GraphIndex
from ookg.graph.triples import as_triples
from ookg.model.living import LivingModel
from ookg.model.model import Model
from ookg.newcomers.reducer import Correlation
from ookg.simulation import choosing, likelihood
from ookg.simulation.audit import AuditSettings
from ookg.simulation.hiding import HidingSettings
from ookg.simulation.retraining import Retraining
from ookg.simulation.tuning import TuningSettings
from ookg.simulation.ways import DEFAULT_WAYS, Ways
from ookg.storage.network import NETWORK_FILE, read_network, remove_network, write_network
from ookg.training.continuing import UpdateSettings
from ookg.training.encoder import train_encoder
from ookg.training.network import NetworkSettings
from ookg.training.network_training import train_network

FEW = NetworkSettings(steps=2, batch=8, negatives=8, encoder_steps=2, encoder_batch=8)
ALONE = NetworkSettings(steps=2, batch=2, negatives=2, encoder_steps=0)
NEW = [("new", "r0", "e1"), ("new", "r1", "e2"), ("other", "r2", "new")]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("network") / "model"
    model = ookg.train(random_triples(0), SMALL, device="cpu")
    model.save(folder)
    Model.load(folder).train_network(FEW).save_network(folder)
    return folder


@pytest.fixture
def directory(stored: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stored, tmp_path / "model"))


def scores(model: Model | LivingModel, relation: str = "r2") -> list[float]:
    if isinstance(model, LivingModel):
        return [answer.score for answer in model.predict(head="new", relation=relation).answers]
    return [answer.score for answer in model.predict(NEW, head="new", relation=relation).answers]


def usual_ways(model: Model) -> Ways:
    """The default ways with the model's network."""
    assert model.network is not None
    return DEFAULT_WAYS.with_learned(model.network.weights_at)


def test_it_counts_by_default_and_changes_nothing_where_there_is_none(directory: Path) -> None:
    model = Model.load(directory)
    assert model.ways == usual_ways(model)
    prediction = model.predict(NEW, head="new", relation="r2")
    assert prediction.way is not None
    assert prediction.way.endswith("company, likeness, network, encoder")
    for kind in (ByNetwork, ByEncoder):
        assert any(type(reason) is kind for reason in prediction.answers[0].reasons)
    assert all(answer.link is None or answer.link.relation for answer in prediction.answers)
    (directory / NETWORK_FILE).unlink()
    without = Model.load(directory)
    assert without.network is None
    assert without.ways is DEFAULT_WAYS
    assert scores(without) != scores(model)
    assert scores(without) == scores(Model(replace(model.checkpoint, network=None)))


def test_a_copy_has_it_and_a_model_that_is_saved_over_it_has_its_own(directory: Path, tmp_path: Path) -> None:
    model = Model.load(directory)
    model.save(tmp_path / "copy")
    assert scores(Model.load(tmp_path / "copy")) == scores(model)
    model.save(directory)
    assert scores(Model.load(directory)) == scores(model)
    ookg.train(random_triples(1), SMALL, device="cpu").save(directory)
    assert Model.load(directory).network is None


def test_new_links_are_read_at_once_and_removed_ones_are_not(directory: Path) -> None:
    living = ookg.open(directory)
    living.add(NEW)
    first = scores(living)
    assert first == scores(Model.load(directory))
    living.add([("new", "r3", "e5"), ("e5", "r0", "third")])
    assert scores(living) != first
    living.remove([("new", "r3", "e5"), ("e5", "r0", "third")])
    assert scores(living) == first
    known = next(iter(random_triples(0)))
    living.remove([known])
    whole = scores(living)
    assert whole == scores(ookg.open(directory))  # counted anew
    living.add([known])
    assert scores(living) == first


def test_a_process_follows_a_network_that_another_one_trains_or_removes(directory: Path) -> None:
    living, other = ookg.open(directory), ookg.open(directory)
    living.add(NEW)
    first = scores(living)
    other.train_network(replace(FEW, seed=5))
    assert living.refresh()
    second = scores(living)
    assert second != first
    assert second == scores(ookg.open(directory))
    assert other.remove_network()
    assert living.refresh()
    assert living.model.network is None
    assert scores(living) == scores(ookg.open(directory))
    assert not living.refresh()


def test_it_is_trained_on_what_is_there_now(directory: Path) -> None:
    living = ookg.open(directory)
    first = next(iter(random_triples(0)))
    living.add([*NEW, ("new", "brand_new", "e4")])
    living.remove([first])
    living.train_network(FEW)
    stored = living.model.checkpoint.network
    assert stored is not None
    size = len(living.model.known_triples)
    assert (stored.about["triples"], stored.about["given"]) == (size - 1 + len(NEW), len(NEW))
    assert len(stored.relations) == 4
    left = [triple for triple in random_triples(0) if triple != first]
    index = GraphIndex.of(
        as_triples([*left, *NEW]).encoded(living.model.entities.extended(["new", "other"]), living.model.relations),
        len(living.model.entities) + 2,
        4,
    )
    expected = train_network(index, FEW).to_arrays()
    encoder = train_encoder(index, living.model.entity_vectors, FEW)
    expected |= {f"encoder.{name}": table for name, table in encoder.to_arrays().items()}
    assert set(stored.arrays) == set(expected)
    for name, table in stored.arrays.items():
        np.testing.assert_array_equal(table, expected[name])


def relations_of(living: LivingModel) -> set[int]:
    """How many relations the parts of its network know."""
    network = living.model.network
    assert network is not None
    assert network.messages is not None
    assert network.encoder is not None
    return {network.messages.num_relations, network.encoder.num_relations}


def test_an_update_and_a_rollback_leave_it_alone(directory: Path) -> None:
    living = ookg.open(directory)
    living.add([*NEW, ("new", "brand_new", "e4"), ("e5", "brand_new", "e6")])
    living.update(UpdateSettings(steps=2))
    model = living.model
    assert model.network is not None
    assert model.network.messages is not None
    assert (len(model.relations), model.network.messages.num_relations) == (5, 4)
    evidence, entity = model.known_evidence["network"], model.entities.ids(["new"]).tolist()[0]
    assert not len(evidence.of_question(Asked(entity, 4, True)).entities)
    assert len(evidence.of_question(Asked(entity, 2, True)).entities)
    living.add([("latest", "r0", "e1"), ("latest", "brand_new", "e4")])
    assert living.predict(head="latest", relation="brand_new").answers
    # One that was trained on the new version, asked about the old one: what it learned of the later relation is no use.
    living.train_network(FEW)
    assert relations_of(living) == {5}
    living.rollback()
    assert relations_of(living) == {4}
    assert living.predict(head="latest", relation="r0").answers


def test_a_network_of_another_model_is_refused(directory: Path, tmp_path: Path) -> None:
    network = read_network(directory, Model.load(directory).relations)
    assert network is not None
    write_network(directory, replace(network, relations=("a", "b", "c", "d"), about=network.about | {"digest": None}))
    with pytest.raises(ModelFileError, match="trained for other relations"):
        Model.load(directory)
    (directory / NETWORK_FILE).unlink()
    trained = Model.load(directory).train_network(FEW)
    renamed = [(head, f"x{relation}", tail) for head, relation, tail in random_triples(1)]
    ookg.train(renamed, SMALL, device="cpu").save(tmp_path / "another")
    with pytest.raises(InputError, match="another model has taken the place"):
        trained.save_network(tmp_path / "another")


def test_one_of_another_form_is_refused_when_it_is_asked(directory: Path) -> None:
    network = read_network(directory, Model.load(directory).relations)
    assert network is not None
    settings = network.about["settings"] | {"form": 0}
    write_network(directory, replace(network, about=network.about | {"settings": settings, "digest": None}))
    with pytest.raises(ModelFileError, match="another version of ookg trained it"):
        scores(Model.load(directory))


def test_one_of_before_new_answers_were_left_out_of_the_training_is_read(directory: Path) -> None:
    model = Model.load(directory)
    network = model.checkpoint.network
    assert network is not None
    readout = network.arrays["readout"]
    wider = np.concatenate([readout, np.ones((len(readout), 1), dtype=np.float32)], axis=1)
    settings = network.about["settings"] | {"share_new": 0.1}
    about = network.about | {"settings": settings, "digest": None}
    write_network(directory, replace(network, arrays=network.arrays | {"readout": wider}, about=about))
    earlier = Model.load(directory)
    assert earlier.checkpoint.network is not None
    assert earlier.checkpoint.network.arrays["readout"].shape == wider.shape
    assert scores(earlier) == scores(model)


HIDING = HidingSettings(sample=6)
LEFT_OUT = "the network is left out: entities that are hidden leave gaps that it would see"


@pytest.fixture
def few_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ways are chosen and likelihoods fitted on the few questions of a small graph."""
    monkeypatch.setattr(choosing, "FEWEST_QUESTIONS", 2)
    monkeypatch.setattr(likelihood, "FEWEST_RIGHT", 1)


def without_times(values: dict[str, Any]) -> dict[str, Any]:
    """The values of a tuning or an audit, less their notes and when it was."""
    for made in values["choice"]["simulation"].values():
        del made["created"]
    return {name: value for name, value in values.items() if name != "notes"}


@pytest.mark.usefixtures("few_suffice")
@pytest.mark.parametrize("retraining", [None, Retraining(steps=5)])
def test_tune_and_audit_leave_the_network_out(directory: Path, retraining: Retraining | None) -> None:
    model = Model.load(directory)
    alone = Model(replace(model.checkpoint, network=None))
    settings = TuningSettings(HIDING, retraining, trials=1, triples=(1,))
    tuned, tuned_alone = model.tune(settings), alone.tune(settings)
    assert (tuned.choice.ways is not None) == (retraining is not None)
    assert ("chosen" in tuned.choice.likelihood) == (retraining is not None)
    audited, audited_alone = (one.audit(AuditSettings(HIDING, retraining)) for one in (model, alone))
    assert "chosen" in audited.calibration
    for with_it, without in ((tuned, tuned_alone), (audited, audited_alone)):
        assert without_times(with_it.to_dict()) == without_times(without.to_dict())
        assert [note for note in with_it.notes if note not in without.notes] == [with_it.notes[-1]]
        assert with_it.notes[-1].startswith(LEFT_OUT)
        assert not any("network" in note for note in without.notes)


@pytest.mark.usefixtures("few_suffice")
def test_what_was_measured_without_the_network_holds_once_it_is_removed(directory: Path) -> None:
    model = Model.load(directory)
    settings = TuningSettings(HIDING, Retraining(steps=5, reference=False), trials=1, triples=(1,))
    choice = replace(model.tune(settings).choice, ways=DEFAULT_WAYS)
    assert {"closed form", "chosen"} <= set(choice.calibration)
    assert "chosen" in choice.likelihood
    model.with_choice(choice).save_choice(directory)
    living = LivingModel(directory)
    with_it = living.model
    assert with_it.ways == usual_ways(with_it)
    shown = with_it.predict(NEW, head="new", relation="r2")
    assert "network" in (shown.way or "")
    assert shown.trust is not None
    assert shown.trust.expected_mrr is None
    assert all(answer.probability is None for answer in shown.answers)
    extended, without_it = with_it.extend(NEW), r"measured without the network; `ookg network DIR --remove` goes back"
    with pytest.raises(InputError, match=without_it):
        extended.predict(head="new", relation="r2", min_probability=0.1)
    with pytest.raises(InputError, match=without_it):
        extended.likely("new", min_probability=0.1)
    (note,) = extended.likely("new").notes
    assert "in an order by experience with another graph" in note
    assert "`ookg network DIR --remove`" in note
    # Answers in which the network does not count are as they were measured.
    closed = with_it.predict(NEW, head="new", relation="r2", weights=Correlation())
    assert closed.trust is not None
    assert closed.trust.expected_mrr is not None
    living.remove_network()
    removed = living.model
    assert removed.ways == DEFAULT_WAYS
    shown = removed.predict(NEW, head="new", relation="r2")
    assert shown.trust is not None
    assert shown.trust.expected_mrr is not None
    assert all(answer.probability is not None for answer in shown.answers)


def test_a_model_whose_triples_were_all_removed_says_what_it_lacks(directory: Path) -> None:
    living = LivingModel(directory)
    living.remove(random_triples(0))
    living.update(UpdateSettings(steps=1))
    emptied = Model.load(directory)
    assert not len(emptied.checkpoint.triples)
    for act in (
        lambda: emptied.train_network(NetworkSettings(steps=1)),
        lambda: emptied.tune(TuningSettings(HIDING)),
        lambda: emptied.audit(AuditSettings(HIDING)),
    ):
        with pytest.raises(InputError, match=r"^no triple is left in this model, and .*; add some, and run `ookg up"):
            act()


def test_ways_that_were_chosen_with_the_network_stay_until_others_are_chosen(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model.load(directory)
    network = model.checkpoint.network
    assert network is not None
    weighed = DEFAULT_WAYS.with_learned(lambda triples: {"network": 3.0})
    chosen = model.with_choice(replace(model.choice, ways=weighed, network=network.digest))
    assert chosen.ways == weighed
    settings = TuningSettings(HIDING, Retraining(steps=5), trials=1, triples=(1,))
    audited, few = chosen.audit(AuditSettings(HIDING, Retraining(steps=5))), chosen.tune(settings)
    for choice in (audited.choice, few.choice):  # there were too few questions to choose others
        assert (choice.ways, choice.network) == (weighed, network.digest)
        assert "closed form" in choice.calibration
        assert "chosen" not in choice.calibration  # it was measured without the network
        assert "chosen" not in choice.likelihood
    plain = Model(replace(model.checkpoint, network=None)).audit(AuditSettings(HIDING, Retraining(steps=5)))
    assert audited.overall == plain.overall
    # Another network has its default weight, and what is measured without it is stored so.
    other = chosen.train_network(replace(FEW, seed=9))
    assert other.ways == usual_ways(other)
    choice = other.audit(AuditSettings(HIDING, None)).choice
    assert (choice.ways, choice.network) == (DEFAULT_WAYS, None)
    assert "chosen" in choice.calibration
    monkeypatch.setattr(choosing, "FEWEST_QUESTIONS", 2)
    again = chosen.tune(settings).choice
    assert again.network is None
    assert again.ways is not None
    assert all(way.ranking["network"] == way.ranking["encoder"] == 0.0 for way in again.ways)
    assert chosen.network is not None
    assert chosen.with_choice(again).ways == again.ways.with_learned(chosen.network.weights_at)
    assert "chosen" in again.calibration


@pytest.mark.parametrize("part", ["network", "encoder"])
def test_evaluating_and_predicting_score_alike(directory: Path, part: str) -> None:
    model = Model.load(directory)
    extended = model.extend(NEW)
    evidence = model.known_evidence
    entities, relations = extended.entities, extended.relations
    given = np.array(
        [(entities.ids([h])[0], relations.ids([r])[0], entities.ids([t])[0]) for h, r, t in NEW], dtype=np.int64
    )
    at_once = evidence.with_given(given, len(model.relations)).with_new(extended._state.new_vectors)[part]
    number = int(entities.ids(["new"])[0])
    said = at_once.of_question(Asked(number, 2, True))
    shown = extended.predict(head="new", relation="r2", combine=ookg.RankingWeights.alone(**{part: 1.0}), top=100)
    # A new answer is ranked by where it stands among these (tests/evidence/test_network.py).
    known = [answer for answer in shown.answers if answer.entity in model.entities]
    for answer in known:
        place = np.array(entities.ids([answer.entity]))
        assert answer.score == pytest.approx(float(np.float32(said.of(place)[0])), rel=1e-6)
    assert len(known) > 5


def test_a_network_of_a_model_in_memory_is_stored_in_its_own_directory(directory: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(directory, copy)
    remove_network(copy)
    model = Model.load(copy)
    assert model.checkpoint.network is None
    trained = model.train_network(ALONE)
    trained.save(copy)
    stored = Model.load(copy).checkpoint.network
    assert stored is not None
    assert trained.checkpoint.network is not None
    assert stored.digest == trained.checkpoint.network.digest


def test_the_same_network_is_the_same_whenever_it_was_trained(directory: Path) -> None:
    model, settings = Model.load(directory), ALONE
    one, other = (model.train_network(settings).checkpoint.network for _ in range(2))
    assert one is not None
    assert other is not None
    assert one.digest == other.digest


@pytest.mark.parametrize(
    "values",
    [
        {"most_links": "3"},
        {"most_links": 2.5},
        {"most_links": True},
        {"learning_rate": "x"},
        {"learning_rate": -1.0},
        {"learning_rate": 2.0},
        {"learning_rate": float("nan")},
        {"steps": 0, "encoder_steps": 0},
        {"steps": -1},
        {"encoder_steps": -1},
        {"encoder_batch": 0},
    ],
)
def test_settings_of_a_wrong_kind_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(values))):
        NetworkSettings(**values)


def test_settings_that_are_none_are_refused(directory: Path) -> None:
    with pytest.raises(InputError, match="NetworkSettings"):
        Model.load(directory).train_network({"steps": 3})  # type: ignore[arg-type]
