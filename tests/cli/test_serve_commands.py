"""`ookg serve` up to where it listens, and `ookg keys`."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest

from ookg.cli import main
from ookg.service.keys import Keys


def refused(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    assert main(line) == 2
    text = capsys.readouterr().err.splitlines()[-1]
    assert text.startswith("ookg: ")
    return text


def test_what_can_be_served(directory: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    names = tmp_path / "names.tsv"
    names.write_text("id\tname\nInception\tDer Anfang\n")
    assert main(["serve", str(directory), "--check", "--names", str(names), "--read-only", "--rate", "5"]) == 0
    assert "can be served" in capsys.readouterr().out
    assert main(["names", str(directory), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["names"] == 1


def test_what_cannot_be_served(directory: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "either DIR" in refused(capsys, "serve")
    assert "either DIR" in refused(capsys, "serve", str(directory), "--demo")
    assert "no model here" in refused(capsys, "serve", str(tmp_path))
    assert "port 70000" in refused(capsys, "serve", str(directory), "--port", "70000")
    assert "workers 0" in refused(capsys, "serve", str(directory), "--workers", "0")
    assert "limit -1" in refused(capsys, "serve", str(directory), "--max-body=-1")
    assert "limit nan" in refused(capsys, "serve", str(directory), "--timeout", "nan")
    assert "no such file" in refused(capsys, "serve", str(directory), "--check", "--valid", "nowhere.tsv")
    assert "no URL of PostgreSQL" in refused(capsys, "serve", str(directory), "--check", "--journal", "nowhere")


def test_a_port_that_is_taken(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "cannot be listened on" in refused(capsys, "serve", str(directory), "--port", port)


def test_an_address_that_is_not_local_asks_for_keys(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["serve", str(directory), "--host", "0.0.0.0", "--check"]
    assert "make one with `ookg keys add`" in refused(capsys, *line)
    Keys(directory / "keys.json").add("page", "read")
    assert main(line) == 0


def test_keys(directory: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["keys", "add", str(directory), "page"]) == 0
    key = capsys.readouterr().out.strip()
    holder = Keys(directory / "keys.json").holder(key)
    assert holder is not None
    assert (holder.name, holder.role) == ("page", "read")
    assert main(["keys", "add", str(directory), "robot", "--role", "write", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["role"] == "write"
    assert main(["keys", "list", str(directory), "--json"]) == 0
    text = capsys.readouterr().out
    assert [entry["name"] for entry in json.loads(text)] == ["page", "robot"]
    assert "digest" not in text
    assert main(["keys", "revoke", str(directory), "page"]) == 0
    assert Keys(directory / "keys.json").holder(key) is None
    assert "no key named 'page'" in refused(capsys, "keys", "revoke", str(directory), "page")
    assert "no model here" in refused(capsys, "keys", "list", str(tmp_path))
    elsewhere = tmp_path / "elsewhere.json"
    assert main(["keys", "add", str(directory), "page", "--keys", str(elsewhere)]) == 0
    assert elsewhere.exists()
    assert "folder does not exist" in refused(capsys, "keys", "add", str(directory), "x", "--keys", "no/where.json")


def test_the_extra_is_named_where_it_is_missing(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "ookg.service.server", raising=False)
    assert "pip install fastapi httptools uvicorn" in refused(capsys, "serve", str(directory))
