"""Hiding known entities of a graph: some of each one's triples are given, some are asked."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from ookg.errors import InputError
from ookg.graph.hiding import Hiding
from ookg.graph.ids import first_occurrences
from ookg.types import BoolArray, IntArray

DrawBy = Literal["entity", "triple"]
NewEnd = Literal["both", "head", "tail"]
SAMPLE, SAMPLE_SHARE = 300, 0.1


@dataclass(frozen=True)
class HidingSettings:
    """Which entities to hide, and which of their triples to ask.

    sample: how many entities; None for a tenth of them, 300 at most
    draw: "entity": all are equally likely; "triple": an entity is likelier the more triples it has
    new: which end of a question is the hidden entity
    share, most: of an entity's triples this share is asked, at least one and at most `most`; the rest is given
    """

    sample: int | None = None
    draw: DrawBy = "entity"
    new: NewEnd = "both"
    share: float = 0.25
    most: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        if self.sample is not None and self.sample < 1:
            raise InputError(f"a sample of {self.sample}; hide 1 entity or more")
        if self.draw not in ("entity", "triple"):
            raise InputError(f"draw {self.draw!r}; choose entity or triple")
        if self.new not in ("both", "head", "tail"):
            raise InputError(f"new {self.new!r}; choose both, head or tail")
        if not 0 < self.share < 1:
            raise InputError(f"a share of {self.share} to ask; it must lie between 0 and 1")
        if self.most < 1:
            raise InputError(f"at most {self.most} questions per entity; it must be 1 or more")
        if self.seed < 0:
            raise InputError(f"seed {self.seed}; it must not be negative")

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Hidden:
    """A graph in which some entities are new. Its entities are numbered afresh: known ones first, then the hidden.

    entities: (known and hidden,) their ids in the whole graph; an entity that only hidden ones were tied to is in none
    known: (triples, 3) what is left to know; given, questions: (triples, 3) each has one hidden and one known end, and
        a relation that occurs in `known`
    true: (triples, 3) every triple of the graph between these entities
    wanted: how many entities were asked for; some have too few triples left to be given and asked
    between: (triples, 3) triples of two hidden entities, over relations that occur in `known`
    """

    entities: IntArray
    num_known: int
    num_relations: int
    known: IntArray
    given: IntArray
    questions: IntArray
    true: IntArray
    wanted: int
    between: IntArray = field(default_factory=lambda: np.empty((0, 3), dtype=np.int64))

    @property
    def num_hidden(self) -> int:
        """How many entities are hidden."""
        return len(self.entities) - self.num_known


def hide(triples: IntArray, num_entities: int, num_relations: int, settings: HidingSettings | None = None) -> Hidden:
    """Hide a sample of the entities of triples, (triples, 3), by the settings' seed."""
    settings = settings or HidingSettings()
    kept = first_occurrences(triples, num_entities, num_relations)
    triples = triples if kept is None else triples[kept]
    random = np.random.default_rng(settings.seed)
    wanted = _sample_size(settings, num_entities)
    questions = _Questions.of(triples, _drawn(triples, num_entities, wanted, settings, random), num_relations)
    # Making an entity known again takes no triples from the others: those that fit now still fit then.
    questions = _Questions.of(triples, questions.fitting(settings.new), num_relations)
    asked = questions.asked(settings, random)
    if not len(asked):
        remedy = "it takes entities with two triples or more; hide fewer, or use a larger graph"
        raise InputError(f"no entity of {num_entities:,} can be hidden, given and asked; {remedy}")
    given = questions.usable.copy()
    given[asked] = False
    hiding = questions.hiding
    left = hiding.hidden | hiding.known
    return Hidden(
        entities=hiding.entities,
        num_known=hiding.num_known,
        num_relations=num_relations,
        known=hiding.renumbered(triples[hiding.stays]),
        given=hiding.renumbered(triples[given]),
        questions=hiding.renumbered(triples[asked]),
        true=hiding.renumbered(triples[left[triples[:, 0]] & left[triples[:, 2]]]),
        wanted=wanted,
        between=hiding.renumbered(triples[_between(hiding, triples)]),
    )


def _between(hiding: Hiding, triples: IntArray) -> BoolArray:
    """(triples,) whether both ends are hidden, and not the same."""
    head, relation, tail = triples.T
    between: BoolArray = hiding.hidden[head] & hiding.hidden[tail] & hiding.trained[relation] & (head != tail)
    return between


def _sample_size(settings: HidingSettings, num_entities: int) -> int:
    size = settings.sample or max(1, min(SAMPLE, round(SAMPLE_SHARE * num_entities)))
    if 2 * size > num_entities:
        problem = f"a sample of {size:,} of {num_entities:,} entities leaves too little of the graph"
        raise InputError(f"{problem}; hide at most half of them")
    return size


def _drawn(
    triples: IntArray, num_entities: int, size: int, settings: HidingSettings, random: np.random.Generator
) -> BoolArray:
    """(entities,) a random choice of those with two triples or more."""
    ends = triples[triples[:, 0] != triples[:, 2]][:, [0, 2]]
    degree = np.bincount(ends.ravel(), minlength=num_entities)
    eligible = np.flatnonzero(degree >= 2)
    weights = degree[eligible] / degree[eligible].sum() if settings.draw == "triple" and len(eligible) else None
    hidden = np.zeros(num_entities, dtype=np.bool_)
    hidden[random.choice(eligible, min(size, len(eligible)), replace=False, p=weights)] = True
    return hidden


@dataclass(frozen=True, eq=False)
class _Questions:
    """Which triples can be asked if some entities are hidden.

    usable: (triples,) those that tie a hidden entity to a known one over a relation that stays
    owner: (triples,) the hidden end of a usable one; is_head: (triples,) it is the head
    """

    hiding: Hiding
    usable: BoolArray
    owner: IntArray
    is_head: BoolArray

    @classmethod
    def of(cls, triples: IntArray, hidden: BoolArray, num_relations: int) -> _Questions:
        hiding = Hiding.of(triples, hidden, num_relations)
        is_head = hidden[triples[:, 0]]
        owner = np.where(is_head, triples[:, 0], triples[:, 2])
        return cls(hiding, hiding.ties & hiding.trained[triples[:, 1]], owner, is_head)

    def askable(self, new: NewEnd) -> BoolArray:
        """(triples,) whether each may be asked."""
        return self.usable if new == "both" else self.usable & (self.is_head == (new == "head"))

    def fitting(self, new: NewEnd) -> BoolArray:
        """(entities,) the hidden ones with a triple to ask and another to be given."""
        size = len(self.hiding.hidden)
        usable = np.bincount(self.owner[self.usable], minlength=size)
        askable = np.bincount(self.owner[self.askable(new)], minlength=size)
        fits: BoolArray = self.hiding.hidden & (usable >= 2) & (askable >= 1)
        return fits

    def asked(self, settings: HidingSettings, random: np.random.Generator) -> IntArray:
        """The triples to ask, in the order of the graph: a random part of each entity's."""
        size = len(self.hiding.hidden)
        usable = np.bincount(self.owner[self.usable], minlength=size)
        most = np.clip(np.round(settings.share * usable).astype(np.int64), 1, settings.most)
        most = np.minimum(most, usable - 1)
        rows = random.permutation(np.flatnonzero(self.askable(settings.new)))
        rows = rows[np.argsort(self.owner[rows], kind="stable")]
        owner = self.owner[rows]
        place = np.arange(len(rows)) - np.searchsorted(owner, owner)
        asked: IntArray = np.sort(rows[place < most[owner]])
        return asked
