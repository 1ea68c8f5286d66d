"""New entities under TransH and TransR beside TransE and RotatE: triplet classification on WN11 at the same settings.

OOKG_DATA=FOLDER python benchmarks/least_squares.py [--datasets A,B] [--models a,b] [--steps N] [--json FILE]

Nothing is chosen on test: λ of the least squares is the one with the highest accuracy on the validation claims when the
known entities in them are represented as if they were new, from their training triples.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ookg.datasets.encoded import EncodedDataset
from ookg.datasets.folder import load_dataset
from ookg.graph.statistics import GraphStatistics
from ookg.models import Projected
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import Newcomers, find_newcomers
from ookg.newcomers.reducer import Degree
from ookg.scoring.thresholds import Thresholds
from ookg.training.settings import TrainingSettings
from ookg.training.trainer import Trainer
from ookg.types import IntArray

DATASETS = "WN11-Head-3000,WN11-Tail-3000,WN11-Both-3000"
MODELS = "transe,rotate,transh,transr"
RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
SETTINGS = TrainingSettings(
    dim=50, batch=512, negatives=16, steps=2000, margin=2.0, lr=0.01, l2=1e-5, subsampling=False, lr_drops=(0.5,)
)

# Margin and rate, the best of five pairs on the validation claims of WN11-Head-3000. TransH and TransR have TransE's.
ROTATE = {"margin": 1.0, "lr": 0.003}


def trained(data: EncodedDataset, settings: TrainingSettings) -> tuple[Embedding, float]:
    trainer = Trainer(torch.from_numpy(data.train), data.num_known, data.num_trained, settings)
    trainer.prepare()
    start = time.perf_counter()
    for _ in range(settings.steps):
        trainer.step()
    seconds = time.perf_counter() - start
    return Embedding(settings.geometry, trainer.entity_vectors, trainer.relation_vectors), seconds


def represented(data: EncodedDataset, embedding: Embedding, given: IntArray) -> Newcomers:
    graph = GraphStatistics.count(data.train, data.num_known, data.num_trained)
    return find_newcomers(embedding, graph, data.train, given, Degree())


def simulated(data: EncodedDataset) -> tuple[IntArray, IntArray]:
    """The validation claims with one end as if it were new, and the training triples that this end is known by.

    The end is the one that is new in the data set's test claims; where either may be, head and tail in turn.
    """
    head_new, tail_new = ((data.test[:, end] >= data.num_known).mean() for end in (0, 2))
    end = np.where(np.arange(len(data.valid)) % 2, 0, 2) if min(head_new, tail_new) > 0.1 else 2 * (tail_new > head_new)
    end = np.broadcast_to(end, len(data.valid))
    rows = np.arange(len(data.valid))
    chosen, place = np.unique(data.valid[rows, end], return_inverse=True)
    claims = data.valid.copy()
    claims[rows, end] = data.num_known + place
    number = np.full(data.num_known, -1)
    number[chosen] = data.num_known + np.arange(len(chosen))
    triples = data.train[data.train[:, 0] != data.train[:, 2]]
    given = []
    for side in (0, 2):
        mine = triples[number[triples[:, side]] >= 0].copy()
        mine[:, side] = number[mine[:, side]]
        given.append(mine)
    return claims, np.concatenate(given)


def accuracy(newcomers: Newcomers, data: EncodedDataset, claims: IntArray, truth: Any) -> float:
    """Percent right; thresholds from the validation claims of known entities."""
    scores = newcomers.scores(data.valid)
    scored = ~np.isnan(scores)
    assert data.valid_truth is not None
    thresholds = Thresholds.fit(
        scores[scored], data.valid[scored, 1], data.valid_truth[scored], newcomers.embedding.num_relations
    )
    relations = np.where(claims[:, 1] < newcomers.embedding.num_relations, claims[:, 1], -1)
    held = newcomers.scores(claims) >= thresholds.of(relations)
    return float((held == truth).mean() * 100)


def measure(data: EncodedDataset, settings: TrainingSettings) -> dict[str, Any]:
    embedding, seconds = trained(data, settings)
    line: dict[str, Any] = {"dataset": data.name, "model": settings.model, "seconds": round(seconds, 1)}
    line["valid"] = accuracy(represented(data, embedding, data.given), data, data.valid, data.valid_truth)
    claims, given = simulated(data)
    geometry = embedding.geometry
    at: dict[float | None, Embedding] = {None: embedding}
    if isinstance(geometry, Projected):
        at = {ridge: replace(embedding, geometry=replace(geometry, ridge=ridge)) for ridge in RIDGES}
    line["simulated"] = {
        str(ridge): accuracy(represented(data, seen, given), data, claims, data.valid_truth)
        for ridge, seen in at.items()
    }
    best = max(at, key=lambda ridge: line["simulated"][str(ridge)])
    start = time.perf_counter()
    test = accuracy(represented(data, at[best], data.given), data, data.test, data.test_truth)
    return line | {"ridge": best, "test": test, "evaluation_seconds": round(time.perf_counter() - start, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default=DATASETS)
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--steps", type=int, default=SETTINGS.steps)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = []
    for name in options.datasets.split(","):
        data = EncodedDataset.of(load_dataset(name))
        for model in options.models.split(","):
            own = ROTATE if model == "rotate" else {}
            settings = SETTINGS.changed({"model": model, "steps": options.steps, "seed": options.seed, **own})
            lines.append(measure(data, settings))
            print(json.dumps(lines[-1]), flush=True)
            if options.json:
                options.json.write_text(json.dumps({"settings": SETTINGS.to_dict(), "lines": lines}, indent=2) + "\n")
    print("\n| data set | model | valid | λ | test | training |\n| --- | --- | --- | --- | --- | --- |")
    for line in lines:
        ridge = "-" if line["ridge"] is None else f"{line['ridge']:g}"
        figures = f"{line['valid']:.1f} | {ridge} | {line['test']:.1f} | {line['seconds']:.0f} s"
        print(f"| {line['dataset']} | {line['model']} | {figures} |")


if __name__ == "__main__":
    main()
