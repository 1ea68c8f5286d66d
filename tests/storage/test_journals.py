"""Which journal a directory has, where PostgreSQL is not needed to tell."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ookg.errors import InputError, ModelFileError
from ookg.storage.journal import JOURNAL_FILE, MARK_FILE
from ookg.storage.journals import VARIABLE, open_journal

URL = "postgresql://user:hush@host/database"


def test_by_default_it_is_a_file_in_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    journal = open_journal(tmp_path)
    assert journal.path == tmp_path / JOURNAL_FILE
    journal.close()
    monkeypatch.setenv(VARIABLE, "")
    assert open_journal(tmp_path).path == journal.path
    monkeypatch.setenv(VARIABLE, "x")
    with pytest.raises(InputError, match="the journal's address is no URL of PostgreSQL"):
        open_journal(tmp_path)


def test_without_psycopg_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(
        InputError, match=r"needs psycopg; install it with `pip install 'psycopg\[binary\]'`"
    ) as refusal:
        open_journal(tmp_path, URL)
    assert "hush" not in str(refusal.value)


def test_a_mark_needs_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    mark = {"format": "ookg journal", "version": 1, "id": "1", "address": "postgresql://user@host/database"}
    (tmp_path / MARK_FILE).write_text(json.dumps(mark))
    with pytest.raises(InputError, match="the journal of this model is in PostgreSQL, made at postgresql://user@host"):
        open_journal(tmp_path)
    (tmp_path / JOURNAL_FILE).touch()
    for address in (None, URL):
        with pytest.raises(ModelFileError, match=r"two journals, .* and one in PostgreSQL"):
            open_journal(tmp_path, address)
    (tmp_path / MARK_FILE).unlink()
    with pytest.raises(InputError, match="this directory has its journal in a file"):
        open_journal(tmp_path, URL)
