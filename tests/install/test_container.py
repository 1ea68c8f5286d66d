"""What the Dockerfile and the compose file say fits the package; they are built where Docker is at hand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ookg.cli import command_parser

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = (ROOT / "compose.yaml").read_text()


def lists(text: str, word: str) -> list[list[str]]:
    """The JSON lists after a word at the beginning of a line."""
    return [json.loads(found) for found in re.findall(rf"^\s*{word}:?\s+(\[.*\])$", text, re.MULTILINE)]


@pytest.mark.parametrize("line", [*lists(DOCKERFILE, "CMD")[-1:], *lists(COMPOSE, "command")])
def test_the_command_is_one_of_ours(line: list[str]) -> None:
    arguments = command_parser([line[0]]).parse_args(line)
    assert (line[0], arguments.model, arguments.host, arguments.port) == ("serve", "/data/model", "0.0.0.0", 8000)


def test_the_image_is_made_of_what_is_there() -> None:
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
    names = {name for line in copied for name in line.split()}
    assert names == {"pyproject.toml", "constraints.txt", "README.md", "LICENSE", "src"}
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert names == allowed
    assert all((ROOT / name).exists() for name in names)


def test_the_server_does_not_run_as_root() -> None:
    *_, user = re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE)
    assert f"useradd --uid 10001 --create-home {user}" in DOCKERFILE
    assert DOCKERFILE.index("\nUSER ") < DOCKERFILE.index("\nENTRYPOINT ")


def test_no_password_is_written_down() -> None:
    assert not re.findall(r"PASSWORD: (?!\$\{POSTGRES_PASSWORD:\?)", COMPOSE)
