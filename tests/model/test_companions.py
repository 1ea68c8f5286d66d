"""Models that answer together: one score from both, stored as one, changed as one."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ookg
from conftest import SMALL, random_triples
from few_shot_sets import KNOWN, write_few_shot_set
from interruptions import interrupted_trainings
from ookg.cli import main
from ookg.datasets.few_shot import load_few_shot
from ookg.errors import InputError, ModelFileError, TrainingInterrupted
from ookg.evaluation.evaluate import RankingOptions, _ready
from ookg.evidence.combined import RankingWeights
from ookg.extension import questions
from ookg.extension.questions import AnswerOptions
from ookg.extension.state import State
from ookg.model import updating
from ookg.model.model import Model
from ookg.newcomers.reducer import Precision, Uniform
from ookg.newcomers.refinement import RefineSettings
from ookg.scoring.queries import Queries
from ookg.simulation import tuning
from ookg.simulation.audit import AuditSettings
from ookg.simulation.choosing import choose_ways
from ookg.simulation.hiding import HidingSettings
from ookg.simulation.likelihood import DEFAULT_LIKELIHOOD, Likelihood
from ookg.simulation.retraining import Retraining
from ookg.simulation.tuning import TuningSettings
from ookg.simulation.ways import Way, Ways
from ookg.storage.checkpoint import check_model, read_description, version_files
from ookg.training.continuing import UpdateSettings

ROTATE = SMALL.changed({"model": "rotate"})
NEW = [("n0", "r0", "e1"), ("n0", "r1", "e2"), ("n1", "r0", "n0"), ("n1", "r2", "e3"), ("n2", "r7", "e5")]
EVERYONE = AnswerOptions(combine=False, top=1000, drop_known=False)
QUICK = UpdateSettings(steps=3)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("together") / "model"
    ookg.train_together(random_triples(0), [SMALL, ROTATE], out=directory, device="cpu")
    return directory


@pytest.fixture
def directory(stored: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stored, tmp_path / "model"))


@pytest.fixture(scope="module")
def pair(stored: Path) -> Model:
    return Model.load(stored)


def test_what_was_measured_with_all_models_is_not_shown_where_one_has_no_vector(
    pair: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = DEFAULT_LIKELIHOOD

    def likelihood(self: Model, *, refine: bool, combine: bool, chosen: bool, models: int) -> Likelihood | None:
        del self, refine, combine, chosen
        return fitted if models == 2 else None

    monkeypatch.setattr(Model, "likelihood", likelihood)
    extended = pair.extend(NEW)
    assert {one.answer.probability is None for one in extended.likely("n0")} == {False}
    real = questions._distance_scores

    def without_the_companion(state: State, asked: Any, ranking: Any) -> Any:
        found = real(state, asked, ranking)
        if state.model is not pair:
            for one in found:
                one[:] = np.nan
        return found

    monkeypatch.setattr(questions, "_distance_scores", without_the_companion)
    likely = extended.likely("n0")
    assert likely
    assert {one.answer.probability for one in likely} == {None}
    with pytest.raises(InputError, match="was not measured with this model"):
        extended.likely("n0", options=AnswerOptions(min_probability=0.1))


def scores(answering: Any, head: str, relation: str = "r0", options: AnswerOptions = EVERYONE) -> dict[str, float]:
    answers = answering.predict(head=head, relation=relation, options=options).answers
    return {answer.entity: answer.score for answer in answers}


def alone(pair: Model) -> list[Model]:
    return [pair.with_companions(()), *pair.companions]


@pytest.mark.parametrize("head", ["e4", "n0"])
@pytest.mark.parametrize("weights", [Uniform(), Precision(prior=0.1)])
def test_answers_are_ranked_by_the_mean_of_standardised_scores(pair: Model, head: str, weights: Any) -> None:
    extended = [one.extend(NEW, weights=weights) for one in alone(pair)]
    parts = [scores(one, head) for one in extended]
    expected: dict[str, float] = dict.fromkeys(parts[0], 0.0)
    for one, part in zip(extended, parts, strict=True):
        asked, relation = one.entities.find(head), one.relations.find("r0")
        known = one.scores(np.array([[asked, relation, number] for number in range(len(pair.entities))]))
        for label, score in part.items():
            expected[label] += (score - known.mean()) / known.std() / 2
    together = scores(pair.extend(NEW, weights=weights), head)
    assert together == pytest.approx(expected, abs=1e-4)
    best = sorted(expected, key=lambda label: -expected[label])
    assert list(together) == best
    assert any(best != list(part) for part in parts)  # each says something else


def test_fitted_vectors_have_the_margin_and_rate_of_their_own_model(pair: Model) -> None:
    companion = pair.companions[0]
    settings = RefineSettings(steps=5, margin=3.0, lr=0.02, seed=4)
    own = companion.refinement(True)
    assert own is not None
    extended = pair.extend(NEW, refine=settings)
    [prepared] = extended.preparation.companions
    assert prepared.refine == RefineSettings(steps=5, margin=own.margin, lr=own.lr, seed=4)
    assert extended.preparation.refine == settings
    ways = Ways([Way(1, True, RankingWeights.alone())])
    fitting = pair.with_choice(replace(pair.choice, ways=ways))
    by_ways = fitting.extend(NEW).preparation
    assert by_ways.companions[0].refine == own
    assert by_ways.companions[0].ways == by_ways.ways == ways


def test_the_way_says_how_many_answer_and_evidence_counts_once(pair: Model) -> None:
    together = pair.predict(NEW, head="n0", relation="r1")
    one = pair.with_companions(()).predict(NEW, head="n0", relation="r1")
    assert one.way is not None
    assert one.way.startswith("vector of the closed form with links")
    assert together.way == one.way.replace("vector of the closed form", "vectors of the closed form of 2 models")
    # The same model twice has the mean of twice the same: the answers of one.
    main_alone = pair.with_companions(())
    twice = main_alone.with_companions([main_alone])
    for options in (AnswerOptions(top=1000), AnswerOptions(combine=True, top=1000)):
        once, doubled = (scores(model.extend(NEW), "n0", "r1", options) for model in (main_alone, twice))
        assert doubled == pytest.approx(once, abs=1e-5)


def test_what_comes_and_goes_does_so_for_all(pair: Model) -> None:
    known = pair.checkpoint.triples[:2].tolist()
    removed = [(pair.entities.label(h), pair.relations.label(r), pair.entities.label(t)) for h, r, t in known]
    step_by_step = pair.extend(NEW[:2])
    step_by_step.predict(head="n0", relation="r0")  # counts evidence, which is kept up from here on
    step_by_step.add([("n9", "r0", "e7")])
    for triple in NEW[2:]:
        step_by_step.add([triple])
    step_by_step.remove([("n9", "r0", "e7")])
    step_by_step.remove(removed)
    at_once = pair.extend(NEW)
    at_once.remove(removed)
    for options in (EVERYONE, AnswerOptions(top=1000)):
        for head in ("n0", "n1", "e4"):
            assert scores(step_by_step, head, options=options) == scores(at_once, head, options=options)
    at_once.add(removed)
    fresh = pair.extend(NEW)
    assert scores(at_once, "n0") == scores(fresh, "n0")


def test_a_companion_without_a_vector_for_the_question_is_left_out(pair: Model) -> None:
    main_alone = pair.with_companions(())
    other = ookg.train(random_triples(0), SMALL.changed({"model": "transh"}), device="cpu")
    together = main_alone.with_companions([other])
    given = [("e1", "r9", "e2"), ("n0", "r0", "e1")]  # TransH makes no vector for r9
    expected = scores(main_alone.extend(given), "e3", "r9")
    assert scores(together.extend(given), "e3", "r9") == expected
    assert scores(together.extend(given), "e3", "r0") != scores(main_alone.extend(given), "e3", "r0")
    refined = together.predict(given, head="n0", relation="r0", refine=RefineSettings(steps=3))
    assert (
        refined.answers
    )  # TransH cannot be fitted: its part is of the closed form, whose correlation weights need pairs


def test_others_are_refused_in_one_line(pair: Model) -> None:
    other = ookg.train(random_triples(1, entities=30), SMALL, device="cpu")
    with pytest.raises(InputError, match=r"has other entities than .*; train both on the same triples"):
        pair.with_companions([other])
    with pytest.raises(InputError, match="two models with the same settings are one model"):
        ookg.train_together(random_triples(0), [SMALL, SMALL], device="cpu")
    with pytest.raises(InputError, match="no settings"):
        ookg.train_together(random_triples(0), [], device="cpu")


def test_a_pair_is_trained_stored_and_loaded_as_one(pair: Model, directory: Path, tmp_path: Path) -> None:
    assert list(pair.checkpoint.companions) == ["rotate"]
    assert "with rotate" in repr(pair)
    in_memory = ookg.train_together(random_triples(0), [SMALL, ROTATE], device="cpu")
    expected = scores(pair.extend(NEW), "n0")
    assert scores(in_memory.extend(NEW), "n0") == expected
    in_memory.save(tmp_path / "copy")
    pair.save(tmp_path / "other")
    for place in (tmp_path / "copy", tmp_path / "other"):
        assert scores(ookg.load(str(place)).extend(NEW), "n0") == expected
    assert all(file.problem is None for file in check_model(directory))
    assert "companions/rotate/model.json" in [file.name for file in check_model(directory)]
    # With the same vectors in other hands: a choice, and a companion that takes another's place.
    tuned = pair.with_choice(pair.choice)
    assert [type(one.embedding.geometry).__name__ for one in tuned.companions] == ["RotatE"]
    swapped = pair.companions[0].with_companions([pair.with_companions(())])
    swapped.save(directory)
    assert list(Model.load(directory).checkpoint.companions) == ["transe"]
    assert not (directory / "companions" / "rotate" / "model.json").exists()
    assert scores(Model.load(directory).extend(NEW), "n0") == pytest.approx(expected, abs=1e-5)


def test_training_is_resumed_and_a_model_alone_drops_the_companions_of_before(directory: Path) -> None:
    graph = random_triples(0)
    with pytest.raises(InputError, match="holds a model"):
        ookg.train_together(graph, [SMALL, ROTATE], out=directory, device="cpu")
    before = read_description(directory)
    resumed = ookg.train_together(graph, [SMALL, ROTATE], out=directory, device="cpu", resume=True)
    assert len(resumed.companions) == 1
    assert read_description(directory) == before
    ookg.train_together(graph, [SMALL], out=directory, device="cpu", resume=True)
    assert read_description(directory) == before
    del resumed  # which keeps its files
    ookg.train(graph, SMALL, out=directory, device="cpu", overwrite=True)
    assert Model.load(directory).companions == ()
    assert "companions" not in read_description(directory)
    assert not list((directory / "companions").glob("*/data-*"))
    # And it gets companions where the first is there already.
    again = ookg.train_together(graph, [SMALL, ROTATE], out=directory, device="cpu", resume=True)
    assert len(again.companions) == 1


def test_a_companion_that_does_not_belong_is_refused(directory: Path, tmp_path: Path) -> None:
    place = directory / "companions" / "rotate"
    shutil.rmtree(place)
    ookg.train(random_triples(3, entities=22), ROTATE, out=place, device="cpu")
    with pytest.raises(ModelFileError, match=r"rotate: its entities are not those of .*model; the model is damaged"):
        Model.load(directory)
    shutil.rmtree(place)
    with pytest.raises(ModelFileError, match="rotate: no model here"):
        Model.load(directory)
    [problem] = [file.problem for file in check_model(directory) if file.problem is not None]
    assert "no model here" in problem


def test_an_update_lets_all_learn_and_readers_have_what_belongs_together(directory: Path) -> None:
    living, reader = ookg.open(str(directory)), Model.load(directory)
    before = scores(reader.extend(NEW), "n0")
    living.add(NEW)
    asked = scores(living, "n0")
    assert asked == before
    cost = living.status().update
    assert cost is not None
    assert cost.steps == 2 * SMALL.steps  # no more than each was trained with
    updated = living.update(QUICK, keep=0)
    assert (updated.version, updated.new_entities, updated.new_relations) == (2, 3, 1)
    assert any("companion rotate has learned it too, in 3 steps" in note for note in updated.notes)
    model = Model.load(directory)
    assert len(model.entities) == 23
    assert [one.entities for one in model.companions] == [model.entities]
    assert model.companions[0].checkpoint.journal == model.checkpoint.journal == 1
    assert scores(reader.extend(NEW), "n0") == before  # its files are still there
    assert not version_files(directory / "companions" / "rotate")
    after = scores(living, "n0")
    assert after.keys() == before.keys() | {"n2"}
    assert scores(model.extend(), "n0") == after


@pytest.mark.parametrize("is_changed", [True, False])
def test_an_interrupted_update_of_a_companion_is_told(directory: Path, is_changed: bool) -> None:
    living = ookg.open(directory)
    if is_changed:
        living.add(NEW)
    with interrupted_trainings(), pytest.raises(TrainingInterrupted):
        living.update(QUICK)
    assert not list(directory.glob("update-to-*"))
    assert list(directory.glob("companions/*/update-to-*"))
    assert living.status().unfinished == int(is_changed)
    living.update(QUICK)
    assert living.status().unfinished is None


def test_versions_go_back_together(directory: Path) -> None:
    living = ookg.open(str(directory))
    living.add(NEW)
    before = scores(living, "n0")
    living.update(QUICK)
    after = scores(living, "n0")
    living.rollback()
    assert scores(living, "n0") == before
    assert all(file.problem is None for file in check_model(directory))
    assert living.update(QUICK).version == 3
    assert scores(living, "n0") == after


def test_an_update_that_stops_between_the_two_leaves_the_old_pair(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    living = ookg.open(str(directory))
    living.add(NEW)
    before = scores(living, "n0")

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(updating, "write_version", stop)
        with pytest.raises(KeyboardInterrupt):
            living.update(QUICK)
    assert read_description(directory / "companions" / "rotate")["number"] == 2
    assert scores(ookg.open(str(directory)), "n0") == before
    learned: list[str] = []
    learn = updating._Step.learn

    def spy(step: Any, model: Any, place: Path) -> Any:
        learned.append(place.name)
        return learn(step, model, place)

    monkeypatch.setattr(updating._Step, "learn", spy)
    assert living.update(QUICK).version == 2
    assert learned == ["model"]  # the companion had learned it already
    assert Model.load(directory).companions[0].checkpoint.number == 2


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_few_shot_set(tmp_path_factory.mktemp("few") / "few")


@pytest.mark.parametrize("weights", [None, Uniform(), Precision()])
@pytest.mark.parametrize("combine", [None, True])
def test_evaluate_scores_as_predict_does(few: Path, weights: Any, combine: bool | None) -> None:
    dataset = load_few_shot(few)
    pair = ookg.train_together(dataset.train, [SMALL, ROTATE], device="cpu")
    asked = dataset.at("test", 2).dataset
    ways = pair.ways if weights is None and combine is None else None
    ready = _ready(pair, asked, weights, None, RankingOptions(False, bool(combine), "all", ways=ways), False)
    labels = pair.given(asked.aux, Uniform()).entities
    extended = pair.extend(asked.aux, weights=weights, refine=False if combine else None)
    options = AnswerOptions(combine, top=1000, drop_known=False)
    for head in ("t1", "t3"):
        queries = Queries(*(np.array([value]) for value in (labels.find(head), 1, 0, True)))
        expected = ready.scorer.all_answer_scores(queries, len(labels))[0].tolist()
        answers = scores(extended, head, pair.relations.label(1), options)
        assert len(answers) >= KNOWN
        assert answers == pytest.approx({label: expected[labels.ids([label])[0]] for label in answers}, abs=1e-4)
    figures, alone = (
        one.evaluate(dataset, shots=2, combine=combine, weights=weights) for one in (pair, pair.with_companions(()))
    )
    assert str(figures) != str(alone)


def test_tune_chooses_the_ways_of_all_together(pair: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden: list[list[Any]] = []
    choose = choose_ways

    def spy(simulations: Any, *others: Any) -> Any:
        hidden.append(list(simulations))
        return choose(simulations, *others)

    monkeypatch.setattr(tuning, "choose_ways", spy)
    settings = TuningSettings(HidingSettings(sample=6), Retraining(steps=2, reference=False), trials=1, triples=(1,))
    tuned = pair.tune(settings)
    [[mine, other]] = hidden
    assert [type(one.embedding.geometry).__name__ for one in (mine, other)] == ["TransE", "RotatE"]
    assert np.array_equal(mine.hidden.entities, other.hidden.entities)
    assert np.array_equal(mine.given, other.given)
    assert tuned.choice.calibration["chosen"] is not None


def test_an_audit_measures_what_all_answer_by_default(pair: Model) -> None:
    settings = AuditSettings(HidingSettings(sample=6), None, refine=False)
    together, alone = (model.audit(settings).overall.figures for model in (pair, pair.with_companions(())))
    assert {name for name, figures in together.items() if figures != alone[name]} == {"chosen"}


def test_the_command_line_trains_and_asks_a_pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("graph.tsv").write_text("".join("\t".join(row) + "\n" for row in random_triples(0)))
    sizes = ["--dim", "4", "--steps", "3", "--negatives", "2", "--device", "cpu"]
    assert main(["train", "graph.tsv", "--out", "m", "--model", "transe,rotate", *sizes]) == 0
    assert "TransE and RotatE of" in capsys.readouterr().err
    said = []
    for more in ([], ["--alone"]):
        assert main(["predict", "m", "--head", "e1", "--relation", "r0", "--json", *more]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] != said[1]
    with pytest.raises(SystemExit, match="2"):
        main(["train", "graph.tsv", "--out", "n", "--model", "transe,other", *sizes])
    assert "invalid choice: 'other'" in capsys.readouterr().err
