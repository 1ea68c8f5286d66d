"""Which given triples make no vector, and what they make besides vectors of entities, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ookg.models import Geometry
from ookg.system.display import counted

EXAMPLES = 3


@dataclass
class Findings:
    """Labels of what was found: triples as (head, relation, tail), entities and relations.

    untrained_relation, between_newcomers, self_loops, without_newcomer: triples, as in `Unused`
    made_relations: new relations with a vector; lacking: new entities without one
    """

    untrained_relation: Sequence[tuple[str, str, str]] = ()
    between_newcomers: Sequence[tuple[str, str, str]] = ()
    self_loops: Sequence[tuple[str, str, str]] = ()
    without_newcomer: Sequence[tuple[str, str, str]] = ()
    made_relations: Sequence[str] = ()
    lacking: Sequence[str] = ()

    def in_words(self, geometry: Geometry, *, makes_relations: bool) -> Iterator[str]:
        """A line for each kind; makes_relations: whether new relations can get a vector."""
        between, relation = "between new entities that nothing ties to the known graph", "a trained vector"
        if not geometry.solves_together:
            between = f"between two new entities, which {type(geometry).__name__} is not solved for"
        if geometry.makes_relations and makes_relations:
            relation = "a vector: none of its triples has two ends with vectors of their own"
        for triples, text in (
            (self.untrained_relation, f"not used, over a relation without {relation}"),
            (self.between_newcomers, f"not used, {between}"),
            (self.self_loops, "not used, of a new entity with itself"),
            (self.without_newcomer, "between known entities, known answers that make no vector"),
        ):
            if triples:
                yield f"{counted(len(triples), 'triple')} {text} ({_some(triples)})"
        if self.made_relations:
            made = counted(len(self.made_relations), "new relation")
            yield f"{made} with a vector made of given triples ({_some(self.made_relations)})"
        if self.lacking:
            lacking = counted(len(self.lacking), "new entity", "new entities")
            yield f"{lacking} without a usable neighbour, and so without a vector ({_some(self.lacking)})"


def _some(examples: Sequence[str] | Sequence[tuple[str, str, str]]) -> str:
    first = [one if isinstance(one, str) else " ".join(one) for one in examples[:EXAMPLES]]
    return ", ".join(first) + (", ..." if len(examples) > EXAMPLES else "")
