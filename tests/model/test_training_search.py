"""The search for settings of a training: what is tried, what time does, and the file that `train` takes."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from circle_graphs import SMALL, graph
from ookg.cli import main
from ookg.errors import InputError
from ookg.model.training_search import search_training
from ookg.training.settings import TrainingSettings, read_settings, settings_text
from ookg.training.trainer import Trainer


def test_one_setting_is_changed_at_a_time_and_the_best_is_kept() -> None:
    ticks = count()
    search = search_training(graph(), SMALL, seconds=150, steps=10, device="cpu", clock=lambda: float(next(ticks)))
    assert search.held_out == len(graph()) // 20
    assert search.trials[0].changed == {}
    assert len(search.trials) > 2
    best = search.trials[0]
    for trial in search.trials[1:]:
        (name,) = trial.changed
        assert trial.settings == best.settings.changed(trial.changed)
        assert getattr(best.settings, name) != trial.changed[name]
        assert trial.is_best == (trial.mrr > best.mrr)
        best = trial if trial.is_best else best
    assert search.best == best
    assert search.chosen(SMALL) == replace(best.settings, steps=SMALL.steps)


def test_the_time_ends_the_search_and_the_figures_do_not_depend_on_it() -> None:
    def search(seconds: float) -> list[float]:
        ticks = count()  # a reading of the clock is a second: every step takes one
        found = search_training(
            graph(), SMALL, seconds=seconds, steps=10, device="cpu", clock=lambda: next(ticks) * 1.0
        )
        return [trial.mrr for trial in found.trials]

    short, long = search(1), search(60)
    assert len(short) == 1  # the start, however long it takes
    assert len(long) > 1
    assert long[: len(short)] == short


def test_a_trial_without_enough_memory_is_noted_and_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Small(Trainer):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            if arguments[3].dim > SMALL.dim:
                raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")
            if arguments[3].negatives > SMALL.negatives:
                raise MemoryError
            super().__init__(*arguments, **options)

    monkeypatch.setattr("ookg.model.training_search.Trainer", Small)
    ticks = count()
    search = search_training(graph(), SMALL, seconds=400, steps=5, device="cpu", clock=lambda: float(next(ticks)))
    assert {"dim": 2 * SMALL.dim} in search.skipped
    assert {"negatives": 2 * SMALL.negatives} in search.skipped
    tried = [name for trial in search.trials for name in trial.changed]
    assert "model" in tried  # what comes after them
    assert f"dim {2 * SMALL.dim}: not enough memory, left out" in capsys.readouterr().err

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("something else")

    monkeypatch.setattr("ookg.model.training_search.Trainer", broken)
    with pytest.raises(RuntimeError, match="something else"):
        search_training(graph(), SMALL, seconds=10, steps=5, device="cpu")


def test_nonsense_is_refused() -> None:
    with pytest.raises(InputError, match="0 seconds for the search"):
        search_training(graph(), SMALL, seconds=0)
    with pytest.raises(InputError, match="steps 0; it must be 1 or more"):
        search_training(graph(), SMALL, steps=0)
    with pytest.raises(InputError, match="too few triples to hold some out"):
        search_training(graph(5, 20), SMALL)


def test_settings_are_written_as_they_are_read(tmp_path: Path) -> None:
    settings = TrainingSettings(model="rotate", margin=6.0, lr=3e-5, lr_drops=(0.1, 0.9), subsampling=False, dim=7)
    (tmp_path / "a.toml").write_text(settings_text(settings), encoding="utf-8")
    assert read_settings(tmp_path / "a.toml") == settings
    assert settings_text(TrainingSettings()) == ""


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, start, found = tmp_path / "graph.tsv", tmp_path / "start.toml", tmp_path / "found.toml"
    source.write_text("".join("\t".join(row) + "\n" for row in graph()), encoding="utf-8")
    start.write_text("dim = 4\nbatch = 8\nnegatives = 2\n", encoding="utf-8")
    options = ["--training", "--minutes", "0.0001", "--steps", "5", "--config", str(start), "--device", "cpu"]
    assert main(["tune", str(source), *options, "--out", str(found)]) == 0
    printed = capsys.readouterr()
    assert f"Trials of 5 steps, on {len(graph()) // 20} held-out triples" in printed.out
    assert "the start" in printed.out
    assert read_settings(found).batch == 8
    training = ["train", str(source), "--config", str(found), "--steps", "5", "--out", str(tmp_path / "model")]
    assert main([*training, "--device", "cpu"]) == 0
    capsys.readouterr()
    assert main(["tune", str(tmp_path / "model"), *options, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["trials"][0]["changed"] == {}
    assert main(["tune", str(tmp_path / "model"), "--minutes", "1"]) == 2
    assert "--minutes without --training" in capsys.readouterr().err
    assert main(["tune", str(source), "--training", "--save"]) == 2
    assert "with --training" in capsys.readouterr().err
