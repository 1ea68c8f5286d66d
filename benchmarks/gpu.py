"""The GPU paths: first that they compute what the reference computes, then how fast, then whether accuracy holds.

python benchmarks/gpu.py --data FOLDER [--parts check,steps,accuracy] [--tune] [--datasets all] [--json FILE]

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

from ookg.embedding import Embedding
from ookg.evaluation.link_prediction import kept_by, link_prediction
from ookg.evaluation.queries import test_queries
from ookg.evaluation.ranking import AnswerIndex, RankSummary, filtered_rank_counts, reference_rank_counts
from ookg.evaluation.scoring import TranslationScorer
from ookg.evaluation.thresholds import Thresholds
from ookg.kernels.gpu import TritonStep, Tuning
from ookg.kernels.reference import ReferenceStep
from ookg.models import RotatE, TransE
from ookg.newcomers.embedder import Newcomers, find_newcomers
from ookg.newcomers.reducer import Correlation, Degree, Weights
from ookg.statistics import GraphStatistics
from ookg.training.sampling import Sampler
from ookg.training.settings import PRESETS, TrainingSettings
from ookg.training.tables import Tables
from ookg.training.trainer import Trainer

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
    first, second = (trained(data, 300).tables.entities for _ in range(2))
    if not torch.equal(first, second):
        raise SystemExit("FAILED: two runs of one seed differ")
    print("check: two runs of one seed are equal bit for bit")


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
        print(f"check {geometry}: rank counts equal, {int(fast.equal.sum())} ties")


def trained(data: dict[str, Any], steps: int) -> Trainer:
    known, _, relations, _ = data["sizes"].tolist()
    settings = PRESETS["wn11"].changed({"steps": steps})
    trainer = Trainer(torch.from_numpy(data["train"]).cuda(), known, relations, settings)
    for _ in range(steps):
        trainer.step()
    return trainer


def timed(action: Any, repeats: int) -> float:
    """Milliseconds a call, device time, after a warm-up."""
    for _ in range(max(4, repeats // 10)):
        action()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(repeats):
        action()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / repeats


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


def tune(data: dict[str, Any], settings: TrainingSettings) -> Tuning:
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
    return Tuning(best["row"][1], best["row"][2], best["entity"][1], best["entity"][2])


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


def train(data: dict[str, Any], settings: TrainingSettings) -> tuple[Embedding, float]:
    """The vectors, and the seconds until they were there, compilation included."""
    known, _, relations, _ = data["sizes"].tolist()
    begun = time.perf_counter()
    trainer = Trainer(torch.from_numpy(data["train"]).cuda(), known, relations, settings)
    for _ in range(settings.steps):
        trainer.step()
    torch.cuda.synchronize()
    took = time.perf_counter() - begun
    return Embedding(settings.geometry, trainer.entity_vectors, trainer.relation_vectors), took


def newcomers_of(data: dict[str, Any], embedding: Embedding, weights: Weights) -> Newcomers:
    known, everyone, relations, _ = data["sizes"].tolist()
    given = data["aux"].copy()
    given[given[:, 1] >= relations, 1] = -1
    graph = GraphStatistics.count(data["train"], known, relations)
    return find_newcomers(embedding, graph, data["train"], given, weights).with_room_for(everyone - known)


def link_prediction_figures(data: dict[str, Any], embedding: Embedding, power: float, protocol: Any) -> dict[str, Any]:
    """Ranks of all test queries, and the seconds they took, statistics included."""
    known, everyone, relations, _ = data["sizes"].tolist()
    torch.cuda.synchronize()
    begun = time.perf_counter()
    queries = kept_by(protocol, test_queries(data["test"], known), known, relations)
    true_triples = np.concatenate([data[part] for part in ("train", "valid", "aux", "test")])
    newcomers = newcomers_of(data, embedding, Correlation(power))
    counts = link_prediction(TranslationScorer(newcomers), queries, true_triples, everyone, protocol)
    figures = RankSummary.of(counts.ranks()).to_dict()
    return {"protocol": protocol, "power": power, **figures, "rank_s": time.perf_counter() - begun}


def classification_figures(data: dict[str, Any], embedding: Embedding) -> dict[str, Any]:
    """The accuracy on the test claims, with thresholds from valid."""
    newcomers = newcomers_of(data, embedding, Degree())
    scores = newcomers.scores(data["valid"])
    thresholds = Thresholds.fit(scores, data["valid"][:, 1], data["valid_truth"], embedding.num_relations)
    held = newcomers.scores(data["test"]) >= thresholds.of(data["test"][:, 1])
    return {"accuracy": float((held == data["test_truth"]).mean() * 100)}


def accuracy(folder: Path, names: list[str], models: list[str], seed: int, placeholders: bool) -> list[dict[str, Any]]:
    """Train by the preset and evaluate: does the fast path reach the paper's accuracy, and how soon?"""
    lines = []
    for name in names:
        data = load(folder, name)
        for model in models:
            settings = PRESETS["wn11" if name.startswith("WN11") else "fb15k"].changed({"model": model, "seed": seed})
            if placeholders:
                known, everyone, _, _ = data["sizes"].tolist()
                settings = settings.changed({"placeholder_entities": everyone - known})
            embedding, took = train(data, settings)
            head = {"dataset": name, "model": model, "seed": seed, "placeholders": placeholders, "train_s": took}
            if name.startswith("WN11"):
                lines.append(head | classification_figures(data, embedding))
            else:
                lines += [
                    head | link_prediction_figures(data, embedding, power, protocol)
                    for protocol in ("paper", "lan")
                    for power in (4.0, 1.0)
                ]
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--parts", default="check,steps,accuracy")
    parser.add_argument("--models", default="transe,rotate")
    parser.add_argument("--datasets", default="FB15k-Head-10", help="for the part accuracy; all for all eleven")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--placeholders", action="store_true", help="draw negatives from new entities' ids too")
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
    if "accuracy" in parts:
        names = sorted(path.stem for path in options.data.glob("*.npz"))
        names = names if options.datasets == "all" else options.datasets.split(",")
        begun = time.perf_counter()
        found["accuracy"] = accuracy(options.data, names, options.models.split(","), options.seed, options.placeholders)
        print(f"{len(names)} data sets, everything included: {time.perf_counter() - begun:.1f} s")
    for line in found.get("steps", []):
        print(
            f"{line['setting']:6} {line['model']:7} {line['ms']:7.3f} ms  plain {line['plain_ms']:7.2f} ms"
            f"  {line['ratio']:5.1f}x  {line['share']:.0%} of the limit"
        )
    for line in found.get("accuracy", []):
        head = f"{line['dataset']:15} {line['model']:7} train {line['train_s']:5.1f} s"
        if "accuracy" in line:
            print(f"{head}  accuracy {line['accuracy']:.1f}")
            continue
        hits = f"H@10 {line['hits@10']:.1f}  H@1 {line['hits@1']:.1f}  rank {line['rank_s']:.2f} s"
        print(f"{head}  {line['protocol']:5} power {line['power']:.0f}  MRR {line['mrr']:.4f}  {hits}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
