"""Kill -9 at random moments of adding, removing and updating: nothing acknowledged is lost, every state is readable.

python benchmarks/growth_faults.py [--kills 300] [--seed 0]

A process adds and removes batches of triples and updates the model, without end. It notes each batch before it asks for
it and when it is acknowledged, in a file of its own. It is killed at a random moment, and then another process follows.
After each kill: every acknowledged batch is in the journal with all its triples; a batch that was not acknowledged is
there as a whole or not at all, and nothing else is; the model's graph and its journal together are exactly what the
batches that are there amount to; the model answers; and `check_model` finds nothing. A line with the counts; the exit
code is 1 where anything did not hold. Needs a system that can fork.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch

import ookg
from faults import in_a_process
from ookg.errors import OokgError
from ookg.model.current import Current
from ookg.model.living import LivingModel
from ookg.storage.checkpoint import check_model
from ookg.storage.journals import open_journal
from ookg.training.continuing import UpdateSettings
from ookg.training.settings import TrainingSettings

ENTITIES, RELATIONS = 60, 3
SETTINGS = TrainingSettings(dim=8, steps=20, batch=16, negatives=4, margin=4.0, lr=0.05)
LONGEST = 0.4  # seconds until it is killed, after it has begun
UPDATES = 0.25  # of what it does

Triple = tuple[str, str, str]

torch.set_num_threads(1)  # OpenMP's threads do not come along when a process forks


def graph() -> list[Triple]:
    """The triples of the first version."""
    rng = random.Random(0)
    rows = {(rng.randrange(ENTITIES), rng.randrange(RELATIONS), rng.randrange(ENTITIES)) for _ in range(300)}
    return [(f"e{head}", f"r{relation}", f"e{tail}") for head, relation, tail in sorted(rows)]


def batch_of(key: str) -> tuple[str, list[Triple]]:
    """What a key stands for: whether it adds or removes, and the triples; always the same."""
    rng = random.Random(key)
    kind = rng.choice(("add", "add", "remove"))
    names = [f"e{number}" for number in range(ENTITIES)] + [f"n{number}" for number in range(20)]
    rows = [
        (rng.choice(names), f"r{rng.randrange(RELATIONS + 1)}", rng.choice(names)) for _ in range(rng.randint(1, 30))
    ]
    if kind == "remove":
        rows += rng.sample(graph(), 5)
    return kind, list(dict.fromkeys(rows))


def live(directory: Path, notes: Path, turn: int, begins: int) -> None:
    """Add, remove and update without end, and note what was asked for and what was acknowledged."""
    rng = random.Random(f"{turn}")
    living = LivingModel(directory)
    with notes.open("a") as file:
        os.write(begins, b".")
        for number in range(1_000_000):
            if rng.random() < UPDATES:
                mode = rng.choice(("all", "freeze", "new-only"))
                living.update(UpdateSettings(mode=mode, steps=rng.choice((0, 3))), keep=2)  # type: ignore[arg-type]
                _note(file, "updated", str(number))
                continue
            if rng.random() < 0.1 and len(living.history().versions) > 1:
                living.rollback(rng.choice([one.number for one in living.history().versions if not one.is_current]))
                _note(file, "rolled back", str(number))
                continue
            key = f"{turn}-{number}"
            kind, rows = batch_of(key)
            _note(file, "asked", key)
            if kind == "add":
                living.add(rows, key=key)
            else:
                living.remove(rows, key=key)
            _note(file, "acknowledged", key)


def _note(file: object, what: str, key: str) -> None:
    print(json.dumps([what, key]), file=file, flush=True)  # type: ignore[call-overload]


def problems(directory: Path, notes: Path, counts: Counter[str]) -> list[str]:
    """What does not hold after a kill."""
    said = [json.loads(line) for line in notes.read_text().splitlines()]
    asked, acknowledged = ({key for what, key in said if what == word} for word in ("asked", "acknowledged"))
    found = [f"{file.name}: {file.problem}" for file in check_model(directory) if file.problem]
    journal = open_journal(directory)
    batches = journal.batches()
    there = {batch.key or "" for batch in batches}
    found += [f"batch {key} was acknowledged and is lost" for key in acknowledged - there]
    found += [f"batch {key} was never asked for" for key in there - asked]
    state = set(graph())
    for batch in batches:
        kind, rows = batch_of(batch.key or "")
        changed = [row for row in rows if (row in state) == (kind == "remove")]
        if journal.triples_of(batch.number) != changed:
            found.append(f"batch {batch.key} is not whole, or is another")
        state = state | set(changed) if kind == "add" else state - set(changed)
    current = Current.load(directory)
    model = current.model
    ids = model.checkpoint.triples
    ends = (model.entities.select(ids[:, 0]), model.relations.select(ids[:, 1]), model.entities.select(ids[:, 2]))
    if set(zip(*ends, strict=True)) | set(current.difference.added) != state:
        found.append("model and journal are not what the batches amount to")
    if not LivingModel(directory).predict(head="e1", relation="r0").answers:
        found.append("no answers")
    counts["acknowledged"] = len(acknowledged)
    counts["unacknowledged but there"] = len(there - acknowledged)
    counts["version"] = max(counts["version"], model.checkpoint.number)
    counts["updates"] = sum(what == "updated" for what, _ in said)
    return found


def kills(folder: Path, number: int, seed: int) -> tuple[str, bool]:
    """Kill so many times, and look after each."""
    directory, notes = folder / "model", folder / "notes"
    notes.touch()
    ookg.train(graph(), SETTINGS, out=directory, device="cpu")
    rng, counts, good = random.Random(seed), Counter[str](), True
    for turn in range(number):
        begun, begins = os.pipe()
        process = in_a_process(lambda turn=turn, begins=begins: live(directory, notes, turn, begins))  # type: ignore[misc]
        os.read(begun, 1)
        time.sleep(rng.uniform(0, LONGEST))
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        os.close(begun)
        os.close(begins)
        counts["killed" if os.WIFSIGNALED(status) else "failed by itself"] += 1
        try:
            found = problems(directory, notes, counts)
        except OokgError as error:
            found = [str(error)]
        counts["held"] += not found
        for problem in found:
            print(f"kill {turn + 1}: {problem}", file=sys.stderr)
            good = False
    line = (
        f"growth: {number:,} kills, {counts['held']:,} times all held; {counts['acknowledged']:,} acknowledged batches,"
    )
    line += f" {counts['unacknowledged but there']:,} more that were whole before their acknowledgement;"
    line += f" {counts['updates']:,} updates acknowledged, up to version {counts['version']}"
    return line, good and counts["killed"] == counts["held"] == number


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300, help="how many (300)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (0)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        line, good = kills(Path(name), options.kills, options.seed)
    print(line)
    print("all held" if good else "SOMETHING DID NOT HOLD")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
