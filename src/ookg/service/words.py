"""Names and reasons as people read them, and answers as JSON has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ookg.extension.answers import Answer, LikelyAnswers, Prediction, Reason, Share
from ookg.extension.around import StatedTriple
from ookg.extension.likely import End
from ookg.extension.questions import Question
from ookg.graph.names import Names
from ookg.simulation.trust import Trust


def trust_values(trust: Trust | None) -> dict[str, Any] | None:
    """How far to trust a vector, for JSON."""
    return None if trust is None else trust.to_dict()


@dataclass(frozen=True)
class Words:
    """Puts what the model says into words, with the names that ids have."""

    names: Names

    def shown(self, label: str) -> str:
        """A label as a person reads it."""
        return self.names.name(label) or label

    def entry(self, kind: str, label: str, *, is_new: bool) -> dict[str, Any]:
        """An entity or a relation."""
        name, description = self.names.name(label), self.names.description(label)
        return {kind: label, "name": name, "description": description, "is_new": is_new}

    def triple(self, stated: StatedTriple) -> dict[str, Any]:
        """A triple that holds."""
        return self.named_triple(stated.head, stated.relation, stated.tail) | {"is_added": stated.is_given}

    def named_triple(self, head: str, relation: str, tail: str) -> dict[str, Any]:
        """A triple, with names."""
        ends = {"head": head, "relation": relation, "tail": tail}
        return ends | {f"{end}_name": self.names.name(label) for end, label in ends.items()}

    def question(self, question: Question) -> dict[str, Any]:
        """A question, with names."""
        side, name = "head" if question.asks_tail else "tail", self.names.name
        return {
            side: question.asked,
            f"{side}_name": name(question.asked),
            "relation": question.relation,
            "relation_name": name(question.relation),
        }

    def reason(self, asked: str, reason: Reason) -> dict[str, Any]:
        """A triple that made a vector."""
        stated = self._stated(asked, reason.relation, reason.entity, reason.direction)
        return {
            "text": f"{stated}, which makes {reason.weight:.0%} of its vector",
            "entity": reason.entity,
            "name": self.names.name(reason.entity),
            "relation": reason.relation,
            "relation_name": self.names.name(reason.relation),
            "direction": reason.direction,
            "weight": reason.weight,
        }

    def prediction(self, question: Question, prediction: Prediction, *, explained: bool = False) -> dict[str, Any]:
        """An answered question."""
        why = prediction.explanation if explained else ()
        return {
            "question": self.question(question),
            "answers": [
                self._answer(answer)
                | {
                    "reasons": [reason.text(self.shown) for reason in answer.reasons] if explained else [],
                    "lead": answer.lead if answer.shares else None,
                    "shares": [self.share(share) for share in answer.shares],
                }
                for answer in prediction.answers
            ],
            "explanation": [self.reason(question.asked, reason) for reason in why],
            "trust": trust_values(prediction.trust),
            "way": prediction.way,
            "recall": prediction.recall,
            "notes": prediction.notes,
        }

    def likely(self, entity: str, end: End, likely: LikelyAnswers) -> dict[str, Any]:
        """Everything likely about an entity."""
        return {
            "question": {"entity": entity, "name": self.names.name(entity), "end": end},
            "answers": [self.named_triple(*one.triple) | self._answer(one.answer) for one in likely],
            "notes": likely.notes,
        }

    def _answer(self, answer: Answer) -> dict[str, Any]:
        return {
            "entity": answer.entity,
            "name": self.names.name(answer.entity),
            "score": answer.score,
            "rank": answer.rank,
            "probability": answer.probability,
            "is_known": answer.is_known,
            "is_new": answer.is_new,
        }

    def share(self, share: Share) -> dict[str, Any]:
        """A part of an answer's lead."""
        return share.to_dict() | {"text": share.text(self.shown)}

    def _stated(self, asked: str, relation: str, other: str, direction: str) -> str:
        ends = (asked, relation, other) if direction == "out" else (other, relation, asked)
        return " ".join(map(self.shown, ends))
