"""Training at size: what a step costs, and what it is worth.

python benchmarks/scale.py [--device cuda] [--rows check,steps,shared,freebase,host,cpu,planted,accuracy]
    [--json FOLDER] [--data FOLDER] [--seconds 30] [--small]

check      every optimiser, with own and with shared negatives, tables on the device, in the host's memory and in a
           file, against the reference; and two runs of one seed bit for bit
steps      ms per step from 15 k to 5 M entities: Adam over whole tables, on touched rows, and row-wise Adagrad
shared     triples per second at 5 M entities with 200 shared negatives, by batch
freebase   Freebase86m's size: 86 M entities × 200, 338 M triples, Adagrad
host       the tables in the host's memory and in a file against the device's memory
cpu        1 M entities × 100 on this machine's cores (`--device cpu`), with own and with shared negatives
planted    a graph of 5 M entities whose triples follow from latent vectors: MRR after equal time, sparse against dense;
           learning rates chosen by other held-out triples, three seeds
accuracy   FB15k-Head-10 and the continual FB15k-237, sparse against dense (--data: what `benchmarks/pack.py` wrote)

Limits are by bytes: what a step must read and write of its rows, at the copy bandwidth measured first. `--small` is a
run of each row at sizes that prove nothing but that it works.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import math
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from ookg.training.optimizers import OPTIMIZERS, optimizer_for
from ookg.training.reference_step import ReferenceStep
from ookg.training.sampling import Sampler
from ookg.training.settings import TrainingSettings
from ookg.training.step import Step, fastest_step
from ookg.training.tables import Place, Room, Tables

Line = dict[str, Any]
# Entities, triples and relations of the random graphs.
SIZES = {
    "15k": (15_000, 480_000),
    "150k": (150_000, 2_000_000),
    "1.5M": (1_500_000, 10_000_000),
    "5M": (5_000_000, 20_000_000),
}
RELATIONS = 1000
PLACES: tuple[Place, ...] = ("device", "host", "disk")
FREEBASE = (86_000_000, 338_000_000, 14_824)


class Bench:
    """One run of this script: the device, how large, and what is measured on the way."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.device, self.small = torch.device(options.device), bool(options.small)
        self.on_gpu = self.device.type == "cuda"
        self.data: Path | None = options.data
        self.seconds: float = 2.0 if self.small else options.seconds
        self.for_gpus = ("compact-adam",) if self.on_gpu else ()
        self.bandwidth = self.copy_bandwidth()

    def scaled(self, number: int) -> int:
        """A size, or a thousandth of it in a small run."""
        return max(50, number // 1000) if self.small else number

    def wait(self) -> None:
        """Until the device has done all it was asked to."""
        if self.on_gpu:
            torch.cuda.synchronize()

    def milliseconds(self, action: Callable[[], object], least_seconds: float = 0.5) -> float:
        """Of one call, over as many as fill some time, after a warm-up."""
        for _ in range(6):
            action()
        self.wait()
        count, took = 4, 0.0
        while took < (0.05 if self.small else least_seconds):
            count *= 2
            begun = time.perf_counter()
            for _ in range(count):
                action()
            self.wait()
            took = time.perf_counter() - begun
        return 1000 * took / count

    def copy_bandwidth(self) -> float:
        """Bytes read and written per second by a large copy."""
        source = torch.rand(1 << (28 if self.on_gpu else 24), device=self.device)
        target = torch.empty_like(source)
        return 2000 * source.numel() * 4 / self.milliseconds(lambda: target.copy_(source), 0.2)

    def peak_gigabytes(self) -> float:
        """The most memory that was in use since `forget`, on the device; on a CPU, of the process since it began."""
        if self.on_gpu:
            return torch.cuda.max_memory_allocated() / 1e9
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6

    def forget(self) -> None:
        """Give back what earlier rows held."""
        gc.collect()
        if self.on_gpu:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def random_graph(self, entities: int, triples: int, relations: int = RELATIONS) -> Tensor:
        """(triples, 3) ids without any structure."""
        generator = torch.Generator(self.device).manual_seed(0)
        graph = torch.empty(triples, 3, dtype=torch.int64, device=self.device)
        for column, size in enumerate((entities, relations, entities)):
            graph[:, column] = torch.randint(0, size, (triples,), generator=generator, device=self.device)
        return graph

    def tables(self, entities: int, relations: int, settings: TrainingSettings, device: str | None = None) -> Tables:
        """Tables drawn where they lie: at these sizes the CPU would take longer than the row it is for."""
        place, bound, geometry = device or self.device, settings.initial_range, settings.geometry
        optimizer = optimizer_for(settings, entities)
        generator = torch.Generator(place).manual_seed(settings.seed)
        both = [
            Room().zeros((rows, width), place).uniform_(-bound, bound, generator=generator)
            for rows, width in ((entities, geometry.entity_width), (relations, geometry.relation_width))
        ]
        states = [
            tuple(Room().zeros(kept.shape(*table.shape), place, kept.dtype) for kept in optimizer.keeps)
            for table in both
        ]
        return Tables(both[0], both[1], optimizer, states[0], states[1])


class Stepper:
    """Calls a step with growing numbers."""

    def __init__(self, step: Step) -> None:
        self.step, self.number = step, 0

    def __call__(self) -> Tensor:
        self.number += 1
        return self.step(self.number - 1)


def step_bytes(settings: TrainingSettings, entities: int) -> float:
    """What a step must move: rows read once for their distances and points once for the gradients, then the update.

    Adam on touched rows reads and writes a row and its two moments (compact: one, of half the size), Adagrad the row;
    over whole tables each row counts.
    """
    width, places = settings.geometry.entity_width, settings.rows_touched
    rows = entities * -math.expm1(places * math.log1p(-1 / entities))  # how many differ, if drawn evenly
    passes = {"adam": 6 * entities, "sparse-adam": 6 * rows, "compact-adam": 3 * rows, "adagrad": 2 * rows}
    return 4 * width * (2 * places + passes[settings.resolved(entities).optimizer])


# check


def check(bench: Bench) -> list[Line]:
    """Fast against reference, at sizes that are no powers of two, step by step from the same state."""
    lines = []
    for model, norm in (("transe", 1), ("transe", 2), ("rotate", 1), ("rotate", 2)):
        for optimizer in ("adam", "sparse-adam", *bench.for_gpus, "adagrad"):
            for shared in (0, 96):
                values = {"model": model, "norm": norm, "optimizer": optimizer, "negatives_shared": shared}
                settings = TrainingSettings(dim=37, batch=500, negatives=50, margin=9.0, l2=1e-5, steps=6).changed(
                    values
                )
                elsewhere = bench.on_gpu and OPTIMIZERS[optimizer].is_sparse
                lines += [check_case(bench, settings, place) for place in (PLACES if elsewhere else PLACES[:1])]
    return lines


def check_case(bench: Bench, settings: TrainingSettings, place: Place) -> Line:
    """One of them. Vectors differ by rounding; a larger difference ends the run."""
    entities, relations, line = 5000, 11, {"row": "check", **named(settings), "tables": place}
    triples = bench.random_graph(entities, 20_000, relations)
    triples[:3000, 0] = 7  # a hub, which many negatives are true for
    tables = bench.tables(entities, relations, settings)
    start = copy.deepcopy(tables)
    sampler = Sampler(triples, entities, relations, settings)
    worst, bits = 0.0, []
    for run in range(2):
        mine, other = moved_to(copy.deepcopy(start), place), copy.deepcopy(start)
        fast, _ = fastest_step(mine, sampler, settings)
        slow = ReferenceStep(other, sampler, settings)
        for number in range(settings.steps):
            loss = float(fast(number))
            if run == 0:
                expected = float(slow(number))
                if not abs(loss - expected) < 1e-3 * abs(expected):
                    raise SystemExit(f"FAILED {line}: loss {loss} and not {expected}")
        bench.wait()
        bits.append({name: table.clone() for name, table in mine.tensors().items()})
        if run == 0:
            # Of how far they have moved.
            for name in ("entities", "relations"):
                begun = start.tensors()[name]
                ours, theirs = (tables.tensors()[name].to(bench.device) - begun for tables in (mine, other))
                worst = max(worst, float((ours - theirs).norm() / theirs.norm()))
    if not worst < 2e-2:
        raise SystemExit(f"FAILED {line}: vectors differ by {worst:.2e} of their way")
    if not all(torch.equal(table, bits[1][name]) for name, table in bits[0].items()):
        raise SystemExit(f"FAILED {line}: two runs of one seed differ")
    return line | {"worst": worst}


def moved_to(tables: Tables, place: Place) -> Tables:
    """The entities' table and what is kept beside it at a place for a GPU's tables."""
    if place == "device":
        return tables

    def moved(table: Tensor) -> Tensor:
        return Room(place).zeros(tuple(table.shape), table.device, table.dtype).copy_(table)

    tables.entities, tables.entity_state = moved(tables.entities), tuple(moved(kept) for kept in tables.entity_state)
    tables.place = place
    return tables


# steps, shared, freebase, host, cpu


def timed_steps(bench: Bench, triples: Tensor, sizes: tuple[int, int], settings: TrainingSettings, **more: Any) -> Line:
    """A line about steps of some settings on a graph."""
    entities, relations = sizes
    bench.forget()
    sampler = Sampler(triples, entities, relations, settings)
    assert len(sampler.tails.keys) == len(sampler.heads.keys)  # made now, while there is room to sort
    tables = bench.tables(entities, relations, settings)
    if "tables" in more:
        tables = moved_to(tables, more["tables"])
        bench.forget()
    step, note = fastest_step(tables, sampler, settings)
    if note:
        print(note)
    took = bench.milliseconds(Stepper(step), 0.25)
    limit = 1000 * step_bytes(settings, entities) / bench.bandwidth
    figures = {"ms": took, "limit_ms": limit, "share": limit / took, "triples_per_second": 1000 * sampler.batch / took}
    return named(settings) | {"entities": entities, **more, **figures, "gigabytes": bench.peak_gigabytes()}


def named(settings: TrainingSettings) -> Line:
    """What tells a line's settings from another's."""
    names = ("model", "norm", "dim", "batch", "negatives", "negatives_shared", "optimizer")
    return {name: getattr(settings, name) for name in names}


def steps(bench: Bench) -> list[Line]:
    """Dense against sparse, by the size of the graph."""
    lines = []
    for label, (entities, triples) in SIZES.items():
        graph = bench.random_graph(bench.scaled(entities), bench.scaled(triples))
        for model in ("transe", "rotate"):
            for batch in (1024, 8192):
                for optimizer in ("adam", "sparse-adam", *bench.for_gpus, "adagrad"):
                    settings = TrainingSettings(model=model, batch=bench.scaled(batch), optimizer=optimizer)
                    line = timed_steps(
                        bench, graph, (bench.scaled(entities), RELATIONS), settings, row="steps", size=label
                    )
                    lines.append(said(line))
    return lines


def shared(bench: Bench) -> list[Line]:
    """The best batch with shared negatives."""
    entities, triples = (bench.scaled(size) for size in SIZES["5M"])
    graph = bench.random_graph(entities, triples)
    lines = []
    for model, norm in (("transe", 1), ("transe", 2), ("rotate", 1)):
        for batch in (16_384, 65_536, 262_144):
            for optimizer in ("adagrad", "sparse-adam"):
                values = {"model": model, "norm": norm, "batch": bench.scaled(batch), "optimizer": optimizer}
                settings = TrainingSettings(negatives=200, negatives_shared=bench.scaled(1024)).changed(values)
                lines.append(said(timed_steps(bench, graph, (entities, RELATIONS), settings, row="shared")))
    return lines


def freebase(bench: Bench) -> list[Line]:
    """86 M entities: it runs at all, and how fast an epoch is."""
    entities, triples, relations = FREEBASE
    entities, triples = bench.scaled(entities), bench.scaled(triples)
    begun = time.perf_counter()
    graph = bench.random_graph(entities, triples, relations)
    lines = []
    for batch, chunk in ((65_536, 1024), (262_144, 1024)):
        settings = TrainingSettings(
            optimizer="adagrad", batch=bench.scaled(batch), negatives=200, negatives_shared=bench.scaled(chunk)
        )
        line = timed_steps(bench, graph, (entities, relations), settings, row="freebase")
        line["epoch_seconds"] = triples / line["triples_per_second"]
        line["prepared_seconds"], begun = time.perf_counter() - begun, time.perf_counter()
        lines.append(said(line))
    return lines


def host(bench: Bench) -> list[Line]:
    """5 M entities, their rows on the device, in the host's memory and in a file."""
    entities, triples = (bench.scaled(size) for size in SIZES["5M"])
    graph, lines = bench.random_graph(entities, triples), []
    for values in (
        {"batch": 1024, "optimizer": "sparse-adam"},
        {"batch": 1024, "optimizer": "adagrad"},
        {"batch": 65_536, "optimizer": "adagrad", "negatives": 200, "negatives_shared": 1024},
    ):
        settings = TrainingSettings().changed(values)
        settings = settings.changed({"batch": bench.scaled(settings.batch)})
        for place in PLACES:
            lines.append(said(timed_steps(bench, graph, (entities, RELATIONS), settings, row="host", tables=place)))
    return lines


def cpu(bench: Bench) -> list[Line]:
    """1 M entities × 100 on a CPU."""
    entities = bench.scaled(1_000_000)
    graph, lines = bench.random_graph(entities, bench.scaled(5_000_000)), []
    for values in VARIANTS + SHARED_VARIANTS:
        settings = TrainingSettings(dim=100, batch=bench.scaled(1024)).changed(values)
        lines.append(said(timed_steps(bench, graph, (entities, RELATIONS), settings, row="cpu")))
    return lines


# planted, accuracy

LATENT, IN_CELL, TESTS, CANDIDATES = 4, 4, 10_000, 1000


def planted_graph(bench: Bench, entities: int, triples: int, relations: int) -> Tensor:
    """Triples of entities in a cube: the tail is one of those nearest to the head moved by the relation.

    Nearest are those of the same small cell, a handful of all.
    """
    generator = torch.Generator(bench.device).manual_seed(1)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, device=bench.device)

    side = max(1, int((entities / IN_CELL) ** (1 / LATENT)))
    places = torch.tensor([side**k for k in range(LATENT)], device=bench.device)
    latent, moves = uniform(entities, LATENT), 0.6 * uniform(relations, LATENT) - 0.3
    cell, by_cell = ((latent * side).long() * places).sum(dim=1).sort()
    starts = torch.searchsorted(cell, torch.arange(side**LATENT + 1, device=bench.device))
    parts, kept = [], 0
    while kept < triples:
        size = min(2 * triples, 10_000_000)
        head, relation = (uniform(size) * entities).long(), (uniform(size) * relations).long()
        target = latent[head] + moves[relation]
        wanted = ((target.clamp(0, 1 - 1e-6) * side).long() * places).sum(dim=1)
        first, last = starts[wanted], starts[wanted + 1]
        tail = by_cell[(first + (uniform(size) * (last - first)).long()).clamp(max=entities - 1)]
        right = ((target >= 0) & (target < 1)).all(dim=1) & (last > first) & (tail != head)
        parts.append(torch.stack([head, relation, tail], dim=1)[right])
        kept += len(parts[-1])
    return torch.cat(parts)[:triples]


# What is compared, and the learning rates to choose from, by triples that are not the reported ones.
LARGE = {"batch": 65_536, "negatives": 200, "negatives_shared": 1024}
PLANTED: tuple[tuple[Line, tuple[float, ...]], ...] = (
    ({"optimizer": "adam"}, (1e-3, 4e-3)),
    ({"optimizer": "adam", **LARGE}, (1e-4, 1e-3)),
    ({"optimizer": "sparse-adam"}, (1e-3, 4e-3)),
    ({"optimizer": "sparse-adam", **LARGE}, (1e-3, 2.5e-3)),
    ({"optimizer": "adagrad", **LARGE}, (1e-3, 3e-3)),
)
SEEDS = 3


def planted(bench: Bench) -> list[Line]:
    """MRR of held-out tails among random candidates, after equal time: of the best learning rate, several seeds."""
    entities, size, tests = (bench.scaled(number) for number in (*SIZES["5M"], TESTS))
    graph = planted_graph(bench, entities, size + 2 * tests, RELATIONS)
    train, choosing, reported = torch.split(graph, [size, tests, tests])
    lines = []
    for values, rates in PLANTED:
        settings = TrainingSettings(steps=10**9).changed(
            {
                name: bench.scaled(value) if name in ("batch", "negatives_shared") else value
                for name, value in values.items()
            }
        )
        tried = [
            planted_line(bench, entities, train, (choosing, reported), settings.changed({"lr": rate})) for rate in rates
        ]
        best = max(tried, key=lambda line: float(line["choosing"]))
        lines.append(best)
        for seed in range(1, SEEDS):
            again = settings.changed({"lr": best["lr"], "seed": seed})
            lines.append(planted_line(bench, entities, train, (choosing, reported), again))
    return lines


def planted_line(
    bench: Bench, entities: int, train: Tensor, tests: tuple[Tensor, Tensor], settings: TrainingSettings
) -> Line:
    """One training; tests: the triples that a learning rate is chosen by, and those that are reported."""
    bench.forget()
    sampler = Sampler(train, entities, RELATIONS, settings)
    tables = bench.tables(entities, RELATIONS, settings)
    step = Stepper(fastest_step(tables, sampler, settings)[0])
    for _ in range(6):  # what is compiled and captured is not timed
        step()
    bench.wait()
    begun = time.perf_counter()
    while time.perf_counter() - begun < bench.seconds:
        for _ in range(1 if bench.small else 10 if settings.optimizer == "adam" else 50):
            step()
        bench.wait()
    line = {"row": "planted", **named(settings), "lr": settings.lr, "seed": settings.seed, "steps": step.number}
    line["seconds"] = time.perf_counter() - begun
    line["choosing"], line["mrr"] = (sampled_mrr(bench, tables, settings, part) for part in tests)
    line["chance"] = sum(1 / rank for rank in range(1, CANDIDATES + 2)) / (CANDIDATES + 1)
    return said(line | {"epochs": step.number * sampler.batch / len(train)})


def sampled_mrr(bench: Bench, tables: Tables, settings: TrainingSettings, test: Tensor) -> float:
    """Of the tails among so many random entities each."""
    generator, geometry, total = torch.Generator(bench.device).manual_seed(2), settings.geometry, 0.0
    relations = geometry.relation_vectors(tables.relations, settings.initial_range)
    for part in torch.split(test, 500):
        head, relation, tail = part.unbind(dim=1)
        points = geometry.solve_tail(tables.entities[head], relations[relation])
        random = torch.randint(
            0, len(tables.entities), (len(head), CANDIDATES), generator=generator, device=bench.device
        )
        own = geometry.gap(points, tables.entities[tail])[:, None]
        gaps = geometry.gap(points[:, None], tables.entities[random])
        others = random != tail[:, None]
        better, equal = ((others & found).sum(dim=1) for found in (gaps < own, gaps == own))
        total += float((1 / (1 + better + equal / 2)).sum())
    return total / len(test)


VARIANTS: tuple[Line, ...] = ({"optimizer": "adam"}, {"optimizer": "sparse-adam"}, {"optimizer": "adagrad"})
SHARED_VARIANTS: tuple[Line, ...] = tuple({**values, "negatives_shared": 128} for values in VARIANTS)


def accuracy(bench: Bench) -> list[Line]:
    """Real graphs: the paper's FB15k-Head-10 (InvTransE), and all of the continual FB15k-237, ENTITY (valid)."""
    from ookg.datasets.packed import read_packed
    from ookg.evaluation.growing import growth_tests
    from ookg.evaluation.measuring import link_prediction_figures
    from ookg.graph.statistics import GraphStatistics
    from ookg.models.embedding import Embedding
    from ookg.newcomers.embedder import find_newcomers
    from ookg.newcomers.reducer import Correlation
    from ookg.scoring.scorer import TranslationScorer
    from ookg.training.settings import PRESETS
    from ookg.training.trainer import Trainer

    if bench.data is None:
        raise SystemExit("accuracy needs --data: a folder that benchmarks/pack.py wrote")

    def trained(triples: Any, sizes: tuple[int, int], settings: TrainingSettings, untrained: int = 0) -> Embedding:
        ids = torch.from_numpy(triples).to(bench.device)
        trainer = Trainer(ids, *sizes, settings.changed(quick), untrained_rows=untrained)
        for _ in range(trainer.settings.steps):
            trainer.step()
        return Embedding(trainer.geometry, trainer.entity_vectors.clone(), trainer.relation_vectors)

    quick: Line = {"steps": 50, "dim": 20} if bench.small else {}
    lines = []
    growing: Any = read_packed(bench.data / "ENTITY.npz")
    last = len(growing.snapshots) - 1
    sizes = growing.snapshots[last].num_entities, growing.snapshots[last].num_relations
    whole, tests = growing.until(last, "train"), growth_tests(growing, "valid")
    compact: tuple[Line, ...] = tuple({"optimizer": optimizer} for optimizer in bench.for_gpus)
    for values in VARIANTS + compact + SHARED_VARIANTS:
        settings = TrainingSettings(margin=9.0).changed(values)
        mrr = tests.measure(trained(whole, sizes, settings), last).mrr
        lines.append(said({"row": "accuracy", "set": "ENTITY", **named(settings), "mrr": mrr}))
    head_10: Any = read_packed(bench.data / "FB15k-Head-10.npz")
    graph = GraphStatistics.count(head_10.train, head_10.num_known, head_10.num_trained)
    unknown = head_10.num_entities - head_10.num_known
    for values in VARIANTS + compact:
        settings = PRESETS["fb15k"].changed(values)
        # The authors' code has a row for each new entity too, which negatives are drawn from.
        embedding = trained(head_10.train, (head_10.num_known, head_10.num_trained), settings, unknown)
        newcomers = find_newcomers(embedding, graph, head_10.train, head_10.given, Correlation(4.0))
        scorer = TranslationScorer(newcomers.with_room_for(unknown))
        mrr = link_prediction_figures(scorer, head_10, "paper")["mrr"]
        lines.append(said({"row": "accuracy", "set": "FB15k-Head-10", **named(settings), "mrr": mrr}))
    return lines


def said(line: Line) -> Line:
    """The line, after it was printed: a run that is cut short has said something."""
    print({name: round(value, 4) if isinstance(value, float) else value for name, value in line.items()}, flush=True)
    return line


ROWS: dict[str, Callable[[Bench], list[Line]]] = {
    "check": check, "steps": steps, "shared": shared, "freebase": freebase, "host": host, "cpu": cpu,
    "planted": planted, "accuracy": accuracy,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--json", type=Path, help="a folder for one file per row")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    bench = Bench(options)
    name = torch.cuda.get_device_name() if bench.on_gpu else f"{torch.get_num_threads()} threads"
    print(f"{name}, PyTorch {torch.__version__}, {time.strftime('%Y-%m-%d')}, copies {bench.bandwidth / 1e9:,.0f} GB/s")
    lines: list[Line] = []
    for row in options.rows.split(","):
        begun = time.perf_counter()
        lines += (measured := ROWS[row](bench))
        print(f"{row}: {time.perf_counter() - begun:.0f} s", flush=True)
        if options.json:
            options.json.mkdir(parents=True, exist_ok=True)
            (options.json / f"{row}.json").write_text(json.dumps(measured, indent=1))
    print(table(lines))


COLUMNS = {
    "ms": "{:.3f} ms", "limit_ms": "limit {:.3f}", "share": "{:.0%}", "triples_per_second": "{:,.0f} triples/s",
    "gigabytes": "{:.1f} GB", "epoch_seconds": "epoch {:.0f} s", "worst": "worst {:.1e}", "mrr": "MRR {:.4f}",
    "chance": "chance {:.4f}", "steps": "{:,} steps", "lr": "lr {:g}",
}  # fmt: skip


def table(lines: list[Line]) -> str:
    """One short line for each."""
    text = []
    for line in lines:
        words = [str(value) for name, value in line.items() if name not in COLUMNS and not isinstance(value, float)]
        text.append(" ".join(words + [form.format(line[name]) for name, form in COLUMNS.items() if name in line]))
    return "\n".join(text)


if __name__ == "__main__":
    main()
