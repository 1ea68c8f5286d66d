"""Questions per second, in process and over HTTP, side by side.

    python benchmarks/serving.py [--sizes 15k 1M] [--seconds 20] [--writes 0 10] [--folder FOLDER] [--quick]
    python benchmarks/serving.py --approximate [--sizes 1M]    exact answers beside those by an index

Models have random vectors and a random graph; they are written once (to --folder, or a temporary one). For each size
and rate of writes there is a table:

- in process: one thread asks one question after the other, and one thread asks batches of 16
- HTTP: 1, 8 and 32 clients, each sending one question after the other; and one client with batches of 16
- add and ask: a client adds a newcomer with three triples and asks about it; both together are one time

Every question is another one, and all answers are exact. The model is opened in a process of its own each time; writes
add a newcomer with three triples, evenly in time. Server and clients share the machine.

With --approximate the model is planted (`planted.py`), for an index finds nothing among random vectors, questions are
those of its triples, about known entities, and `ookg index` makes and measures the index first.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import shutil
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import ookg
from http_load import Connection, Measured, Reply, clients, served
from ookg.extension.questions import AnswerOptions, Question
from ookg.model.approximate import make_index, store_index
from opening import RELATIONS, write_model
from planted import write_planted

BATCH = 16


@dataclass(frozen=True)
class Size:
    """How large a model is."""

    entities: int
    triples: int
    dim: int

    def __str__(self) -> str:
        return f"{self.entities:,} entities x {self.dim}"


SIZES = {"15k": Size(15_000, 480_000, 1000), "1M": Size(1_000_000, 5_000_000, 200), "tiny": Size(2_000, 10_000, 32)}


def question(random: np.random.Generator, size: Size) -> dict[str, str]:
    side = "head" if random.random() < 0.5 else "tail"
    return {side: f"entity/{random.integers(size.entities)}", "relation": f"relation/{random.integers(RELATIONS)}"}


def newcomer(random: np.random.Generator, size: Size, name: str) -> list[list[str]]:
    return [
        [name, f"relation/{random.integers(RELATIONS)}", f"entity/{random.integers(size.entities)}"] for _ in range(3)
    ]


def in_process(directory: Path, size: Size, seconds: float, writes: float, batch: int) -> Measured:
    """One thread asks; another one writes."""
    living, random = ookg.open(directory), np.random.default_rng(1)
    living.predict_all([Question(**question(random, size)) for _ in range(2)])
    stop, measured = threading.Event(), Measured()

    def write() -> None:
        own, begun, number = np.random.default_rng(2), time.perf_counter(), 0
        while writes and not stop.wait(max(0.0, begun + number / writes - time.perf_counter())):
            living.add([tuple(row) for row in newcomer(own, size, f"in process {batch} {number}")])
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        questions = [Question(**question(random, size)) for _ in range(batch)]
        start = time.perf_counter()
        living.predict_all(questions)
        measured.times.append(time.perf_counter() - start)
        measured.questions += batch
    measured.seconds = time.perf_counter() - begun
    stop.set()
    writer.join()
    return measured


def in_own_process(directory: Path, *arguments: Any) -> Measured:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(in_process, (directory, *arguments))


async def over_http(port: int, size: Size, seconds: float, writes: float, number: int, batch: int) -> Measured:
    """So many clients ask, and one more writes."""
    randoms = [np.random.default_rng([3, client]) for client in range(number)]
    own, stop = np.random.default_rng([4, number, batch]), asyncio.Event()

    async def ask(connection: Connection, client: int, _: int) -> Reply:
        if batch == 1:
            return await connection.ask("POST", "/v1/predict", question(randoms[client], size))
        questions = [question(randoms[client], size) for _ in range(batch)]
        return await connection.ask("POST", "/v1/predict", {"questions": questions})

    async def write() -> None:
        begun, turn = time.perf_counter(), 0
        async with Connection(port) as connection:
            while writes and not stop.is_set():
                await asyncio.sleep(max(0.0, begun + turn / writes - time.perf_counter()))
                rows = newcomer(own, size, f"http {number} {batch} {turn}")
                reply = await connection.ask("POST", "/v1/triples", {"triples": rows})
                assert reply.status == 200, reply.body
                turn += 1

    await clients(port, number, min(1.0, seconds), ask)  # warm
    writer = asyncio.ensure_future(write())
    measured = await clients(port, number, seconds, ask, batch)
    stop.set()
    await writer
    return measured


async def add_and_ask(port: int, size: Size, seconds: float) -> Measured:
    """A client adds a newcomer and asks about it."""
    random = np.random.default_rng(5)

    async def both(connection: Connection, _: int, turn: int) -> Reply:
        name = f"asked {turn}"
        added = await connection.ask("POST", "/v1/triples", {"triples": newcomer(random, size, name)})
        asked = {"head": name, "relation": f"relation/{random.integers(RELATIONS)}"}
        reply = await connection.ask("POST", "/v1/predict", asked)
        return Reply(max(added.status, reply.status), reply.body, added.seconds + reply.seconds)

    return await clients(port, 1, seconds, both)


def measured_table(model: Path, size: Size, seconds: float, writes: float, scratch: Path) -> dict[str, Measured]:
    rows: dict[str, Measured] = {}

    def report(name: str, measured: Measured) -> None:
        rows[name] = measured
        print(f"  {name:<34}{measured.line()}", flush=True)

    def copy() -> Path:
        """A copy that may be written to; the large files are links."""
        shutil.rmtree(scratch, ignore_errors=True)
        return Path(shutil.copytree(model, scratch, copy_function=_link))

    print(f"\n{size}, {writes:g} writes per second", flush=True)
    report("in process, one by one", in_own_process(copy(), size, seconds, writes, 1))
    report(f"in process, batches of {BATCH}", in_own_process(copy(), size, seconds, writes, BATCH))
    for number in (1, 8, 32):
        with served(copy()) as server:
            name = f"HTTP one by one, {number} client{'s' * (number > 1)}"
            report(name, asyncio.run(over_http(server.port, size, seconds, writes, number, 1)))
    with served(copy()) as server:
        report(f"HTTP, batches of {BATCH}", asyncio.run(over_http(server.port, size, seconds, writes, 1, BATCH)))
    with served(copy()) as server:
        report("HTTP, add and ask", asyncio.run(add_and_ask(server.port, size, seconds)))
    best = max(measured.rate for name, measured in rows.items() if name.startswith("HTTP one by one"))
    share = best / rows["in process, one by one"].rate
    print(f"  HTTP one by one reaches {share:.0%} of in process one by one")
    return rows


def approximate_table(model: Path, size: Size, seconds: float) -> dict[str, Measured]:
    """Exact answers and those by an index, in turn."""
    opened = ookg.load(model)
    begun = time.perf_counter()
    index = make_index(opened)
    took, measured = time.perf_counter() - begun, index.measured
    assert measured is not None
    store_index(index, opened, model)
    print(f"\n{size}, planted: an index of {len(index.centres):,} lists in {took:.0f} s, measuring it included")
    print(f"  recall of the ten best: {measured.tails:.1%} of tails, {measured.heads:.1%} of heads", end="")
    print(f" ({measured.questions} questions each); it scores {index.share:.2%} of the entities", flush=True)
    rows: dict[str, Measured] = {}

    def report(name: str, measured: Measured) -> None:
        rows[name] = measured
        print(f"  {name:<40}{measured.line()}", flush=True)

    asked = [(False, "exact"), (True, "approximate")]
    for is_approximate, name in asked:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            report(f"in process, one by one, {name}", pool.apply(real_in_process, (model, seconds, is_approximate)))
    with served(model, "--approximate") as server:
        for number in (1, 8, 32):
            for is_approximate, name in asked:
                found = asyncio.run(real_over_http(model, server.port, seconds, number, is_approximate))
                report(f"HTTP, {number} client{'s' * (number > 1)}, {name}", found)
    return rows


def real_questions(model: Path, seed: int) -> list[dict[str, str]]:
    """Questions of the graph's own triples, in random order."""
    opened, random = ookg.load(model), np.random.default_rng(seed)
    rows = opened.known_triples[random.choice(len(opened.known_triples), 10_000)].tolist()
    sides = random.random(len(rows)) < 0.5
    return [
        {"head": f"entity/{h}", "relation": f"relation/{r}"}
        if side
        else {"tail": f"entity/{t}", "relation": f"relation/{r}"}
        for side, (h, r, t) in zip(sides.tolist(), rows, strict=True)
    ]


def real_in_process(model: Path, seconds: float, is_approximate: bool) -> Measured:
    living, questions, measured = ookg.open(model), real_questions(model, 1), Measured()
    options = AnswerOptions(approximate=living.approximate if is_approximate else None)
    living.predict_all([Question(**one) for one in questions[-2:]], options)
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        question = Question(**questions[measured.questions % len(questions)])
        start = time.perf_counter()
        prediction = living.predict_all([question], options)[0]
        measured.times.append(time.perf_counter() - start)
        measured.questions += 1
        if (prediction.recall is not None) != is_approximate:
            measured.errors.append("answered in the other way")
    measured.seconds = time.perf_counter() - begun
    return measured


async def real_over_http(model: Path, port: int, seconds: float, number: int, is_approximate: bool) -> Measured:
    """So many clients, each with questions of its own."""
    questions = real_questions(model, 2)

    async def ask(connection: Connection, client: int, turn: int) -> Reply:
        body = questions[(client * 311 + turn) % len(questions)] | {"approximate": is_approximate}
        return await connection.ask("POST", "/v1/predict", body)

    await clients(port, number, min(1.0, seconds), ask)  # warm
    return await clients(port, number, seconds, ask)


def _link(source: str, target: str) -> None:
    """A hard link to a large file, which nobody changes; a copy of the others."""
    path = Path(source)
    if path.stat().st_size > 1 << 20 and path.parent.name.startswith("data-"):
        Path(target).hardlink_to(path)
    else:
        shutil.copy2(source, target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), help="15k and 1M; 1M with --approximate")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each line (20)")
    parser.add_argument("--writes", type=float, nargs="+", default=[0.0, 10.0], help="per second (0 and 10)")
    parser.add_argument("--folder", type=Path, help="where the models are kept; they are written if they are not there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to a file")
    parser.add_argument(
        "--approximate", action="store_true", help="exact answers beside those by an index; needs faiss"
    )
    parser.add_argument("--quick", action="store_true", help="a tiny model for a second each: whether it works")
    arguments = parser.parse_args()
    arguments.sizes = arguments.sizes or (["1M"] if arguments.approximate else ["15k", "1M"])
    if arguments.quick:
        arguments.sizes, arguments.seconds = ["tiny"], 1.0
    figures: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in arguments.sizes:
            size, model = SIZES[name], folder / f"{'planted' if arguments.approximate else 'random'}-{name}"
            if not model.exists():
                print(f"writing {model}", flush=True)
                write = write_planted if arguments.approximate else write_model
                write(model, size.entities, size.triples, size.dim)
            for writes in (0.0,) if arguments.approximate else arguments.writes:
                if arguments.approximate:
                    rows = approximate_table(model, size, arguments.seconds)
                else:
                    rows = measured_table(model, size, arguments.seconds, writes, folder / "scratch")
                for row, measured in rows.items():
                    values = {"size": str(size), "writes": writes, "what": row, "per_second": measured.rate}
                    values |= {"p50_ms": measured.percentile(0.5), "p99_ms": measured.percentile(0.99)}
                    figures.append(values | {"errors": len(measured.errors)})
        shutil.rmtree(folder / "scratch", ignore_errors=True)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
