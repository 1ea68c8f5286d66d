"""What given triples have that makes no vector, and what they make beside entities' vectors, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ookg.models import Geometry, Projected
from ookg.system.display import counted

EXAMPLES = 3


@dataclass(frozen=True)
class Some:
    """How many there are, and the first `EXAMPLES` of them in words."""

    count: int = 0
    examples: Sequence[str] = ()

    def __str__(self) -> str:
        return ", ".join(self.examples[:EXAMPLES]) + (", ..." if self.count > EXAMPLES else "")


@dataclass(frozen=True)
class Findings:
    """What was found of each kind.

    untrained_relation, between_newcomers, self_loops, without_newcomer: triples, as in `Unused`
    made_relations: new relations with a vector; lacking: new entities without one
    """

    untrained_relation: Some = Some()
    between_newcomers: Some = Some()
    self_loops: Some = Some()
    without_newcomer: Some = Some()
    made_relations: Some = Some()
    lacking: Some = Some()

    def in_words(self, geometry: Geometry, *, makes_relations: bool) -> Iterator[str]:
        """A line for each kind; makes_relations: whether new relations could have got a vector."""
        between, relation = "between new entities that nothing ties to the known graph", "a trained vector"
        if isinstance(geometry, Projected):
            between = f"between two new entities, which {type(geometry).__name__} is not solved for"
        elif makes_relations:
            relation = "a vector: none of its triples has two ends with vectors of their own"
        for triples, text in (
            (self.untrained_relation, f"not used, over a relation without {relation}"),
            (self.between_newcomers, f"not used, {between}"),
            (self.self_loops, "not used, of a new entity with itself"),
            (self.without_newcomer, "between known entities, which make no vector but state known answers"),
        ):
            if triples.count:
                yield f"{counted(triples.count, 'triple')} {text} ({triples})"
        if self.made_relations.count:
            made = counted(self.made_relations.count, "new relation")
            yield f"{made} with a vector made of given triples ({self.made_relations})"
        if self.lacking.count:
            lacking = counted(self.lacking.count, "new entity", "new entities")
            yield f"{lacking} without a usable neighbour, and so without a vector ({self.lacking})"
