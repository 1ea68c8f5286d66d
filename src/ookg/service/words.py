"""Names and reasons as people read them."""

from __future__ import annotations

from typing import Any

from ookg.extension.answers import Answer, Prediction, Reason
from ookg.extension.questions import Question
from ookg.simulation.trust import Trust


def name_of(label: str) -> str | None:
    """The name that people know an entity or relation by; None if it has no other than its label."""
    return None


def description_of(label: str) -> str | None:
    """What an entity or relation is, in words, where that is known."""
    return None


def shown(label: str) -> str:
    """A label as a person reads it."""
    return name_of(label) or label


def trust_values(trust: Trust | None) -> dict[str, Any] | None:
    """How far to trust a vector, for JSON."""
    return None if trust is None else trust.to_dict()


def question_values(question: Question) -> dict[str, Any]:
    """A question, with names."""
    side = "head" if question.head is not None else "tail"
    return {
        side: question.asked,
        f"{side}_name": name_of(question.asked),
        "relation": question.relation,
        "relation_name": name_of(question.relation),
    }


def reason_values(asked: str, reason: Reason) -> dict[str, Any]:
    """A triple that made a vector, as values and in words."""
    return {
        "text": f"{reason.weight:.0%} {_triple(asked, reason.relation, reason.entity, reason.direction)}",
        "entity": reason.entity,
        "name": name_of(reason.entity),
        "relation": reason.relation,
        "relation_name": name_of(reason.relation),
        "direction": reason.direction,
        "weight": reason.weight,
    }


def link_reasons(asked: str, answer: Answer) -> list[str]:
    """What speaks for an answer, in words."""
    link = answer.link
    if link is None:
        return []
    told = _triple(asked, link.relation, link.via or answer.entity, link.direction)
    return [f"{told} ({link.confidence:.0%})"]


def prediction_values(question: Question, prediction: Prediction, *, explain: bool) -> dict[str, Any]:
    """An answered question, for JSON."""
    asked = question.asked
    return {
        "question": question_values(question),
        "answers": [
            {
                "entity": answer.entity,
                "name": name_of(answer.entity),
                "score": answer.score,
                "rank": answer.rank,
                "is_known": answer.is_known,
                "is_new": answer.is_new,
                "reasons": link_reasons(asked, answer),
            }
            for answer in prediction.answers
        ],
        "explanation": [reason_values(asked, reason) for reason in prediction.explanation] if explain else [],
        "trust": trust_values(prediction.trust),
        "notes": prediction.notes,
    }


def _triple(asked: str, relation: str, other: str, direction: str) -> str:
    ends = (asked, relation, other) if direction == "out" else (other, relation, asked)
    return " ".join(map(shown, ends))
