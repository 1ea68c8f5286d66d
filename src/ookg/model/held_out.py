"""Triples that training does not see, to say how good the vectors are and when more steps no longer pay.

They are a small share of the graph. Their entities and relations have other triples to learn from. They stay in the
model's graph, as known answers and as evidence; only its vectors have not learned from them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ookg.datasets.splitting import draw_valid
from ookg.models import Geometry
from ookg.models.embedding import Embedding
from ookg.scoring.link_prediction import other_answers
from ookg.scoring.queries import Queries
from ookg.scoring.ranking import AnswerIndex, query_rank_counts
from ookg.storage.checkpoint import Checkpoint
from ookg.training.loop import Validate
from ookg.training.settings import TrainingSettings
from ookg.types import FloatArray, IntArray

HELD_OUT = "held-out triples"  # what the quality of a model is measured on, as it is stored
MOST_COMPARISONS, LEAST_ON_THE_WAY = 50_000_000, 100  # of a validation on the way: of questions with entities, triples


def held_out_rows(triples: IntArray, number: int, seed: int) -> IntArray:
    """Which of the triples, (triples, 3), a training holds out: the same ones whenever it is asked."""
    random = np.random.default_rng([seed, number])
    return draw_valid(triples, np.arange(len(triples)), number / len(triples), random)


def rows_held_out_of(checkpoint: Checkpoint) -> IntArray | None:
    """Which triples of a model its vectors have not learned; None where it held none out, or an update came since."""
    quality, size = checkpoint.provenance.get("quality"), len(checkpoint.triples)
    number, seed = (checkpoint.settings.get(name) for name in ("held_out", "seed"))
    if checkpoint.number != 1 or not isinstance(quality, dict) or quality.get("of") != HELD_OUT:
        return None
    if not (isinstance(number, int) and isinstance(seed, int) and 0 < number < size and seed >= 0):
        return None
    rows = held_out_rows(checkpoint.triples, number, seed)
    return rows if len(rows) else None


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Triples to learn from, and those held out.

    trained: (triples, 3); questions: both ends of each held-out triple; answers: the right ones of each in the graph
    """

    trained: IntArray
    questions: Queries
    answers: AnswerIndex

    @classmethod
    def of(cls, triples: IntArray, settings: TrainingSettings) -> HeldOut | None:
        """Draw as many as the settings say, or as there are that leave no entity or relation without a triple."""
        rows = held_out_rows(triples, settings.held_out, settings.seed)
        if not len(rows):
            return None
        return cls.asking(np.delete(triples, rows, axis=0), triples[rows])

    @classmethod
    def asking(cls, trained: IntArray, asked: IntArray) -> HeldOut:
        """Ask for both ends of triples that are not learned from, (triples, 3)."""
        head, relation, tail = asked.T
        both = [np.concatenate(pair) for pair in ((head, tail), (relation, relation), (tail, head))]
        questions = Queries(both[0], both[1], both[2], np.repeat([True, False], len(asked)))
        everything = np.concatenate([trained, asked])
        return cls(trained, questions, other_answers(questions, everything, int(everything[:, [0, 2]].max()) + 1))

    def __len__(self) -> int:
        return len(self.questions) // 2

    def reciprocal_ranks(self, embedding: Embedding) -> FloatArray:
        """1 / rank of each right answer among all entities, other right answers left out."""
        asked = torch.from_numpy(self.questions.entity.copy()).to(embedding.device)
        counts = query_rank_counts(embedding, embedding.entities[asked], self.questions, self.answers)
        ranks: FloatArray = 1 / counts.ranks()
        return ranks

    def on_the_way(self, geometry: Geometry) -> Validate:
        """The mean reciprocal rank of vectors; on fewer triples where a graph has many entities, to cost little."""
        entities = int(self.trained[:, [0, 2]].max()) + 1
        size = max(LEAST_ON_THE_WAY, MOST_COMPARISONS // (2 * entities))
        rows = np.flatnonzero(np.arange(len(self.questions)) % len(self) < size)
        few = HeldOut(self.trained, self.questions.select(rows), self.answers.select(rows))
        return lambda entities, relations: few.mrr(Embedding(geometry, entities, relations))

    def mrr(self, embedding: Embedding) -> float:
        """The mean reciprocal rank."""
        return float(self.reciprocal_ranks(embedding).mean())
