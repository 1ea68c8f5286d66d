"""What a model answers with. All of it can be pickled and printed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, overload

import pyarrow as pa
import torch
from torch import Tensor

from ookg.extension.question import Question
from ookg.graph.frames import NamedTabular
from ookg.graph.names import Names
from ookg.graph.vectors import vector_table
from ookg.simulation.trust import Trust, TrustTable
from ookg.system.display import counted
from ookg.types import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class NewVectors(NamedTabular):
    """Vectors of new entities.

    entities: (newcomers,) those that have a vector; vectors: (newcomers, entity_width)
    neighbors: (newcomers,) how many triples made each vector
    without_vector: new entities with no usable neighbour; notes: what was not used and why, in words
    find_trust: what `trust` calls when it is first read; find_names: what reads their names
    """

    name_columns: ClassVar[Mapping[str, str]] = {"entity": "name"}
    entities: list[str]
    vectors: Tensor
    neighbors: IntArray
    without_vector: list[str]
    notes: list[str]
    find_trust: Callable[[], TrustTable]
    find_names: Callable[[], Names] | None = None

    @cached_property
    def trust(self) -> TrustTable:
        """How far to trust each vector: triples, spread of the candidates, uncertainty, what to expect of it."""
        return self.find_trust()

    def select(self, chosen: BoolArray) -> NewVectors:
        """Those of some of the entities, (newcomers,)."""
        labels = [label for label, is_chosen in zip(self.entities, chosen.tolist(), strict=True) if is_chosen]
        rows = torch.from_numpy(chosen).to(self.vectors.device)
        counts, trust = self.neighbors[chosen], partial(_selected, self, chosen)
        return NewVectors(labels, self.vectors[rows], counts, self.without_vector, self.notes, trust, self.find_names)

    def id_table(self) -> Any:
        """A row for each entity: entity, vector (a list), triples (how many made it)."""
        return vector_table("entity", self.entities, self.vectors, {"triples": self.neighbors})

    def __len__(self) -> int:
        return len(self.entities)

    def __repr__(self) -> str:
        vectors = counted(len(self.entities), "new entity", "new entities")
        without = f", {len(self.without_vector):,} more without" if self.without_vector else ""
        return f"<ookg.NewVectors of {vectors}, {self.vectors.shape[1]} numbers each{without}>"

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: the trust itself, in place of how to compute it."""
        return super().__getstate__() | {"trust": self.trust, "find_trust": _Kept(self.trust)}


def _selected(new: NewVectors, chosen: BoolArray) -> TrustTable:
    return TrustTable(**{name: column[chosen] for name, column in vars(new.trust).items()})


@dataclass(frozen=True)
class _Kept:
    """A trust that was computed before."""

    trust: TrustTable

    def __call__(self) -> TrustTable:
        return self.trust


@dataclass(frozen=True)
class LinkReason:
    """A triple of the asked entity that speaks for an answer.

    direction "out": the asked entity is its head; confidence: how often the asked relation goes with such a link
    via: the entity at its other end, where that is not the answer: one on a path there, or one that others share; then
        the confidence is that of the path, or the share of those others that have the answer
    """

    relation: str
    direction: Literal["out", "in"]
    confidence: float
    via: str | None = None


@dataclass(frozen=True)
class Step:
    """A link of some entity to another one. direction "out": from the first to the other."""

    relation: str
    direction: Literal["out", "in"]
    entity: str

    def text(self, name: Callable[[str], str] = str) -> str:
        """What the first entity has; "it" is that one."""
        words = f"{name(self.relation)} {name(self.entity)}"
        return words if self.direction == "out" else f"'{name(self.entity)} {name(self.relation)} it'"


@dataclass(frozen=True)
class AnswerReason(ABC):
    """What speaks for an answer.

    kind: which evidence it is; link: of the asked entity, if nothing else is said; answer: what that speaks for
    """

    kind: ClassVar[str]
    link: Step
    answer: Step

    @abstractmethod
    def text(self, name: Callable[[str], str] = str) -> str:
        """In words. name: how entities and relations are shown, from their labels."""

    def to_dict(self) -> dict[str, Any]:
        """As plain values, with the words."""
        return {"kind": self.kind, "text": self.text()} | asdict(self)


@dataclass(frozen=True)
class ByLink(AnswerReason):
    """A direct link to the answer; confidence: how many of the pairs with such a link have the asked relation too."""

    kind: ClassVar[str] = "link"
    confidence: float

    def text(self, name: Callable[[str], str] = str) -> str:
        """The link, and how sure it is."""
        asked = name(self.answer.relation)
        return f"{self.link.text(name)} is stated, and {self.confidence:.0%} of such pairs have {asked} too"


@dataclass(frozen=True)
class ByCompany(AnswerReason):
    """Of those who share a link with the asked entity, `having` have the asked relation, and `count` this answer.

    sharing: how many share the link at all; what counts for the score is `count` of `having`
    """

    kind: ClassVar[str] = "company"
    count: int
    having: int
    sharing: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "sharing", max(self.sharing, self.having))

    def text(self, name: Callable[[str], str] = str) -> str:
        """How many who share the link have the answer, and how many have any."""
        have = "has" if self.count == 1 else "have"
        words = f"{self.count} of {self.sharing} with {self.link.text(name)} {have} {self.answer.text(name)}"
        if self.sharing == self.having:
            return words
        any_have = "has" if self.having == 1 else "have"
        return f"{words}, {self.having} {any_have} any {name(self.answer.relation)}"


@dataclass(frozen=True)
class ByLikeness(AnswerReason):
    """Of the `having` that share a link with the answer and have the asked relation, `count` are answers already.

    link: of the answer, and not of the asked entity; back: the asked relation from the answer to the asked entity
    """

    kind: ClassVar[str] = "likeness"
    back: Step
    count: int
    having: int

    def text(self, name: Callable[[str], str] = str) -> str:
        """How many of those that have the answer's link are answers."""
        have = "has" if self.count == 1 else "have"
        having = f"{self.having} with {self.link.text(name)} and any {name(self.back.relation)}"
        return f"{self.count} of {having} {have} {self.back.text(name)}"


@dataclass(frozen=True)
class ByPath(AnswerReason):
    """A path of two links to the answer; of the `reached` ones that were counted elsewhere `hits` led rightly.

    second: the link from the end of the first one to the answer
    """

    kind: ClassVar[str] = "path"
    second: Step
    hits: int
    reached: int

    def text(self, name: Callable[[str], str] = str) -> str:
        """Both links, and how often such a path was right."""
        ends = [name(self.link.entity), name(self.second.relation), name(self.second.entity)]
        second = " ".join(ends if self.second.direction == "out" else ends[::-1])
        counts = f"{self.hits} of {self.reached} such paths were right"
        return f"{self.link.text(name)}, and {second}: {counts}"


@dataclass(frozen=True)
class ByNetwork(AnswerReason):
    """What the network makes of all links around the asked entity; link: none of them, but the asked one.

    probability: that it gives to the answer; rank: of the answer by it
    """

    kind: ClassVar[str] = "network"
    probability: float
    rank: int

    def text(self, name: Callable[[str], str] = str) -> str:
        """How likely the answer is by the network."""
        del name
        share = f"{100 * self.probability:.2g}" if self.probability < 0.1 else f"{100 * self.probability:.0f}"
        return f"the {self.kind}: {share}%, its rank {self.rank:,}"


@dataclass(frozen=True)
class ByEncoder(ByNetwork):
    """The same by the network's encoder, from the vectors of what the asked entity is linked to."""

    kind: ClassVar[str] = "encoder"


@dataclass(frozen=True)
class Share:
    """A part of the difference between an answer's score and the mean of those that rank next below it.

    kind: "vector": a triple of the asked entity, `link`, by what it makes of the vector; "usual": what an average
        entity would be answered; "rest": what no triple makes of the vector; "new": for being new; or the name of a
        source of evidence, with the `reason` that it has
    worth: of the difference; below 0 it speaks for the others
    """

    kind: str
    worth: float
    link: Step | None = None
    reason: AnswerReason | None = None

    def text(self, name: Callable[[str], str] = str) -> str:
        """In words. name: how entities and relations are shown, from their labels."""
        if self.reason is not None and self.worth > 0:
            return self.reason.text(name)
        match self.kind:
            case "vector" if self.link is not None:
                return f"{self.link.text(name)} (by the vector)"
            case "usual":
                return "what is usual, whatever is known of the entity" if self.worth > 0 else "it is less usual"
            case "rest":
                return "what no single triple makes of the vector"
            case "new":
                return "whether answers are themselves new"
        return (
            f"the others have more {self.kind}" if self.worth < 0 else f"{self.kind} of the graph, of no single triple"
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain values, with the words."""
        link = None if self.link is None else asdict(self.link)
        return {"kind": self.kind, "worth": self.worth, "text": self.text(), "link": link}


@dataclass(frozen=True)
class Answer:
    """One answer: its score is -D(h, r, t), or a weighted sum of evidence; its rank counts from 1.

    link: where all evidence counts, the triple of the asked entity that speaks most for it
    reasons: where all evidence counts, or it is to be explained, what speaks for it, that which adds most first
    probability: how likely it is right, as often as such answers were; None where that was not measured
    shares: where it is to be explained, the parts of its lead over the answers that rank next, largest first
    """

    entity: str
    score: float
    rank: int
    is_known: bool
    is_new: bool
    link: LinkReason | None = None
    reasons: tuple[AnswerReason, ...] = ()
    probability: float | None = None
    shares: tuple[Share, ...] = ()

    @property
    def lead(self) -> float:
        """By how much its score is above the mean of those that rank next, where it is explained."""
        return sum(share.worth for share in self.shares)


@dataclass(frozen=True)
class Reason:
    """One triple that made the asked entity's vector, and its weight; direction "out": the entity is its head."""

    entity: str
    relation: str
    direction: Literal["out", "in"]
    weight: float


class Reasons(Sequence[Reason]):
    """Reasons that are looked up when they are first read. Equal to a list of the same, and pickled as one."""

    def __init__(self, find: Callable[[], list[Reason]]) -> None:
        self._find = find

    @cached_property
    def _reasons(self) -> list[Reason]:
        return self._find()

    def __len__(self) -> int:
        return len(self._reasons)

    @overload
    def __getitem__(self, place: int) -> Reason: ...
    @overload
    def __getitem__(self, place: slice) -> list[Reason]: ...
    def __getitem__(self, place: int | slice) -> Reason | list[Reason]:
        return self._reasons[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reasons | list) and self._reasons == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._reasons)

    def __reduce__(self) -> tuple[type[list[Reason]], tuple[list[Reason]]]:
        return list, (self._reasons,)


@dataclass(frozen=True)
class Prediction(NamedTabular):
    """The best answers to a query, and for a new entity what its vector was made of (heaviest first).

    explanation: of a fitted vector, the triples it was fitted to, with the weights that the fit started from; it is
        looked up when it is first read
    trust: how far to trust a new entity's vector; None for a known one
    way: how it was answered, in words, where that was not said
    question: what was asked
    recall: where an index named the candidates, how many of the ten best such answers had when that was measured, 0 to
        1; None where all entities were scored
    is_measured: whether the probabilities of the answers were measured with this model; if not, they only order answers
    """

    answers: list[Answer]
    explanation: Sequence[Reason]
    notes: list[str]
    trust: Trust | None = None
    way: str | None = None
    question: Question | None = None
    recall: float | None = None
    find_names: Callable[[], Names] | None = field(default=None, repr=False, compare=False)
    is_measured: bool = field(default=True, repr=False, compare=False)

    def id_table(self) -> Any:
        """A row for each answer, as `Predictions.id_table` has it."""
        return Predictions([self]).id_table()

    def __str__(self) -> str:
        lines = [f"{one.rank:>3} {one.score:>9.3f}  {one.entity}{_marks(one)}" for one in self.answers]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)] or ["no answers"])


ANSWER_TYPES: dict[str, Any] = {
    "question": pa.int64(), "head": pa.string(), "relation": pa.string(), "tail": pa.string(), "asked": pa.string(),
    "rank": pa.int64(), "score": pa.float64(), "probability": pa.float64(), "known": pa.bool_(), "new": pa.bool_(),
}  # fmt: skip


def answer_rows(pairs: Iterable[tuple[int, Question | None, Answer]]) -> Any:
    """An Arrow table of answers: the number of the question, the triple that an answer makes, the end that was asked
    for ("head" or "tail"), rank, score, probability (null where it was not measured), and whether it is known, or new.
    """
    columns: dict[str, list[Any]] = {name: [] for name in ANSWER_TYPES}
    for number, question, answer in pairs:
        head, tail = answer.entity, answer.entity
        if question is not None:
            head, tail = (question.head or answer.entity), (question.tail or answer.entity)
        asked = None if question is None else "tail" if question.asks_tail else "head"
        ends = (head, None if question is None else question.relation, tail)
        values = (number, *ends, asked, answer.rank, answer.score, answer.probability, answer.is_known, answer.is_new)
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    return pa.table({name: pa.array(values, ANSWER_TYPES[name]) for name, values in columns.items()})


class Predictions(list[Prediction], NamedTabular):
    """The answers to many questions, in their order."""

    def __init__(self, predictions: Iterable[Prediction] = (), find_names: Callable[[], Names] | None = None) -> None:
        super().__init__(predictions)
        self.find_names = find_names

    def id_table(self) -> Any:
        """A row for each answer, as `answer_rows` has it; questions are numbered from 1."""
        return answer_rows(
            (number, one.question, answer) for number, one in enumerate(self, start=1) for answer in one.answers
        )


@dataclass(frozen=True)
class LikelyAnswer:
    """An answer, and the question that it answers; its rank is that among all that is likely about the entity."""

    question: Question
    answer: Answer

    @property
    def triple(self) -> tuple[str, str, str]:
        """The triple that the answer makes."""
        head, tail = (self.question.head or self.answer.entity), (self.question.tail or self.answer.entity)
        return head, self.question.relation, tail


class LikelyAnswers(list[LikelyAnswer], NamedTabular):
    """All that is likely about an entity, the likeliest first. notes: what a user should know, in words"""

    def __init__(
        self,
        answers: Iterable[LikelyAnswer] = (),
        find_names: Callable[[], Names] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        super().__init__(answers)
        self.find_names, self.notes = find_names, list(notes)

    def id_table(self) -> Any:
        """A row for each answer, as `answer_rows` has it; all belong to one question, 1."""
        return answer_rows((1, one.question, one.answer) for one in self)

    def __str__(self) -> str:
        lines = [f"{one.answer.rank:>3}  {' '.join(one.triple)}{_marks(one.answer)}" for one in self]
        return "\n".join(lines or ["nothing"])


@dataclass(frozen=True)
class Neighbor:
    """An entity near another one; distance: as the model measures how far entity vectors are apart."""

    entity: str
    distance: float
    is_new: bool


class Neighbors(list[Neighbor], NamedTabular):
    """The entities near another one, the nearest first."""

    name_columns: ClassVar[Mapping[str, str]] = {"entity": "name"}

    def __init__(self, neighbors: Iterable[Neighbor] = (), find_names: Callable[[], Names] | None = None) -> None:
        super().__init__(neighbors)
        self.find_names = find_names

    def id_table(self) -> Any:
        """A row for each: rank, entity, distance, new."""
        columns = {"entity": pa.string(), "distance": pa.float64(), "is_new": pa.bool_()}
        table = {name: pa.array([getattr(one, name) for one in self], kind) for name, kind in columns.items()}
        return pa.table({"rank": pa.array(range(1, len(self) + 1), pa.int64())} | table).rename_columns(
            ["rank", "entity", "distance", "new"]
        )

    def __str__(self) -> str:
        return "\n".join(f"{one.distance:>9.3f}  {one.entity}{'  (new)' * one.is_new}" for one in self) or "none"


def _marks(answer: Answer) -> str:
    marks = [word for word, holds in (("known", answer.is_known), ("new", answer.is_new)) if holds]
    if answer.probability is not None:
        marks.append(f"probability {answer.probability:.2f}")
    if answer.link is not None:
        marks.append(f"{answer.link.relation} {answer.link.direction}, {answer.link.confidence:.2f}")
    return f"  ({'; '.join(marks)})" if marks else ""
