"""`ookg reproduce` end to end on tiny data sets under the published names."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ookg.cli import main
from ookg.datasets.encoded import EncodedDataset
from ookg.datasets.folder import load_dataset
from ookg.errors import InputError
from ookg.evaluation import measuring
from ookg.evaluation.measuring import figures_of
from ookg.research.baselines import published_settings
from ookg.research.reproduction import Places, Selection, efficiency, reproduce
from ookg.research.reproduction.cache import ModelCache, TrainedModel
from ookg.research.reproduction.methods import INV_ROTATE, INV_TRANSE, METHODS, Context, Method, Variant
from ookg.research.reproduction.methods.baseline import BASELINE_METHODS
from ookg.research.reproduction.methods.inverse import INV_TRANSE_AS_PUBLISHED, SECONDS
from ookg.research.reproduction.methods.method import BOTH_TASKS
from ookg.research.reproduction.plan import TABLES
from ookg.research.reproduction.results import Run
from ookg.research.reproduction.settings import PaperSettings
from ookg.research.reproduction.tables import run_tables
from ookg.scoring.queries import Queries
from ookg.scoring.scorer import Scorer
from ookg.training.settings import PRESETS
from ookg.types import BoolArray, FloatArray, IntArray

RANKS, CLAIMS, TAIL, BOTH = "FB15k-Head-10", "WN11-Head-1000", "WN11-Tail-3000", "WN11-Both-1000"
Command = Callable[..., str]


def write_set(folder: Path, labelled: bool) -> None:
    """A data set of 20 known and 6 new entities; every relation of test is in train."""
    rng = np.random.default_rng(0)
    rows = {f"e{h}\tr{h % 3}\te{t}" for h, t in rng.integers(0, 20, size=(80, 2)).tolist() if h != t}
    rows |= {f"e{h}\tr{h % 3}\te{(h + 1) % 20}" for h in range(20)}
    train = sorted(rows)
    valid = [f"{row}\t{n % 2}" for n, row in enumerate(train[:12])] if labelled else train[:5]
    aux = [f"n{n}\tr{n % 3}\te{(3 * n + step) % 20}" for n in range(6) for step in (0, 4, 7)]
    test = [f"n{n}\tr{(n + 1) % 3}\te{n + 5}" for n in range(6)]
    test = [f"{row}\t{n % 2}" for n, row in enumerate(test)] if labelled else test
    folder.mkdir(parents=True)
    for name, lines in (("train", train), ("valid", valid), ("aux", aux), ("test", test)):
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_set(folder / RANKS, labelled=False)
    write_set(folder / CLAIMS, labelled=True)
    return folder


@pytest.fixture
def places(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """Results, models and data in places of their own, and settings for a moment's training."""
    small = {"dim": 4, "steps": 10, "batch": 16, "negatives": 2, "margin": 4.0, "lr": 0.05}
    for name in ("fb15k", "wn11"):
        monkeypatch.setitem(PRESETS, name, PRESETS[name].changed(small))
    return Places(tmp_path / "results", tmp_path / "models", data)


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that were trained."""
    from ookg.research.reproduction import pretraining

    trained: list[str] = []
    real = pretraining.train_vectors

    def counted(context: Context, settings: Any) -> TrainedModel:
        trained.append(f"{context.dataset.name} {settings.model} {settings.seed}")
        return real(context, settings)

    monkeypatch.setattr(pretraining, "train_vectors", counted)
    return trained


@pytest.fixture
def command(places: Places, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command; return its output, or with an exit code its one line."""

    def call(*options: str, code: int = 0) -> str:
        capsys.readouterr()
        where = ["--out", str(places.out), "--models", str(places.models), "--data", str(places.data)]
        assert main(["reproduce", *options, "--device", "cpu", *where]) == code, capsys.readouterr().err
        captured = capsys.readouterr()
        if code == 0:
            return captured.out
        line = captured.err.splitlines()[-1]
        assert line.startswith("ookg: ")
        assert "Traceback" not in captured.err
        return line

    return call


LINKS = ["--dataset", RANKS, "--method", "InvTransE"]


def stored(places: Places, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(places.out) / name).read_text())
    return found


def test_a_model_is_trained_once_for_all_its_runs(command: Command, places: Places, trainings: list[str]) -> None:
    text = command(*LINKS)
    assert trainings == [f"{RANKS} transe 0"]
    names = sorted(path.name for path in (Path(places.out) / RANKS / "InvTransE").iterdir())
    assert len(names) == 4 + 1 + 3 * 5
    assert {"seed-0.json", "seed-0.power-1.lan-protocol.json", "seed-0.neighbors-8.draw-2.json"} < set(names)
    result = stored(places, f"{RANKS}/InvTransE/seed-0.json")
    assert set(result) == {
        "dataset", "method", "seed", "variant", "settings", "figures", "seconds", "versions", "device", "date",
    }  # fmt: skip
    assert result["settings"]["training"]["steps"] == 10
    assert result["settings"]["evaluation"] == {"protocol": "paper", "weights": "correlation", "power": 4.0}
    assert 0 < result["figures"]["mrr"] <= 1
    assert result["seconds"]["train"] > 0
    assert {"ookg", "torch", "python", "numba"} == set(result["versions"])
    assert "InvTransE, power 1, LAN protocol" in text
    assert "Only 1 Neighbor" in text


def test_results_are_what_evaluation_says(places: Places) -> None:
    cells = reproduce(["link-prediction"], [RANKS], ["InvTransE"], device="cpu", places=places)
    dataset = EncodedDataset.of(load_dataset(RANKS, places.data))
    context = Context(dataset, 0, torch.device("cpu"), places.cache)
    main_variant = INV_TRANSE.variants(RANKS)[0]
    figures = figures_of(INV_TRANSE.scorer(context, INV_TRANSE.train(context), main_variant), dataset)
    assert {cell.measure: cell.ours for cell in cells} == {
        name: pytest.approx(figures[name], abs=1e-6) for name in ("mrr", "hits@10", "hits@1")
    }
    assert [cell.paper for cell in cells] == [0.462, 60.4, 38.5]


def test_what_is_there_is_reused(command: Command, places: Places, trainings: list[str]) -> None:
    command("--table", "link-prediction-variants", *LINKS)
    path = Path(places.out) / RANKS / "InvTransE" / "seed-0.json"
    before, stamp = path.read_bytes(), path.stat().st_mtime_ns
    (path.parent / "seed-0.power-1.json").unlink()
    command("--table", "link-prediction-variants", *LINKS)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, stamp)
    assert (path.parent / "seed-0.power-1.json").exists()
    assert len(trainings) == 1  # the missing run took its vectors from the cache


def test_spread_is_over_seeds(command: Command, places: Places, trainings: list[str]) -> None:
    command("--table", "triplet-classification", "--dataset", CLAIMS, "--method", "InvTransE", "--seeds", "3")
    assert len(trainings) == 3
    values = [stored(places, f"{CLAIMS}/InvTransE/seed-{seed}.json")["figures"]["accuracy"] for seed in range(3)]
    options = ["--from-results", "--table", "triplet-classification", "--method", "InvTransE", "--json"]
    (cell,) = [cell for cell in json.loads(command(*options)) if cell["ours"] is not None]
    assert cell == {
        "table": "triplet-classification", "dataset": CLAIMS, "method": "InvTransE", "measure": "accuracy",
        "paper": 89.2, "ours": pytest.approx(np.mean(values)), "spread": pytest.approx(np.std(values, ddof=1)),
        "seeds": 3,
    }  # fmt: skip
    first = json.loads(command(*options, "--seeds", "1"))[0]
    assert (first["ours"], first["spread"], first["seeds"]) == (values[0], None, 1)


def test_an_interrupted_command_goes_on(
    command: Command, places: Places, trainings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Any = measuring.figures_of
    calls: list[Any] = []

    def interrupted(*arguments: Any) -> dict[str, float]:
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        found: dict[str, float] = real(*arguments)
        return found

    monkeypatch.setattr(measuring, "figures_of", interrupted)
    options = ["--table", "link-prediction-variants", *LINKS]
    assert "the same command goes on" in command(*options, code=130)
    folder = Path(places.out) / RANKS / "InvTransE"
    assert len(list(folder.iterdir())) == 2
    command(*options)
    assert len(list(folder.iterdir())) == 4
    assert len(calls) == 3 + 2
    assert len(trainings) == 1


def test_an_interrupted_training_goes_on(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    from ookg.errors import TrainingInterrupted
    from ookg.training.trainer import Trainer

    monkeypatch.setitem(PRESETS, "wn11", PRESETS["wn11"].changed({"lr_drops": []}))
    real, steps = Trainer.step, []

    def step(self: Trainer) -> Tensor:
        steps.append(self.step_number)
        if len(steps) == 6:
            signal.raise_signal(signal.SIGINT)
        return real(self)

    monkeypatch.setattr(Trainer, "step", step)
    arguments: dict[str, Any] = {"device": "cpu", "places": places}
    with pytest.raises(TrainingInterrupted, match="goes on from there"):
        reproduce(["triplet-classification"], [CLAIMS], ["InvTransE"], **arguments)
    reproduce(["triplet-classification"], [CLAIMS], ["InvTransE"], **arguments)
    assert steps == list(range(10))
    assert not list(Path(str(places.models)).rglob("*.state"))


def test_a_write_that_fails_leaves_nothing_behind(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        raise KeyboardInterrupt

    reproduce(["link-prediction"], [RANKS], ["InvTransE"], device="cpu", places=places)
    path = places.results.path_of(Run(RANKS, "InvTransE", 0))
    result, before = places.results.find(Run(RANKS, "InvTransE", 0)), path.read_bytes()
    assert result is not None
    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(KeyboardInterrupt):
        places.results.write(result)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["seed-0.json"]


def test_other_settings_are_refused_before_any_training(
    command: Command, places: Places, trainings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command("--table", "link-prediction", *LINKS)
    monkeypatch.setitem(PRESETS, "fb15k", PRESETS["fb15k"].changed({"steps": 11}))
    line = command("--table", "link-prediction", *LINKS, "--seeds", "2", code=2)
    assert "seed-0.json: made with other settings than now; remove it" in line
    assert len(trainings) == 1
    listed = json.loads(command("--list", "--table", "link-prediction", *LINKS, "--json"))
    assert listed[0]["state"] == "other settings"
    (Path(places.out) / RANKS / "InvTransE" / "seed-0.json").unlink()
    command("--table", "link-prediction", *LINKS)
    assert len(trainings) == 2
    # Two results with different settings do not make a mean.
    monkeypatch.setitem(PRESETS, "fb15k", PRESETS["fb15k"].changed({"steps": 10}))
    reproduced = stored(places, f"{RANKS}/InvTransE/seed-0.json") | {"seed": 1}
    reproduced["settings"]["training"]["steps"] = 12
    (Path(places.out) / RANKS / "InvTransE" / "seed-1.json").write_text(json.dumps(reproduced))
    line = command("--from-results", "--table", "link-prediction", code=2)
    assert "made with other settings than" in line


def test_settings_are_the_presets_but_for_what_is_listed() -> None:
    for method, dataset in ((INV_TRANSE, "WN11-Head-1000"), (INV_ROTATE, TAIL), (INV_ROTATE, BOTH)):
        found = method.training(dataset, 0)
        assert (found.lr, found.steps, found.drop_steps, found.l2) == (1e-3, 20_000, (10_000,), 1e-5)
        assert method.rough_seconds(dataset, on_gpu=True) == SECONDS["wn11", method.model][0]
    others = {"model": "transe", "seed": 3, "placeholder_entities": 38_194 - 36_277}
    schedule = {"lr": 1e-2, "steps": 30_000, "lr_drops": (1 / 3, 2 / 3)}
    authors = PaperSettings.of_preset("wn11").changed(others | schedule)  # all else is the preset's
    assert INV_TRANSE_AS_PUBLISHED.training(BOTH, 3) == authors
    assert authors.drop_steps == (10_000, 20_000)
    assert [authors.rate(step) for step in (9_999, 10_000, 20_000)] == pytest.approx([1e-2, 1e-3, 1e-4])
    assert INV_TRANSE_AS_PUBLISHED.rough_seconds(BOTH, on_gpu=False) == 1.5 * SECONDS["wn11", "transe"][1]
    larger = INV_TRANSE.training("WN11-Both-3000", 3)
    assert larger == replace(authors, placeholder_entities=larger.placeholder_entities)
    # Chosen on simulated newcomers.
    ours = INV_TRANSE.training(BOTH, 0)
    assert (ours.lr, ours.steps, ours.drop_steps, ours.l2) == (3e-3, 18_000, (10_000,), 1e-5)
    ours = INV_TRANSE.training(TAIL, 0)
    assert (ours.lr, ours.steps, ours.drop_steps, ours.l2) == (1e-3, 13_000, (10_000,), 3e-5)


def test_methods_as_published_stand_beside_ours_where_the_settings_differ() -> None:
    lines = [(line.dataset, line.label, line.method) for line in run_tables()["triplet-classification-variants"].lines]
    heads = [f"WN11-Head-{size}" for size in (1000, 3000, 5000)]
    others = [*(f"WN11-Tail-{size}" for size in (1000, 3000, 5000)), BOTH]
    pairs = [(dataset, "LAN") for dataset in heads] + [(dataset, "InvTransE") for dataset in others]
    assert lines == [(dataset, name, name) for dataset, method in pairs for name in (f"{method} as published", method)]
    ours, published = (METHODS[name].training(heads[0], 1) for name in ("LAN", "LAN as published"))
    assert (ours.to_dict() | {"margin": 300.0}) == published.to_dict()  # the margin is all that differs
    times = {METHODS[name].rough_seconds(heads[0], on_gpu=True) for name in ("LAN", "LAN as published")}
    assert len(times) == 1
    with pytest.raises(
        InputError, match="LAN as published in any table; triplet-classification-variants has it, where"
    ):
        Selection.of(datasets=[TAIL], methods=["LAN as published"])


def test_the_tables_need_no_torch() -> None:
    script = "import sys, ookg.research.reproduction.plan; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_baselines_train_as_published_but_for_what_is_listed() -> None:
    methods = {method.name: method for method in BASELINE_METHODS}
    ranking = methods["LAN"].training("FB15k-Tail-10", 3)
    assert ranking == published_settings("LAN", "link-prediction").changed(
        {"seed": 3, "patience": 0, "validate_every": 50}
    )
    judging = methods["LAN"].training("WN11-Both-1000", 3)
    assert judging == published_settings("LAN", "triplet-classification").changed(
        {"seed": 3, "patience": 0, "validate_every": 1, "hide_target": False}  # published code hides nothing
    )
    on_heads, on_both = (methods["GNN-LSTM"].training(name, 0) for name in ("WN11-Head-3000", "WN11-Both-3000"))
    assert (on_heads.margin, on_both.margin) == (12.0, 300.0)
    assert on_heads == on_both.changed({"margin": 12.0})
    assert (on_heads.transition, on_heads.lstm_start) == ("projection", "sum")
    # Trained in LAN's frame, GNN-MEAN differs from LAN in nothing else but how long, how often it is judged and hiding.
    mean, lan = (methods[name].training("WN11-Tail-1000", 0) for name in ("GNN-MEAN", "LAN"))
    others = {"method": "GNN-MEAN", "epochs": 200, "validate_every": 5, "hide_target": True}
    assert mean == lan.changed(others)
    assert methods["LAN"].rough_seconds("WN11-Tail-1000", on_gpu=True) < methods["LAN"].rough_seconds(
        "WN11-Tail-1000", on_gpu=False
    )


def test_a_setting_that_did_not_exist_then_has_its_default(command: Command, places: Places) -> None:
    command("--table", "link-prediction", *LINKS)
    path = Path(places.out) / RANKS / "InvTransE" / "seed-0.json"
    document = json.loads(path.read_text())
    del document["settings"]["training"]["patience"]  # its default is what the preset has
    path.write_text(json.dumps(document))
    listed = command("--list", "--table", "link-prediction", *LINKS, "--json")
    assert json.loads(listed)[0]["state"] == "done"
    del document["settings"]["training"]["steps"]  # its default is not
    path.write_text(json.dumps(document))
    listed = command("--list", "--table", "link-prediction", *LINKS, "--json")
    assert json.loads(listed)[0]["state"] == "other settings"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"dataset": 3}'])
def test_a_damaged_result_is_named(command: Command, places: Places, text: str) -> None:
    path = Path(places.out) / RANKS / "InvTransE" / "seed-0.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    for options in (["--from-results"], ["--list"], []):
        assert f"{path}: damaged result" in command("--table", "link-prediction", *LINKS, *options, code=2)


def test_a_result_in_the_wrong_place_is_damaged(command: Command, places: Places) -> None:
    command("--table", "link-prediction", *LINKS)
    path = Path(places.out) / RANKS / "InvTransE" / "seed-0.json"
    path.rename(path.with_name("seed-1.json"))
    assert "it says that it is of" in command("--from-results", code=2)


def test_a_damaged_model_is_made_again(places: Places, trainings: list[str]) -> None:
    selected: Any = (["triplet-classification"], [CLAIMS], ["InvTransE"])
    reproduce(*selected, device="cpu", places=places)
    (model,) = Path(str(places.models)).rglob("*.safetensors")
    model.write_bytes(b"no model")
    places.results.path_of(Run(CLAIMS, "InvTransE", 0)).unlink()
    reproduce(*selected, device="cpu", places=places)
    assert len(trainings) == 2


def test_a_model_in_another_format_is_made_again(
    places: Places, trainings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    selected: Any = (["triplet-classification"], [CLAIMS], ["InvTransE"])
    reproduce(*selected, device="cpu", places=places)
    places.results.path_of(Run(CLAIMS, "InvTransE", 0)).unlink()
    monkeypatch.setattr("ookg.research.reproduction.cache.ENDING", ".3.safetensors")
    assert not ModelCache(places.models).holds(CLAIMS, INV_TRANSE.training(CLAIMS, 0))
    reproduce(*selected, device="cpu", places=places)
    assert len(trainings) == 2


def test_newcomers_without_a_neighbor_are_rows_that_no_triple_trained(places: Places) -> None:
    dataset = EncodedDataset.of(load_dataset(CLAIMS, places.data))
    stranger, linked = dataset.num_entities, dataset.num_known
    context = Context(replace(dataset, num_entities=stranger + 1), 0, torch.device("cpu"), ModelCache(places.models))
    embedding = INV_TRANSE.train(context)
    scorer = INV_TRANSE.scorer(context, embedding, INV_TRANSE.variants(CLAIMS)[0])
    rows = context.placeholders(INV_TRANSE.training(CLAIMS, 0))
    assert len(rows) == 38_194 - 37_700
    expected = -(rows[0] + embedding.relations[1] - embedding.entities[2]).abs().sum()
    assert scorer.scores(np.array([[stranger, 1, 2]]))[0] == pytest.approx(float(expected), rel=1e-5)
    # The others are as they would be without strangers.
    plain = INV_TRANSE.scorer(context, embedding, Variant(options={"weights": "degree", "smoothing": 0.1}))
    triple = np.array([[linked, 1, 2]])
    assert scorer.scores(triple).tolist() == plain.scores(triple).tolist()
    assert np.isnan(plain.scores(np.array([[stranger, 1, 2]]))[0])


def test_list_says_what_there_is_to_do(command: Command) -> None:
    text = command("--list", *LINKS)
    assert "0 of 20" in text
    assert "1 of 1 to do, about 2.0 h in all" in text
    command("--table", "link-prediction", *LINKS)
    listed = json.loads(command("--list", *LINKS, "--seeds", "2", "--json"))
    assert [(entry["seed"], entry["state"], entry["done"], entry["runs"]) for entry in listed] == [
        (0, "to do", 1, 20),
        (1, "to do", 0, 20),
    ]
    assert 0 < listed[0]["seconds"] <= listed[1]["seconds"] < 1000  # by the stored result; the first one is trained
    assert "0 of 1 to do" in command("--list", "--table", "link-prediction", *LINKS)


def test_a_result_without_times_says_nothing_of_how_long_others_take(command: Command, places: Places) -> None:
    command("--table", "link-prediction", *LINKS)
    for path in Path(places.out).rglob("seed-*.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"seconds": {}}))
    (_, other) = json.loads(command("--list", *LINKS, "--seeds", "2", "--json"))
    assert other["seconds"] > 3600  # the rough guess, as if there were no result


def test_what_the_paper_does_not_print_is_run_only_by_name(command: Command) -> None:
    listed = json.loads(command("--list", "--table", "triplet-classification", "--json"))
    planned = {(entry["dataset"], entry["method"]) for entry in listed}
    assert {("WN11-Both-5000", "ConvLayer"), ("WN11-Both-3000", "FCLEntity"), ("WN11-Both-3000", "LAN")} < planned
    assert len(planned) == 9 * 5 + 2 + 3
    named = json.loads(command("--list", "--table", "triplet-classification", "--method", "ConvLayer", "--json"))
    assert len(named) == 9


def test_cells_without_results(command: Command, places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--from-results", "--table", "ratio", "--out", str(places.out)]) == 0
    assert "no such folder, so there are no results" in capsys.readouterr().err
    cells = json.loads(command("--from-results", "--json"))
    assert all((cell["ours"], cell["spread"], cell["seeds"]) == (None, None, 0) for cell in cells)
    printed = {(cell["table"], cell["dataset"], cell["method"], cell["measure"]): cell["paper"] for cell in cells}
    assert printed["link-prediction", "FB15k-Tail-10", "InvRotatE", "hits@1"] == 29.3
    assert printed["triplet-classification", "WN11-Both-5000", "ConvLayer", "accuracy"] == 64.6
    assert printed["triplet-classification", "WN11-Both-3000", "ConvLayer", "accuracy"] is None
    assert printed["ablation", RANKS, "Up to 8 Neighbors", "mrr"] == 0.386
    assert printed["ratio", "WN11-Tail-5000", "GNN-MEAN", "accuracy"] == 69.2
    assert ("link-prediction-variants", RANKS, "InvTransE, power 1, LAN protocol", "mrr") in printed
    assert not Path(places.out).exists()
    assert "beyond: no result yet" in command("--from-results")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--table", "link-predicton"], "unknown table 'link-predicton'; did you mean 'link-prediction'"),
        (["--table", "tables"], "choose among link-prediction, link-prediction-variants"),
        (["--dataset", "FB15k-Head-11"], "unknown data set 'FB15k-Head-11'; did you mean 'FB15k-Head-10'"),
        (["--method", "InvTransH"], "unknown method 'InvTransH'; did you mean 'InvTransE'"),
        (["--seeds", "0"], "seeds 0; it must be 1 or more"),
        (["--table", "ablation", "--dataset", CLAIMS], f"nothing of {CLAIMS} in table ablation"),
        (["--table", "link-prediction"], "data set FB15k-Tail-10 is not in"),
        (["--markdown", "nowhere.md"], "nowhere.md: cannot be read"),
        (["--list", "--from-results"], "--list with --from-results; it only says what there is to do"),
        (["--list", "--figures", "figures"], "--list with --figures"),
    ],
)
def test_bad_input_gets_one_line(command: Command, places: Places, options: list[str], message: str) -> None:
    assert message in command(*options, code=2)
    assert not Path(places.out).exists()


def test_results_in_a_file_are_refused(command: Command, places: Places) -> None:
    Path(places.out).write_text("")
    assert "is a file; name a folder" in command("--from-results", code=2)


def test_names_in_any_case_and_help(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    selection = Selection.of(["Ablation"], ["fb15k-head-10"], ["invtranse"])
    assert (selection.tables, selection.datasets, selection.methods) == (("ablation",), (RANKS,), ("InvTransE",))
    with pytest.raises(SystemExit):
        main(["reproduce", "--help"])
    text = "".join(capsys.readouterr().out.split())
    assert all(name in text for name in TABLES)


def test_markdown_places_are_filled(command: Command, places: Places, tmp_path: Path) -> None:
    command("--table", "link-prediction", *LINKS)
    path = tmp_path / "page.md"
    page = "# Page\n\n<!-- reproduce:link-prediction -->\nold\n<!-- /reproduce -->\n\nbetween\n\n"
    page += f"<!-- reproduce:link-prediction {RANKS}, InvTransE -->\n<!-- /reproduce -->\nend\n"
    path.write_text(page)
    command("--from-results", "--markdown", str(path))
    text = path.read_text()
    ours = stored(places, f"{RANKS}/InvTransE/seed-0.json")["figures"]["mrr"]
    line = f"| {RANKS} | InvTransE | 0.462 | **{ours:.3f}** | {ours - 0.462:+.3f} |"
    assert text.count(line) == 2
    assert text.count("| FB15k-Tail-10 | LAN | 0.314 | - | - |") == 1  # in the whole table only
    assert text.startswith("# Page\n\n<!-- reproduce:link-prediction -->\n\nLink prediction")
    assert "old" not in text
    assert "\n\nbetween\n\n" in text
    assert text.endswith("<!-- /reproduce -->\nend\n")
    command("--from-results", "--markdown", str(path))
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("# Page\n", "no marker; put `<!-- reproduce:TABLE -->`"),
        ("<!-- reproduce:ratio -->\n", "a marker is not closed"),
        (
            "<!-- reproduce:ratio -->\n<!-- reproduce:ablation -->\n<!-- /reproduce -->\n",
            "a marker is not closed",
        ),
        ("<!-- reproduce:ration -->\n<!-- /reproduce -->\n", "unknown table 'ration'; did you mean 'ratio'"),
        ("<!-- reproduce:ratio WN12 -->\n<!-- /reproduce -->\n", "unknown data set 'WN12'"),
    ],
)
def test_pages_without_good_markers_stay_as_they_are(command: Command, tmp_path: Path, page: str, message: str) -> None:
    path = tmp_path / "page.md"
    path.write_text(page)
    assert message in command("--from-results", "--markdown", str(path), code=2)
    assert path.read_text() == page


def test_figure_files_are_the_same_every_time(command: Command, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    command("--table", "triplet-classification", "--dataset", CLAIMS, "--method", "InvTransE", "--seeds", "2")
    for name in ("first", "second"):
        command("--from-results", "--figures", str(tmp_path / name))
    for ending in ("svg", "png"):
        first, second = (tmp_path / name / f"ratio.{ending}" for name in ("first", "second"))
        assert first.read_bytes() == second.read_bytes()
        assert first.stat().st_size > 10_000


def test_figures_without_matplotlib(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    line = command("--from-results", "--figures", "figures", code=2)
    assert "pip install matplotlib" in line


def test_times_are_a_result_like_others(
    command: Command, places: Places, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = efficiency.Measurement(
        dim=4, batch=16, steps=2, lan_steps=1, neighbors=(2, 4), dims=(4, 8), repeats=1, entities=20, relations=3,
        numbers_cpu=64,
    )  # fmt: skip
    monkeypatch.setattr(efficiency, "MEASUREMENT", tiny)
    assert "1 of 1 to do" in command("--list", "--table", "efficiency")
    text = command("--table", "efficiency")
    assert "about 15" in text
    (path,) = (Path(places.out) / "efficiency").iterdir()
    before = path.read_bytes()
    assert "0 of 1 to do" in command("--list", "--table", "efficiency")
    assert command("--table", "efficiency") == text
    assert path.read_bytes() == before
    older = json.loads(before)
    del older["settings"]["lan"]["padding"]  # as stored before there was this setting
    path.write_text(json.dumps(older))
    assert "0 of 1 to do" in command("--list", "--table", "efficiency")
    monkeypatch.setattr(efficiency, "MEASUREMENT", replace(tiny, steps=3))
    assert "measured with other settings than now" in command("--table", "efficiency", code=2)
    assert command("--table", "efficiency", "--from-results") == text


class Constant(Scorer):
    """The same score for everything."""

    def __init__(self, dataset: EncodedDataset) -> None:
        self.num_known, self.num_relations = dataset.num_known, dataset.num_trained

    def answerable(self, queries: Queries) -> BoolArray:
        return np.ones(len(queries), dtype=np.bool_)

    def scores(self, triples: IntArray) -> FloatArray:
        return np.zeros(len(triples))

    def answer_scores(self, queries: Queries) -> Tensor:
        return torch.zeros(len(queries), self.num_known)


@dataclass(frozen=True)
class FakeSettings:
    seed: int

    def to_dict(self) -> dict[str, Any]:
        return {"seed": self.seed, "of": "Fake"}


class Fake(Method):
    """A method that goes past the paper, on top of a base method's vectors."""

    name, tasks, beyond_paper = "Fake", BOTH_TASKS, True

    def training(self, dataset: str, seed: int) -> FakeSettings:
        return FakeSettings(seed)

    def train(self, context: Context) -> Any:
        bases = [context.embedding(INV_TRANSE.training(context.dataset.name, seed)) for seed in (0, 1)]
        assert all(base.num_entities == context.dataset.num_known for base in bases)

    def scorer(self, context: Context, trained: Any, variant: Variant) -> Scorer:
        return Constant(context.dataset)


def test_a_further_method_needs_only_an_entry(
    command: Command, places: Places, trainings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "Fake", Fake())
    command("--table", "link-prediction", *LINKS)
    cells = reproduce(["beyond"], [RANKS, CLAIMS], ["Fake"], device="cpu", places=places)
    assert trainings == [f"{RANKS} transe 0", f"{RANKS} transe 1", f"{CLAIMS} transe 0", f"{CLAIMS} transe 1"]
    ours = {(cell.dataset, cell.measure): cell.ours for cell in cells}
    assert ours[CLAIMS, "accuracy"] == 50
    assert ours[RANKS, "hits@1"] == 0
    assert all(cell.paper is None for cell in cells)
    base = stored(places, f"{RANKS}/InvTransE/seed-0.json")["seconds"]["train"]
    assert stored(places, f"{RANKS}/Fake/seed-0.json")["seconds"]["train"] > base  # what it builds on counts
    assert "Beyond the paper" in command("--from-results", "--table", "beyond")


def test_models_of_other_data_are_other_models(places: Places, data: Path, tmp_path: Path) -> None:
    dataset = EncodedDataset.of(load_dataset(RANKS, data))
    cache, settings = ModelCache(tmp_path), INV_TRANSE.training(RANKS, 0)
    cache.save(dataset, settings, TrainedModel({"x": torch.ones(2)}, 1.5, "CPU"))
    found = cache.load(dataset, settings, torch.device("cpu"))
    assert found is not None
    assert (found.tensors["x"].tolist(), found.seconds, found.device) == ([1, 1], 1.5, "CPU")
    assert cache.holds(RANKS, settings)
    assert not cache.holds(RANKS, INV_TRANSE.training(RANKS, 1))
    other = EncodedDataset.of(load_dataset(CLAIMS, data))
    assert cache.load(other, settings, torch.device("cpu")) is None
