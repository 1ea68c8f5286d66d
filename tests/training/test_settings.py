from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ookg
from ookg.errors import InputError
from ookg.training.settings import PRESETS, TrainingSettings, preset, read_settings


def test_presets_are_the_papers_settings() -> None:
    fb15k, wn11 = PRESETS["fb15k"], PRESETS["wn11"]
    assert (fb15k.dim, fb15k.margin, fb15k.temperature, fb15k.negatives, fb15k.l2) == (1000, 24.0, 1.0, 256, 0.0)
    assert (fb15k.steps, fb15k.batch, fb15k.lr, fb15k.norm) == (100_000, 1024, 1e-3, 1)
    assert fb15k.drop_steps == (10_000, 30_000, 90_000)
    assert fb15k.subsampling
    assert (wn11.dim, wn11.margin, wn11.temperature, wn11.negatives, wn11.l2) == (300, 0.5, 1.0, 128, 1e-5)
    assert (wn11.steps, wn11.batch, wn11.drop_steps, wn11.subsampling) == (20_000, 1024, (10_000,), False)


def test_the_rate_drops_to_a_tenth_at_each_drop() -> None:
    settings = PRESETS["fb15k"]
    rates = [settings.rate(step) for step in (0, 9_999, 10_000, 30_000, 89_999, 90_000)]
    assert rates == pytest.approx([1e-3, 1e-3, 1e-4, 1e-5, 1e-5, 1e-6])


def test_settings_survive_plain_values() -> None:
    for settings in PRESETS.values():
        assert TrainingSettings.from_dict(settings.to_dict()) == settings


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dim": 0}, "dim 0; it must be 1 or more"),
        ({"margin": -1.0}, "margin -1.0; it must be a number above 0"),
        ({"margin": float("nan")}, "margin nan"),
        ({"l2": -0.1}, "l2 -0.1; it must be 0 or more"),
        ({"norm": 3}, "norm 3"),
        ({"model": "transd"}, "unknown model 'transd'"),
        ({"lr_drops": [1.5]}, "lr_drops"),
        ({"patience": 2}, "patience without validate_every"),
        ({"dimension": 5}, "unknown setting 'dimension'"),
        ({"dim": "200"}, "setting dim is '200'; it must be of type int"),
        ({"dim": True}, "setting dim is True"),
        ({"subsampling": 1}, "setting subsampling is 1"),
    ],
)
def test_bad_settings_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TrainingSettings().changed(values)


def test_toml_file(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('preset = "wn11"\nmodel = "rotate"\nmargin = 2\nlr_drops = [0.5, 0.75]\n')
    settings = read_settings(path)
    assert settings == preset("wn11").changed({"model": "rotate", "margin": 2.0, "lr_drops": [0.5, 0.75]})
    path.write_text("dim = \n")
    with pytest.raises(InputError, match=r"run\.toml: not TOML"):
        read_settings(path)
    path.write_text("dmi = 3\n")
    with pytest.raises(InputError, match=r"run\.toml: unknown setting 'dmi'; did you mean 'dim'"):
        read_settings(path)
    with pytest.raises(InputError, match="no such file"):
        read_settings(tmp_path / "none.toml")
    with pytest.raises(InputError, match="unknown preset"):
        preset("fb15")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dim": "3"}, "dim '3'; it must be of type int"),
        ({"dim": 3.5}, "dim 3.5; it must be of type int"),
        ({"steps": True}, "steps True; it must be of type int"),
        ({"lr": "fast"}, "lr 'fast'; it must be of type float"),
        ({"subsampling": 1}, "subsampling 1; it must be of type bool"),
        ({"lr_drops": 0.5}, "lr_drops 0.5; it must be of type tuple"),
        ({"model": None}, "model None; it must be of type str"),
    ],
)
def test_values_of_another_type_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TrainingSettings(**values)


def test_numbers_of_numpy_and_lists_are_taken() -> None:
    settings = TrainingSettings(dim=np.int64(3), lr=np.float32(0.5), margin=2, lr_drops=[0.5, 1])  # type: ignore[arg-type]
    assert settings == TrainingSettings(dim=3, lr=0.5, margin=2.0, lr_drops=(0.5, 1.0))
    assert json.loads(json.dumps(settings.to_dict()))["dim"] == 3


def test_settings_that_are_none_are_refused() -> None:
    wrong: Any = {"dim": 3}
    with pytest.raises(InputError, match=r"settings {'dim': 3}; give such as ookg.TrainingSettings\(dim=100\)"):
        ookg.train([("a", "r", "b")], wrong)
