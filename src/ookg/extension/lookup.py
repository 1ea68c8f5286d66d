"""From labels to ids that have a vector, or an error that says what is missing."""

from __future__ import annotations

import pyarrow.compute as pc
import torch

from ookg.errors import InputError, unknown_name
from ookg.extension.question import refuse_no_text
from ookg.extension.state import State
from ookg.extension.vectors import relation_vector
from ookg.graph.vocabulary import Vocabulary
from ookg.system.display import in_full

FEW_NAMES = 2_000  # so many are all looked at
MOST_ALIKE = 500  # that share a third of a name
NOWHERE = "it is in no training triple and in none of the given ones; give triples that have it"


def entity_id(state: State, label: str) -> int:
    """The id of an entity with a vector."""
    number = find(state.entities, label)
    if number is None or not state.has_entity(number):
        names = names_to_suggest(label, state.model.entities, state.entities.select(state.new_entities))
        raise unknown_name("entity", label, names, NOWHERE)
    if number >= state.num_known and not state.is_represented(number):
        problem = f"entity {label!r} is new and has no usable neighbour"
        raise InputError(f"{problem}; give a triple that ties it to a known entity over a trained relation")
    return number


def relation_id(state: State, label: str) -> int:
    """The id of a relation with a vector."""
    number = find(state.relations, label)
    if number is None or not state.has_relation(number):
        names = names_to_suggest(label, state.model.relations, state.relations.select(state.new_relations))
        raise unknown_name("relation", label, names, NOWHERE)
    if number >= state.num_trained and torch.isnan(relation_vector(state, number)).any():
        geometry = state.model.embedding.geometry
        remedy = "give a triple of it whose two ends are known"
        if not geometry.makes_relations:
            remedy = f"{type(geometry).__name__} gives vectors to new entities alone; ask for a trained relation"
        raise InputError(f"relation {label!r} is new and has no vector; {remedy}")
    return number


def find(labels: Vocabulary, label: str) -> int | None:
    """The id of a label, or of the IRI that it shortens (`rdf:type`); None if there is none."""
    refuse_no_text("name", label)
    number = labels.find(label)
    return labels.find(in_full(label, labels.__contains__)) if number is None else number


def names_to_suggest(wanted: str, known: Vocabulary, new: list[str]) -> list[str]:
    """The names that a wrong one is compared with: all, or where they are many those that have a third of it.

    To compare a name with thousands takes a second. A name with one wrong letter has two sound thirds; those that few
    names have come first.
    """
    if len(known) <= FEW_NAMES:
        return [*known.labels.to_pylist(), *new[:FEW_NAMES]]
    third = max(2, -(-len(wanted) // 3))
    parts = [part for start in range(0, len(wanted), third) if _is_text(part := wanted[start : start + third])]
    having = [known.labels.filter(pc.match_substring(known.labels, part)) for part in parts if len(part) > 1]
    alike: dict[str, None] = {}
    for labels in sorted(having, key=len):
        alike |= dict.fromkeys(labels.slice(0, MOST_ALIKE - len(alike)).to_pylist())
    return [*alike, *new[:FEW_NAMES]]


def _is_text(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
