"""What requests look like."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, Field(min_length=1)]
TripleText = Annotated[list[Text], Field(min_length=3, max_length=3, description="head, relation, tail")]


Key = Annotated[Text | None, Field(description="a name for this batch: sent again under the same one, it counts once")]


class Body(BaseModel):
    """A request; what it does not name is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TriplesBody(Body):
    """Triples to add or to remove, all or none."""

    triples: Annotated[list[TripleText], Field(min_length=1)]
    key: Annotated[
        Text | None, Field(description="a name for this batch: sent again under the same one, it counts once")
    ] = None


class QuestionBody(Body):
    """(head, relation, ?) or (?, relation, tail)."""

    head: Text | None = None
    tail: Text | None = None
    relation: Text


class PredictBody(Body):
    """One question, or many under `questions`.

    combine: rank by all evidence (true), by the vector alone (false), or as the model says (null)
    hide_known: leave out what training or added triples state; new_answers: newcomers are answers too
    blank_nodes: RDF nodes without a name are answers too
    approximate: by the index, where that can be (true), exactly (false), or as the server was started (null)
    """

    head: Text | None = None
    tail: Text | None = None
    relation: Text | None = None
    questions: Annotated[list[QuestionBody], Field(min_length=1)] | None = None
    top: Annotated[int, Field(ge=1)] = 10
    explain: bool = False
    combine: bool | None = None
    hide_known: bool = True
    new_answers: bool = True
    blank_nodes: bool = False
    approximate: bool | None = None


class LikelyBody(Body):
    """All that is likely about an entity: at either end (entity), as a head, or as a tail; else as in a prediction.

    min_probability: leave out what is less likely to be right, where that was measured
    """

    entity: Text | None = None
    head: Text | None = None
    tail: Text | None = None
    top: Annotated[int, Field(ge=1)] = 10
    combine: bool | None = None
    hide_known: bool = True
    new_answers: bool = True
    min_probability: Annotated[float, Field(ge=0, le=1)] | None = None
    blank_nodes: bool = False


class ClassifyBody(Body):
    """Claims to be judged."""

    claims: Annotated[list[TripleText], Field(min_length=1)]


class ExplainBody(Body):
    """What the vector of an entity is made of, as a question over a relation sees it; and what speaks for an answer."""

    head: Text | None = None
    tail: Text | None = None
    relation: Text
    answer: Text | None = None


class UpdateBody(Body):
    """How to update; all of it may be left out."""

    steps: Annotated[int, Field(ge=0, le=100_000_000)] | None = None
    seconds: Annotated[float, Field(ge=0, le=10_000_000)] | None = None
    mode: Literal["all", "freeze", "new-only"] = "all"
