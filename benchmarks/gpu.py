"""The GPU paths: first that they compute what the reference computes, then how fast.

Whether accuracy holds is what `ookg reproduce` says.

python benchmarks/gpu.py --data FOLDER [--parts check,steps] [--tune] [--json FILE]

FOLDER holds what `benchmarks/pack.py` wrote. Needs PyTorch with CUDA, Triton, NumPy and SciPy only.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from ookg.kernels.gpu_ranking import shared_rank_counts
from ookg.kernels.gpu_step import KernelShape
from ookg.models import RotatE, TransE
from ookg.models.embedding import Embedding
from ookg.newcomers.prior import Residuals
from ookg.newcomers.support import find_support
from ookg.scoring.ranking import AnswerIndex, filtered_rank_counts, reference_rank_counts
from ookg.training.gpu_step import TritonStep
from ookg.training.reference_step import ReferenceStep
from ookg.training.sampling import Sampler
from ookg.training.settings import PRESETS, TrainingSettings
from ookg.training.tables import Tables
from ookg.training.trainer import Trainer

REPEATS = 20  # of one training, which must give the same bits
CASES = [("FB15k", "FB15k-Head-10", "fb15k"), ("WN11", "WN11-Head-1000", "wn11")]


def load(folder: Path, name: str) -> dict[str, Any]:
    with np.load(folder / f"{name}.npz") as file:
        arrays = dict(file.items())
    return {key: value.astype(np.int64) if value.dtype == np.int32 else value for key, value in arrays.items()}


def prepared(data: dict[str, Any], settings: TrainingSettings) -> tuple[Tables, Sampler]:
    known, _, relations, _ = data["sizes"].tolist()
    triples = torch.from_numpy(data["train"]).cuda()
    return Tables.initial(known, relations, settings, "cuda"), Sampler(triples, known, relations, settings)


def check(data: dict[str, Any]) -> None:
    """Some steps of every geometry, fast and reference, from the same tables, at odd sizes."""
    for model, norm in (("transe", 1), ("transe", 2), ("rotate", 1), ("rotate", 2)):
        for dim, negatives, batch, l2 in ((300, 128, 1024, 1e-5), (1000, 256, 256, 0.0), (37, 50, 1000, 1e-4)):
            settings = TrainingSettings(
                model=model, norm=norm, dim=dim, negatives=negatives, batch=batch, l2=l2, margin=9.0, steps=6,
                lr_drops=(0.5,),
            )  # fmt: skip
            tables, sampler = prepared(data, settings)
            other = copy.deepcopy(tables)
            fast, slow = TritonStep(tables, sampler, settings), ReferenceStep(other, sampler, settings)
            worst = 0.0
            for number in range(settings.steps):
                if number in settings.drop_steps:
                    tables.restart_adam()
                    other.restart_adam()
                batch_ = sampler(number)
                before = {name: value.clone() for name, value in other.tensors().items()}
                for name, value in tables.tensors().items():
                    value.copy_(before[name])  # each step from the same state: Adam's signs must not drift apart
                losses = float(fast(number)), float(slow(number))
                drawn = fast.draws[number % 2].ids[:, :negatives].long()
                same = torch.equal(drawn, torch.where(batch_.usable, batch_.negatives, sampler.num_entities))
                if not same or abs(losses[0] - losses[1]) > 1e-4 * abs(losses[1]):
                    raise SystemExit(f"FAILED {settings}: negatives equal {same}, losses {losses}")
                for name in ("entities_mean", "relations_mean"):
                    mine, theirs = tables.tensors()[name], other.tensors()[name]
                    worst = max(worst, float((mine - theirs).norm() / theirs.norm()))
            if not worst < 1e-3:
                raise SystemExit(f"FAILED {settings}: gradients differ by {worst:.2e}")
            print(f"check {model} norm {norm} dim {dim}: gradients equal to {worst:.1e}", flush=True)
    check_ranks()
    check_estimates()
    for model, norm in (("transe", 1), ("transe", 2), ("rotate", 1), ("rotate", 2)):
        junk = []
        first = trained(data, 300, model, norm).tables.tensors()
        for number in range(REPEATS):
            junk.append(torch.empty(1 + 12_345 * number, device="cuda"))  # tables come to lie elsewhere
            again = trained(data, 300, model, norm).tables.tensors()
            if not all(torch.equal(table, again[name]) for name, table in first.items()):
                raise SystemExit(f"FAILED: two runs of one seed differ for {model} norm {norm}")
        print(f"check {model} norm {norm}: {1 + REPEATS} runs of one seed are equal bit for bit", flush=True)


def check_ranks() -> None:
    """Rank counts of every geometry, with ties and filters, against the reference."""
    for geometry in (TransE(50, 1), TransE(50, 2), RotatE(50, 1), RotatE(50, 2)):
        rng = np.random.default_rng(0)
        values = rng.integers(0, 3, size=(5300, geometry.entity_width))  # small integers: many ties
        values[2000:4000] = values[:2000]
        if isinstance(geometry, RotatE):
            values[:, geometry.dim :] = 1  # moduli that are whole numbers: sums are exact in any order
        table, points = (torch.from_numpy(part).float().cuda() for part in (values[:5000], values[5000:]))
        answers, keys = rng.integers(0, 5000, 300), np.repeat(np.arange(300), 40)
        others = AnswerIndex.build(np.arange(300), keys, rng.integers(0, 5000, len(keys)))
        embedding = Embedding(geometry, table, torch.zeros(1, geometry.relation_width, device="cuda"))
        fast = filtered_rank_counts(embedding, points, answers, others)
        slow = reference_rank_counts(embedding, points, answers, others)
        if fast.better.tolist() != slow.better.tolist() or fast.equal.tolist() != slow.equal.tolist():
            raise SystemExit(f"FAILED: ranks differ for {geometry}")
        check_shared_ranks(embedding, points)
        print(f"check {geometry}: rank counts equal, {int(fast.equal.sum())} ties")


def check_estimates() -> None:
    """Residuals and estimates on the GPU as on the CPU; the residuals twice with the same bits."""
    rng = np.random.default_rng(4)
    for geometry in (TransE(50, 1), RotatE(50, 1)):
        entities, relations = (
            torch.from_numpy(rng.normal(size=(size, width)).astype(np.float32))
            for size, width in ((3000, geometry.entity_width), (20, geometry.relation_width))
        )
        known = np.stack([rng.integers(0, 3000, 40_000), rng.integers(0, 20, 40_000), rng.integers(0, 3000, 40_000)], 1)
        given = np.stack([3000 + np.arange(5000) % 700, rng.integers(0, 20, 5000), rng.integers(0, 3000, 5000)], 1)
        here = Embedding(geometry, entities, relations)
        there = here.to("cuda")
        support = find_support(given, 3000, 700)[0]
        rows, place = support.rows_of(np.arange(700))
        mine, theirs, again = (Residuals.of(embedding, known) for embedding in (here, there, there))
        for name in ("precision", "centre", "centre_precision", "variance"):
            torch.testing.assert_close(getattr(theirs, name).cpu(), getattr(mine, name), rtol=1e-4, atol=1e-5)
            if not torch.equal(getattr(theirs, name), getattr(again, name)):
                raise SystemExit(f"FAILED: {name} of {geometry} differs between two runs")
        one = mine.estimates(here, support, rows, place, 700, 0.1)
        other = theirs.estimates(there, support, rows, place, 700, 0.1)
        torch.testing.assert_close(other.vectors.cpu(), one.vectors, rtol=1e-3, atol=1e-4)
        print(f"check {geometry}: estimates equal to {float((other.vectors.cpu() - one.vectors).abs().max()):.1e}")


def check_shared_ranks(embedding: Embedding, points: torch.Tensor) -> None:
    """Queries of which many ask the same question, against each on its own."""
    rng = np.random.default_rng(2)
    question, answers = rng.integers(0, len(points), 4000), rng.integers(0, 5000, 4000)
    pairs = np.unique(np.stack([question, answers], axis=1), axis=0)
    listed = AnswerIndex.build(question, pairs[:, 0], pairs[:, 1])
    repeated = points[torch.from_numpy(question).cuda()]
    one = filtered_rank_counts(embedding, repeated, answers, listed)
    better, equal = shared_rank_counts(embedding, repeated, answers, question, (pairs[:, 0], pairs[:, 1]))
    if one.better.tolist() != better.tolist() or one.equal.tolist() != equal.tolist():
        raise SystemExit(f"FAILED: ranks of shared questions differ for {embedding.geometry}")


def trained(data: dict[str, Any], steps: int, model: str, norm: int) -> Trainer:
    known, _, relations, _ = data["sizes"].tolist()
    settings = PRESETS["wn11"].changed({"steps": steps, "model": model, "norm": norm})
    trainer = Trainer(torch.from_numpy(data["train"]).cuda(), known, relations, settings)
    for _ in range(steps):
        trainer.step()
    return trainer


def timed(action: Any, repeats: int) -> float:
    """Milliseconds a call, device time, after a warm-up."""
    for _ in range(max(4, repeats // 10)):
        action()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    for _ in range(repeats):
        action()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / repeats


def copy_bandwidth() -> float:
    """Bytes read and written a second by a large copy."""
    source = torch.randn(1 << 29, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.numel() * 4 / (timed(lambda: target.copy_(source), 20) / 1000)


class Stepper:
    """Calls a step with growing numbers."""

    def __init__(self, step: Any) -> None:
        self.step, self.number = step, 0

    def __call__(self) -> None:
        self.step(self.number)
        self.number += 1


def tune(data: dict[str, Any], settings: TrainingSettings) -> KernelShape:
    """The fastest cut of the two large kernels."""
    tables, sampler = prepared(data, settings)
    step = TritonStep(tables, sampler, settings)
    step(0)
    best: dict[str, tuple[float, int, int]] = {}
    for name, action in (("row", lambda: step.pass_rows(0)), ("entity", lambda: step.pass_entities(0))):
        for tile in (1, 2, 4, 8):
            for warps in (1, 2, 4):
                step.tuning = replace(step.tuning, **{f"{name}_tile": tile, f"{name}_warps": warps})
                took = timed(action, 30)
                print(
                    f"  tune {settings.model} {settings.dim} {name} tile {tile} warps {warps}: {took:.3f} ms",
                    flush=True,
                )
                best[name] = min(best.get(name, (9e9, 0, 0)), (took, tile, warps))
    return KernelShape(best["row"][1], best["row"][2], best["entity"][1], best["entity"][2])


def steps(folder: Path, tuning_wanted: bool) -> list[dict[str, Any]]:
    bandwidth = copy_bandwidth()
    print(f"copy bandwidth {bandwidth / 1e12:.2f} TB/s")
    lines = []
    for family, name, preset in CASES:
        data = load(folder, name)
        for model in ("transe", "rotate"):
            settings = PRESETS[preset].changed({"model": model})
            tuning = tune(data, settings) if tuning_wanted else None
            tables, sampler = prepared(data, settings)
            step = TritonStep(tables, sampler, settings, tuning)
            fast = timed(Stepper(step), 400)
            again = timed(Stepper(step), 400)
            parts = {
                name: timed(lambda step=step, name=name: getattr(step, name)(0), 50)
                for name in ("draw", "sort", "pass_rows", "pass_entities", "pass_relations")
            }
            plain = timed(Stepper(ReferenceStep(*prepared(data, settings), settings)), 10)
            width = settings.geometry.entity_width
            # What must move: the negatives' vectors once for the rows, the points once for the entities, and the
            # table with its moments read and written by Adam.
            gathered = 2 * settings.batch * settings.negatives * width * 4
            adam = 6 * (tables.entities.numel() + tables.relations.numel()) * 4
            floor = (gathered + adam) / bandwidth * 1000
            line = {
                "setting": family, "model": model, "ms": fast, "again": again, "plain_ms": plain,
                "ratio": plain / fast, "floor_ms": floor, "share": floor / fast, "tuning": vars(step.tuning), **parts,
            }  # fmt: skip
            lines.append(line)
            print(
                {key: round(value, 4) if isinstance(value, float) else value for key, value in line.items()}, flush=True
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--parts", default="check,steps")
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(torch.cuda.get_device_name(), torch.__version__, time.strftime("%Y-%m-%d"))
    found: dict[str, Any] = {}
    parts = options.parts.split(",")
    if "check" in parts:
        check(load(options.data, "WN11-Head-1000"))
    if "steps" in parts:
        found["steps"] = steps(options.data, options.tune)
    for line in found.get("steps", []):
        print(
            f"{line['setting']:6} {line['model']:7} {line['ms']:7.3f} ms  plain {line['plain_ms']:7.2f} ms"
            f"  {line['ratio']:5.1f}x  {line['share']:.0%} of the limit"
        )
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
