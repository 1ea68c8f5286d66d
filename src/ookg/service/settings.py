"""What a server is told when it starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Limits:
    """What one client may ask for; beyond it a request is refused.

    body: bytes of a request; triples, questions, claims: in one request; label: characters of a name
    top: answers to one question; page: entries of one page
    seconds: until a request is given up; reading: until its body must be there
    waiting: requests that are under way at once in one process
    rate: requests per second, of a key or else of an address; 0 for no limit
    """

    body: int = 8 << 20
    triples: int = 10_000
    questions: int = 256
    claims: int = 1_000
    label: int = 1_000
    top: int = 1_000
    page: int = 1_000
    seconds: float = 60.0
    reading: float = 20.0
    waiting: int = 512
    rate: float = 0.0


@dataclass(frozen=True)
class ServiceSettings:
    """What a process of the server needs to know; it can be pickled.

    directory: the model; read_only: nothing may be written
    journal: the URL of the journal's database, where it does not lie in the directory
    keys: the file of keys that a request must have one of; None: no key is asked for
    valid: a file of labelled triples, for the thresholds of claims
    refine: whether new vectors are fitted, None for what suits the number of triples; device: where to compute
    approximate: questions are answered by the stored index where that can be; it must be there at the start
    hosts: the names under which the server may be addressed; empty: any
    runtime: a folder that the processes of one server share while it runs; workers: how many they are
    """

    directory: Path
    read_only: bool = False
    journal: str | None = field(default=None, repr=False)  # there may be a password in it
    keys: Path | None = None
    valid: Path | None = None
    refine: bool | None = None
    device: str = "cpu"
    approximate: bool = field(default=False, kw_only=True)
    hosts: frozenset[str] = frozenset()
    runtime: Path | None = None
    workers: int = 1
    limits: Limits = field(default_factory=Limits)
