"""What speaks for an answer against those that rank next: the difference in score, cut into parts that add up to it.

The score of an answer a is w · (-D(p, a)) + Σ evidence (all of it `evidence/combined.py`'s), where p is the point at
which the vector e of the asked entity puts the answer. B are the answers that rank next below a. The difference
S(a) - mean over B of S(b) has these parts:

- what each source of evidence says for a, less the mean of what it says for B;
- what is usual: the difference that the distances make if p is where an average entity puts it, p₀;
- each triple of the asked entity. Its candidate c makes the part d = w(c - c₀) of e - c₀, so that p - p₀ is the sum of
  such steps q. A distance is a sum over coordinates (complex ones under RotatE). In each coordinate on its own, what
  the way from p₀ to p changes in the difference of the distances is divided among the triples as their steps are
  shares of that way:

      part of the triple = Σ over the coordinates of (change) · ⟨q, p - p₀⟩ / |p - p₀|²

- the rest of the vector, which no triple makes: nothing under the closed form. A fitted or trained vector is no mean of
  candidates; its steps are those of the mixture of candidates, with weights of 0 or more, that comes nearest to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ookg.evidence.combined import RankingWeights
from ookg.evidence.registry import HUBNESS, NEW, VECTOR
from ookg.evidence.source import Asked, Spoken
from ookg.extension.answers import AnswerReason, Share
from ookg.extension.groups import Group
from ookg.extension.reasons import step_of
from ookg.extension.state import State
from ookg.extension.vectors import entity_vector, entity_vectors, relation_vector
from ookg.models import Projected
from ookg.models.geometry import GapSum, Geometry
from ookg.newcomers.estimator import candidates, candidates_of
from ookg.newcomers.reducer import Precision, Uniform
from ookg.types import FloatArray, IntArray, Scores

RIVALS = 5  # the answers that rank next below one are as many at most
MOST_LINKS = 64  # triples of a known entity that are looked at, at even distances
MOST_ROWS = 10_000  # entities whose mean is the average one, likewise
LEAST_SHARE = 1e-4  # of the largest part: smaller ones are left out, and what rounding leaves over with them
CLOSE = 1e-4  # of the vector's size: a mixture this near to it makes it


@dataclass(frozen=True)
class Behind:
    """What is behind the asked entity's vector in one model.

    links: (triples,) directed relations; others: (triples,) the ends that the triples lead to
    steps: (triples, entity_width) the part of e - c₀ that each makes; vector: (1, entity_width) e; average: c₀
    """

    links: IntArray
    others: IntArray
    steps: Tensor
    vector: Tensor
    average: Tensor


@dataclass(frozen=True)
class Compared:
    """Answers to a question, best first, and all that their scores were made of.

    models: the state of the model, and of its companions where they counted; spreads: for each the spread of its
        distances, by which they were divided, or 1
    weights: of all evidence; None where the distance of one model alone ranked
    hubness: (new entities,) under each model; lost: (new entities,) what was taken off their distance scores
    """

    models: Sequence[State]
    spreads: Sequence[float]
    asked: Asked
    answers: IntArray
    scores: Scores
    weights: RankingWeights | None
    spoken: dict[str, Spoken]
    hubness: Sequence[Tensor]
    lost: Sequence[Tensor]

    def of(self, place: int, reasons: dict[str, AnswerReason]) -> tuple[Share, ...]:
        """The parts for the answer at a place, largest first; reasons: by the name of their source."""
        rivals = np.arange(place + 1, min(place + 1 + RIVALS, len(self.answers)))
        if not len(rivals):
            return ()
        scores = self.scores.astype(np.float64)
        total = float(scores[place] - scores[rivals].mean())
        shares = [*self._evidence(place, rivals, reasons), *self._vectors(place, rivals)]
        shares.append(Share("rest", total - sum(share.worth for share in shares)))
        least = LEAST_SHARE * max(abs(share.worth) for share in shares)
        return tuple(sorted((one for one in shares if abs(one.worth) > least), key=lambda share: -abs(share.worth)))

    def _evidence(self, place: int, rivals: IntArray, reasons: dict[str, AnswerReason]) -> list[Share]:
        of_vector = 1.0 if self.weights is None else self.weights[VECTOR]
        new = -of_vector * self._of_rivals(self._over_models(self.lost), place, rivals)
        if self.weights is None:
            return [Share("new", new)]
        shares = []
        for name, weight in self.weights.of_sources():
            said = self.spoken[name].of(self.answers)
            shares.append(Share(name, weight * float(said[place] - said[rivals].mean()), reason=reasons.get(name)))
        is_new = self.answers >= self.models[0].num_known
        new += self.weights[NEW] * self._of_rivals(is_new.astype(np.float64), place, rivals)
        new -= self.weights[HUBNESS] * self._of_rivals(self._over_models(self.hubness), place, rivals)
        return [*shares, Share("new", new)]

    @staticmethod
    def _of_rivals(values: FloatArray, place: int, rivals: IntArray) -> float:
        """A value of an answer, less the mean of its rivals'."""
        return float(values[place] - values[rivals].mean())

    def _over_models(self, of_new: Sequence[Tensor]) -> FloatArray:
        """(answers,) numbers of new entities, in the unit of distances, as the mean over models; 0 for known ones."""
        new = self.answers - self.models[0].num_known
        mean = np.zeros(len(new))
        for numbers, spread in zip(of_new, self.spreads, strict=True):
            mean[new >= 0] += numbers.double().numpy()[new[new >= 0]] / spread / len(self.models)
        return mean

    def _vectors(self, place: int, rivals: IntArray) -> list[Share]:
        """What is usual, and each triple; summed over the models."""
        usual, by_triple = 0.0, dict[tuple[int, int], float]()
        for number, state in enumerate(self.models):
            factor = 1.0 if self.weights is None else self.weights[VECTOR] / len(self.models)
            factor /= self.spreads[number]
            behind = self._behind[number]
            geometry = state.model.embedding.geometry
            relation = relation_vector(state, self.asked.relation).double()

            def points(vectors: Tensor, geometry: Geometry = geometry, relation: Tensor = relation) -> Tensor:
                tail = self.asked.asks_tail
                return geometry.solve_tail(vectors, relation) if tail else geometry.solve_head(relation, vectors)

            ends = entity_vectors(state, self.answers[[place, *rivals]], self.asked.relation).double()
            ends = geometry.project(ends, relation)
            start, end = points(behind.average), points(behind.vector)
            way, steps = end - start, points(behind.average + behind.steps) - start
            before, after = (_gains(geometry, one, ends) for one in (start, end))  # (parts,)
            size = _folded(way.square(), len(after))[0]
            share = _folded(steps * way, len(after)) / torch.where(size > 0, size, 1.0)  # (triples, parts)
            usual += factor * float(before.sum())
            parts = factor * (share @ (after - before))
            for link, other, part in zip(behind.links.tolist(), behind.others.tolist(), parts.tolist(), strict=True):
                by_triple[link, other] = by_triple.get((link, other), 0.0) + part
        state = self.models[0]
        shares = [Share("vector", part, link=step_of(state, *triple)) for triple, part in by_triple.items()]
        return [Share("usual", usual), *shares]

    @cached_property
    def _behind(self) -> list[Behind]:
        return [behind_vector(state, self.asked.entity, self.asked.relation) for state in self.models]


def _gains(geometry: Geometry, point: Tensor, ends: Tensor) -> Tensor:
    """(parts,) how much nearer a point is to the first end than to the others in the mean, cut into coordinates."""
    parts = _gap_parts(geometry, point - ends)
    return parts[1:].mean(dim=0) - parts[0]


def _gap_parts(geometry: Geometry, difference: Tensor) -> Tensor:
    """(rows, parts) numbers that add up to each row's gap: by coordinate, or by complex coordinate.

    A length is Σ x² / ‖x‖. What a model does not declare is one part.
    """
    space = geometry.space
    kernel, zero = space.kernel, torch.zeros_like(difference)
    if kernel is None:
        return space.gap(difference, zero)[:, None]
    if kernel.gap is GapSum.MODULI:
        real, imaginary = difference.chunk(2, dim=-1)
        return torch.hypot(real, imaginary)
    if kernel.gap is GapSum.SIZES:
        parts = difference.abs()
    else:
        length = torch.linalg.vector_norm(difference, dim=-1, keepdim=True)
        parts = difference.square() / torch.where(length > 0, length, 1.0)
    return parts * parts.sum(dim=-1, keepdim=True) if kernel.squared else parts


def _folded(products: Tensor, parts: int) -> Tensor:
    """(rows, width) -> (rows, parts) sums over what belongs to a part: the two halves of a complex coordinate."""
    return products.view(len(products), products.shape[-1] // parts, parts).sum(dim=1)


def behind_vector(state: State, entity: int, relation: int) -> Behind:
    """The triples behind the vector of a known or new entity, as a question over a relation sees it."""
    vector = entity_vector(state, entity, relation).double()
    table = state.model.embedding.entities
    average = table[:: -(-len(table) // MOST_ROWS)].double().mean(dim=0, keepdim=True)
    group = state.group(entity)
    made_of = _of_known(state, entity) if group is None else _of_newcomer(state, group, entity, relation)
    made = made_of.vectors
    steps = made_of.weights * (made - average)
    off = torch.linalg.vector_norm(average + steps.sum(dim=0) - vector)
    if len(made) and float(off) > CLOSE * float(torch.linalg.vector_norm(vector)):
        steps = _mixture(made - average, vector - average)[:, None] * (made - average)
    return Behind(made_of.links, made_of.others, steps, vector, average)


def _mixture(ways: Tensor, way: Tensor) -> Tensor:
    """(ways,) the weights of 0 or more with which ways, (ways, width), come nearest to one, (1, width)."""
    from scipy.optimize import nnls  # a tenth of all that a server imports, and only what is explained needs it

    numbers = ways.T.cpu().numpy(), way[0].cpu().numpy()
    if not all(np.isfinite(one).all() for one in numbers):
        return ways.new_zeros(len(ways))
    try:
        mixed, _ = nnls(*numbers)
    except RuntimeError:  # it did not come to an end
        return ways.new_zeros(len(ways))
    return torch.from_numpy(mixed).to(ways)


@dataclass(frozen=True)
class _MadeOf:
    """Triples of an entity, the vector that each determines for it, and its weight, (triples, 1) or by coordinate."""

    links: IntArray
    others: IntArray
    vectors: Tensor
    weights: Tensor


def _of_known(state: State, entity: int) -> _MadeOf:
    """Triples of a known entity with known ones; what they weigh in its trained vector is not known: 0."""
    embedding = state.model.embedding
    links, others = state.graph.links_of(entity)
    if embedding.geometry.projects and not isinstance(embedding.geometry, Projected):
        links, others = links[:0], others[:0]
    is_known = (others < state.num_known) & (links < 2 * state.num_trained) & (others != entity)
    links, others = links[is_known].astype(np.int64), others[is_known].astype(np.int64)
    every = -(-len(links) // MOST_LINKS) or 1
    links, others = links[::every], others[::every]
    vectors = candidates_of(embedding, (others, links // 2, links % 2 == 0)).double()
    return _MadeOf(links, others, vectors, vectors.new_zeros(len(vectors), 1))


def _of_newcomer(state: State, group: Group, entity: int, relation: int) -> _MadeOf:
    """Triples of a newcomer with known ones and with others that are new."""
    newcomers = group.seen_in(state.graph.statistics)
    newcomer, query = np.array([group.place(entity)]), np.array([relation])
    if newcomers.refined is not None and newcomers.weights.needs_query:
        newcomers = replace(newcomers, weights=Uniform())  # what the fit started from
    support, together, weights = newcomers.support, newcomers.together, newcomers.weights
    rows, _ = support.rows_of(newcomer)
    made = candidates(newcomers.embedding, support, rows)
    numbers: FloatArray = newcomers.row_weights(newcomer, query)
    relations, is_head, others = support.relation[rows], support.is_head[rows], support.neighbor[rows]
    if together is not None:
        peers = together.peers
        peer_rows, _ = peers.rows_of(newcomer)
        made = torch.cat([made, candidates(together.peer_embedding, peers, peer_rows)])
        numbers = np.append(numbers, newcomers.peer_weights(newcomer, query))
        relations, is_head = (
            np.append(relations, peers.relation[peer_rows]),
            np.append(is_head, peers.is_head[peer_rows]),
        )
        others = np.append(others, group.entities[together.ties.members[peers.neighbor[peer_rows]]])
    shares = torch.from_numpy(numbers).to(made).double()[:, None]
    if isinstance(weights, Precision) and together is None and not state.model.embedding.geometry.projects:
        directed = weights.of_model.rows(relations, is_head)
        shares = weights.of_model.precision[torch.from_numpy(directed).to(made.device)].double()
        shares = shares / shares.sum(dim=0, keepdim=True)
    return _MadeOf(2 * group.relation_ids(relations) + ~is_head, others, made.double(), shares)
