"""Real servers in processes of their own: they follow one journal, update, and end well."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

import ookg
from live_server import Client
from ookg.service import updating
from ookg.service.jobs import STATE_FILE, UpdateState
from ookg.service.server import is_local
from postgres_server import Server

PATIENCE = 120.0  # a busy machine


@contextmanager
def served(directory: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """`ookg serve` in a process of its own, and somebody who asks it."""
    line = [sys.executable, "-m", "ookg", "serve", str(directory), "--port", "0", *options]
    process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        address = process.stderr.readline().split()[0]
        lines: list[str] = []
        reader = threading.Thread(target=lines.extend, args=(process.stderr,))
        reader.start()
        with httpx.Client(base_url=address, timeout=PATIENCE) as client:
            wait_for(lambda: _answers(client))
            yield process, client
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
        reader.join()
        process.stderr.close()


def _answers(client: httpx.Client) -> bool:
    with suppress(httpx.HTTPError):
        return client.get("/v1/ready").status_code == 200
    return False


def wait_for(condition: Callable[[], Any]) -> Any:
    begun = time.monotonic()
    while time.monotonic() - begun < PATIENCE:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


def add(client: httpx.Client, name: str) -> None:
    triples = [[name, "genre", "action"], [name, "directed_by", "Christopher Nolan"]]
    response = client.post("/v1/triples", json={"triples": triples})
    assert response.status_code == 200, response.text


def test_two_servers_follow_one_journal(directory: Path) -> None:
    with served(directory) as (_, one), served(directory) as (_, other):
        for name in ("A", "B", "C"):
            add(one, name)
            assert other.get(f"/v1/entities/{name}").json()["triples"]["total"] == 2
            other.delete(f"/v1/entities/{name}")
            assert one.get(f"/v1/entities/{name}").status_code == 404
        ookg.open(directory).add([("D", "genre", "action")])
        for client in (one, other):
            assert client.post("/v1/predict", json={"head": "D", "relation": "language"}).status_code == 200


def test_workers_agree_count_together_and_are_replaced(directory: Path) -> None:
    with served(directory, "--workers", "2", "--quiet") as (process, first):
        text = ""
        for number in range(8):  # a connection for each request: they come to different processes
            with httpx.Client(base_url=first.base_url, timeout=PATIENCE) as client:
                add(client, f"N{number}")
            with httpx.Client(base_url=first.base_url, timeout=PATIENCE) as client:
                assert client.get(f"/v1/entities/N{number}").status_code == 200
                text = client.get("/metrics").text
        assert 'ookg_requests_total{path="/v1/triples",status="200"} 8' in text
        assert "ookg_workers 2" in text
        if not Path("/proc/self/task").exists():  # processes are listed by Linux alone
            return
        workers = _workers(process.pid)
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        wait_for(lambda: len(two := _workers(process.pid)) == 2 and workers[0] not in two)
        with httpx.Client(base_url=first.base_url, timeout=PATIENCE) as client:
            wait_for(lambda: _answers(client))
        workers = _workers(process.pid)
        process.kill()
        process.wait(PATIENCE)
        wait_for(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))


def _workers(pid: int) -> list[int]:
    """The processes that one has started to serve."""
    children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [child for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


@pytest.mark.postgres
def test_two_servers_on_one_journal_in_postgresql(directory: Path, postgres: Server) -> None:
    with (
        served(directory, "--journal", postgres.url()) as (_, one),
        served(directory, "--journal", postgres.url()) as (_, other),
    ):
        for name in ("A", "B"):
            add(one, name)
            last = one.get("/v1/history").json()["batches"][0]["number"]
            assert other.get(f"/v1/entities/{name}").json()["came"]["journal"] == last
            other.delete(f"/v1/entities/{name}")
            assert one.get(f"/v1/entities/{name}").status_code == 404
        add(one, "C")
        assert one.post("/v1/update", json={"steps": 20}).status_code == 202
        assert wait_for(lambda: _settled(one))["state"] == "done"
        for client in (one, other):
            wait_for(partial(_has_version, client, 2))
            assert client.get("/v1/entities/C").json()["is_new"] is False
    assert not (directory / "journal.sqlite").exists()


def test_a_server_that_is_told_to_end_answers_what_it_took_in(directory: Path) -> None:
    with served(directory) as (process, client):
        body = json.dumps({"triples": [["A", "genre", "action"]]}).encode()
        head = f"POST /v1/triples HTTP/1.1\r\nhost: {client.base_url.netloc.decode()}\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        with socket.create_connection((client.base_url.host, client.base_url.port or 0), timeout=PATIENCE) as raw:
            raw.sendall(head.encode() + body[:10])
            wait_for(lambda: "ookg_requests_in_flight 2" in client.get("/metrics").text)
            process.send_signal(signal.SIGTERM)
            wait_for(lambda: not _accepts(client))
            raw.sendall(body[10:])
            answer = raw.recv(10_000)
        assert answer.startswith(b"HTTP/1.1 200"), answer
        assert process.wait(PATIENCE) == 0
    assert ookg.open(directory).journal.triples_of(1) == [("A", "genre", "action")]


def test_a_server_that_is_told_to_end_while_it_begins_ends(directory: Path) -> None:
    line = [sys.executable, "-m", "ookg", "serve", str(directory), "--port", "0"]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert process.stderr.readline().startswith("http://127.0.0.1:")
            process.send_signal(signal.SIGTERM)
            _, log = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()  # one that does not end must not hold up all tests
    assert process.returncode == 0
    assert "Traceback" not in log


def _accepts(client: httpx.Client) -> bool:
    with suppress(OSError), socket.create_connection((client.base_url.host, client.base_url.port or 0), timeout=5):
        return True
    return False


def test_an_update_in_the_background(client: Client, directory: Path) -> None:
    add(client, "A")
    assert client.get("/v1/update").json()["state"] == "idle"
    started = client.post("/v1/update", json={"steps": 100_000})
    assert started.status_code == 202
    assert started.json()["state"] == "running"
    assert "an update is running" in client.post("/v1/update").json()["detail"]
    running = wait_for(lambda: _at_work(client))
    assert running["steps"] == 100_000
    assert "ookg_update_running 1" in client.get("/metrics").text
    assert client.post("/v1/predict", json={"head": "A", "relation": "language"}).status_code == 200
    client.delete("/v1/update")
    assert wait_for(lambda: _settled(client))["state"] == "stopped"
    assert client.get("/v1/status").json()["version"] == 1


def test_an_update_swaps_the_model(client: Client) -> None:
    add(client, "A")
    client.post("/v1/update", json={"steps": 20})
    done = wait_for(lambda: _settled(client))
    assert done["state"] == "done", done
    assert done["version"] == done["result"]["version"] == 2
    wait_for(partial(_has_version, client, 2))
    assert not client.get("/v1/entities/A").json()["is_new"]


def _has_version(client: httpx.Client, number: int) -> bool:
    return bool(client.get("/v1/status").json()["version"] == number)


def _at_work(client: httpx.Client) -> dict[str, Any] | None:
    state: dict[str, Any] = client.get("/v1/update").json()
    assert state["state"] == "running", state
    return state if state["step"] > 0 else None


def _settled(client: httpx.Client) -> dict[str, Any] | None:
    state: dict[str, Any] = client.get("/v1/update").json()
    return state if state["state"] != "running" else None


def test_an_update_with_nothing_to_do_and_one_that_fails(directory: Path, tmp_path: Path) -> None:
    job = {"directory": str(directory), "runtime": str(tmp_path), "device": "cpu", "settings": {}}
    assert updating.main(job) == 0
    state = UpdateState.read(tmp_path)
    assert (state.state, state.version) == ("done", 1)
    assert state.result is not None
    assert "nothing was added" in state.result["notes"][0]
    assert updating.main(job | {"directory": str(tmp_path / "nowhere")}) == 1
    state = UpdateState.read(tmp_path)
    assert state.state == "failed"
    assert "no model here" in str(state.error)


def test_an_update_whose_process_has_vanished_has_failed(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    UpdateState("running", step=3, pid=process.pid).write(tmp_path)
    state = UpdateState.read(tmp_path)
    assert state.state == "failed"
    assert state.step == 3
    assert "start it again" in str(state.error)
    UpdateState("running", pid=os.getpid()).write(tmp_path)
    assert UpdateState.read(tmp_path).state == "running"
    (tmp_path / STATE_FILE).unlink()
    assert UpdateState.read(tmp_path) == UpdateState()


@pytest.mark.parametrize(
    ("host", "local"),
    [
        *((host, True) for host in ("127.0.0.1", "localhost", "::1", "127.3.2.1")),
        *((host, False) for host in ("0.0.0.0", "::", "10.0.0.1", "example.org", "")),
    ],
)
def test_which_addresses_are_local(host: str, local: bool) -> None:
    assert is_local(host) == local


def test_a_start_imports_nothing_that_few_questions_need() -> None:
    """Each takes a tenth of a second of every restart."""
    rare = "{'scipy.linalg', 'scipy.optimize', 'pyarrow.dataset', 'rich', 'matplotlib'}"
    script = f"import sys, ookg.service.server; print(sorted({rare} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert ran.stdout == "[]\n"
