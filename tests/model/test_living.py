"""A model directory that lives: what is added stays, what is removed is gone, and an update is a version."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import ookg
from conftest import SMALL, random_triples
from interruptions import interrupted_trainings
from ookg.cli.status import status_in_words
from ookg.errors import InputError, ModelFileError, TrainingInterrupted
from ookg.extension.questions import AnswerOptions
from ookg.graph.triples import as_triples
from ookg.model import updating
from ookg.model.current import Current
from ookg.model.living import Added, Removed
from ookg.simulation.choice import NewcomerChoice
from ookg.simulation.trust import Calibration, Expectation
from ookg.storage.checkpoint import check_model, update_states
from ookg.training.continuing import UpdateSettings, continue_training

QUICK = UpdateSettings(steps=5)
NEW = [("n0", "r0", "e1"), ("n0", "r1", "e2"), ("n1", "r0", "n0"), ("n1", "r7", "e3"), ("e4", "r7", "e5")]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("living") / "model"
    ookg.train(random_triples(0), SMALL, out=directory, device="cpu")
    return directory


@pytest.fixture
def directory(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "model"))


def known_triple(directory: Path, place: int = 0) -> tuple[str, str, str]:
    model = ookg.load(str(directory))
    head, relation, tail = model.checkpoint.triples[place].tolist()
    return model.entities.label(head), model.relations.label(relation), model.entities.label(tail)


def answers(living: ookg.LivingModel, head: str, relation: str = "r0") -> list[tuple[str, float]]:
    options = AnswerOptions(combine=True, top=100)
    return sorted(
        (one.entity, one.score) for one in living.predict(head=head, relation=relation, options=options).answers
    )


def triples_of(directory: Path) -> set[tuple[str, str, str]]:
    model = ookg.load(str(directory))
    ids = model.checkpoint.triples
    heads, tails = (model.entities.select(ids[:, end]) for end in (0, 2))
    return set(zip(heads, model.relations.select(ids[:, 1]), tails, strict=True))


def test_what_is_added_stays_with_the_directory(directory: Path) -> None:
    living = ookg.open(str(directory))
    known = known_triple(directory)
    assert living.add([*NEW, known], author="me") == Added(5, 1, 2, 1, 1)
    assert living.add([*NEW, ("n2", "r0", "e1")]) == Added(1, 5, 1, 0, 2)
    again = ookg.open(str(directory))
    assert again.new_entities == ["n0", "n1", "n2"] == living.new_entities
    assert answers(again, "n0") == answers(living, "n0")
    expected = ookg.load(str(directory)).extend([*NEW, ("n2", "r0", "e1")])
    for relation in ("r0", "r7"):
        assert torch.equal(again.vector("n1", relation), expected.vector("n1", relation))
    first = again.history().batches[0]
    assert (first.author, first.changed) == ("me", 5)


def test_removing_gives_the_exact_state_before(directory: Path) -> None:
    living = ookg.open(str(directory))
    living.add(NEW[:2])
    before = answers(living, "n0"), answers(living, "e1")
    living.add(NEW[2:])
    known = known_triple(directory)
    assert living.remove([*NEW[2:], known, ("no", "such", "triple")]) == Removed(4, 1, 3)
    for one in (living, ookg.open(str(directory))):
        assert known[2] in dict(answers(one, known[0], known[1]))
        assert one.add([known]).added == 1
        assert (answers(one, "n0"), answers(one, "e1")) == before
        one.remove([known])
    with pytest.raises(InputError, match="none of the triples is there"):
        living.remove([("no", "such", "triple")])


def test_an_entity_goes_with_all_its_triples(directory: Path) -> None:
    living = ookg.open(str(directory))
    living.add([*NEW, ("e1", "r3", "n0")])
    assert living.remove(entity="n0").removed == 4
    assert living.new_entities == ["n1"]
    known = sum("e1" in (head, tail) for head, _, tail in triples_of(directory))
    assert living.remove(entity="e1").removed == known
    assert len(living.extended._state.graph.links_of(living.entities.find("e1") or 0)[0]) == 0
    with pytest.raises(InputError, match="has no triples"):
        living.remove(entity="e1")
    with pytest.raises(InputError, match="unknown entity 'e1x'; did you mean"):
        living.remove(entity="e1x")
    with pytest.raises(InputError, match="either triples or an entity"):
        living.remove()


def test_a_key_counts_once(directory: Path) -> None:
    living = ookg.open(str(directory))
    first = living.add(NEW, key="k")
    assert living.add(NEW, key="k") == first
    assert len(living.history().batches) == 1


def test_removing_an_entity_under_a_key_counts_once(directory: Path) -> None:
    living = ookg.open(directory)
    living.add(NEW)
    first = living.remove(entity="n0", key="k")
    assert first.removed == 3
    assert ookg.open(directory).remove(entity="n0", key="k") == first
    with pytest.raises(InputError, match="key 'k' is that of another batch"):
        living.remove(entity="n1", key="k")
    assert len(living.history().batches) == 2


def test_bad_input_stores_nothing(directory: Path) -> None:
    living = ookg.open(str(directory))
    with pytest.raises(InputError, match="labelled false"):
        living.add([("a", "r0", "e1", "0")])
    with pytest.raises(InputError, match="no triples"):
        living.add([])
    assert living.history().batches == []


def test_others_are_followed(directory: Path) -> None:
    one, other = ookg.open(str(directory)), ookg.open(str(directory))
    assert one.new_entities == []
    other.add(NEW)
    assert one.new_entities == []
    assert one.refresh()
    assert one.new_entities == ["n0", "n1"]
    assert not one.refresh()
    other.remove(entity="n1")
    other.update(QUICK)
    assert one.refresh()
    assert (one.model.checkpoint.number, one.new_entities) == (2, [])
    assert one.add([("n0", "r0", "e1")]).known_before == 1  # it is known now
    for number in range(70):
        other.add([(f"m{number}", "r0", "e1")])
    one.refresh()
    assert len(one.new_entities) == 70


@pytest.mark.parametrize("mode", ["all", "freeze", "new-only"])
def test_an_update_learns_all_and_keeps_ids(directory: Path, mode: str) -> None:
    living = ookg.open(str(directory))
    before, graph = living.model, triples_of(directory)
    known = known_triple(directory)
    living.add(NEW)
    living.remove([known])
    updated = living.update(replace(QUICK, mode=mode))  # type: ignore[arg-type]
    assert (updated.version, updated.journal, updated.pending, updated.steps) == (2, 2, 0, 5)
    assert (updated.added, updated.removed, updated.new_entities, updated.new_relations) == (5, 1, 2, 1)
    after = living.model
    assert after.entities.labels.to_pylist() == [*before.entities.labels.to_pylist(), "n0", "n1"]
    assert after.relations.labels.to_pylist() == [*before.relations.labels.to_pylist(), "r7"]
    assert triples_of(directory) == (graph | set(NEW)) - {known}
    same = torch.equal(after.entity_vectors[: len(before.entities)], before.entity_vectors)
    assert same == (mode == "freeze") == (updated.moved.largest == 0)
    fresh = ookg.load(str(directory)).statistics
    assert fresh.degree.sum() == 2 * len(triples_of(directory))
    assert living.status().added == living.status().removed == 0
    assert answers(living, "n0")
    assert all(file.problem is None for file in check_model(directory))
    assert not update_states(directory)


def test_nothing_new_is_no_version(directory: Path) -> None:
    living = ookg.open(str(directory))
    updated = living.update()
    assert (updated.version, updated.steps) == (1, 0)
    assert "nothing was added" in updated.notes[0]
    assert living.update(QUICK).version == 2  # asked for outright


def test_versions_are_kept_rolled_back_and_pruned(directory: Path) -> None:
    living = ookg.open(str(directory))
    vectors = {1: living.model.entity_vectors.clone()}
    for number in range(2, 6):
        living.add([(f"n{number}", "r0", "e1"), (f"n{number}", "r1", "e2")])
        assert living.update(QUICK, keep=2).version == number
        vectors[number] = living.model.entity_vectors.clone()
    assert [version.number for version in living.history().versions] == [3, 4, 5]
    living.add([("n9", "r0", "e1")])
    assert living.rollback().number == 4
    assert torch.equal(living.model.entity_vectors, vectors[4])
    assert living.new_entities == ["n5", "n9"]  # batches after it apply again
    assert [(one.number, one.is_current) for one in living.history().versions] == [(3, False), (4, True), (5, False)]
    assert living.rollback(5).number == 5
    assert living.new_entities == ["n9"]
    living.rollback(3)
    assert torch.equal(ookg.load(str(directory)).entity_vectors, vectors[3])
    assert living.update(QUICK, keep=1).version == 6  # numbers are never given twice
    assert [version.number for version in living.history().versions] == [3, 6]  # 6 was made from 3
    assert set(living.model.entities.labels.to_pylist()) >= {"n2", "n3", "n4", "n5", "n9"}
    for number, problem in ((6, "is the model already"), (1, "no version 1; there are 3, 6")):
        with pytest.raises(InputError, match=problem):
            living.rollback(number)
    assert all(file.problem is None for file in check_model(directory))
    living.update(QUICK, keep=0)
    with pytest.raises(InputError, match="no version before 7 is kept"):
        living.rollback()
    with pytest.raises(InputError, match="keep -1"):
        living.update(QUICK, keep=-1)


def test_kept_versions_and_the_journal_are_checked(directory: Path) -> None:
    living = ookg.open(str(directory))
    living.add(NEW)
    living.update(QUICK)
    names = [file.name for file in check_model(directory)]
    assert {"model.json", "version-1.json", "journal.sqlite"} <= set(names)
    assert len(names) == 2 * 7 + 1
    kept = json.loads((directory / "version-1.json").read_text())
    (directory / kept["data"] / "triples.parquet").write_bytes(b"x")
    problems = [file.name for file in check_model(directory) if file.problem]
    assert problems == [f"{kept['data']}/triples.parquet"]
    (directory / "version-1.json").write_text("{}")
    assert [file.name for file in check_model(directory) if file.problem] == ["version-1.json"]
    living.add([("n5", "r0", "e1")])
    living.update(QUICK)  # beside a damaged description no folder is removed
    assert (directory / kept["data"]).is_dir()


def test_what_a_killed_writer_has_done_twice_goes_with_the_next_write(directory: Path) -> None:
    living = ookg.open(str(directory))
    living.add(NEW)
    shutil.copy(directory / "model.json", directory / "version-1.json")  # killed before it replaced model.json
    assert [version.number for version in living.history().versions] == [1]
    assert all(file.problem is None for file in check_model(directory))
    (directory / "update-to-0.safetensors").write_bytes(b"old")
    living.update(QUICK)
    assert [version.number for version in living.history().versions] == [1, 2]
    shutil.copy(directory / "model.json", directory / "version-2.json")
    living.rollback()
    assert sorted(path.name for path in directory.glob("version-*")) == ["version-2.json"]
    assert not update_states(directory)


def test_what_comes_during_an_update_stays_for_the_next(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    living, other = ookg.open(str(directory)), ookg.open(str(directory))
    living.add(NEW[:2])
    real = continue_training

    def slow(*arguments: object) -> object:
        other.add(NEW[2:])
        other.remove([NEW[0]])
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(updating, "continue_training", slow)
    updated = living.update(QUICK)
    assert (updated.journal, updated.pending, updated.added) == (1, 2, 2)
    assert living.new_entities == ["n1"]
    monkeypatch.undo()
    assert living.update(QUICK).removed == 1
    assert set(NEW[1:]) <= triples_of(directory)
    assert NEW[0] not in triples_of(directory)


@pytest.fixture
def interrupted(directory: Path) -> ookg.LivingModel:
    """A model whose update to batch 1 was stopped on the way; then batch 2 came."""
    living = ookg.open(str(directory))
    living.add(NEW)
    with interrupted_trainings(3), pytest.raises(TrainingInterrupted):
        living.update(QUICK)
    assert list(update_states(directory)) == [1]
    living.add([("n5", "r0", "e1")])
    return living


def test_an_interrupted_update_goes_on_to_where_it_was_going(
    interrupted: ookg.LivingModel, trained: Path, tmp_path: Path
) -> None:
    assert interrupted.status().unfinished == 1
    assert interrupted.status().to_dict()["unfinished"] == 1
    assert "an update up to batch 1 was started and has not finished" in status_in_words(interrupted.status())[-1]
    updated = interrupted.update(QUICK)
    assert (updated.journal, updated.pending) == (1, 1)
    assert interrupted.status().unfinished is None
    assert "unfinished" not in interrupted.status().to_dict()
    straight = ookg.open(str(shutil.copytree(trained, tmp_path / "twin")))
    straight.add(NEW)
    straight.update(QUICK)
    assert torch.equal(interrupted.model.entity_vectors, straight.model.entity_vectors)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_an_update_that_replaces_an_interrupted_one_learns_all_that_is_there(
    interrupted: ookg.LivingModel, is_damaged: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    (state,) = update_states(interrupted.directory).values()
    if is_damaged:
        state.write_bytes(b"nothing of the kind")
    updated = interrupted.update(QUICK if is_damaged else replace(QUICK, steps=7))
    assert (updated.journal, updated.pending) == (2, 0)
    assert "an interrupted update that this one cannot go on from; it begins anew" in capsys.readouterr().err
    assert not update_states(interrupted.directory)


def test_back_from_the_first_version_names_those_that_follow(directory: Path) -> None:
    living = ookg.open(directory)
    with pytest.raises(InputError, match="no version before 1 is kept; there is nothing to go back to"):
        living.rollback()
    living.update(QUICK)
    living.rollback()
    with pytest.raises(InputError, match="no version before 1 is kept; name one of 2"):
        living.rollback()


def test_an_update_after_going_back_can_be_undone(directory: Path) -> None:
    living = ookg.open(directory)
    living.update(QUICK)
    living.rollback(1)  # version 2 was not wanted
    assert living.update(QUICK, keep=1).version == 3
    assert [version.number for version in living.history().versions] == [1, 3]  # 1 is what 3 was made from
    twin = ookg.open(directory)
    assert twin.rollback().number == 1
    assert living.update(QUICK, keep=2).version == 4
    assert [version.number for version in living.history().versions] == [1, 3, 4]
    assert living.rollback().number == 1


def test_what_belongs_to_old_vectors_goes(directory: Path) -> None:
    expectation = Expectation((0.0, 0.0, 0.0, 0.0, 0.0), 0.0, 0.0)
    calibration = Calibration(expectation, expectation, 9, 1.0, 5)
    model = ookg.load(str(directory))
    model.with_choice(NewcomerChoice(power=3.0, calibration={"closed form": calibration})).save_choice(directory)
    living = ookg.open(str(directory))
    assert living.status().expected is None
    living.add(NEW)
    assert living.status().expected is None  # nobody is answered by the closed form alone here
    choice = NewcomerChoice(power=3.0, calibration={"closed form": calibration, "chosen": calibration})
    model.with_choice(choice).save_choice(directory)
    living = ookg.open(str(directory))
    expected = living.status().expected
    assert expected is not None
    trust = living.predict(head="n0", relation="r0").trust
    assert trust is not None
    assert (trust.expected_hits_at_10, trust.expected_mrr) == (0.5, 0.5)
    assert (expected.entities, expected.hits_at_10, expected.mrr) == (2, 0.5, 0.5)
    updated = living.update(QUICK)
    (note,) = updated.notes
    assert "belonged to the old vectors" in note
    assert "`ookg audit DIR --save`" in note
    assert "judge" not in note  # there was none
    assert (living.model.choice.power, living.model.choice.calibration) == (3.0, {})


def test_status_says_what_is_new_and_what_an_update_takes(directory: Path) -> None:
    living = ookg.open(str(directory))
    living.add(NEW)
    living.remove([known_triple(directory)])
    status = living.status()
    assert (status.batches, status.added, status.removed, status.new_entities, status.new_relations) == (2, 5, 1, 2, 1)
    assert status.share == pytest.approx(6 / (6 + len(triples_of(directory)) - 1))
    assert status.gain is None
    assert status.update is not None
    assert status.update.steps == 30  # a graph so small and so changed takes as many as the training
    assert status.update.seconds is not None


def test_all_of_a_graph_is_all_of_it(directory: Path) -> None:
    living = ookg.open(str(directory))
    known = sorted(triples_of(directory))
    living.remove(known[: len(known) // 2])
    assert living.status().share == pytest.approx((len(known) // 2) / len(known))
    living.remove(known[len(known) // 2 :])
    assert living.status().share == 1.0


def test_a_model_that_replaces_another_begins_anew(directory: Path) -> None:
    living = ookg.open(str(directory))
    living.add(NEW)
    living.update(QUICK)
    living.add([("n5", "r0", "e1")])
    living.model.save(directory)  # the same version: what came after it still applies
    living.refresh()
    assert (living.model.checkpoint.number, living.new_entities) == (2, ["n5"])
    assert len(living.history().versions) == 2
    ookg.train(random_triples(1), SMALL, out=directory, overwrite=True, device="cpu")
    living.refresh()
    assert (living.model.checkpoint.number, living.model.checkpoint.journal) == (1, 2)
    assert (living.new_entities, len(living.history().versions)) == ([], 1)
    assert len(list(directory.glob("data-*"))) <= 2  # one is open here
    moved = directory.parent / "elsewhere"
    living.model.save(moved)
    assert ookg.open(str(moved)).status().batches == 0


def test_a_directory_without_a_model(tmp_path: Path) -> None:
    for call in (lambda: ookg.open(str(tmp_path)), lambda: updating.update_model(tmp_path)):
        with pytest.raises(ModelFileError, match="no model here"):
            call()
    assert list(tmp_path.iterdir()) == []


def test_a_model_from_elsewhere_takes_triples_and_no_update(directory: Path) -> None:
    model = ookg.load(str(directory))
    bare = directory.parent / "bare"
    ookg.Model(replace(model.checkpoint, graph=None, settings={}, directory=None)).save(bare)
    living = ookg.open(str(bare))
    living.add(NEW)
    assert answers_without_evidence(living)
    assert living.status().update is None
    with pytest.raises(InputError, match="how it was trained is not known"):
        living.update()


def answers_without_evidence(living: ookg.LivingModel) -> list[str]:
    return [one.entity for one in living.predict(head="n0", relation="r0").answers]


def test_what_is_given_on_top_counts_once(directory: Path) -> None:
    living = ookg.open(str(directory))
    known = known_triple(directory)
    living.add(NEW)
    living.remove([known])
    current = Current.load(directory)
    assert list(current.given()) == NEW
    assert list(current.given(as_triples([NEW[0], ("x", "r0", "e1")]))) == [*NEW, ("x", "r0", "e1")]
    assert len(current.model.checkpoint.triples) == len(current.version.checkpoint.triples) - 1
    facts = current.model_with_facts.checkpoint.triples
    assert len(facts) == len(current.model.checkpoint.triples)  # the only fact has a new relation
    living.add([("e0", "r0", "e0"), ("e1", "r0", "e1"), ("e2", "r0", "e2")])
    assert len(Current.load(directory).model_with_facts.checkpoint.triples) > len(facts)
    assert np.array_equal(current.removed[0], current.version.checkpoint.triples[0])


def test_counts_of_what_is_new_are_the_same_before_and_after_a_question(directory: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(directory, tmp_path / "other"))
    asked, unasked = ookg.open(directory), ookg.open(other)
    asked.predict(head="e1", relation="r0")  # from now on it has an extended model to look at
    for row in [*NEW, NEW[0], ("e1", "r9", "e2"), ("e2", "r9", "n1")]:
        assert asked.add([row]) == unasked.add([row])
    asked.remove([NEW[4]])
    unasked.remove([NEW[4]])
    again = [("n1", "r7", "n5"), ("e4", "r7", "e5")]
    assert asked.add(again) == unasked.add(again) == Added(2, 0, 1, 0, 10)


def test_keys_of_another_model_are_free_again(directory: Path) -> None:
    ookg.open(directory).add([NEW[0]], key="monday")
    ookg.train(random_triples(0), SMALL, out=directory, device="cpu", overwrite=True)
    added = ookg.open(directory).add([NEW[0]], key="monday")
    assert (added.added, added.journal) == (1, 2)
    assert ookg.open(directory).predict(head="n0", relation="r0").answers


def test_triples_labelled_false_are_not_removed(directory: Path) -> None:
    head, relation, tail = known_triple(directory)
    with pytest.raises(InputError, match="labelled false"):
        ookg.open(directory).remove([(head, relation, tail, "0")])
    assert (head, relation, tail) in triples_of(directory)


def test_a_name_in_a_triple_is_a_new_entity_and_a_note_says_so(directory: Path) -> None:
    living = ookg.open(directory)
    living.add_names([("e1", "Bert"), ("n0", "Nora"), *((f"e{number}", f"name {number}") for number in range(2, 12))])
    added = living.add([("Bert", "r0", "e2"), ("n0", "r0", "e1")])
    assert added.new_entities == 2
    (note,) = added.notes
    assert note.startswith("'Bert' is new, and the name of 'e1'; triples take ids")
    assert living.add([("Bert", "r0", "e3")]).notes == []  # it is there by now
    many = living.add([(f"name {number}", "r0", "e1") for number in range(2, 12)])
    assert (many.new_entities, len(many.notes), many.notes[-1]) == (10, 6, "5 more are names too")
