"""A trained baseline as a scorer."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ookg.research.baselines.encoder import Encoder
from ookg.scoring.queries import Queries
from ookg.scoring.scorer import Scorer
from ookg.types import BoolArray, FloatArray, IntArray

# How many coordinates of neighbours' vectors are held at once, about, whatever the number of entities.
NUMBERS_AT_ONCE = 1 << 25


class TrainedBaseline(Scorer):
    """-D(h, r, t), both ends represented by their neighbours: those of train for known entities, of aux for new ones.

    An entity without a neighbour has the zero vector, as in LAN's code, or that of learned padding alone.
    settings: what it was trained by; epochs: the one whose state was kept
    validations: (epoch, MRR or accuracy in percent) of each; seconds: training time
    """

    def __init__(
        self,
        encoder: Encoder,
        epochs: int = 0,
        validations: list[tuple[int, float]] | None = None,
        seconds: float = 0.0,
    ) -> None:
        self.encoder, self.settings = encoder.eval(), encoder.settings
        self.num_known, self.num_relations = encoder.num_known, encoder.num_relations
        self.epochs, self.seconds = epochs, seconds
        self.validations = validations or []
        self._num_entities = len(encoder.table.count)
        self._entities_at_once = max(1, NUMBERS_AT_ONCE // (encoder.table.width * self.settings.dim))

    def answerable(self, queries: Queries) -> BoolArray:
        """Whether the entity exists and the relation is trained."""
        return self._exists(queries.entity) & self._trained(queries.relation)

    def scores(self, triples: IntArray) -> FloatArray:
        """-D(h, r, t)."""
        head, relation, tail = triples.T
        found = np.full(len(triples), np.nan)
        rows = np.flatnonzero(self._exists(head) & self._exists(tail) & self._trained(relation))
        head, relation, tail = head[rows], relation[rows], tail[rows]
        heads, tails = self._vectors_of(head, relation), self._vectors_of(tail, relation + self.num_relations)
        with torch.no_grad():
            distances = self.encoder.distance(heads, self.encoder.relation_vectors(self._on_device(relation)), tails)
        found[rows] = -distances.cpu().numpy()
        return found

    def answer_scores(self, queries: Queries) -> Tensor:
        """-D to each known entity as the answer."""
        points = self._points(queries)
        if not self.encoder.query_aware:
            return -self.encoder.distances(points, self._vectors[: self.num_known])
        return self._query_aware_scores(queries, points)

    @torch.no_grad()
    def _query_aware_scores(self, queries: Queries, points: Tensor) -> Tensor:
        """Queries of one relation and side together: all candidates are represented for that question."""
        encoder = self.encoder
        # A candidate stands at the open end: a tail is asked from R + r, a head from r.
        asked, group = np.unique(queries.relation + self.num_relations * queries.asks_tail, return_inverse=True)
        members = [self._on_device(np.flatnonzero(group == number)) for number in range(len(asked))]
        scores = torch.empty(len(queries), self.num_known, device=points.device)
        for start in range(0, self.num_known, self._entities_at_once):
            candidates = torch.arange(start, min(start + self._entities_at_once, self.num_known), device=points.device)
            vectors_for = encoder.by_query(encoder.table.of_entities(candidates))
            for query, rows in zip(asked.tolist(), members, strict=True):
                distances = encoder.distances(points[rows], encoder.scaled(vectors_for(query)))
                scores[rows, start : start + len(candidates)] = -distances
        return scores

    @torch.no_grad()
    def _points(self, queries: Queries) -> Tensor:
        """Where each query's answer should be: h + r for a tail, t - r for a head; (queries, d)."""
        # The query's entity stands at the other end: a head is asked from r, a tail from R + r.
        entity = self._vectors_of(queries.entity, queries.relation + self.num_relations * ~queries.asks_tail)
        relation = self.encoder.relation_vectors(self._on_device(queries.relation))
        asks_tail = self._on_device(queries.asks_tail)[:, None]
        return torch.where(asks_tail, entity + relation, entity - relation)

    def _vectors_of(self, entities: IntArray, query: IntArray) -> Tensor:
        """Scaled vectors of entities, each for the directed relation that it is asked from."""
        if not self.encoder.query_aware:
            return self._vectors[self._on_device(entities)]
        pairs, place = np.unique(np.stack([entities, query]), axis=1, return_inverse=True)
        encoded = self._encoded(self._on_device(pairs[0]), self._on_device(pairs[1]))
        return encoded[self._on_device(place.reshape(-1))]

    @cached_property
    def _vectors(self) -> Tensor:
        """The scaled vectors of all entities, known and new, where they do not depend on the query."""
        entities = torch.arange(self._num_entities, device=self.encoder.device)
        return self._encoded(entities, torch.zeros_like(entities))

    @torch.no_grad()
    def _encoded(self, entities: Tensor, query: Tensor) -> Tensor:
        """Scaled vectors, (entities, d), in chunks."""
        found = torch.empty(len(entities), self.settings.dim, device=entities.device)
        for start in range(0, len(entities), self._entities_at_once):
            rows = slice(start, start + self._entities_at_once)
            vectors = self.encoder(self.encoder.table.of_entities(entities[rows]), query[rows])
            found[rows] = self.encoder.scaled(vectors)
        return found

    def _exists(self, entities: IntArray) -> BoolArray:
        found: BoolArray = (entities >= 0) & (entities < self._num_entities)
        return found

    def _trained(self, relations: IntArray) -> BoolArray:
        found: BoolArray = (relations >= 0) & (relations < self.num_relations)
        return found

    def _on_device(self, values: IntArray | BoolArray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.encoder.device)
