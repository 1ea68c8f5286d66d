"""From labels to ids that have a vector, or an error that says what is missing."""

from __future__ import annotations

import torch

from ookg.errors import MANY, InputError, unknown_name
from ookg.extension.state import State
from ookg.extension.vectors import relation_vector
from ookg.graph.vocabulary import Vocabulary

NOWHERE = "it is in no training triple and in none of the given ones"


def entity_id(state: State, label: str) -> int:
    """The id of an entity with a vector."""
    number = state.entities.find(label)
    if number is None or not state.has_entity(number):
        names = names_to_suggest(state.model.entities, state.entities.select(state.new_entities))
        raise unknown_name("entity", label, names, NOWHERE)
    if number >= state.num_known and not state.is_represented(number):
        problem = f"entity {label!r} is new and has no usable neighbour"
        raise InputError(f"{problem}; give a triple that ties it to a known entity over a trained relation")
    return number


def relation_id(state: State, label: str) -> int:
    """The id of a relation with a vector."""
    number = state.relations.find(label)
    if number is None or not state.has_relation(number):
        names = names_to_suggest(state.model.relations, state.relations.select(state.new_relations))
        raise unknown_name("relation", label, names, NOWHERE)
    if number >= state.num_trained and torch.isnan(relation_vector(state, number)).any():
        geometry = state.model.embedding.geometry
        remedy = "give a triple of it whose two ends are known"
        if not geometry.makes_relations:
            remedy = f"{type(geometry).__name__} gives vectors to new entities alone; ask for a trained relation"
        raise InputError(f"relation {label!r} is new and has no vector; {remedy}")
    return number


def names_to_suggest(known: Vocabulary, new: list[str]) -> list[str]:
    """The names that a wrong one is compared with: none where they are very many, as that takes seconds."""
    return [] if len(known) + len(new) > MANY else [*known.labels.to_pylist(), *new]
