"""The table of newcomers with few triples, end to end on small sets under the published names."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from few_shot_sets import write_few_shot_set
from ookg.cli import main
from ookg.datasets.few_shot import load_few_shot
from ookg.datasets.packed import pack
from ookg.errors import InputError
from ookg.evaluation.few_shot import few_shot_figures
from ookg.research.reproduction import Places, Selection, pretraining, reproduce
from ookg.research.reproduction.methods import Context, few_shot
from ookg.research.reproduction.methods import network as network_methods
from ookg.research.reproduction.paper import FEW_SHOT_SETS
from ookg.research.reproduction.plan import jobs_of
from ookg.research.reproduction.runner import cells, further_truth, grids

PUBLISHED = Path(os.environ.get("OOKG_DATA", "nowhere"))
SMALL = {"dim": 4, "steps": 12, "batch": 16, "negatives": 2, "margin": 4.0, "lr": 0.05}
SETS = ["GEN-FB15k-237-3", "GEN-FB15k-237-1"]
METHODS = ["InvTransE (uniform)", "InvRotatE (uniform)"]
MEASURES = ("mrr", "hits@1", "hits@10", "mrr-known", "mrr-new")
ALSO_TRUE = ("mrr-also-true", "hits@1-also-true", "hits@10-also-true")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_few_shot_set(folder / "few-shot" / "FB15k-237")
    return folder


@pytest.fixture
def places(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    monkeypatch.setattr(few_shot, "TRAINING", SMALL)
    return Places(tmp_path / "results", tmp_path / "models", data)


def test_every_set_gets_its_cells(places: Places, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[str] = []
    real = pretraining.train_vectors

    def counted(context: Context, settings: Any) -> Any:
        trained.append(settings.model)
        return real(context, settings)

    monkeypatch.setattr(pretraining, "train_vectors", counted)
    made = reproduce(["few-shot"], SETS, METHODS, device="cpu", places=places)
    assert trained == ["transe", "rotate"]  # the numbers of shots share them
    ours = {(cell.dataset, cell.method, cell.measure): cell.ours for cell in made if cell.method in METHODS}
    measures = (*MEASURES, *ALSO_TRUE)
    assert set(ours) == {(name, method, measure) for name in SETS for method in METHODS for measure in measures}
    for (_, _, measure), value in ours.items():
        assert (value is None) == (measure in ALSO_TRUE)  # ENTITY is not here
        assert value is None or value >= 0
    dataset = load_few_shot("FB15k-237", data).encoded
    for name, shots in zip(SETS, (3, 1), strict=True):
        stored = json.loads((Path(places.out) / name / METHODS[0] / "seed-0.json").read_text())
        assert stored["settings"]["evaluation"] == {"protocol": "all", "shots": shots}
        assert stored["settings"]["training"]["weights"] == "uniform"
        assert stored["settings"]["training"]["bases"][0]["dim"] == 4
        figures = stored["figures"]
        at = dataset.at("test", shots)
        is_new = at.answer >= dataset.num_known
        mean = ((~is_new).sum() * figures["mrr-known"] + is_new.sum() * figures["mrr-new"]) / len(is_new)
        assert figures["mrr"] == pytest.approx(mean, abs=1e-5)
        assert {"valid-mrr", "valid-hits@10", "hits@3", f"mrr.given-{shots}"} < set(figures)
        assert "valid-mrr-new" not in figures  # there is none
    trained.clear()
    reproduce(["few-shot"], SETS, METHODS, device="cpu", places=places)
    assert not trained


def test_what_a_further_set_states_is_no_wrong_answer(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tasks leave out most of what is true of a newcomer; GEN counts none of it as a wrong answer."""
    monkeypatch.setattr(few_shot, "TRAINING", SMALL)
    there = tmp_path / "data"
    shutil.copytree(data / "few-shot", there / "few-shot")
    stated = [f"t{n}\tr{r}\te{e}\ne{e}\tr{r}\tt{n}\n" for n in range(6) for r in range(3) for e in range(0, 20, 3)]
    parts = [(number, part) for number in (0, 1) for part in ("train", "valid", "test")]
    for place, (number, part) in enumerate(parts):
        snapshot = there / "continual" / "ENTITY" / str(number)
        snapshot.mkdir(parents=True, exist_ok=True)
        (snapshot / f"{part}.txt").write_text("".join(stated[place :: len(parts)]))

    def measured(name: str, folder: Path) -> dict[str, float]:
        places = Places(tmp_path / name, tmp_path / "models", folder)
        reproduce(["few-shot"], SETS[:1], METHODS[:1], device="cpu", places=places)
        stored = json.loads((Path(places.out) / SETS[0] / METHODS[0] / "seed-0.json").read_text())
        figures: dict[str, float] = stored["figures"]
        return figures

    more, plain = measured("with", there), measured("without", data)
    names = ("mrr", "hits@1", "hits@3", "hits@10")
    assert set(more) - set(plain) == {f"{split}{name}-also-true" for split in ("", "valid-") for name in names}
    assert {name: more[name] for name in plain} == plain
    assert more["mrr-also-true"] > more["mrr"]
    # What the folder itself has counts in all columns.
    (there / "few-shot" / "FB15k-237" / "also-true.txt").write_text("".join(stated))
    whole = measured("own", there)
    assert whole["mrr"] == whole["mrr-also-true"] == more["mrr-also-true"]


@pytest.mark.skipif(not (PUBLISHED / "few-shot" / "FB15k-237").is_dir(), reason="needs FB15k-237 under OOKG_DATA")
def test_the_snapshots_have_all_that_the_tasks_leave_out() -> None:
    """They are FB15k-237: with the tasks, what GEN's code takes to be true, but for entities that no task has."""
    dataset = load_few_shot("FB15k-237", PUBLISHED).encoded
    other = FEW_SHOT_SETS["GEN-FB15k-237-3"].also_true
    assert other is not None
    truth = further_truth("FB15k-237", other, PUBLISHED)
    assert truth is not None
    of_the_set, stated = ({tuple(row) for row in triples.tolist()} for triples in (dataset.true_triples, truth))
    assert (len(of_the_set), len(stated)) == (244_834, 310_092)
    assert of_the_set < stated
    newcomers = np.unique(np.concatenate([dataset.valid.newcomer, dataset.test.newcomer]))
    added = np.array(sorted(stated - of_the_set))
    assert np.isin(added[:, [0, 2]], newcomers).any(axis=1).all()


def test_a_network_of_the_known_triples_is_trained_once_and_counts(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_methods, "TRAINING", {"steps": 3, "batch": 8, "negatives": 8})
    monkeypatch.setattr(few_shot, "WITH_ENCODER", {"encoder_steps": 2, "encoder_batch": 8})
    names = ["Default TransE", "Default TransE, with network", "Chosen TransE, with network", few_shot.WITH_BOTH]
    reproduce(["few-shot"], SETS, names, device="cpu", places=places)
    (folder,) = Path(str(places.models)).iterdir()
    assert (
        len(list(folder.glob("*.safetensors"))) == 3
    )  # the vectors, the network and its encoder, for all methods and shots
    stored = {
        (name, method): json.loads((Path(places.out) / name / method / "seed-0.json").read_text())
        for name in SETS
        for method in names
    }
    for name in SETS:
        training = stored[name, names[1]]["settings"]["training"]
        assert training["network"]["steps"] == 3
        assert training["network"]["most_links"] == 5
        assert [way["ranking"]["network"] for way in training["ways"]] == [1.0, 1.0]
        assert "encoder_steps" not in training["network"]
        assert stored[name, names[0]]["figures"] != stored[name, names[1]]["figures"]
        training = stored[name, few_shot.WITH_BOTH]["settings"]["training"]
        assert training["network"]["encoder_steps"] == 2
        assert [way["ranking"]["network"] for way in training["ways"]] == [0.5, 1.0]
        assert [way["ranking"].get("encoder", 0.0) for way in training["ways"]] == [0.5, 0.0]
        assert stored[name, few_shot.WITH_BOTH]["figures"] != stored[name, names[1]]["figures"]
        # With too few valid questions to choose by, it is answered as by default.
        assert stored[name, names[2]]["figures"] == stored[name, names[1]]["figures"]


def test_printed_figures_stand_beside_ours(places: Places) -> None:
    found = cells(Selection.of(["few-shot"]), places.results)
    printed = {(cell.dataset, cell.method, cell.measure): cell.paper for cell in found if cell.paper is not None}
    gen = "GEN-FB15k-237-3"
    assert [printed[gen, "I-GEN (as printed)", name] for name in ALSO_TRUE] == [0.367, 28.1, 53.7]
    assert [printed[gen, "T-GEN (as printed)", name] for name in ALSO_TRUE] == [0.382, 28.9, 56.5]
    assert len(printed) == 6
    assert {cell.dataset for cell in found} == {*SETS, "GEN-NELL-995-3"}
    (grid,) = grids(Selection.of(["few-shot"], ["gen-fb15k-237-3"]), places.results)["few-shot"]
    assert [row[1].text for row in grid.rows] == ["I-GEN (as printed)", "T-GEN (as printed)"]
    assert "NeurIPS 2020" in grid.remark


def test_it_is_run_only_if_named(places: Places) -> None:
    def sets(selection: Selection) -> set[str]:
        return {job.dataset for job in jobs_of(selection, places.results, places.cache, "CPU")}

    assert not sets(Selection.of()) & {*SETS}
    assert sets(Selection.of(["few-shot"])) == {*SETS, "GEN-NELL-995-3"}


def test_a_set_that_is_not_there_gets_one_line(places: Places) -> None:
    with pytest.raises(InputError, match=r"data set NELL-995: no folder .*few-shot/NELL-995 with its tasks"):
        reproduce(["few-shot"], ["GEN-NELL-995-3"], device="cpu", places=places)


def test_packed_and_text_give_the_same_figures(places: Places, data: Path, tmp_path: Path) -> None:
    pack(load_few_shot("FB15k-237", data).encoded, tmp_path / "packed")
    elsewhere = Places(tmp_path / "other", tmp_path / "other models", tmp_path / "packed")
    for where in (places, elsewhere):
        reproduce(["few-shot"], SETS[:1], METHODS[:1], device="cpu", places=where)
    one, other = (
        json.loads((Path(where.out) / SETS[0] / METHODS[0] / "seed-0.json").read_text())["figures"]
        for where in (places, elsewhere)
    )
    assert one == other


def test_a_packed_set_of_the_other_kind_is_refused(places: Places, data: Path, tmp_path: Path) -> None:
    path = pack(load_few_shot("FB15k-237", data).encoded, tmp_path / "packed")
    path.rename(path.with_name("FB15k-Head-10.npz"))
    elsewhere = Places(places.out, places.models, tmp_path / "packed")
    with pytest.raises(InputError, match="FB15k-Head-10: is packed as one with tasks"):
        reproduce(["link-prediction"], ["FB15k-Head-10"], ["InvTransE"], device="cpu", places=elsewhere)


def test_a_method_of_ones_own_is_a_function(places: Places, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seam: vectors, the data set and what is given and asked come in, a scorer goes out."""
    seen: list[few_shot.FewShotCase] = []

    def answered(case: few_shot.FewShotCase) -> Any:
        seen.append(case)
        return few_shot.uniform_closed_form(case)

    method = few_shot.FewShotMethod("Mine", ("rotate", "transe"), answered, {"of": "mine"})
    dataset = load_few_shot("FB15k-237", data).encoded
    import torch

    context = Context(dataset.known, 0, torch.device("cpu"), places.cache, few_shot=dataset, name=SETS[0])
    trained = method.train(context)
    figures = method.figures(context, trained, method.variants(SETS[0])[0])
    assert [case.shots.split for case in seen] == ["test", "valid"]
    assert [type(embedding.geometry).__name__ for embedding in seen[0].embeddings] == ["RotatE", "TransE"]
    assert seen[0].shots.shots == 3
    expected = few_shot_figures(few_shot.uniform_closed_form(seen[0]), dataset, seen[0].shots)
    assert figures["mrr"] == expected.all.mrr
    assert method.training(SETS[0], 0).to_dict()["of"] == "mine"


def test_the_command_prints_cells(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--out", str(places.out), "--data", str(places.data)]
    assert main(["reproduce", "--from-results", "--json", "--table", "few-shot", *where]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {cell["measure"] for cell in found if cell["method"] == METHODS[0]} == {*MEASURES, *ALSO_TRUE}
    assert {cell["dataset"] for cell in found if cell["method"] == METHODS[0]} == {*SETS, "GEN-NELL-995-3"}
