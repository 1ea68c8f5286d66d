"""Vectors of new entities on their own: which weights make one, and what is handed out with it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch

from ookg.errors import InputError, unknown_name
from ookg.extension.answers import NewVectors
from ookg.extension.lookup import NOWHERE
from ookg.newcomers.reducer import Correlation, Degree, Weights

if TYPE_CHECKING:
    from ookg.model.model import Model
    from ookg.newcomers.given import Given


def weights_of_vectors(model: Model, weights: Weights | None, query_relation: str | None, *, refined: bool) -> Weights:
    """The weights that vectors are made with, such that there is one for each entity."""
    if refined and query_relation is not None:
        raise InputError("a query relation with refine, whose vectors serve every query; leave one of them out")
    if weights is None and model.checkpoint.statistics is None and query_relation is not None:
        weights = Correlation()  # refused with the reason
    weights = weights or model.default_weights(Correlation() if query_relation is not None else Degree())
    if query_relation is not None and not weights.needs_query:
        name = type(weights).__name__.lower()
        raise InputError(f"a query relation with {name} weights, which do not look at it; choose correlation weights")
    if weights.needs_query and query_relation is None:
        raise InputError(
            "correlation weights depend on the relation that is asked for, so there is no single vector; "
            "give a query relation, or choose uniform or degree weights"
        )
    return weights


def new_vectors(model: Model, given: Given, query_relation: str | None, *, refined: bool) -> NewVectors:
    """The vectors of the new entities in given triples."""
    newcomers, first = given.newcomers, len(model.entities)
    queries = None
    if query_relation is not None:
        queries = np.full(newcomers.support.num_newcomers, _relation(model, query_relation, given))
    vectors = newcomers.vectors(np.arange(newcomers.support.num_newcomers), queries)
    made = newcomers.representable
    return NewVectors(
        given.entities.select(np.flatnonzero(made) + first),
        vectors if made.all() else vectors[torch.from_numpy(made)],  # of ten million newcomers a copy takes gigabytes
        newcomers.counts[made],
        given.entities.select(np.flatnonzero(~made) + first),
        given.notes,
        partial(model.trust, newcomers, np.flatnonzero(made), refine=refined),
        lambda: model.names,
    )


def _relation(model: Model, label: str, given: Given) -> int:
    """The id of a relation with a vector."""
    number = given.relations.find(label)
    if number is None:
        known = given.relations.labels.to_pylist()
        raise unknown_name("relation", label, known, NOWHERE)
    if not given.newcomers.has_relation(np.array([number]))[0]:
        geometry = model.checkpoint.embedding.geometry
        if not geometry.makes_relations:
            remedy = f"{type(geometry).__name__} gives vectors to new entities alone; ask for a trained relation"
        else:
            remedy = "give a triple of it whose two ends are known"
        raise InputError(f"relation {label!r} is new and has no vector; {remedy}")
    return number
