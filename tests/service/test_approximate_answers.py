"""A server that answers by an index."""

from __future__ import annotations

from pathlib import Path

import pytest

from index_models import index_by_hand, write_bunches
from live_server import Serve, problem
from ookg.scoring.approximate import INDEX_SERVES

ASK = {"head": "e5", "relation": "r1"}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write_bunches(tmp_path / "model")
    index_by_hand(tmp_path / "model")
    return tmp_path / "model"


def test_answers_say_what_they_are(serve: Serve) -> None:
    client = serve(approximate=True)
    exact = client.post("/v1/predict", json=ASK | {"approximate": False, "combine": False}).json()
    assert exact["recall"] is None
    for values in (ASK, ASK | {"approximate": True}):
        answer = client.post("/v1/predict", json=values).json()
        assert answer["recall"] == 0.97
        assert answer["answers"] == exact["answers"]
        assert answer["notes"] == []
    explained = client.post("/v1/predict", json=ASK | {"explain": True, "approximate": True}).json()
    assert explained["recall"] is None
    assert explained["notes"] == [f"answered exactly: {INDEX_SERVES}"]
    assert client.post("/v1/predict", json=ASK | {"explain": True}).json()["notes"] == []  # nobody asked for the index
    many = client.post("/v1/predict", json={"questions": [ASK, {"tail": "e9", "relation": "r0"}]}).json()
    assert [one["recall"] for one in many["predictions"]] == [0.97, 0.97]


def test_newcomers_are_answered_with_all_evidence(serve: Serve) -> None:
    client = serve(approximate=True)
    assert client.post("/v1/triples", json={"triples": [["x", "r0", "e1"], ["e2", "r1", "x"]]}).status_code == 200
    question = {"head": "x", "relation": "r1"}
    answer = client.post("/v1/predict", json=question).json()
    assert answer["recall"] is None
    assert answer["answers"] == client.post("/v1/predict", json=question | {"approximate": False}).json()["answers"]
    assert client.post("/v1/predict", json=ASK).json()["recall"] == 0.97


def test_an_index_that_is_left_behind_is_not_used(serve: Serve, directory: Path) -> None:
    client = serve(approximate=True)
    assert client.post("/v1/predict", json=ASK).json()["recall"] == 0.97
    write_bunches(directory, seed=1)
    client.service.living.refresh()
    left_behind = client.post("/v1/predict", json=ASK).json()
    assert left_behind["recall"] is None
    assert len(left_behind["answers"]) == 10
    (said,) = client.post("/v1/predict", json=ASK | {"approximate": True}).json()["notes"]
    assert said == "answered exactly: there is no approximate index of these vectors; `ookg index` makes one"
    index_by_hand(directory)  # a server that runs takes the new one
    assert client.post("/v1/predict", json=ASK).json()["recall"] == 0.97


def test_a_server_without_one_says_so(serve: Serve) -> None:
    client = serve()
    assert client.post("/v1/predict", json=ASK).json()["recall"] is None
    refused = problem(client.post("/v1/predict", json=ASK | {"approximate": True}), 422)
    assert (
        refused == "this server answers exactly; start it with `ookg serve --approximate`, or leave `approximate` out"
    )
