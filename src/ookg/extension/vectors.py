"""The vectors of known and new entities and relations, as a question sees them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ookg.extension.answers import Neighbor, Neighbors
from ookg.extension.state import State
from ookg.scoring.nearest import best_places
from ookg.types import IntArray

COMPARED_NUMBERS = 1 << 24  # of vectors, at once


def relation_vector(state: State, relation: int) -> Tensor:
    """(1, relation_width); NaN for a new relation that got none."""
    trained = state.model.embedding.relations
    if relation < len(trained):
        return trained[relation][None]
    group = state.groups[state.group_of[-1 - relation]]
    made = group.newcomers.embedding.relations
    place = len(trained) + group.relations.tolist().index(relation)
    if place >= len(made):  # the model makes none
        return trained.new_full((1, trained.shape[1]), torch.nan)
    return made[place][None]


def entity_vector(state: State, entity: int, relation: int) -> Tensor:
    """(1, entity_width) of a known entity, or a new one that is represented, as a question over a relation sees it."""
    if entity < state.num_known:
        return state.model.embedding.rows(torch.tensor([entity]))
    group = state.group(entity)
    assert group is not None  # `lookup.entity_id` has refused what has no group
    queries = np.array([relation]) if state.preparation.weights.needs_query else None
    return group.seen_in(state.graph.statistics).vectors(np.array([group.place(entity)]), queries)


def entity_vectors(state: State, entities: IntArray, relation: int) -> Tensor:
    """(entities, entity_width) as a question over a relation sees them; NaN where there is none."""
    embedding = state.model.embedding
    rows = embedding.rows(torch.from_numpy(np.where(entities < state.num_known, entities, 0)).to(embedding.device))
    is_new = entities >= state.num_known
    rows[torch.from_numpy(is_new).to(rows.device)] = torch.nan
    wanted = entities[is_new]
    for group in state.everyone if len(wanted) else ():
        place = group.places(wanted)
        mine = np.flatnonzero(is_new)[place >= 0]
        if not len(mine):
            continue
        queries = np.full(len(mine), relation) if state.preparation.weights.needs_query else None
        vectors = group.seen_in(state.graph.statistics).vectors(place[place >= 0], queries)
        rows[torch.from_numpy(mine).to(rows.device)] = vectors
    return rows


def single_vectors(state: State) -> dict[str, Tensor]:
    """The vectors of all new entities that have one, by label; the preparation gives each a single one."""
    by_label: dict[str, Tensor] = {}
    for group in state.everyone:
        made = group.present[group.newcomers.representable[group.present]]
        rows = group.seen_in(state.graph.statistics).vectors(made)
        by_label |= dict(zip(state.entities.select(group.entities[made]), rows, strict=True))
    return by_label


def nearest(state: State, entity: int, top: int) -> Neighbors:
    """The entities nearest to one, known and new; the preparation gives each a single vector."""
    geometry, own = state.model.embedding.geometry, entity_vector(state, entity, -1)
    new = single_vectors(state)
    label, num_known = state.entities.label(entity), state.num_known
    later = [name for name in new if name != label]
    table = state.model.embedding.entities
    rows = max(1, COMPARED_NUMBERS // max(1, table.shape[1]))
    parts = [*torch.split(table, rows), *([torch.stack([new[name] for name in later])] if later else [])]
    gaps = torch.cat([geometry.entity_gap(own, part) for part in parts]).float().cpu().numpy()
    if entity < num_known:
        gaps[entity] = np.inf
    best = best_places(-gaps, top)
    labels = [state.entities.label(place) if place < num_known else later[place - num_known] for place in best.tolist()]
    rows_of_best = zip(labels, gaps[best].tolist(), (best >= num_known).tolist(), strict=True)
    return Neighbors((Neighbor(name, gap, is_new) for name, gap, is_new in rows_of_best), state.find_names)
