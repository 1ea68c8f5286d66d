"""What vectors of 16 bits cost and save: figures and answers on CoDEx-S, and the time of a question to a large model.

    python benchmarks/sixteen_bits.py [--data FOLDER] [--steps 5000] [--dim 200] [--entities 1000000]

FOLDER holds train.txt.gz and test.txt.gz (default: codex-s in OOKG_DATA). A model is trained on it, and both it and its
`compacted()` rank every test triple from either end, among all entities but other right answers. The overlap is how
many of the ten nearest entities both have. Then one question is asked of random tables of `entities` rows, in turns;
the best counts.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import torch

import ookg
from ookg.graph.triples import read_triples
from ookg.models import GEOMETRIES
from ookg.models.embedding import Embedding
from ookg.scoring.link_prediction import other_answers
from ookg.scoring.nearest import gaps_to_all
from ookg.scoring.queries import Queries
from ookg.scoring.ranking import query_rank_counts
from ookg.training.settings import TrainingSettings
from ookg.types import Array, IntArray

REPEATS = 15


def questions(triples: IntArray) -> Queries:
    """Each triple from either end."""
    head, relation, tail = triples.T
    asks_tail = np.repeat([True, False], len(triples))
    ends = np.concatenate([head, tail]), np.concatenate([relation, relation]), np.concatenate([tail, head])
    return Queries(*ends, asks_tail)


def ranks(embedding: Embedding, queries: Queries, true: IntArray) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    vectors = embedding.rows(torch.from_numpy(queries.entity))
    others = other_answers(queries, true, embedding.num_entities)
    found: np.ndarray[tuple[int], np.dtype[np.float64]] = query_rank_counts(embedding, vectors, queries, others).ranks()
    return found


def nearest(embedding: Embedding, queries: Queries) -> Array:
    """(questions, 10) the entities nearest to where the answer should be."""
    geometry = embedding.geometry
    vectors = embedding.rows(torch.from_numpy(queries.entity))
    relations = embedding.relations[torch.from_numpy(queries.relation)]
    asks_tail = torch.from_numpy(queries.asks_tail)[:, None]
    points = torch.where(asks_tail, geometry.solve_tail(vectors, relations), geometry.solve_head(relations, vectors))
    chosen: Array = np.argsort(gaps_to_all(embedding, points), axis=1, kind="stable")[:, :10]
    return chosen


def quality(folder: Path, name: str, dim: int, steps: int) -> None:
    train = read_triples(folder / "train.txt.gz")
    test = read_triples(folder / "test.txt.gz").encoded(train.entities, train.relations)
    test = test[(test >= 0).all(axis=1)]
    model = ookg.train(train, TrainingSettings(model=name, dim=dim, steps=steps), device="cpu")
    queries, true = questions(test), np.concatenate([train.ids, test])
    embeddings = model.embedding, model.compacted().embedding
    figures = [ranks(embedding, queries, true) for embedding in embeddings]
    ten = [nearest(embedding, queries) for embedding in embeddings]
    overlap = np.mean([len(np.intersect1d(one, other)) / 10 for one, other in zip(*ten, strict=True)])
    mrr = [float((1 / figure).mean()) for figure in figures]
    hits = [float((figure <= 10).mean()) for figure in figures]
    print(f"{name}, d {dim}, {steps:,} steps, {len(queries):,} questions")
    print(f"  MRR {mrr[0]:.5f} in 32 bits, {mrr[1]:.5f} in 16; Hits@10 {hits[0]:.5f}, {hits[1]:.5f}")
    print(f"  overlap of the ten nearest {overlap:.2%}, the same nearest {(ten[0][:, 0] == ten[1][:, 0]).mean():.2%}")


def speed(name: str, entities: int, width: int) -> None:
    geometry = GEOMETRIES[name](width // 2 if name == "rotate" else width)
    generator = torch.Generator().manual_seed(0)
    nothing = torch.zeros(1, geometry.relation_width)
    wide = Embedding(geometry, torch.randn(entities, width, generator=generator), nothing)
    tables = {32: wide, 16: wide.compacted()}
    point, best = torch.randn(1, width, generator=generator), dict.fromkeys(tables, (np.inf, np.inf))
    for _ in range(REPEATS):
        for bits, table in tables.items():
            start, used = perf_counter(), process_time()
            gaps_to_all(table, point)
            taken = perf_counter() - start, process_time() - used
            best[bits] = min(best[bits][0], taken[0]), min(best[bits][1], taken[1])
    for bits, (seconds, used) in best.items():
        size = tables[bits].entities.nbytes / 1e6
        print(f"  {name}, {bits} bits, {size:,.0f} MB: {seconds * 1e3:.1f} ms, {used * 1e3:.1f} ms of processor time")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("OOKG_DATA", ".")) / "codex-s")
    parser.add_argument("--dim", type=int, default=200)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--entities", type=int, default=1_000_000)
    arguments = parser.parse_args()
    for name in ("transe", "rotate"):
        quality(arguments.data, name, arguments.dim, arguments.steps)
    print(f"a question to {arguments.entities:,} entities of width 200")
    for name in ("transe", "rotate"):
        speed(name, arguments.entities, 200)


if __name__ == "__main__":
    main()
