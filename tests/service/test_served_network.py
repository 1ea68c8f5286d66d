"""A server with a network, and one that is trained and removed while it runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import ookg
from live_server import Client
from ookg.training.network import NetworkSettings


def asked(client: Client) -> dict[str, Any]:
    answer: dict[str, Any] = client.post(
        "/v1/predict", json={"head": "TENET", "relation": "language", "explain": True}
    ).json()
    return answer


def asked_until(client: Client, with_network: bool) -> dict[str, Any]:
    """What it answers once it has taken what another process wrote, or a minute later."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        answer = asked(client)
        if ("network" in answer["way"]) == with_network:
            return answer
        time.sleep(0.05)
    return asked(client)


def test_it_takes_a_network_that_another_process_trains(
    client: Client, directory: Path, tenet: list[list[str]]
) -> None:
    client.post("/v1/triples", json={"triples": tenet})
    before = asked(client)
    assert "network" not in before["way"]
    other = ookg.open(directory)
    other.train_network(NetworkSettings(steps=2, batch=8, negatives=8, encoder_steps=2))
    answer = asked_until(client, with_network=True)
    assert answer["way"] == "vector of the closed form with links, paths, company, likeness, network, encoder"
    assert any(reason.startswith("the network: ") for reason in answer["answers"][0]["reasons"])
    assert answer["answers"] != before["answers"]
    assert client.get("/v1/status").json()["network"]["settings"]["encoder_steps"] == 2
    other.remove_network()
    assert asked_until(client, with_network=False)["answers"] == before["answers"]
    assert "network" not in client.get("/v1/status").json()
