"""What the server judges claims by."""

from __future__ import annotations

import pytest

import ookg
from ookg.service.claims import Claims

GRAPH = [(f"e{n % 60}", f"r{n % 3}", f"e{(7 * n + n // 60) % 60}") for n in range(480)]
NEW = [("x", "r0", "e1"), ("x", "r1", "e2")]


@pytest.fixture(scope="module")
def model() -> ookg.Model:
    return ookg.train(GRAPH, ookg.TrainingSettings(dim=4, steps=20, batch=32, negatives=4))


def test_a_judge_learns_once_for_each_model(model: ookg.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    extended, claims = model.extend(NEW), Claims(None)
    first = claims.verdicts(extended, [("x", "r2", "e3")])
    monkeypatch.setattr("ookg.model.model.fit_judge", lambda *_: pytest.fail("it has learned already"))
    assert claims.verdicts(extended, [("x", "r2", "e3")]) == first
    assert "judged by all evidence" in first["notes"][-1]


def test_where_learning_would_take_long_a_judge_has_to_be_stored(
    model: ookg.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ookg.service.claims.MOST_ENTITIES", 10)
    verdicts = Claims(None).verdicts(model.extend(NEW), [("x", "r2", "e3")])
    assert "no judge of claims about new entities is stored with the model" in verdicts["notes"][-1]
    stored = model.with_judge(model.judge_for())
    assert "judged by all evidence" in Claims(None).verdicts(stored.extend(NEW), [("x", "r2", "e3")])["notes"][-1]
