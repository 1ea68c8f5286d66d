"""Keys that requests come with: made here, shown once, and kept as salted digests alone."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from filelock import FileLock

from ookg.errors import FileError, InputError, UnknownName
from ookg.system.files import atomic_write

KEYS_FILE = "keys.json"
PREFIX = "ookg"
Role = Literal["read", "write"]


@dataclass(frozen=True)
class StoredKey:
    """A key as it is kept; digest: SHA-256 of salt and secret. The secret has 256 random bits, so one round is enough.

    number: part of the key itself, to look it up by; name: who has it
    """

    number: str
    name: str
    role: Role
    salt: str
    digest: str
    created: str

    def opens(self, secret: str) -> bool:
        """Whether a secret is this key's."""
        return hmac.compare_digest(_digest(self.salt, secret), self.digest)


class Keys:
    """The keys of a file. It is read again when it has changed: a key that is revoked opens nothing from then on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reading = threading.Lock()
        self._stamp: tuple[int, int] | None = None
        self._keys: dict[str, StoredKey] = {}

    @property
    def all(self) -> list[StoredKey]:
        """The keys that there are, oldest first."""
        stamp = _stamp(self.path)
        if stamp != self._stamp:
            with self._reading:
                self._keys, self._stamp = _read(self.path), stamp
        return list(self._keys.values())

    def holder(self, text: str) -> StoredKey | None:
        """The key that a text is, or None."""
        parts = text.split("_")
        if len(parts) != 3 or parts[0] != PREFIX or not self.all:
            return None
        key = self._keys.get(parts[1])
        return key if key is not None and key.opens(parts[2]) else None

    def add(self, name: str, role: Role) -> str:
        """Make a key, and return it: it is shown this once."""
        if not name.strip() or not name.isprintable():
            raise InputError(f"key name {name!r}; give a name that can be printed, such as the user's")
        if role not in get_args(Role):
            raise InputError(f"role {role!r}; choose {' or '.join(get_args(Role))}")
        with self._writing():
            keys = {key.number: key for key in self.all}
            if any(key.name == name for key in keys.values()):
                raise InputError(f"{self.path}: there is a key named {name!r}; revoke it first, or choose another name")
            number, secret, salt = secrets.token_hex(4), secrets.token_hex(32), secrets.token_hex(16)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            self._write({**keys, number: StoredKey(number, name, role, salt, _digest(salt, secret), now)})
        return f"{PREFIX}_{number}_{secret}"

    def revoke(self, name: str) -> StoredKey:
        """Remove a key by its name or number."""
        with self._writing():
            keys = {key.number: key for key in self.all}
            gone = next((key for key in keys.values() if name in (key.name, key.number)), None)
            if gone is None:
                there = ", ".join(key.name for key in keys.values()) or "none"
                raise UnknownName(f"{self.path}: no key named {name!r}; there is {there}")
            self._write({number: key for number, key in keys.items() if key is not gone})
        return gone

    def _writing(self) -> FileLock:
        if not self.path.parent.is_dir():
            raise FileError(self.path, "its folder does not exist", "name a file in a folder that is there")
        return FileLock(f"{self.path}.lock")

    def _write(self, keys: Mapping[str, StoredKey]) -> None:
        text = json.dumps({"format": "ookg keys", "keys": [asdict(key) for key in keys.values()]}, indent=2)
        with atomic_write(self.path) as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")
            os.chmod(temporary, 0o600)


def _digest(salt: str, secret: str) -> str:
    return hashlib.sha256(f"{salt}:{secret}".encode()).hexdigest()


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _read(path: Path) -> dict[str, StoredKey]:
    if not path.exists():
        return {}
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
        keys: list[StoredKey] = [StoredKey(**entry) for entry in document["keys"]]
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise FileError(
            path, f"cannot be read as keys ({error})", "restore it, or remove it and add keys anew"
        ) from error
    for key in keys:
        if not all(isinstance(value, str) for value in vars(key).values()):
            raise FileError(path, f"key {key.name!r} is not text", "restore the file, or remove it and add keys anew")
        if key.role not in get_args(Role):
            raise FileError(path, f"key {key.name!r} has role {key.role!r}", f"choose {' or '.join(get_args(Role))}")
    return {key.number: key for key in keys}
