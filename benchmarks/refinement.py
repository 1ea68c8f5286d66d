"""How fast new entities' vectors are refined: first that the fast path computes what the reference computes.

    python benchmarks/refinement.py                                        one new entity on the CPU
    python benchmarks/refinement.py --device cuda [--data FOLDER] [--tune]    all new entities of FB15k-Head-10 at once

Without FOLDER (what `benchmarks/pack.py` wrote) the bulk is random, of the same size. Vectors are random: they change
neither the work nor its order. Needs PyTorch and NumPy, Numba on the CPU, Triton on a GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from ookg.models import GEOMETRIES, Geometry, RotatE, TransE
from ookg.models.embedding import Embedding
from ookg.newcomers.refinement import Problem, ReferenceRefinement, Refinement, RefineSettings, refine
from ookg.newcomers.support import Support, find_support

BULK = {"entities": 10_336, "relations": 1_170, "newcomers": 2_082, "triples": 250_000, "dim": 1000}
SINGLE = {"entities": 100_000, "relations": 200, "triples": 30, "dim": 200}
RANGE = 0.06  # coordinates are uniform in ± this; at dimension 1000 gaps are then near the default margin


def random_embedding(geometry: Geometry, entities: int, relations: int, device: str) -> Embedding:
    generator = torch.Generator().manual_seed(0)

    def uniform(rows: int, width: int, size: float) -> torch.Tensor:
        return ((torch.rand(rows, width, generator=generator) * 2 - 1) * size).to(device)

    turn = torch.pi if isinstance(geometry, RotatE) else RANGE
    size = RANGE * 1000 / geometry.dim
    vectors = geometry.constrained(uniform(entities, geometry.entity_width, size))
    return Embedding(geometry, vectors, uniform(relations, geometry.relation_width, turn))


def random_support(counts: Any, entities: int, relations: int) -> Support:
    rng, rows = np.random.default_rng(0), int(np.sum(counts))
    return Support(
        np.repeat(np.arange(len(counts)), counts),
        rng.integers(0, relations, rows),
        rng.integers(0, entities, rows),
        rng.random(rows) < 0.5,
        np.arange(rows),
        len(counts),
    )


def bulk_support(data: Path | None) -> Support:
    if data is None:
        sizes = np.random.default_rng(1).lognormal(sigma=1.3, size=BULK["newcomers"])
        counts = np.maximum(1, sizes / sizes.sum() * BULK["triples"]).astype(np.int64)
        return random_support(counts, BULK["entities"], BULK["relations"])
    with np.load(data / "FB15k-Head-10.npz") as file:
        known, everyone, relations, _ = file["sizes"].tolist()
        given = file["aux"].astype(np.int64)
    given[given[:, 1] >= relations, 1] = -1
    return find_support(given, known, everyone - known)[0]


def random_start(embedding: Embedding, newcomers: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    start = torch.rand(newcomers, embedding.geometry.entity_width, generator=generator) * 2 - 1
    return embedding.geometry.constrained(start.to(embedding.device) * RANGE * 1000 / embedding.geometry.dim)


def fast_refinement(device: str) -> Callable[..., Any]:
    if device == "cuda":
        from ookg.newcomers.gpu_refinement import TritonRefinement

        return TritonRefinement
    from ookg.newcomers.cpu_refinement import NumbaRefinement

    return NumbaRefinement


# That it is right.


def check(device: str) -> None:
    """Some steps of every geometry, fast and reference, each from the same state, at odd sizes."""
    geometries: list[Geometry] = [kind(1, norm) for kind, norm in product((TransE, RotatE), (1, 2))]
    geometries += [TransE(1, 1, squared=True, unit_norm=1), TransE(1, 2, squared=True, unit_norm=2)]
    for shape, (dim, negatives) in product(geometries, ((37, 50), (300, 128), (1000, 256))):
        geometry = replace(shape, dim=dim)
        settings = RefineSettings(margin=9.0 if dim < 1000 else 36.0, steps=6, negatives=negatives, prior=0.1)
        embedding = random_embedding(geometry, 997, 7, device)
        support = random_support([1, 2, 31, 32, 33, 500, 3], 997, 7)
        start = random_start(embedding, support.num_newcomers)
        problem = Problem.of(embedding, support, np.arange(support.num_newcomers), settings)
        fast = fast_refinement(device)(embedding, problem, start, settings)
        slow = ReferenceRefinement(embedding, problem, start, settings)
        worst = max(step_difference(fast, slow, step) for step in range(settings.steps))
        if not worst < 1e-3:
            raise SystemExit(f"FAILED {geometry}: gradients differ by {worst:.2e}")
        print(f"check {geometry}: gradients equal to {worst:.1e}", flush=True)
    before = embedding.entities.clone()
    first, second = (refine(embedding, support, start, replace(settings, steps=50)) for _ in range(2))
    if not torch.equal(first, second) or not torch.equal(embedding.entities, before):
        raise SystemExit("FAILED: two runs of one seed differ, or known vectors have changed")
    alone = refine(embedding, support, start[5:6], replace(settings, steps=50), newcomers=np.array([5]))
    if not torch.equal(alone[0], first[5]):
        raise SystemExit("FAILED: a new entity's vector depends on the others")
    print("check: two runs of one seed are equal bit for bit; so is a new entity alone and among others")


def step_difference(fast: Any, slow: ReferenceRefinement, step: int) -> float:
    """How far one step's gradients are apart, relative to their length, if both start from the slow one's vectors."""
    fast.vectors.copy_(slow.vectors)
    if fast.name == "triton":
        triples = torch.from_numpy(slow.problem.triples(step)).to(slow.vectors.device)
        drawn, usable = slow.negatives(step, triples, slice(0, len(triples)))
        expected = torch.where(usable, drawn, slow.embedding.num_entities)
    gradient = slow.gradients(step, 0, len(slow.vectors))
    slow(step)
    fast(step)
    if fast.name == "triton" and not (torch.equal(fast.ids.long(), expected) and torch.equal(fast.triples, triples)):
        raise SystemExit(f"FAILED {slow.embedding.geometry}: other negatives or triples")
    mean = fast.mean if fast.name == "triton" else torch.from_numpy(fast.tables[2])
    scale = 0.1 * gradient.norm(dim=1) + 0.9 * slow.mean.norm(dim=1)
    return float(((mean - slow.mean).norm(dim=1) / scale).max())


# How fast it is.


def wall(work: Callable[[], object]) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def step_seconds(refinement: Refinement, steps: int, first: int = 0) -> float:
    """Seconds a step, on average."""

    def all_steps() -> None:
        for step in range(first, first + steps):
            refinement(step)

    return wall(all_steps) / steps


def single(quick: bool) -> list[dict[str, Any]]:
    """One new entity on the CPU, as a user waits for it, against the reference in the same run."""
    lines = []
    for model in ("transe", "rotate"):
        embedding = random_embedding(GEOMETRIES[model](SINGLE["dim"]), SINGLE["entities"], SINGLE["relations"], "cpu")
        support = random_support([SINGLE["triples"]], SINGLE["entities"], SINGLE["relations"])
        start, settings = random_start(embedding, 1), RefineSettings()
        first = wall(lambda: refine(embedding, support, start, replace(settings, steps=1)))  # noqa: B023
        seconds = min(wall(lambda: refine(embedding, support, start, settings)) for _ in range(1 if quick else 3))  # noqa: B023
        problem = Problem.of(embedding, support, np.array([0]), settings)
        slow = ReferenceRefinement(embedding, problem, start, settings)
        slow(0)
        reference = min(step_seconds(slow, 5, 1 + 5 * turn) for turn in range(1 if quick else 3)) * settings.steps
        lines.append({"model": model, "first_s": first, "seconds": seconds, "ratio": reference / seconds})
    return lines


def bulk(data: Path | None, tune: bool) -> list[dict[str, Any]]:
    """All new entities of FB15k-Head-10 on a GPU."""
    support, settings, lines = bulk_support(data), RefineSettings(), []
    live = np.flatnonzero(support.counts)
    bandwidth = copy_bandwidth()
    for model in ("transe", "rotate"):
        geometry = GEOMETRIES[model](BULK["dim"])
        entities = max(BULK["entities"], int(support.neighbor.max()) + 1)
        embedding = random_embedding(
            geometry, entities, max(BULK["relations"], int(support.relation.max()) + 1), "cuda"
        )
        start = random_start(embedding, support.num_newcomers)
        problem = Problem.of(embedding, support, live, settings)
        own_start = start[torch.from_numpy(live).cuda()]
        if tune:
            tune_rows(embedding, problem, own_start, settings)
        refine(embedding, support, start, replace(settings, steps=3))  # compiles
        seconds = wall(lambda: refine(embedding, support, start, settings))  # noqa: B023
        slow = ReferenceRefinement(embedding, problem, own_start, settings)
        reference = step_seconds(slow, 1) * settings.steps
        rows = len(problem.owners)
        read = rows * (settings.negatives + 1) * geometry.entity_width * 4 * settings.steps
        lines.append(
            {
                "model": model, "newcomers": len(live), "triples": len(support.newcomer), "rows": rows,
                "seconds": seconds, "ms": seconds / settings.steps * 1e3, "ratio": reference / seconds,
                "read_tb_s": read / seconds / 1e12, "copy_tb_s": bandwidth / 1e12,
            }
        )  # fmt: skip
        print(lines[-1], flush=True)
    return lines


def tune_rows(embedding: Embedding, problem: Problem, start: torch.Tensor, settings: RefineSettings) -> None:
    """The time of a step for some cuts of the row kernel."""
    from ookg.kernels.gpu_step import KernelShape

    for tile, warps in product((2, 4, 8), (1, 2, 4, 8)):
        tuning = replace(KernelShape.measured(embedding.geometry), row_tile=tile, row_warps=warps)
        step = fast_refinement("cuda")(embedding, problem, start, settings, tuning)
        step_seconds(step, 2)
        milliseconds = step_seconds(step, 5, 2) * 1e3
        print(f"tune {embedding.geometry.name} tile {tile} warps {warps}: {milliseconds:.2f} ms", flush=True)


def copy_bandwidth() -> float:
    """Bytes read and written a second by a large copy."""
    source = torch.randn(1 << 28, device="cuda")
    target = torch.empty_like(source)
    target.copy_(source)
    return 20 * 2 * source.nbytes / wall(lambda: [target.copy_(source) for _ in range(20)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--data", type=Path, help="folder with FB15k-Head-10.npz, for the real triples")
    parser.add_argument("--tune", action="store_true", help="also time other cuts of the GPU's row kernel")
    parser.add_argument("--quick", action="store_true", help="each CPU timing once")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    on_gpu = options.device == "cuda"
    print(torch.cuda.get_device_name() if on_gpu else "CPU", torch.__version__, time.strftime("%Y-%m-%d"))
    check(options.device)
    lines = bulk(options.data, options.tune) if on_gpu else single(options.quick)
    if options.json:
        options.json.write_text(json.dumps(lines, indent=1))
    for line in lines:
        head = f"{line['model']:7} {line['seconds']:7.2f} s  reference {line['ratio']:6.1f}x slower"
        if on_gpu:
            speed = f"reads {line['read_tb_s']:.1f} TB/s (a copy: {line['copy_tb_s']:.1f})"
            print(f"{head}  {line['ms']:.2f} ms a step  {line['newcomers']:,} new entities  {speed}")
        else:
            print(f"{head}  first call {line['first_s']:.2f} s (compiles, or loads what was compiled)")


if __name__ == "__main__":
    main()
