"""A server under load and under faults: everything that was acknowledged is there, and nothing else breaks.

    python benchmarks/serving_faults.py [traffic] [kills] [disk] [--minutes 10] [--kills 100] [--size 15k] [--quick]

traffic: the limit is measured for some seconds; then 32 clients ask, add, remove, search and judge for so many minutes
    at two thirds of it. No request may fail, and the memory of the server must not grow.
kills: clients write with keys; the server is killed (SIGKILL) at a random moment and started again. Every triple that
    was acknowledged must be there, once; a batch that was sent and not acknowledged may be there as a whole.
disk: the server's files may not grow beyond a size, as on a full disk. Writes are refused with 507 and a line,
    questions are answered, and writes go on when there is room again.

Traffic goes to 127.0.0.1 alone. The exit code is 1 if anything was not as it must be. All of it takes about 25 minutes
on two idle cores: traffic eleven, a kill and its restart some five seconds each. A server that does not start within
two minutes ends the run.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np

from http_load import Connection, Measured, Reply, Served, clients, served
from ookg.storage.journals import open_journal
from opening import RELATIONS, write_model
from serving import SIZES, Size, question

CLIENTS = 32
KEPT_NEWCOMERS = 3  # of a client; older ones are removed again
RESTART_SECONDS = 3.0
GROWTH = 1.10  # of the memory, from the first tenth of the traffic to the last


class Traffic:
    """What one client does, one thing after the other."""

    def __init__(self, client: int, size: Size) -> None:
        self.client, self.size = client, size
        self.random, self.numbers = Random(client), np.random.default_rng(client)
        self.newcomers: list[str] = []
        self.turn = 0

    async def act(self, connection: Connection) -> Reply:
        """One request."""
        choice = self.random.random()
        if choice < 0.70:
            return await connection.ask("POST", "/v1/predict", question(self.numbers, self.size))
        entity = f"entity%2F{self.random.randrange(self.size.entities)}"
        if choice < 0.80:
            return await connection.ask("GET", f"/v1/entities/{entity}?limit=20")
        if choice < 0.85:
            return await connection.ask("GET", f"/v1/search?q={entity[:-1]}")
        if choice < 0.90:
            claims = [[f"entity/{self.random.randrange(self.size.entities)}", "relation/1", "entity/1"]]
            return await connection.ask("POST", "/v1/classify", {"claims": claims})
        if choice < 0.95 and self.newcomers:
            asked = {"head": self.random.choice(self.newcomers), "relation": "relation/2", "explain": True}
            return await connection.ask("POST", "/v1/predict", asked)
        if len(self.newcomers) >= KEPT_NEWCOMERS:
            return await connection.ask("DELETE", f"/v1/entities/{self.newcomers.pop(0)}")
        name = f"client{self.client}-{self.turn % (2 * KEPT_NEWCOMERS)}"
        self.turn += 1
        triples = [
            [
                name,
                f"relation/{self.random.randrange(RELATIONS)}",
                f"entity/{self.random.randrange(self.size.entities)}",
            ]
            for _ in range(3)
        ]
        reply = await connection.ask("POST", "/v1/triples", {"triples": triples})
        if reply.status == 200:
            self.newcomers.append(name)
        return reply


async def mixed(port: int, size: Size, seconds: float, rate: float | None, watch: Callable[[], None]) -> Measured:
    """32 clients; rate: requests per second of all of them, None for as many as they can."""
    everyone = [Traffic(client, size) for client in range(CLIENTS)]
    begun = time.perf_counter()

    async def work(connection: Connection, client: int, turn: int) -> Reply:
        if rate is not None:
            due = begun + (turn * CLIENTS + client) / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
        return await everyone[client].act(connection)

    async def watching() -> None:
        while True:
            watch()
            await asyncio.sleep(max(0.2, seconds / 100))

    watcher = asyncio.ensure_future(watching())
    measured = await clients(port, CLIENTS, seconds, work)
    watcher.cancel()
    for traffic in everyone:  # the next traffic begins without them
        async with Connection(port) as connection:
            for name in traffic.newcomers:
                await connection.ask("DELETE", f"/v1/entities/{name}")
    return measured


def traffic(model: Path, size: Size, minutes: float) -> list[str]:
    """Minutes of mixed traffic at two thirds of the limit."""
    problems = []
    with served(model) as server:
        seconds = min(15.0, minutes * 20)
        asyncio.run(mixed(server.port, size, seconds, None, lambda: None))  # what is counted once is counted
        limit = asyncio.run(mixed(server.port, size, seconds, None, lambda: None))
        rate, memory = limit.rate * 2 / 3, list[int]()
        print(f"  limit {limit.line()}\n  {rate:.0f} requests per second for {minutes:g} minutes", flush=True)
        measured = asyncio.run(mixed(server.port, size, minutes * 60, rate, lambda: memory.append(server.memory)))
        print(f"  then  {measured.line()}")
        for name, part in (("limit", limit), ("traffic", measured)):
            problems += [f"{name}: {error}" for error in part.errors[:5]]
        tenth = max(1, len(memory) // 10)
        first, last = max(memory[:tenth]), max(memory[-tenth:])
        print(
            f"  memory {first / 1e6:.0f} MB at first, {last / 1e6:.0f} MB in the end, most {max(memory) / 1e6:.0f} MB"
        )
        if last > first * GROWTH + 20e6:
            problems.append(f"memory has grown from {first / 1e6:.0f} to {last / 1e6:.0f} MB")
        if measured.rate < 0.9 * rate:
            problems.append(f"{measured.rate:.0f} requests per second instead of {rate:.0f}")
    return problems


async def write_until_killed(server: Served, seconds: float, round_: int, acknowledged: set[str]) -> set[str]:
    """Four clients write until the server dies; return the batches that were sent, acknowledged or not."""
    sent: set[str] = set()

    async def write(client: int) -> None:
        number = 0
        try:
            async with Connection(server.port) as connection:
                while True:
                    name = f"k{round_}-{client}-{number}"
                    sent.add(name)
                    rows = [[name, "relation/1", f"entity/{place}"] for place in range(3)]
                    reply = await connection.ask("POST", "/v1/triples", {"triples": rows, "key": name})
                    if reply.status == 200:
                        acknowledged.add(name)
                    number += 1
        except (OSError, asyncio.IncompleteReadError):
            return

    async def kill() -> None:
        await asyncio.sleep(seconds)
        server.process.kill()

    await asyncio.gather(kill(), *(write(client) for client in range(4)))
    return sent


def kills(model: Path, times: int) -> list[str]:
    """Kill the server under writes, so many times."""
    random, problems, acknowledged, sent = Random(0), list[str](), set[str](), set[str]()
    starts = []
    for round_ in range(times):
        with served(model) as server:
            starts.append(server.started)
            seconds = random.uniform(0.05, 1.0)
            sent |= asyncio.run(write_until_killed(server, seconds, round_, acknowledged))
        there: dict[str, int] = {}
        journal = open_journal(model)
        for head, _, _ in journal.difference().added:
            there[head] = there.get(head, 0) + 1
        keys = [batch.key for batch in journal.batches()]
        lost = [name for name in acknowledged if there.get(name) != 3]
        odd = [name for name, count in there.items() if count != 3 or name not in sent]
        if lost or odd or len(keys) != len(set(keys)):
            problems.append(f"round {round_}: lost {lost[:3]}, odd {odd[:3]}, {len(keys) - len(set(keys))} keys twice")
            break
        if (round_ + 1) % 10 == 0:
            done = f"{len(acknowledged):,} batches acknowledged and there, once"
            print(f"  after {round_ + 1} kills: {done}; restarts median {float(np.median(starts)):.2f} s", flush=True)
    with served(model) as server:
        starts.append(server.started)
    late = sum(1 for seconds in starts[1:] if seconds > RESTART_SECONDS)
    print(
        f"  {times} kills: {len(acknowledged):,} batches acknowledged, {len(sent):,} sent; restarts "
        f"median {float(np.median(starts)):.2f} s, longest {max(starts[1:]):.2f} s, {late} beyond {RESTART_SECONDS:g} s"
    )
    return problems


async def fill(server: Served, size: Size) -> list[str]:
    """Write until there is no room, ask, make room, write again."""
    problems, numbers = list[str](), np.random.default_rng(0)
    async with Connection(server.port) as connection:
        number, refused = 0, None
        while refused is None and number < 10_000:
            rows = [[f"d{number}-{place}" + "x" * 200, "relation/1", "entity/1"] for place in range(50)]
            reply = await connection.ask("POST", "/v1/triples", {"triples": rows})
            number += 1
            refused = None if reply.status == 200 else reply
        if refused is None or refused.status != 507:
            return [f"no refusal with 507: {refused}"]
        print(f"  refused after {number - 1} batches: {refused.json()['detail']}")
        known = (await connection.ask("GET", "/v1/status")).status
        for _ in range(50):
            reply = await connection.ask("POST", "/v1/predict", question(numbers, size))
            again = await connection.ask("POST", "/v1/triples", {"triples": rows})
            if reply.status != 200 or again.status != 507:
                problems.append(f"while there is no room: question {reply.status}, write {again.status}")
                break
        print(f"  questions are answered meanwhile; status says {known}")
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, unlimited)
        reply = await connection.ask("POST", "/v1/triples", {"triples": rows})
        if reply.status != 200 or reply.json()["added"] != len(rows):
            problems.append(f"with room again: {reply}")
        asked = await connection.ask("POST", "/v1/predict", {"head": rows[0][0], "relation": "relation/1"})
        if asked.status != 200:
            problems.append(f"with room again, a question: {asked}")
    return problems


def disk(model: Path, size: Size) -> list[str]:
    """A disk that is full."""
    limit = 512  # KiB that a file may have
    soft = f'ulimit -S -f {limit}; exec "$@"'
    with served(model, wrapper=("bash", "-c", soft, "bash")) as server:
        return asyncio.run(fill(server, size))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=[], metavar="WHAT", help="traffic, kills, disk (all)")
    parser.add_argument("--minutes", type=float, default=10.0, help="of traffic (10)")
    parser.add_argument("--kills", type=int, default=100, help="how often the server is killed (100)")
    parser.add_argument("--size", choices=list(SIZES), default="15k")
    parser.add_argument("--quick", action="store_true", help="a tiny model, ten seconds and three kills")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.size, arguments.minutes, arguments.kills = "tiny", 1 / 6, 3
    size, problems = SIZES[arguments.size], dict[str, list[str]]()
    with tempfile.TemporaryDirectory() as folder:
        original = Path(folder, "model")
        write_model(original, size.entities, size.triples, size.dim)
        works: dict[str, Callable[[Path], list[str]]] = {
            "traffic": lambda model: traffic(model, size, arguments.minutes),
            "kills": lambda model: kills(model, arguments.kills),
            "disk": lambda model: disk(model, size),
        }
        for name in arguments.what or works:
            print(f"{name}: {size}", flush=True)
            model = Path(shutil.copytree(original, Path(folder, name)))
            problems[name] = works[name](model)
            shutil.rmtree(model)
    for name, found in problems.items():
        print(f"{name}: {'as it must be' if not found else '; '.join(found)}")
    return 1 if any(problems.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
