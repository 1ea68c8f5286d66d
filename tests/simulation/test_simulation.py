"""Known entities made new again: nothing known moves, nothing asked is seen, the same seed gives the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ookg
from ookg.cli import main
from ookg.errors import InputError, ModelFileError
from ookg.graph.linked import all_triples
from ookg.graph.statistics import GraphStatistics
from ookg.model.model import Model
from ookg.newcomers.reducer import Correlation
from ookg.newcomers.refinement import RefineSettings
from ookg.scoring.ranking import RankSummary
from ookg.scoring.scorer import TranslationScorer
from ookg.simulation.audit import TRAINED, Audit, AuditSettings, audit
from ookg.simulation.choice import NewcomerChoice, stored_choice
from ookg.simulation.choosing import is_better
from ookg.simulation.contenders import Contenders, NewcomerSetup
from ookg.simulation.defaults import NewcomerDefaults
from ookg.simulation.hiding import HidingSettings
from ookg.simulation.retraining import Retraining
from ookg.simulation.simulated import Simulation, simulate
from ookg.simulation.trust import trust_of
from ookg.simulation.tuning import MOVES, Tuning, TuningSettings, tune
from ookg.storage.checkpoint import Checkpoint, load_checkpoint, save_newcomer_choice
from ookg.system.files import LOCK_FILE
from ookg.training.settings import TrainingSettings
from ookg.training.trainer import Trainer
from ookg.types import IntArray

SIDE = 11
SETTINGS = TrainingSettings(dim=12, steps=100, batch=128, negatives=8, margin=4.0, lr=0.05)
FEW = {"steps": 20, "negatives": 16}  # of a refinement, to be quick
HIDING = HidingSettings(sample=24, seed=1)
Run = Callable[..., str]


def translation_graph() -> list[tuple[str, str, str]]:
    """Points of a grid, and relations that are steps on it: what TransE can hold. One in four triples is missing."""
    random = np.random.default_rng(0)
    steps = {"right": (1, 0), "up": (0, 1), "far": (3, 0), "high": (0, 4), "across": (2, 3)}
    return [
        (f"{x},{y}", name, f"{x + right},{y + up}")
        for x in range(SIDE)
        for y in range(SIDE)
        for name, (right, up) in steps.items()
        if x + right < SIDE and y + up < SIDE and random.random() < 0.75
    ]


@pytest.fixture(scope="module")
def trained() -> Model:
    return ookg.train(translation_graph(), SETTINGS, device="cpu")


@pytest.fixture(scope="module")
def checkpoint(trained: Model) -> Checkpoint:
    """The model with settings that make its refinement quick."""
    refine = NewcomerDefaults.of(trained.checkpoint).refine.changed(FEW)
    return replace(trained.checkpoint, newcomers=NewcomerChoice(refine=refine).to_dict())


@pytest.fixture(scope="module")
def quick(checkpoint: Checkpoint) -> Simulation:
    return simulate(checkpoint, HIDING)


@pytest.fixture(scope="module")
def exact(checkpoint: Checkpoint) -> Simulation:
    return simulate(checkpoint, HIDING, Retraining(steps=20))


@pytest.fixture(scope="module")
def audited(checkpoint: Checkpoint) -> Audit:
    return audit(checkpoint, AuditSettings(HIDING, None))


@pytest.fixture(scope="module")
def tuned(checkpoint: Checkpoint) -> Tuning:
    retraining = Retraining(steps=20, reference=False)
    return tune(checkpoint, TuningSettings(HIDING, retraining, trials=4))


def test_what_was_trained_for_a_gpu_is_trained_again_on_a_cpu(checkpoint: Checkpoint) -> None:
    retraining = Retraining(steps=20, reference=False)
    compact, sparse = (
        simulate(replace(checkpoint, settings=checkpoint.settings | {"optimizer": name}), HIDING, retraining)
        for name in ("compact-adam", "sparse-adam")
    )
    assert torch.equal(compact.embedding.entities, sparse.embedding.entities)


def keys(triples: IntArray) -> set[tuple[int, ...]]:
    return {tuple(row) for row in triples.tolist()}


def test_nothing_moves_a_known_vector(trained: Model, checkpoint: Checkpoint) -> None:
    before = checkpoint.embedding.entities.clone(), checkpoint.embedding.relations.clone()
    simulation = simulate(checkpoint, HIDING)
    NewcomerSetup.of(checkpoint).ranks(simulation)
    assert torch.equal(checkpoint.embedding.entities, before[0])
    assert torch.equal(checkpoint.embedding.relations, before[1])
    known = simulation.hidden.entities[: simulation.hidden.num_known]
    assert torch.equal(simulation.embedding.entities, trained.entity_vectors[known])


def test_statistics_and_evidence_have_seen_no_question(quick: Simulation, exact: Simulation) -> None:
    for simulation in (quick, exact):
        hidden = simulation.hidden
        seen = np.concatenate([hidden.known, hidden.given])
        graph = simulation.newcomers(Correlation()).graph
        counted = GraphStatistics.count(seen, len(hidden.entities), hidden.num_relations)
        assert (graph.cooccurrence.toarray() == counted.cooccurrence.toarray()).all()
        assert not keys(all_triples(simulation.evidence.graph)) & keys(hidden.questions)
        assert keys(all_triples(simulation.evidence.graph)) == keys(seen)


def test_other_questions_leave_the_vectors_as_they_are(quick: Simulation) -> None:
    hidden, settings = quick.hidden, RefineSettings(margin=6.0, **FEW)  # type: ignore[arg-type]
    others = replace(hidden, questions=hidden.questions[::-1][:5])
    changed = Simulation.of(others, quick.embedding, quick.trained, is_exact=False)
    for one, other in zip(
        (Contenders(quick).closed, Contenders(quick).refined(settings)),
        (Contenders(changed).closed, Contenders(changed).refined(settings)),
        strict=True,
    ):
        asked = np.arange(hidden.num_hidden), np.zeros(hidden.num_hidden, dtype=np.int64)
        assert torch.equal(one.vectors(*asked), other.vectors(*asked))


def test_training_again_sees_neither_the_hidden_entities_nor_the_questions(exact: Simulation) -> None:
    hidden = exact.hidden
    assert exact.embedding.num_entities == hidden.num_known
    assert exact.trained is not None
    assert exact.trained.num_entities == len(hidden.entities)
    for embedding, triples in (
        (exact.embedding, hidden.known),
        (exact.trained, np.concatenate([hidden.known, hidden.given])),
    ):
        settings = SETTINGS.changed({"steps": 20})
        trainer = Trainer(torch.from_numpy(triples), embedding.num_entities, hidden.num_relations, settings)
        for _ in range(settings.steps):
            trainer.step()
        assert torch.equal(embedding.entities, trainer.entity_vectors)


def test_without_a_reference_there_is_nothing_to_compare_with(exact: Simulation) -> None:
    with pytest.raises(InputError, match="no trained entities"):
        _ = replace(exact, trained=None).trained_scorer


def test_the_same_seed_gives_the_same_simulation(checkpoint: Checkpoint, exact: Simulation) -> None:
    again = simulate(checkpoint, HIDING, Retraining(steps=20))
    assert torch.equal(again.embedding.entities, exact.embedding.entities)
    assert (again.ranks(again.trained_scorer) == exact.ranks(exact.trained_scorer)).all()


def test_a_trained_entity_answers_what_it_was_trained_on_better_than_a_newcomer(quick: Simulation) -> None:
    trained = (1 / quick.ranks(quick.trained_scorer)).mean()
    closed = (1 / quick.ranks(TranslationScorer(Contenders(quick).closed))).mean()
    assert trained > closed > 0.1


def test_halves_share_no_entity_and_are_alike(quick: Simulation) -> None:
    first, second = quick.halves(3)
    assert not set(first.queries.entity) & set(second.queries.entity)
    assert len(first.queries) + len(second.queries) == len(quick.queries)
    assert len(first.given) + len(second.given) == len(quick.given)
    sizes = [len(np.unique(half.queries.entity)) for half in (first, second)]
    assert abs(sizes[0] - sizes[1]) <= 1
    assert abs(len(first.given) - len(second.given)) < 0.2 * len(quick.given)


def test_an_audit_says_what_is_lost_where(audited: Audit, checkpoint: Checkpoint) -> None:
    document = json.loads(json.dumps(audited.to_dict(), allow_nan=False))
    assert document["kind"] == "quick"
    assert set(document) == {
        *("kind", "hidden", "best", "overall", "by_triples", "by_relation"),
        *("fewer_triples", "advice", "notes", "choice"),
    }
    for name in (TRAINED, "closed form", "refined", "combined"):
        assert set(document["overall"][name]) == {"mrr", "mean_rank", "hits@1", "hits@3", "hits@10"}
    for groups in (document["by_triples"], document["by_relation"]):
        assert sum(group["questions"] for group in groups) == document["overall"]["questions"]
    assert {group["name"] for group in document["by_relation"]} <= set(checkpoint.relations.labels.to_pylist())
    losses = [group[TRAINED]["mrr"] - group[audited.best]["mrr"] for group in document["by_relation"]]
    assert losses == sorted(losses, reverse=True)
    assert document["advice"] == []  # not from vectors that have seen the answers
    assert "no advice follows from such figures" in document["notes"][0]
    assert set(document["choice"]["calibration"]) == {"closed form", "refined", "combined", "chosen"}


def test_an_audit_is_determined_by_its_seed(audited: Audit, checkpoint: Checkpoint) -> None:
    again = audit(checkpoint, AuditSettings(HIDING, None))
    assert (again.overall, again.by_triples, again.advice) == (audited.overall, audited.by_triples, audited.advice)
    assert again.choice.calibration == audited.choice.calibration
    other = audit(checkpoint, AuditSettings(replace(HIDING, seed=2), None, refine=False))
    assert other.overall.figures["closed form"] != audited.overall.figures["closed form"]
    assert "refined" not in other.overall.figures


def test_an_audit_without_refinement_leaves_what_it_does_not_measure(audited: Audit, checkpoint: Checkpoint) -> None:
    stored = replace(checkpoint, newcomers=audited.choice.to_dict())
    found = audit(stored, AuditSettings(replace(HIDING, seed=2), None, refine=False))
    assert set(found.calibration) == {"closed form"}
    assert set(found.choice.calibration) == {"closed form", "refined", "combined", "chosen"}
    for name in ("refined", "combined", "chosen"):
        assert found.choice.calibration[name] == audited.choice.calibration[name]
    assert found.choice.calibration["closed form"] == found.calibration["closed form"]
    assert found.calibration["closed form"] != audited.calibration["closed form"]
    assert found.choice.simulation["calibration"]["methods"] == ["closed form"]
    assert any("combined here is the closed form" in text for text in found.notes)
    # Where nothing is stored, what to expect of the combination is not known afterwards.
    bare = audit(replace(checkpoint, newcomers=None), AuditSettings(HIDING, None, refine=False))
    assert set(bare.choice.calibration) == {"closed form"}


def test_a_calibration_replaces_that_of_its_methods_alone(audited: Audit) -> None:
    closed, refined = (audited.choice.calibration[name] for name in ("closed form", "refined"))
    before = NewcomerChoice(power=2.0, calibration={"refined": closed}, simulation={"choice": {"seed": 1}})
    found = before.calibrated({"closed form": closed}, {"calibration": {"seed": 2}})
    assert found.calibration == {"refined": closed, "closed form": closed}
    assert found.calibrated({"refined": refined}, {}).calibration == {"refined": refined, "closed form": closed}
    assert found.simulation == {"choice": {"seed": 1}, "calibration": {"seed": 2}}
    assert found.power == 2


def test_before_and_chosen_are_reported_on_equal_terms(tuned: Tuning, checkpoint: Checkpoint) -> None:
    simulation = simulate(checkpoint, HIDING, Retraining(steps=20, reference=False))
    second = ~simulation.in_first_half(HIDING.seed)[simulation.query_newcomer]
    for name, ranks in NewcomerSetup.of(checkpoint).ranks(simulation).items():
        assert tuned.report[f"{name}, before"] == RankSummary.of(ranks[second])


def test_tuning_chooses_the_best_of_what_it_tried_within_its_budget(tuned: Tuning, checkpoint: Checkpoint) -> None:
    powers = {trial.values["power"]: trial.mrr for trial in tuned.trials if trial.what == "power"}
    refined = [trial for trial in tuned.trials if trial.what == "refine"]
    assert tuned.choice.power is not None
    assert tuned.choice.power == 4 or powers[tuned.choice.power] == max(powers.values())
    assert powers[tuned.choice.power] >= powers[4.0]
    assert len(refined) == 4
    assert tuned.choice.refine is not None
    chosen = {name: getattr(tuned.choice.refine, name) for name, _ in MOVES}
    [mrr] = [trial.mrr for trial in refined if trial.values == chosen]
    assert mrr >= refined[0].mrr
    assert set(tuned.choice.ranking) == {"closed form", "refined"}
    assert {"closed form, before", "refined, chosen", "combined, chosen"} <= set(tuned.report)
    assert tuned.choice.simulation["choice"]["kind"] == "retrained"
    again = tune(checkpoint, TuningSettings(HIDING, Retraining(steps=20, reference=False), trials=4))
    assert (again.trials, again.report) == (tuned.trials, tuned.report)


def test_what_the_questions_do_not_tell_apart_stays_as_it_is() -> None:
    before = np.tile([0.2, 0.5], 50)
    assert not is_better(before, before)
    assert is_better(before + 0.01, before)
    # 0.012 more in the mean, by one question in ten; its standard error is 0.0096 over 100 questions, 0.030 over ten.
    gain = np.where(np.arange(100) % 10 == 0, 0.3, -0.02)
    assert is_better(before + gain, before)
    assert not is_better(before[:10] + gain[:10], before[:10])


def test_a_quick_choice_leaves_the_weights_of_the_combination(checkpoint: Checkpoint) -> None:
    found = tune(checkpoint, TuningSettings(HIDING, retraining=None, trials=1, seconds=100.0))
    assert found.choice.ranking == {}
    assert TRAINED in found.report
    assert any("have seen the answers" in text for text in found.notes)


def test_a_choice_is_stored_without_touching_the_vectors(trained: Model, tuned: Tuning, tmp_path: Path) -> None:
    trained.save(tmp_path)
    assert load_checkpoint(tmp_path).newcomers is None
    data = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.glob("data-*/*")}
    save_newcomer_choice(tuned.choice.to_dict(), tmp_path, trained.checkpoint)
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.glob("data-*/*")} == data
    found = load_checkpoint(tmp_path)
    assert stored_choice(found) == tuned.choice
    assert NewcomerDefaults.of(found).refine == tuned.choice.refine
    assert torch.equal(found.embedding.entities, trained.entity_vectors)
    Model(found).save(tmp_path)  # and it stays with the model when that is saved
    assert stored_choice(load_checkpoint(tmp_path)) == tuned.choice


def test_a_choice_is_not_stored_with_a_model_that_took_the_place(trained: Model, tuned: Tuning, tmp_path: Path) -> None:
    provenance = trained.checkpoint.provenance | {"created": "later"}
    Model(replace(trained.checkpoint, provenance=provenance)).save(tmp_path)
    with pytest.raises(InputError, match="another model has taken the place of the one this was found for; nothing is"):
        save_newcomer_choice(tuned.choice.to_dict(), tmp_path, trained.checkpoint)
    assert load_checkpoint(tmp_path).newcomers is None


def test_a_stored_calibration_says_what_to_expect_of_a_newcomer(trained: Model, tuned: Tuning) -> None:
    given = trained.given([("new", "right", "5,5"), ("new", "up", "4,6"), ("one", "up", "4,6")], Correlation())
    found = trust_of(given.newcomers, tuned.choice.calibration["refined"], residuals=trained.residuals)
    assert [trust.triples for trust in found] == [2, 1]
    assert found[0].spread is not None
    assert found[1].spread is None
    for trust in found:
        assert trust.expected_hits_at_10 is not None
        assert 0 < trust.expected_hits_at_10 < 1
        assert trust.expected_mrr is not None
        assert 0 < trust.expected_mrr < 1


@pytest.mark.parametrize(
    "damage",
    [
        [],
        {"power": "much"},
        {"power": -1.0},
        {"power": 10**400},
        {"best": "luck"},
        {"refine": {"margin": -3.0}},
        {"refine": 3},
        {"ranking": {"refined": {"gossip": 1.0}}},
        {"ways": {}},
        {"ways": [{"triples": 1.5, "refine": False, "ranking": {}}]},
        {"ways": [{"triples": 0, "refine": False, "ranking": {}}]},
        {"ways": []},
        {"ranking": {"other": {}}},
        {"ranking": {"refined": {"vector": None}}},
        {"calibration": {"refined": {}}},
        {"simulation": 1},
    ],
)
def test_a_damaged_choice_is_named(trained: Model, tmp_path: Path, damage: Any) -> None:
    trained.save(tmp_path)
    path = tmp_path / "model.json"
    description = json.loads(path.read_text())
    path.write_text(json.dumps(description | {"newcomers": damage}))
    remedy = "remove that section from the file, then tune or audit the model again"
    with pytest.raises(ModelFileError, match=rf"damaged 'newcomers' \([^;]+\); {remedy}$"):
        Model.load(tmp_path)
    assert main(["check", str(tmp_path)]) == 2


def test_a_crash_while_storing_leaves_the_old_choice(
    trained: Model, tuned: Tuning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained.save(tmp_path)

    def crash(*_: object) -> None:
        raise RuntimeError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", crash)
        with pytest.raises(RuntimeError):
            save_newcomer_choice(tuned.choice.to_dict(), tmp_path, trained.checkpoint)
    assert load_checkpoint(tmp_path).newcomers is None
    left = sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("data-"))
    assert left == [LOCK_FILE, "model.json"]


def test_a_model_without_triples_or_settings_is_refused(checkpoint: Checkpoint) -> None:
    bare = replace(checkpoint, graph=None)
    with pytest.raises(InputError, match="import it with its triples"):
        audit(bare)
    foreign = replace(checkpoint, settings={"margin": 4.0})
    with pytest.raises(InputError, match="imported, and how it was trained is not known"):
        simulate(foreign, HIDING, Retraining())
    assert simulate(foreign, HIDING).hidden.num_hidden == 24
    unknown = NewcomerDefaults.of(replace(checkpoint, settings={}, newcomers=None)).refine
    assert 0 < unknown.margin < 100


def test_a_projected_model_is_audited_without_refinement() -> None:
    settings = SETTINGS.changed({"model": "transh", "steps": 5})
    model = ookg.train(translation_graph(), settings, device="cpu")
    found = audit(model.checkpoint, AuditSettings(HIDING, None))
    assert set(found.overall.figures) == {TRAINED, "closed form", "combined", "chosen"}
    assert set(found.choice.calibration) == {"closed form", "combined", "chosen"}
    assert any("not refined" in text for text in found.notes)


@pytest.fixture
def run(checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Run:
    monkeypatch.chdir(tmp_path)
    Model(checkpoint).save("model")

    def call(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        command, *options = arguments
        assert main([command, "--device", "cpu", "--sample", "20", *options]) == code
        captured = capsys.readouterr()
        if code == 0:
            return str(captured.out)
        *_, line = captured.err.splitlines()
        assert line.startswith("ookg: ")
        assert captured.out == ""
        return str(line)

    return call


def test_the_audit_command_prints_draws_and_stores(run: Run) -> None:
    text = run("audit", "model", "--steps", "5", "--save", "--figure", "loss.png")
    assert "By number of given triples" in text
    assert "trained MRR" in text
    assert "- Refining" in text
    assert Path("loss.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in Path("loss.svg").read_text()
    stored = stored_choice(load_checkpoint("model"))
    assert stored is not None
    assert set(stored.calibration) == {"closed form", "refined", "combined", "chosen"}
    document = json.loads(run("audit", "model", "--quick", "--no-refine", "--json"))
    assert document["kind"] == "quick"
    assert document["advice"] == []
    assert document["hidden"] <= 20


def test_an_audit_trains_again_and_says_how_long_before(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(run("audit", "model", "--no-refine", "--json"))
    assert document["kind"] == "retrained"
    assert document["advice"][0].startswith("Combining")
    main(["audit", "model", "--device", "cpu", "--sample", "20", "--no-refine"])
    said = capsys.readouterr().err
    assert re.search(r"training again without the hidden entities: 2 trainings of \d+ steps, about \d+ s", said)


def test_an_imported_model_is_audited_quickly(checkpoint: Checkpoint, tmp_path: Path, capsys: Any) -> None:
    Model(replace(checkpoint, settings={})).save(tmp_path / "model")
    line = ["audit", str(tmp_path / "model"), "--device", "cpu", "--sample", "20", "--no-refine", "--json"]
    assert main(line) == 0
    said = capsys.readouterr()
    assert "this model was imported" in said.err
    assert json.loads(said.out)["kind"] == "quick"
    assert main([*line, "--retrain"]) == 2
    assert "how it was trained is not known" in capsys.readouterr().err


def test_passes_bound_the_steps_of_training_again(checkpoint: Checkpoint) -> None:
    stored = {**checkpoint.settings, "batch": 10, "steps": 50}
    assert Retraining(passes=3).settings(stored, 101).steps == 31  # 303 triples in batches of ten
    assert Retraining(passes=100).settings(stored, 101).steps == 50
    assert Retraining(steps=7).settings(stored, 101).steps == 7
    with pytest.raises(InputError, match="passes 0"):
        Retraining(passes=0)
    bare = replace(checkpoint, provenance={})
    assert Retraining(steps=7).in_words(bare) == "2 trainings of 7 steps"
    timed = replace(checkpoint, provenance={"seconds": 400.0, "step": 100})
    assert "1 training of 100 steps, about 7 minutes" in Retraining(steps=100, reference=False).in_words(timed)


def test_the_tune_command_chooses_and_stores(run: Run) -> None:
    text = run("tune", "model", "--steps", "5", "--trials", "1")
    assert "nothing is stored" in text
    before = stored_choice(load_checkpoint("model"))
    assert before is not None
    assert before.power is None
    document = json.loads(run("tune", "model", "--steps", "5", "--trials", "1", "--save", "--json"))
    stored = stored_choice(load_checkpoint("model"))
    assert stored is not None
    assert stored == NewcomerChoice.from_dict(document["choice"])
    assert "best of closed form, refined" in run("tune", "model", "--quick", "--trials", "1")


@pytest.mark.parametrize(
    "arguments",
    [("audit", "model", "--retrain"), ("audit", "model", "--quick"), ("tune", "model"), ("tune", "model", "--quick")],
)
def test_too_few_hidden_entities_are_refused_before_a_training(
    run: Run, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    def trains(*_: object) -> None:
        pytest.fail("a training has begun")

    monkeypatch.setattr("ookg.simulation.retraining.Trainer", trains)
    assert "1 entity hidden, and it takes 2, " in run(*arguments, "--sample", "1", code=2)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("audit", "model", "--quick", "--save"), "leave --quick out"),
        (("audit", "model", "--quick", "--steps", "3"), "leave --quick out"),
        (("audit", "model", "--figure", "loss.jpg"), "name it .png or .svg"),
        (("audit", "model", "--figure", "model/loss.png"), "in the model's directory"),
        (("audit", "nowhere"), "no model here"),
        (("audit", "model", "--retrain", "--steps", "0"), "1 or more"),
        (("tune", "model", "--trials", "0"), "1 or more"),
        (("tune", "model", "--seconds", "0"), "above 0"),
        (("tune", "model", "--quick", "--save"), "leave --quick out"),
    ],
)
def test_bad_input_is_one_line(run: Run, arguments: tuple[str, ...], text: str) -> None:
    assert text in run(*arguments, code=2)
