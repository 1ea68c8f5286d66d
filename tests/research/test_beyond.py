"""The methods that go past the paper, through `reproduce` on tiny data sets under the published names."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ookg.cli import main
from ookg.datasets.encoded import EncodedDataset
from ookg.datasets.folder import load_dataset
from ookg.errors import InputError
from ookg.evaluation.measuring import figures_of, queries_of
from ookg.evidence.claims import feature_names
from ookg.evidence.combined import CLOSED_FORM_WEIGHTS, CombinedScorer, GraphEvidence, RankingWeights
from ookg.graph.statistics import GraphStatistics
from ookg.newcomers.embedder import find_newcomers
from ookg.newcomers.reducer import Correlation, Degree, Uniform
from ookg.newcomers.refinement import RefineSettings
from ookg.research.reproduction import Places, reproduce
from ookg.research.reproduction.cache import TrainedModel
from ookg.research.reproduction.methods import INV_TRANSE, METHODS, Context, task_of
from ookg.research.reproduction.methods import beyond as beyond_methods
from ookg.research.reproduction.methods import network as network_methods
from ookg.research.reproduction.methods.beyond import BEYOND_METHODS, HELD_OUT, AfterUpdate, ByDefault
from ookg.research.reproduction.settings import PaperSettings
from ookg.research.reproduction.tables import Cell
from ookg.scoring.scorer import TranslationScorer
from ookg.simulation.ways import KNOWN_RANKINGS
from ookg.training.continuing import Growth, UpdateSettings, continue_training
from ookg.training.settings import PRESETS

RANKS, CLAIMS = "FB15k-Head-10", "WN11-Head-1000"
REFINEMENT: dict[str, Any] = {"margin": 6.0, "lr": 0.02, "steps": 5, "negatives": 4, "batch": 8}
TINY: dict[str, Any] = {"dim": 4, "steps": 10, "batch": 16, "negatives": 2, "margin": 4.0, "lr": 0.05}
FOR_RANKS = [method.name for method in BEYOND_METHODS if "link-prediction" in method.tasks]
FOR_CLAIMS = [method.name for method in BEYOND_METHODS if "triplet-classification" in method.tasks]


def write_set(folder: Path, labelled: bool) -> None:
    """A data set of 30 known and 6 new entities; every relation of test is in train."""
    rng = np.random.default_rng(0)
    rows = {f"e{h}\tr{h % 3}\te{t}" for h, t in rng.integers(0, 30, size=(150, 2)).tolist() if h != t}
    train = sorted(rows | {f"e{h}\tr{h % 3}\te{(h + 1) % 30}" for h in range(30)})
    false = [f"e{h}\tr{h % 3}\te{t}" for h, t in rng.integers(0, 30, size=(20, 2)).tolist() if h != t]
    false = [row for row in false if row not in rows]
    valid = [f"{row}\t1" for row in train[::8]] + [f"{row}\t0" for row in false] if labelled else train[:5]
    aux = [f"n{n}\tr{n % 3}\te{(3 * n + step) % 30}" for n in range(6) for step in (0, 4, 7)]
    test = [f"n{n}\tr{(n + 1) % 3}\te{n + 5}" for n in range(6)]
    test = [f"{row}\t{n % 2}" for n, row in enumerate(test)] if labelled else test
    folder.mkdir(parents=True)
    for name, lines in (("train", train), ("valid", valid), ("aux", aux), ("test", test)):
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))


def made_tiny(patch: pytest.MonkeyPatch) -> None:
    """Settings for a moment's training and fitting."""
    for name in ("fb15k", "wn11"):
        patch.setitem(PRESETS, name, PRESETS[name].changed(TINY))
    patch.setattr(beyond_methods, "REFINEMENT", {"fb15k": REFINEMENT, "wn11": REFINEMENT | {"margin": 3.0}})
    patch.setattr(beyond_methods, "TRAINING", TINY)
    patch.setattr(network_methods, "TRAINING", {"steps": 3, "batch": 8, "negatives": 8})


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    made_tiny(monkeypatch)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_set(folder / RANKS, labelled=False)
    write_set(folder / CLAIMS, labelled=True)
    return folder


@pytest.fixture(scope="module")
def done(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Places, list[Cell]]:
    """All of them once."""
    folder = tmp_path_factory.mktemp("done")
    places = Places(folder / "results", folder / "models", data)
    with pytest.MonkeyPatch.context() as patch:
        made_tiny(patch)
        cells = reproduce(["beyond"], [RANKS, CLAIMS], device="cpu", places=places)
    return places, cells


def stored(places: Places, dataset: str, method: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(places.out) / dataset / method / "seed-0.json").read_text())
    return found


def encoded(places: Places, name: str) -> EncodedDataset:
    return EncodedDataset.of(load_dataset(name, places.data))


def test_each_method_has_the_figures_of_its_tasks(done: tuple[Places, list[Cell]]) -> None:
    places, cells = done
    ours = {(cell.dataset, cell.method, cell.measure): cell.ours for cell in cells}
    expected = {(RANKS, name, measure) for name in FOR_RANKS for measure in ("mrr", "hits@10", "hits@1")}
    assert set(ours) == expected | {(CLAIMS, name, "accuracy") for name in FOR_CLAIMS}
    assert all(cell.paper is None and cell.seeds == 1 for cell in cells)
    for (dataset, method, measure), value in ours.items():
        assert value is not None
        assert 0 <= value <= (1 if measure == "mrr" else 100)
        assert value == stored(places, dataset, method)["figures"][measure]
    assert {"Combined", "Refined TransE"} < set(FOR_RANKS)
    assert "Judged TransE" in FOR_CLAIMS


def test_results_carry_the_settings(done: tuple[Places, list[Cell]]) -> None:
    places, _ = done
    combined = stored(places, RANKS, "Combined TransE + RotatE")["settings"]
    assert [base["model"] for base in combined["training"]["bases"]] == ["transe", "rotate"]
    assert all(base["steps"] == 10 and base["seed"] == 0 for base in combined["training"]["bases"])
    assert combined["training"]["refine"] == REFINEMENT | {"seed": 0}
    assert combined["training"]["weights"] == RankingWeights().to_dict()
    assert combined["evaluation"] == {"protocol": "paper"}
    linked = stored(places, RANKS, "InvTransE + links")["settings"]["training"]
    assert linked["weights"] == CLOSED_FORM_WEIGHTS.to_dict()
    assert "refine" not in linked
    refined = stored(places, CLAIMS, "Refined TransE")["settings"]
    assert refined["training"]["refine"] == REFINEMENT | {"margin": 3.0, "seed": 0}
    assert "weights" not in refined["training"]
    assert refined["evaluation"] == {"equal_thresholds": "highest"}
    judged = stored(places, CLAIMS, "Judged TransE")["settings"]
    looks = {"features": list(feature_names()), "without_vectors": "by the graph"}
    assert judged["training"]["judge"] == {"share": 0.5, "seed": 0} | looks
    assert judged["evaluation"] == {}  # it fits no thresholds
    for dataset, names in ((RANKS, FOR_RANKS), (CLAIMS, FOR_CLAIMS)):
        for name in names:
            assert stored(places, dataset, name)["seconds"]["train"] > 0


@pytest.mark.parametrize("dataset_name", [RANKS, CLAIMS])
def test_refined_figures_are_those_of_fitted_vectors(done: tuple[Places, list[Cell]], dataset_name: str) -> None:
    places, _ = done
    dataset = encoded(places, dataset_name)
    context = Context(dataset, 0, torch.device("cpu"), places.cache)
    embedding = context.embedding(INV_TRANSE.training(dataset_name, 0))
    weights = Correlation() if dataset_name == RANKS else Degree()
    closed = find_newcomers(embedding, context.graph, dataset.train, dataset.given, weights)
    settings = RefineSettings(**REFINEMENT | {"margin": 6.0 if dataset_name == RANKS else 3.0})
    vectors = TranslationScorer(closed.refined_by(settings).with_room_for(dataset.num_entities - dataset.num_known))
    figures = figures_of(vectors, dataset)
    found = stored(places, dataset_name, "Refined TransE")["figures"]
    assert found == {name: pytest.approx(value, abs=1e-6) for name, value in figures.items()}
    if dataset_name == CLAIMS:
        return
    evidence = GraphEvidence.count(dataset.train, dataset.aux, dataset.num_trained)
    both = CombinedScorer([vectors], evidence, RankingWeights())
    figures = figures_of(both, dataset)
    assert stored(places, RANKS, "Combined")["figures"] == {
        name: pytest.approx(value, abs=1e-6) for name, value in figures.items()
    }


def test_after_an_update_newcomers_are_answered_like_known_entities(
    done: tuple[Places, list[Cell]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the vectors of the update, and by what the graph says where nothing in it is new any more."""
    places, _ = done
    monkeypatch.setattr("ookg.simulation.choosing.FEWEST_QUESTIONS", 2)
    monkeypatch.setattr(beyond_methods, "HELD_OUT", 6)
    whole = encoded(places, RANKS)
    context = Context(whole, 0, torch.device("cpu"), places.cache)
    method = METHODS["After an update (TransE)"]
    assert isinstance(method, AfterUpdate)
    trained = method.train(context)
    dataset, nothing = trained.dataset, whole.aux[:0]
    assert dataset is whole
    held_out = beyond_methods._held_out(whole, 0)
    left, sizes = held_out.left, (whole.num_entities, whole.num_relations)
    assert len(held_out.triples) == len(whole.aux) - len(left.aux) == 1
    assert (held_out.triples[:, 0] >= whole.num_known).all()  # as in test
    assert (held_out.triples[:, 2] < whole.num_known).all()
    settings = PaperSettings().changed({"seed": 0} | TINY)
    before = context.within(left).embedding(settings)
    first = continue_training(before, Growth(left.train, left.aux, *sizes), settings, UpdateSettings()).embedding
    known = np.concatenate([left.train, left.aux])
    after = continue_training(first, Growth(known, held_out.triples, *sizes), settings, UpdateSettings()).embedding
    (embedding,) = trained.embeddings
    torch.testing.assert_close(embedding.entities, after.entities, rtol=0, atol=0)
    assert not torch.equal(after.entities[: dataset.num_known], before.entities)
    training = stored(places, RANKS, method.name)["settings"]["training"]
    assert training["update"] == asdict(UpdateSettings()) | {"lr_drops": list(UpdateSettings().lr_drops)}
    assert training["held_out"] == HELD_OUT
    triples = np.concatenate([dataset.train, dataset.aux])
    graph = GraphStatistics.count(triples, dataset.num_entities, dataset.num_relations)
    vectors = TranslationScorer(find_newcomers(after, graph, triples, nothing, Uniform()))
    evidence = GraphEvidence.count(triples, nothing, dataset.num_relations)
    questions = queries_of(dataset, "paper")
    everything = KNOWN_RANKINGS[1]
    scorer = method.scorer(context, replace(trained, ranking=everything), method.variants(RANKS)[0])
    of_all = CombinedScorer([vectors], evidence, everything).answer_scores(questions)[:, : dataset.num_known]
    found = scorer.answer_scores(questions)
    # They are standardised over known answers alone; the order is the same.
    assert torch.equal(found.argmax(dim=1), of_all.argmax(dim=1))
    assert isinstance(scorer, CombinedScorer)
    spoke = []
    for name in ("links", "paths", "company"):
        said = [
            one[name].of_answers(questions, dataset.num_known, torch.device("cpu"))
            for one in (scorer.evidence, evidence)
        ]
        assert torch.equal(*said)
        spoke += [name] if said[0].any() else []
    assert "company" in spoke, spoke


def test_what_is_there_is_reused(done: tuple[Places, list[Cell]], monkeypatch: pytest.MonkeyPatch) -> None:
    places, cells = done
    results = {path: path.read_bytes() for path in Path(places.out).rglob("*.json")}
    models = {path: path.stat().st_mtime_ns for path in Path(str(places.models)).rglob("*.safetensors")}
    assert reproduce(["beyond"], [RANKS, CLAIMS], device="cpu", places=places) == cells
    assert {path: path.read_bytes() for path in Path(places.out).rglob("*.json")} == results
    # A result that is lost is made again from the models that are there.
    path = Path(places.out) / CLAIMS / "Judged TransE" / "seed-0.json"
    path.unlink()

    def fail(*arguments: Any) -> TrainedModel:
        raise AssertionError("trained again")

    monkeypatch.setattr("ookg.research.reproduction.pretraining.train_vectors", fail)
    assert reproduce(["beyond"], [RANKS, CLAIMS], device="cpu", places=places) == cells
    assert json.loads(path.read_text())["figures"] == json.loads(results[path])["figures"]
    assert {path: path.stat().st_mtime_ns for path in Path(str(places.models)).rglob("*.safetensors")} == models


def test_bases_are_trained_once_for_all_methods(done: tuple[Places, list[Cell]]) -> None:
    places, _ = done
    counts = {folder.name: len(list(folder.glob("*.safetensors"))) for folder in Path(str(places.models)).iterdir()}
    # Of ranks, the two models and a network; and by default settings the two, both after an update, and TransE for all
    # that is given.
    assert counts == {RANKS: 8, CLAIMS: 1, f"{CLAIMS}, simulated": 1}


def test_other_settings_are_refused(done: tuple[Places, list[Cell]], monkeypatch: pytest.MonkeyPatch) -> None:
    places, _ = done
    monkeypatch.setattr(beyond_methods, "REFINEMENT", {"fb15k": REFINEMENT | {"steps": 6}, "wn11": REFINEMENT})
    with pytest.raises(InputError, match="made with other settings than now"):
        reproduce(["beyond"], [RANKS], ["Refined TransE"], device="cpu", places=places)
    assert reproduce(["beyond"], [RANKS], ["InvTransE + links"], device="cpu", places=places)  # it does not fit


def test_tables_are_shown_by_task(done: tuple[Places, list[Cell]], capsys: pytest.CaptureFixture[str]) -> None:
    places, _ = done
    where = ["--out", str(places.out), "--models", str(places.models), "--data", str(places.data), "--device", "cpu"]
    assert main(["reproduce", "--from-results", "--table", "beyond", *where]) == 0
    text = capsys.readouterr().out
    assert text.count("Beyond the paper") == 2
    tables = text.split("Beyond the paper")[1:]
    for table, dataset, names, other in ((tables[0], RANKS, FOR_RANKS, CLAIMS), (tables[1], CLAIMS, FOR_CLAIMS, RANKS)):
        assert dataset in table
        assert other not in table
        assert all(name in table for name in names)
    assert "Hits@10" in tables[0]
    assert "Hits@10" not in tables[1]


def test_methods_are_named_once_and_do_their_tasks() -> None:
    for method in BEYOND_METHODS:
        assert METHODS[method.name] is method
        assert method.beyond_paper
        for dataset in (RANKS, CLAIMS):
            if task_of(dataset) in method.tasks:
                bases = () if isinstance(method, AfterUpdate | ByDefault) else method.bases
                least = sum(base.rough_seconds(dataset, on_gpu=True) for base in bases)
                seconds = method.rough_seconds(dataset, on_gpu=True)
                assert seconds >= max(least, 1.0)
                assert method.rough_seconds(dataset, on_gpu=False) > seconds
    with pytest.raises(InputError, match="nothing of"):
        reproduce(["beyond"], [RANKS], ["Judged TransE"], device="cpu")
