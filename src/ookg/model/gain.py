"""What an update gains: measured on added triples that it does not get to see."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from ookg.errors import InputError
from ookg.evaluation.growing import both_ways
from ookg.models.embedding import Embedding
from ookg.scoring.link_prediction import other_answers
from ookg.scoring.ranking import query_rank_counts
from ookg.system.progress import Reporter
from ookg.training.continuing import Growth, UpdateSettings, continue_training
from ookg.training.settings import TrainingSettings
from ookg.types import IntArray

QUERIES_AT_ONCE = 4096
LARGEST_SHARE = 0.5


@dataclass(frozen=True)
class Gain:
    """How the answers to added triples rank that an update did not see, as mean reciprocal ranks.

    triples: how many were held out
    before: with known vectors as they are, and new ones where the other added triples place them; after: updated
    """

    triples: int
    before: float
    after: float


def measured_gain(
    embedding: Embedding,
    growth: Growth,
    trained: TrainingSettings,
    update: UpdateSettings,
    share: float,
    report: Reporter | None = None,
) -> Gain:
    """Update without a share of the added triples, drawn by the training's seed, and ask for both ends of these."""
    held = held_out(embedding, growth, share, trained.seed)
    rest = replace(growth, added=np.delete(growth.added, held, axis=0))
    before = continue_training(embedding, rest, trained, replace(update, steps=0)).embedding
    after = continue_training(embedding, rest, trained, update, report).embedding
    asked, true = growth.added[held], np.concatenate([growth.known, growth.added])
    return Gain(len(held), _mean_reciprocal_rank(before, asked, true), _mean_reciprocal_rank(after, asked, true))


def held_out(embedding: Embedding, growth: Growth, share: float, seed: int) -> IntArray:
    """Which added triples to hold out: none that is the first with something new, so that all keeps a triple."""
    if not 0 < share <= LARGEST_SHARE:
        raise InputError(f"validate with a share of {share}; give a number above 0 and at most {LARGEST_SHARE}")
    order = np.random.default_rng(seed).permutation(len(growth.added))
    shuffled = growth.added[order]
    is_needed = np.zeros(len(order), dtype=np.bool_)
    for column, first_new in ((0, embedding.num_entities), (1, embedding.num_relations), (2, embedding.num_entities)):
        _, first = np.unique(shuffled[:, column], return_index=True)
        is_needed[first[shuffled[first, column] >= first_new]] = True
    held = order[~is_needed][: round(share * len(order))]
    if not len(held):
        problem = f"none of {len(order):,} added triples can be held out"
        raise InputError(f"{problem}; add more, or update without validation")
    return np.sort(held)


def _mean_reciprocal_rank(embedding: Embedding, asked: IntArray, true: IntArray) -> float:
    """Over both ends of the asked triples, among all entities but the other right answers."""
    queries, ranks = both_ways(asked), []
    others = other_answers(queries, true, embedding.num_entities)
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        rows = np.arange(start, min(start + QUERIES_AT_ONCE, len(queries)))
        part = queries.select(rows)
        vectors = embedding.rows(torch.from_numpy(part.entity).to(embedding.device))
        ranks.append(query_rank_counts(embedding, vectors, part, others.select(rows)).ranks())
    return float((1 / np.concatenate(ranks)).mean())
