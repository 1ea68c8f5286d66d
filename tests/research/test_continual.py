"""The table of growing graphs, end to end on small sets under the published names."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import random_triples
from few_shot_sets import write_few_shot_set
from growing_sets import write_growing_set
from ookg.cli import main
from ookg.datasets.dataset import write_dataset
from ookg.datasets.encoded import EncodedDataset
from ookg.datasets.few_shot import load_few_shot
from ookg.datasets.folder import load_dataset
from ookg.datasets.growing import load_growing
from ookg.datasets.packed import pack
from ookg.datasets.splitting import SplitSettings, split
from ookg.errors import InputError
from ookg.research.reproduction import Places, Selection, pretraining, reproduce
from ookg.research.reproduction.figures import draw_growth
from ookg.research.reproduction.methods import METHODS, Context, continual
from ookg.research.reproduction.plan import jobs_of
from ookg.research.reproduction.runner import cells, grids, make_missing

SMALL = {"dim": 4, "steps": 12, "batch": 16, "negatives": 2, "margin": 4.0, "lr": 0.05}
WAYS = ("Retrained", "Updated", "Frozen", "New only", "Fine-tuned")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_growing_set(folder / "continual" / "ENTITY")
    return folder


@pytest.fixture
def places(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    monkeypatch.setattr(continual, "TRAINING", SMALL)
    monkeypatch.setattr(continual, "OWN_TRAINING", {})
    return Places(tmp_path / "results", tmp_path / "models", data)


def test_every_way_gets_its_cells(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[str] = []
    real = pretraining.train_vectors

    def counted(context: Context, settings: Any) -> Any:
        if settings.steps == SMALL["steps"]:  # not a warm-up
            trained.append(context.dataset.name)
        return real(context, settings)

    monkeypatch.setattr(pretraining, "train_vectors", counted)
    methods = [f"{way} TransE" for way in WAYS]
    made = reproduce(["continual"], ["entity"], methods, device="cpu", places=places)
    assert sorted(trained) == ["ENTITY-0", "ENTITY-1", "ENTITY-2"]  # the first is shared by all ways
    ours = {(cell.method, cell.measure): cell.ours for cell in made}
    assert set(ours) == {(method, measure) for method in methods for measure in ("mrr", "mrr-snapshot", "seconds")}
    assert all(value is not None and value > 0 for value in ours.values())
    for method in methods:
        figures = json.loads((Path(places.out) / "ENTITY" / method / "seed-0.json").read_text())["figures"]
        assert figures["mrr"] == figures["mrr.after-2"] == ours[method, "mrr"]
        assert figures["mrr.after-1.test-1"] == figures["mrr-snapshot.after-1.test-1"]
        assert figures["mrr"] <= figures["mrr-snapshot"] <= 1  # fewer candidates
        assert figures["seconds"] == pytest.approx(
            (figures["seconds.after-1"] + figures["seconds.after-2"]) / 2, abs=1e-5
        )
        assert {"forgotten", "gained", "valid-mrr", "valid-mrr-snapshot"} < set(figures)
    stored = json.loads((Path(places.out) / "ENTITY" / "Frozen TransE" / "seed-0.json").read_text())
    assert stored["settings"]["training"]["update"]["mode"] == "freeze"
    assert stored["settings"]["training"]["training"]["dim"] == 4
    # What is there is not made again.
    trained.clear()
    reproduce(["continual"], ["entity"], methods, device="cpu", places=places)
    assert not trained


def test_ways_differ_in_what_they_see(data: Path) -> None:
    growth = load_growing("ENTITY", data).encoded
    seen = {}
    for way in WAYS[1:]:
        method = METHODS[f"{way} RotatE"]
        assert isinstance(method, continual.ContinualMethod)
        seen[way] = method._growth(growth, 1)
    known = len(growth.snapshots[0].train)
    assert {way: len(found.known) for way, found in seen.items()} == {
        "Updated": known, "Frozen": known, "New only": 0, "Fine-tuned": 0,
    }  # fmt: skip
    assert all(len(found.added) == len(growth.snapshots[1].train) for found in seen.values())
    degree = seen["New only"].degree
    assert degree is not None
    assert (len(degree), degree.sum()) == (12, 2 * known)
    assert seen["Fine-tuned"].degree is None


def test_printed_figures_stand_beside_ours(places: Places) -> None:
    found = cells(Selection.of(["continual"], ["ENTITY", "FACT"]), places.results)
    printed = {(cell.dataset, cell.method): cell.paper for cell in found if cell.paper is not None}
    assert printed["ENTITY", "LKGE (as printed)"] == 0.234
    assert printed["FACT", "IncDE (as printed)"] == 0.216
    assert {cell.measure for cell in found if cell.paper is not None} == {"mrr-snapshot"}
    (grid,) = grids(Selection.of(["continual"], ["FACT"]), places.results)["continual"]
    assert [row[1].text for row in grid.rows] == ["LKGE (as printed)", "IncDE (as printed)", "Retraining (as printed)"]
    assert "as quoted in the literature" in grid.remark
    assert all(cell.dataset == "ENTITY" for cell in cells(Selection.of(datasets=["ENTITY"]), places.results))


def test_growing_graphs_are_run_only_if_named(places: Places) -> None:
    def sets(selection: Selection) -> set[str]:
        return {job.dataset for job in jobs_of(selection, places.results, places.cache, "CPU")}

    assert "ENTITY" not in sets(Selection.of())
    assert "FB15k-Head-10" in sets(Selection.of())
    assert sets(Selection.of(["continual"])) == {"ENTITY", "FACT", "HYBRID", "RELATION"}
    assert sets(Selection.of(methods=["updated transe"], datasets=["fact"])) == {"FACT"}


def test_a_set_that_is_not_there_gets_one_line(places: Places) -> None:
    with pytest.raises(InputError, match=r"data set FACT: no folder .*continual/FACT with its snapshots"):
        reproduce(["continual"], ["FACT"], ["Updated TransE"], device="cpu", places=places)


def test_a_packed_set_of_the_other_kind_is_refused(places: Places, data: Path, tmp_path: Path) -> None:
    growth = load_growing("ENTITY", data).encoded
    pack(growth, tmp_path / "packed").rename(tmp_path / "packed" / "FB15k-Head-10.npz")
    elsewhere = Places(places.out, places.models, tmp_path / "packed")
    with pytest.raises(InputError, match="FB15k-Head-10: is packed as a growing one"):
        reproduce(["link-prediction"], ["FB15k-Head-10"], ["InvTransE"], device="cpu", places=elsewhere)


BARE = """
import sys


class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {names}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Missing())
import torch

torch.set_num_threads(1)
from ookg.research.reproduction.methods import continual, few_shot
from ookg.training.settings import PRESETS

small = {small}
continual.TRAINING, continual.OWN_TRAINING, few_shot.TRAINING = small, {{}}, small
PRESETS["fb15k"] = PRESETS["fb15k"].changed(small)
from importlib import import_module

for module in (
    "ookg.evaluation.measuring", "ookg.research.baselines", "ookg.research.reproduction.efficiency",
    "ookg.simulation.judge", "ookg.newcomers.refinement", "ookg.evidence.combined",
):
    import_module(module)
from ookg.cli import main

where = ["--device", "cpu", "--data", {data!r}, "--out", {out!r}, "--models", {models!r}]
for options in (
    ["--table", "continual", "--dataset", "ENTITY", "--method", "Updated TransE"],
    ["--table", "link-prediction", "--dataset", "FB15k-Head-10", "--method", "InvTransE"],
    ["--table", "beyond", "--dataset", "FB15k-Head-10", "--method", "InvTransE + links"],
    ["--table", "few-shot", "--dataset", "GEN-FB15k-237-3", "--method", "InvTransE (uniform)"],
):
    assert main(["reproduce", *options, *where]) == 0
assert main(["reproduce", "--table", "continual", "--dataset", "FACT", *where]) == 2
"""


def test_packed_sets_need_no_reader_and_no_compiler(places: Places, data: Path, tmp_path: Path) -> None:
    """On a machine that has PyTorch, NumPy, SciPy and safetensors alone, a packed folder is all it takes."""
    made = split(random_triples(3, entities=40, size=500), SplitSettings(seed=1))
    write_dataset(made, tmp_path / "text" / "FB15k-Head-10")
    pack(EncodedDataset.of(load_dataset(tmp_path / "text" / "FB15k-Head-10")), tmp_path / "packed")
    pack(load_growing("ENTITY", data).encoded, tmp_path / "packed")
    pack(load_few_shot(write_few_shot_set(tmp_path / "few" / "FB15k-237")).encoded, tmp_path / "packed")
    missing = {"pyarrow", "numba", "llvmlite", "rich", "filelock", "pandas", "polars", "matplotlib"}
    paths = {name: str(tmp_path / name) for name in ("out", "models")}
    script = BARE.format(names=missing, small=SMALL, data=str(tmp_path / "packed"), **paths)
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "| ENTITY | Updated TransE |" in result.stdout
    assert "data set FACT: no FACT.npz where data sets are looked for" in result.stderr
    stored = json.loads((tmp_path / "out" / "ENTITY" / "Updated TransE" / "seed-0.json").read_text())
    assert 0 < stored["figures"]["mrr"] <= 1
    assert (tmp_path / "out" / "FB15k-Head-10" / "InvTransE" / "seed-0.json").exists()
    assert (tmp_path / "out" / "GEN-FB15k-237-3" / "InvTransE (uniform)" / "seed-0.json").exists()


def test_packed_and_text_give_the_same_figures(places: Places, data: Path, tmp_path: Path) -> None:
    pack(load_growing("ENTITY", data).encoded, tmp_path / "packed")
    elsewhere = Places(tmp_path / "other", tmp_path / "other models", tmp_path / "packed")
    for where in (places, elsewhere):
        reproduce(["continual"], ["ENTITY"], ["New only RotatE"], device="cpu", places=where)
    one, other = (
        json.loads((Path(where.out) / "ENTITY" / "New only RotatE" / "seed-0.json").read_text())["figures"]
        for where in (places, elsewhere)
    )
    assert {name: value for name, value in one.items() if "seconds" not in name} == {
        name: value for name, value in other.items() if "seconds" not in name
    }


def test_the_command_prints_cells(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--out", str(places.out), "--data", str(places.data)]
    assert main(["reproduce", "--from-results", "--json", *where]) == 0
    found = json.loads(capsys.readouterr().out)
    methods = {cell["method"] for cell in found if cell["table"] == "continual" and cell["dataset"] == "RELATION"}
    assert {f"{way} {model}" for way in WAYS for model in ("TransE", "RotatE")} < methods


def test_the_figure_is_drawn_of_what_is_stored(places: Places, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert draw_growth(places.results, tmp_path) == []
    make_missing(Selection.of(["continual"], ["ENTITY"], ["Updated TransE"], 1), places, "cpu")
    drawn = draw_growth(places.results, tmp_path)
    assert [path.name for path in drawn] == ["growth.svg", "growth.png"]
    first = [path.read_bytes() for path in drawn]
    assert [path.read_bytes() for path in draw_growth(places.results, tmp_path)] == first
    assert b"Updated, TransE" in first[0] or len(first[0]) > 5_000
