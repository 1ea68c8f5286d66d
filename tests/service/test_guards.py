"""What keeps requests out: keys, limits, foreign pages; and what is counted and logged of those that come in."""

from __future__ import annotations

import json
import logging
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from live_server import Client, Serve, problem
from ookg.errors import FileError, InputError, UnknownName
from ookg.service import connections
from ookg.service.gate import HEADERS
from ookg.service.keys import Keys
from ookg.service.limits import BURST_SECONDS, RateLimit
from ookg.service.log import JsonLines
from ookg.service.metrics import Metrics
from ookg.service.settings import Limits

QUESTION = {"head": "Inception", "relation": "genre"}


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path / "keys.json")


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def test_keys_are_kept_as_digests(keys: Keys) -> None:
    key = keys.add("page", "read")
    text = keys.path.read_text()
    number, secret = key.split("_")[1:]
    assert secret not in text
    assert number in text
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600
    assert [(one.name, one.role) for one in Keys(keys.path).all] == [("page", "read")]
    other = keys.add("robot", "write")
    salts = [one.salt for one in keys.all]
    assert len(set(salts)) == 2
    assert key != other


def test_only_the_key_itself_opens(keys: Keys) -> None:
    key = keys.add("page", "read")
    assert keys.holder(key) == keys.all[0]
    for wrong in ("", "x", key[:-1], key + "0", key.upper(), f"ookg_{key.split('_')[1]}_", "ookg__", "_".join("abcd")):
        assert keys.holder(wrong) is None


def test_a_revoked_key_opens_nothing_from_then_on(keys: Keys) -> None:
    key = keys.add("page", "read")
    served = Keys(keys.path)
    assert served.holder(key) is not None
    keys.revoke("page")
    assert served.holder(key) is None
    with pytest.raises(UnknownName, match="no key named 'page'; there is none"):
        keys.revoke("page")


def test_names_of_keys(keys: Keys) -> None:
    keys.add("page", "read")
    with pytest.raises(InputError, match="there is a key named 'page'"):
        keys.add("page", "write")
    with pytest.raises(InputError, match="give a name that can be printed"):
        keys.add("a\nb", "read")
    with pytest.raises(InputError, match="role 'admin'"):
        keys.add("x", "admin")  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "[]", '{"keys": [{"name": 1}]}', '{"keys": 3}', '{"format": "x"}'])
def test_damaged_keys_are_refused(keys: Keys, text: str) -> None:
    keys.path.write_text(text)
    with pytest.raises(FileError, match=r"keys\.json: "):
        keys.holder("ookg_a_b")


def test_roles(serve: Serve, keys: Keys) -> None:
    reader, writer = keys.add("page", "read"), keys.add("robot", "write")
    client = serve(keys=keys.path)
    triples = {"triples": [["A", "genre", "action"]]}
    for path in ("/v1/status", "/v1/history", "/v1/search?q=a", "/v1/entities/Inception", "/metrics", "/v1/update"):
        response = client.get(path)
        assert "ookg keys add" in problem(response, 401)
        assert response.headers["www-authenticate"] == "Bearer"
        assert client.get(path, headers=bearer(reader)).status_code == 200
    client.service._warming.join()
    for path in ("/", "/docs", "/openapi.json", "/v1/health", "/v1/ready"):
        assert client.get(path).status_code in (200, 404 if path == "/" else 200)
    assert "not known, or revoked" in problem(client.get("/v1/status", headers=bearer(reader + "1")), 401)
    problem(client.get("/v1/status", headers={"authorization": "Basic abc"}), 401)
    assert "'page' may read" in problem(client.post("/v1/triples", json=triples, headers=bearer(reader)), 403)
    assert client.post("/v1/triples", json=triples, headers=bearer(writer)).status_code == 200
    history = client.get("/v1/history", headers=bearer(reader)).json()
    assert history["batches"][0]["author"] == "robot"
    keys.revoke("page")
    problem(client.post("/v1/predict", json=QUESTION, headers=bearer(reader)), 401)


def test_limits(serve: Serve) -> None:
    client = serve(limits=Limits(body=2000, triples=3, questions=2, claims=2, label=20, top=12, page=4))
    triple = ["A", "genre", "action"]
    assert "at most 3 at once" in problem(client.post("/v1/triples", json={"triples": [triple] * 4}), 413)
    assert "at most 2 at once" in problem(client.post("/v1/predict", json={"questions": [QUESTION] * 3}), 413)
    assert "at most 2 at once" in problem(client.post("/v1/classify", json={"claims": [triple] * 3}), 413)
    assert "20 are the most" in problem(client.post("/v1/triples", json={"triples": [["x" * 21, "a", "b"]]}), 422)
    assert "at most 12 answers" in problem(client.post("/v1/predict", json=QUESTION | {"top": 13}), 422)
    assert "at most 4 entries" in problem(client.get("/v1/search", params={"q": "a", "limit": 5}), 422)
    assert "2,000 bytes" in problem(client.post("/v1/predict", content=b" " * 2001), 413)

    def parts() -> Any:
        yield from [b" " * 500] * 5

    assert "2,000 bytes" in problem(client.post("/v1/predict", content=parts()), 413)
    assert client.post("/v1/predict", json=QUESTION | {"top": 12}).status_code == 200


def test_a_body_that_does_not_come_is_given_up(serve: Serve) -> None:
    client = serve(limits=Limits(reading=0.05))
    with socket.create_connection(("127.0.0.1", client.port)) as raw:
        raw.sendall(b"POST /v1/predict HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
        assert raw.recv(100).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nhos"])
def test_a_connection_that_says_nothing_is_closed(serve: Serve, monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.05)
    client = serve()
    with socket.create_connection(("127.0.0.1", client.port), timeout=30) as raw:
        raw.sendall(said)
        assert raw.recv(100) == b""
    assert client.get("/v1/health").status_code == 200


def test_a_request_that_takes_too_long_is_given_up(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    client = serve(limits=Limits(seconds=0.05))
    asker = client.service.few

    async def never(*_: object) -> None:
        import asyncio

        await asyncio.sleep(60)

    monkeypatch.setattr(asker, "ask", never)
    response = client.post("/v1/predict", json=QUESTION)
    assert "under the same key" in problem(response, 503)
    assert response.headers["retry-after"] == "1"


def test_too_much_at_once_is_refused(serve: Serve) -> None:
    assert "under way" in problem(serve(limits=Limits(waiting=0)).get("/v1/health"), 503)


def test_each_key_has_a_rate_of_its_own(serve: Serve, keys: Keys) -> None:
    one, other = (bearer(keys.add(name, "read")) for name in ("one", "other"))
    client = serve(keys=keys.path, limits=Limits(rate=0.001))  # one request, and then none for long
    assert client.get("/v1/status", headers=one).status_code == 200
    assert "slow down" in problem(client.get("/v1/status", headers=one), 429)
    assert client.get("/v1/status", headers=other).status_code == 200
    # Keys that open nothing, and none at all, have the address's rate: inventing some helps nobody.
    assert client.get("/v1/status", headers=bearer("ookg_00000000_made-up")).status_code == 401
    assert client.get("/v1/status", headers=bearer("ookg_00000001_made-up")).status_code == 429
    assert client.get("/v1/status").status_code == 429


def test_the_rate_of_a_client() -> None:
    now = 0.0
    rate = RateLimit(2.0, lambda: now)
    burst = int(2 * BURST_SECONDS)
    assert [rate.wait("a") for _ in range(burst)] == [0.0] * burst
    assert rate.wait("a") == pytest.approx(0.5)
    assert rate.wait("b") == 0
    now = 0.5
    assert rate.wait("a") == 0
    assert rate.wait("a") > 0
    assert RateLimit(0.0, lambda: now).wait("a") == 0


def test_too_often_is_refused(serve: Serve) -> None:
    client = serve(limits=Limits(rate=0.001))
    assert client.get("/v1/health").status_code == 200
    response = client.get("/v1/health")
    assert "slow down" in problem(response, 429)
    assert int(response.headers["retry-after"]) > 900


def test_foreign_pages_may_not_write(client: Client) -> None:
    triples = {"triples": [["A", "genre", "action"]]}
    for origin in ("http://evil.example", "null", "http://[", f"http://127.0.0.1:{client.port + 1}"):
        assert "from elsewhere" in problem(client.post("/v1/triples", json=triples, headers={"origin": origin}), 403)
    own = {"origin": f"http://127.0.0.1:{client.port}"}
    assert client.post("/v1/triples", json=triples, headers=own).status_code == 200
    response = client.get("/v1/status", headers={"origin": "http://evil.example"})
    assert not [name for name in response.headers if name.startswith("access-control")]


def test_a_local_server_has_local_names(serve: Serve) -> None:
    client = serve(hosts=frozenset({"localhost", "127.0.0.1", "[::1]"}))
    assert "evil.example" in problem(client.get("/v1/status", headers={"host": "evil.example"}), 421)
    for host in ("localhost", "LOCALHOST:80", "[::1]:8000", "127.0.0.1"):
        assert client.get("/v1/health", headers={"host": host}).status_code == 200


def test_every_answer_has_the_headers_of_a_safe_page(client: Client) -> None:
    for path in ("/v1/status", "/docs", "/nothing", "/v1/predict"):
        headers = client.get(path).headers
        for name, value in HEADERS:
            assert headers[name.decode()] == value.decode()
        assert "server" not in headers
    assert "script-src 'self'" in client.get("/docs").headers["content-security-policy"]


def test_the_log_has_no_secrets(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ookg.service")
    client.get("/v1/entities/Inception", headers=bearer("ookg_secret_key"))
    client.get("/v1/search", params={"q": "somebody"})
    client.get("/v1/health")  # a line is written after its answer
    records = [record for record in caplog.records if record.getMessage() == "request"]
    lines = [JsonLines().format(record) for record in records]
    assert [json.loads(line)["route"] for line in lines][:2] == ["/v1/entities/{name:label}", "/v1/search"]
    for line in lines:
        assert "\n" not in line
        assert not [word for word in ("secret", "Inception", "somebody") if word in line]


def test_metrics(client: Client) -> None:
    client.post("/v1/triples", json={"triples": [["A", "genre", "action"]]})
    client.post("/v1/predict", json=QUESTION)
    client.post("/v1/predict", json={})
    client.get("/nowhere")
    text = client.get("/metrics").text
    lines = text.splitlines()
    assert 'ookg_requests_total{path="/v1/predict",status="200"} 1' in lines
    assert 'ookg_requests_total{path="/v1/predict",status="422"} 1' in lines
    assert 'ookg_requests_total{path="other",status="404"} 1' in lines
    assert 'ookg_request_seconds_bucket{path="/v1/predict",le="+Inf"} 2' in lines
    assert 'ookg_request_seconds_count{path="/v1/predict"} 2' in lines
    for line in ("ookg_journal_position 1", "ookg_model_version 1", "ookg_new_entities 1", "ookg_update_running 0"):
        assert line in lines
    assert "ookg_requests_in_flight 1" in lines
    names = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    for line in lines:
        if not line.startswith("#"):
            name = line.partition("{")[0].split()[0]
            assert name in names or name.rpartition("_")[0] in names


def test_processes_count_together(tmp_path: Path) -> None:
    first, second = (Metrics(["/a"], tmp_path, workers=2) for _ in range(2))
    assert {first.worker, second.worker} == {0, 1}
    for metrics in (first, second, second):
        metrics.began()
        metrics.ended("/a", 200, 0.002)
    for metrics in (first, second):
        text = metrics.text({})
        assert 'ookg_requests_total{path="/a",status="200"} 3' in text
        assert 'ookg_request_seconds_bucket{path="/a",le="0.001"} 0' in text
        assert 'ookg_request_seconds_bucket{path="/a",le="0.0025"} 3' in text


def test_nothing_unexpected_is_told_to_the_client(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("inner matters")

    monkeypatch.setattr(client.service.living, "status", fail)
    assert "inner matters" not in problem(client.get("/v1/status"), 500)
    assert "inner matters" in caplog.text


def test_a_full_disk_refuses_writes_and_answers_questions(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlite3

    from ookg.storage.sqlite_journal import SqliteJournal

    def full(self: SqliteJournal, *_: object, **__: object) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise self._refusal(error)

    client.post("/v1/triples", json={"triples": [["A", "genre", "action"]]})
    monkeypatch.setattr(SqliteJournal, "_open", full)
    detail = problem(client.post("/v1/triples", json={"triples": [["B", "genre", "action"]]}), 507)
    assert "make room" in detail
    assert client.post("/v1/predict", json=QUESTION).status_code == 200
    assert client.get("/v1/entities/A").json()["triples"]["total"] == 1
    assert client.get("/v1/search", params={"q": "A"}).status_code == 200
