"""Faults on purpose: readers of a model that is replaced all the while, and writers that are killed at any moment.

python benchmarks/faults.py [--seconds 20] [--kills 200] [--seed 0]

Readers must get the old version or the new one, always. After a kill a model directory, an exported folder or a data
set is the old one or the new one, with the other files that lie in it, and the next write removes what was left. A line
a kind with its counts; the exit code is 1 where anything else was found. Needs a system that can fork.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path

import numpy as np
import torch

from ookg.datasets.dataset import write_dataset
from ookg.datasets.splitting import Split, SplitSettings, split
from ookg.errors import OokgError
from ookg.graph.known import KnownGraph
from ookg.graph.triples import as_triples
from ookg.graph.vocabulary import Vocabulary
from ookg.interchange.exports import collect, export
from ookg.model.model import Model
from ookg.models import TransE
from ookg.models.embedding import Embedding
from ookg.storage.checkpoint import STATE_FILE, Checkpoint, check_model, load_checkpoint, save_checkpoint
from ookg.system.files import LOCK_FILE, atomic_write, save_tensors

ENTITIES, RELATIONS, DIM, TRIPLES = 2000, 5, 64, 5000
READERS = 2
LONGEST = 0.15  # seconds until a writer is killed

torch.set_num_threads(1)  # OpenMP's threads do not come along when a process forks


def model(version: int) -> Checkpoint:
    """A model all of whose numbers are its version."""
    triples = np.random.default_rng(0).integers(0, RELATIONS, (TRIPLES, 3))
    return Checkpoint(
        Embedding(
            TransE(DIM), torch.full((ENTITIES, DIM), float(version)), torch.full((RELATIONS, DIM), float(version))
        ),
        Vocabulary([f"e{number}" for number in range(ENTITIES)]),
        Vocabulary([f"r{number}" for number in range(RELATIONS)]),
        KnownGraph(triples, ENTITIES, RELATIONS),
        {"version": version},
        {},
    )


def version_of(checkpoint: Checkpoint) -> int | None:
    """The version of a model; None where its parts are of several."""
    version = checkpoint.settings["version"]
    tables = (checkpoint.embedding.entities, checkpoint.embedding.relations)
    return version if all(bool((table == version).all()) for table in tables) else None


def in_a_process(work: Callable[[], None]) -> int:
    """Run it in a process of its own; return that one's number."""
    sys.stdout.flush()
    number = os.fork()
    if number == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return number


def readers(folder: Path, seconds: float) -> tuple[str, bool]:
    """Load a model again and again while it is replaced again and again."""
    directory, end = folder / "model", time.monotonic() + seconds
    save_checkpoint(model(0), directory)

    def replace() -> None:
        for version in cycle((1, 2)):
            if time.monotonic() > end:
                return
            save_checkpoint(model(version), directory)
            with (folder / "replacements").open("a") as file:
                file.write(".")

    def read(name: str) -> None:
        found: Counter[str] = Counter()
        while time.monotonic() < end:
            try:
                whole = version_of(load_checkpoint(directory)) is not None
                found["whole" if whole else "mixed"] += 1
            except OokgError as error:
                found["refused"] += 1
                print(error, file=sys.stderr)
        (folder / name).write_text(f"{found['whole']} {found['mixed'] + found['refused']}")

    names = [f"reader-{number}" for number in range(READERS)]
    processes = [in_a_process(replace), *(in_a_process(lambda name=name: read(name)) for name in names)]  # type: ignore[misc]
    codes = [os.waitpid(number, 0)[1] for number in processes]
    counts = [[int(word) for word in (folder / name).read_text().split()] for name in names]
    loads, errors = (sum(column) for column in zip(*counts, strict=True))
    replacements = len((folder / "replacements").read_text())
    line = f"readers: {replacements:,} replacements, {loads:,} loads, {errors:,} errors"
    return line, not any(codes) and not errors and loads > 0 and replacements > 0


@dataclass(frozen=True)
class Victim:
    """A writer to kill: `write` writes one of two versions into a folder, `state` says what is found there."""

    name: str
    write: Callable[[int, Path], None]
    state: Callable[[Path], str]


def contents(folder: Path) -> str:
    """A digest of all that is in a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(str(path.relative_to(folder)).encode())
        if path.is_file():
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def model_state(folder: Path) -> str:
    """Which version a model directory holds, if it is whole."""
    try:
        if any(file.problem for file in check_model(folder)):
            return "damaged"
        return str(version_of(load_checkpoint(folder)))
    except OokgError as error:
        return str(error)


def write_model(version: int, folder: Path) -> None:
    """A training's state, and the model."""
    with atomic_write(folder / STATE_FILE) as temporary:
        save_tensors({"table": torch.full((ENTITIES, DIM), float(version))}, temporary)
    save_checkpoint(model(version), folder)


def write_split(version: int, folder: Path) -> None:
    """A data set with another seed."""
    write_dataset(data_set(version), folder, overwrite=True)


@cache
def data_set(seed: int) -> Split:
    """One of 200 entities; made once, so that kills hit its writing."""
    rng = np.random.default_rng(1)
    columns = [rng.integers(0, size, 2000) for size in (200, RELATIONS, 200)]
    rows = [(f"e{head}", f"r{relation}", f"e{tail}") for head, relation, tail in zip(*columns, strict=True)]
    return split(as_triples(sorted(set(rows))), SplitSettings(seed=seed))


def exporter(form: str) -> Callable[[int, Path], None]:
    """Writes a folder in an export format."""

    def write(version: int, folder: Path) -> None:
        export(collect(Model(model(version))), form, folder, overwrite=True)

    return write


VICTIMS = (
    Victim("save", write_model, model_state),
    Victim("export parquet", exporter("parquet"), contents),
    Victim("export pykeen", exporter("pykeen"), contents),
    Victim("split", write_split, contents),
)


def kills(victim: Victim, folder: Path, number: int, rng: random.Random) -> tuple[str, bool]:
    """Kill a writer that replaces a folder without end, and see what is left."""
    target, is_model = folder / "target", victim.state is model_state
    if victim.write is write_split:
        for version in (1, 2):
            data_set(version)
    whole = []
    for version in (1, 2):
        _child(lambda version=version: _write(victim, version, target, is_model))  # type: ignore[misc]
        whole.append(victim.state(target))
    found: Counter[str] = Counter()
    for _ in range(number):
        begun, begins = os.pipe()

        def write_without_end(begins: int = begins) -> None:
            os.write(begins, b".")
            for version in cycle((1, 2)):
                victim.write(version, target)

        process = in_a_process(write_without_end)
        os.read(begun, 1)
        time.sleep(rng.uniform(0, LONGEST))
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        os.close(begun)
        os.close(begins)
        found["killed" if os.WIFSIGNALED(status) else "failed by itself"] += 1
        found["whole" if victim.state(target) in whole else "other"] += 1
        found["with remains"] += _remains(folder, target, is_model) > 0
    _child(lambda: victim.write(1, target))
    left = _remains(folder, target, is_model)
    line = f"{victim.name}: {number:,} kills, {found['whole']:,} times whole, {found['other']:,} times not"
    line += f"; remains after {found['with remains']:,} kills, {left} after the next write"
    return line, found["killed"] == found["whole"] == number and left == 0 and victim.state(target) == whole[0]


def _write(victim: Victim, version: int, target: Path, is_model: bool) -> None:
    victim.write(version, target)
    if not is_model:  # files that are not ours
        (target / "sub").mkdir(exist_ok=True)
        (target / "sub" / "notes.txt").write_text("precious")


def _child(work: Callable[[], None]) -> None:
    if os.waitpid(in_a_process(work), 0)[1]:
        raise SystemExit("a writer failed that nobody killed")


def _remains(folder: Path, target: Path, is_model: bool) -> int:
    beside = len(list(folder.iterdir())) - 1
    if not is_model:
        return beside
    return beside + len([path for path in target.iterdir() if path.name not in (LOCK_FILE, STATE_FILE)]) - 2


def main() -> int:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long readers load (20)")
    parser.add_argument("--kills", type=int, default=200, help="of each writer (200)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (0)")
    options = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory() as name:
        steps: list[Callable[[Path], tuple[str, bool]]] = [lambda folder: readers(folder, options.seconds)]
        for victim in VICTIMS:
            rng = random.Random(f"{options.seed} {victim.name}")
            steps.append(lambda folder, victim=victim, rng=rng: kills(victim, folder, options.kills, rng))  # type: ignore[misc]
        for number, step in enumerate(steps):
            folder = Path(name) / str(number)
            folder.mkdir()
            line, is_good = step(folder)
            print(line, flush=True)
            good &= is_good
    print("all held" if good else "SOMETHING DID NOT HOLD")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
