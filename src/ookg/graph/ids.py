"""Triples as arrays of ids, without their labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ookg.errors import InputError

Truth = np.ndarray[tuple[int], np.dtype[np.bool_]]
TripleIds = np.ndarray[tuple[int, int], np.dtype[np.int64]]

SORTED_TRIPLES = 1 << 22  # up to this many are sorted to find those that repeat


def triple_keys(ids: TripleIds, num_entities: int, num_relations: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """One number a triple: (head · relations + relation) · entities + tail."""
    if num_entities**2 * num_relations >= 1 << 62:
        raise InputError(
            f"{num_entities:,} entities and {num_relations:,} relations are more than 64-bit keys can tell apart"
        )
    keys: np.ndarray[tuple[int], np.dtype[np.int64]] = (ids[:, 0] * num_relations + ids[:, 1]) * num_entities
    return keys + ids[:, 2]


def first_occurrences(
    ids: TripleIds, num_entities: int, num_relations: int, truth: Truth | None = None
) -> np.ndarray[Any, Any] | None:
    """Positions of each distinct triple's first occurrence, in order; None where no triple repeats."""
    if len(ids) > SORTED_TRIPLES or num_entities**2 * num_relations >= 1 << 61:
        from ookg.graph.hashing import are_first  # takes a while to import

        is_first = are_first(ids, truth)
        return None if is_first.all() else np.flatnonzero(is_first)
    keys = triple_keys(ids, max(num_entities, 1), max(num_relations, 1))
    if truth is not None:
        keys = keys * 2 + truth
    ordered = np.sort(keys)
    if not (ordered[1:] == ordered[:-1]).any():
        return None
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.ones(len(keys), dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return np.sort(order[first])
