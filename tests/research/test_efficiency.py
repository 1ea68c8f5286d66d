"""Times of LAN and InvTransE, and the baselines as methods of the tables, on a tiny data set."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ookg.datasets.encoded import EncodedDataset
from ookg.errors import InputError
from ookg.evaluation.measuring import figures_of
from ookg.research import baselines
from ookg.research.reproduction import efficiency, efficiency_results
from ookg.research.reproduction.cache import ModelCache
from ookg.research.reproduction.efficiency import Measurement
from ookg.research.reproduction.efficiency_results import KNOWN, LAN, NEW, Efficiency, RepresentationTime, TrainingTime
from ookg.research.reproduction.methods import METHODS, Context
from ookg.research.reproduction.paper import ENTITIES, TRIPLET_CLASSIFICATION, new_entity_ratio
from ookg.research.reproduction.plan import Selection
from ookg.research.reproduction.rendering import grid_of
from ookg.research.reproduction.results import ResultsFolder, write_json
from ookg.research.reproduction.runner import cells, grids
from ookg.research.reproduction.tables import Cell, run_tables
from ookg.training.settings import PRESETS

CPU = torch.device("cpu")
TINY = Measurement(
    dim=4, batch=16, steps=2, lan_steps=1, neighbors=(2, 4), dims=(4, 8), repeats=1, entities=20, relations=3,
    numbers_cpu=64,
)  # fmt: skip


def small_set(name: str = "WN11-Head-1000") -> EncodedDataset:
    rng = np.random.default_rng(0)
    train = rng.integers(0, [20, 3, 20], size=(80, 3))
    aux = np.array([[20, 0, 1], [20, 1, 2], [21, 2, 3]])
    valid, test = train[:8], np.array([[20, 0, 5], [21, 1, 6], [20, 2, 7], [21, 0, 8]])
    truth = np.arange(8) % 2 == 0
    return EncodedDataset(name, "triplet-classification", 20, 22, 3, 3, train, valid, aux, test, truth, truth[:4])


def made_up(of_m: float = 1.0, of_d: float = 2.0) -> Efficiency:
    """Times that grow exactly as powers of m and d."""
    times = [RepresentationTime(KNOWN, 1, dim, 1e-9 * dim) for dim in (10, 100)]
    for what in (NEW, LAN):
        times += [RepresentationTime(what, m, d, 1e-9 * m**of_m * d**of_d) for m in (2, 8) for d in (10, 100)]
    training = (TrainingTime("same", 2.0, 30.0, True), TrainingTime("published", 4.0, 30.0, False))
    return Efficiency({"dim": 4}, training, tuple(times), {"ookg": "0"}, "NVIDIA H200", "2026-01-01")


def test_powers_are_fitted_and_cells_compare() -> None:
    found = made_up(0.5, 1.5)
    of_m, of_d = found.powers(NEW)
    assert [of_m, of_d] == pytest.approx([0.5, 1.5])
    of_m, of_d = found.powers(KNOWN)
    assert of_m is None
    assert of_d == pytest.approx(1.0)
    by_name: dict[Any, Any] = {(cell.method, cell.measure): (cell.paper, cell.ours) for cell in found.cells()}
    assert by_name["LAN / InvTransE, same, on NVIDIA H200", "training time"] == (15, 15)
    assert by_name["LAN / InvTransE, published, on NVIDIA H200", "training time"] == (None, 7.5)
    assert by_name[f"{LAN}, on NVIDIA H200", "power of d"] == (2, pytest.approx(1.5))


def test_stored_times_are_shown(tmp_path: Path) -> None:
    results, selection = ResultsFolder(tmp_path), Selection.of(["efficiency"])
    assert cells(selection, results) == []
    write_json(efficiency_results.path_of(results, "NVIDIA H200"), asdict(made_up()))
    assert (tmp_path / "efficiency" / "NVIDIA-H200.json").exists()
    assert len(cells(selection, results)) == 2 + 1 + 2 + 2
    shown = [grid.to_markdown() for grid in grids(selection, results)["efficiency"]]
    assert "| same | 2.00 | 30.00 | about 15 | 15.0 |" in shown[0]
    assert f"| {LAN} | 1 | 1.00 | 2 | 2.00 |" in shown[1]
    assert "| 8 | 100 | 100.0 | 80,000.0 | 80,000.0 |" in shown[2]


@pytest.mark.parametrize("change", [{"training": 3}, {"representation": []}, {"training": [{"configuration": "x"}]}])
def test_damaged_times_are_named(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "efficiency" / "x.json"
    write_json(path, asdict(made_up()) | change)
    with pytest.raises(InputError, match=r"x\.json: damaged result"):
        efficiency_results.stored(ResultsFolder(tmp_path))


def test_times_are_measured_and_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRESETS, "wn11", PRESETS["wn11"].changed({"dim": 4, "batch": 16, "negatives": 2}))
    results = ResultsFolder(tmp_path)
    found = efficiency.measure(small_set(), CPU, results, TINY)
    assert [time.of_paper for time in found.training] == [True, True, False]
    assert all(time.inv_transe > 0 and time.lan > 0 for time in found.training)
    assert len(found.representation) == 2 + 2 * 2 * 2
    assert all(time.seconds > 0 for time in found.representation)
    (again,) = efficiency_results.stored(results)
    assert again == found
    assert json.loads(next(tmp_path.rglob("*.json")).read_text())["settings"]["dims"] == [4, 8]


def test_both_represent_what_their_formulas_say() -> None:
    """One row each: a look-up of d numbers, a mean of m candidates, LAN's network on m neighbours."""
    known = efficiency._known_entities(4, 5, CPU, TINY)()
    assert known.shape == (5, 4)
    assert efficiency._new_entities(4, 5, 3, CPU, TINY)().shape == (5, 4)
    assert efficiency._lan_entities(4, 5, 3, CPU, TINY)().shape == (5, 4)


@pytest.mark.parametrize("name", ["GNN-MEAN", "LAN", "LAN as published", "FCLEntity"])
def test_a_baseline_from_the_cache_scores_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, trained = baselines.train_baseline, []

    def small(method: str, task: Any) -> baselines.BaselineSettings:
        values: dict[str, Any] = {"dim": 4, "batch": 16, "epochs": 2, "validate_every": 1, "max_neighbors": 4}
        return baselines.BaselineSettings(method, task, "dense" if name == "FCLEntity" else "projection").changed(
            values
        )

    def counted(*arguments: Any) -> Any:
        trained.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(baselines, "published_settings", small)
    monkeypatch.setattr(baselines, "train_baseline", counted)
    dataset, method = small_set(), METHODS[name]
    scores = []
    for _ in range(2):
        context = Context(dataset, 0, CPU, ModelCache(tmp_path))
        (variant,) = method.variants(dataset.name)
        scorer = method.scorer(context, method.train(context), variant)
        scores.append(scorer.scores(dataset.test))
        assert 0 <= figures_of(scorer, dataset)["accuracy"] <= 100
    assert len(trained) == 1
    assert np.array_equal(scores[0], scores[1])


def test_every_line_of_every_table_has_its_variants() -> None:
    for table in run_tables().values():
        for line in table.lines:
            names = [variant.name for variant in METHODS[line.method].variants(line.dataset)]
            assert set(line.variants) <= set(names)
            assert len(set(names)) == len(names)


def test_printed_numbers_by_hand() -> None:
    assert TRIPLET_CLASSIFICATION["LAN"]["WN11-Tail-1000"] == {"accuracy": 84.7}
    assert TRIPLET_CLASSIFICATION["FCLEntity"]["WN11-Both-3000"] == {"accuracy": 68.6}
    assert len(ENTITIES) == 11
    assert new_entity_ratio("WN11-Both-5000") == pytest.approx(100 * 3934 / 32913)


def test_a_grid_shows_paper_ours_difference_and_the_best() -> None:
    shown = [
        Cell("t", "A", "one", "accuracy", 80.0, 81.25, 0.5, 2),
        Cell("t", "A", "two", "accuracy", None, 79.0, None, 1),
        Cell("t", "A", "three", "accuracy", 70.0, None, None, 0),
        Cell("t", "A", "four", "accuracy", None, None, None, 0),
    ]
    lines = grid_of("Title", shown, "Remark").to_markdown().splitlines()
    assert lines[0] == "Title"
    assert lines[2] == "| data set | method | accuracy, paper | accuracy, ours | difference | seeds |"
    assert lines[4:7] == [
        "| A | one | 80.0 | **81.2 ± 0.5** | +1.2 | 2 |",
        "| A | two | - | 79.0 | - | 1 |",
        "| A | three | 70.0 | - | - | - |",
    ]
    assert lines[-1] == "Remark"
    assert len(lines) == 9


def test_remarks_speak_with_figures() -> None:
    tables = run_tables()
    powers = [
        Cell("", "A", f"InvTransE, power {power}, paper protocol", "mrr", 0.462, ours, None, 1)
        for power, ours in ((4, 0.459), (1, 0.406))
    ]
    remark = tables["link-prediction-variants"].remark(powers)
    assert "InvTransE on A 0.406 instead of 0.459 (printed: 0.462)" in remark
    assert tables["link-prediction-variants"].remark([]) == ""
    losses = [
        Cell("", f"WN11-Head-{size}", "LAN", "accuracy", None, ours, None, 1)
        for size, ours in ((1000, 88.0), (5000, 84.0))
    ]
    assert tables["ratio"].remark(losses) == "Points lost from 1000 to 5000: Head LAN 4.0."
