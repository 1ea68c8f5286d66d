"""Direct links: one relation between two entities makes another one between them likely.

A mean over hundreds of candidates cannot hold what a single triple says: (town, located_in, TENET's country) all but
states (country, contains, town). So the confidence of such rules is counted, and the link itself is kept as evidence.

A link from a to b over relation r is the directed relation r; seen from b it is num_relations + r.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from ookg.graph.statistics import counted_together
from ookg.scoring.queries import Queries
from ookg.types import FloatArray, IntArray

# Counted as if so many more pairs had the first relation without the second: a rule seen once is no rule.
SMOOTHING = 5.0
# A rule of this confidence all but states what it speaks for; how many triples are looked at for `redundancy`.
STRONG_CONFIDENCE, SAMPLED_TRIPLES = 0.5, 2000


@dataclass(frozen=True)
class LinkRules:
    """How often entity pairs that are linked by one directed relation are linked by another.

    together: (2·relations, 2·relations) sparse counts of ordered entity pairs; on the diagonal, those of one relation;
        of pairs with very many relations only that (`counted_together`)
    """

    together: Any
    num_relations: int

    @classmethod
    def count(cls, triples: IntArray, num_relations: int) -> LinkRules:
        """The rules in triples, (triples, 3); those with a relation outside 0 .. num_relations - 1 do not count."""
        head, relation, tail = triples[(triples[:, 1] >= 0) & (triples[:, 1] < num_relations)].T
        low, high = np.minimum(head, tail), np.maximum(head, tail)
        _, pair = np.unique(low * (int(high.max(initial=0)) + 1) + high, return_inverse=True)
        link = np.where(head == low, relation, relation + num_relations)
        ones = np.ones(len(link), dtype=np.int64)
        size = int(pair.max(initial=-1)) + 1
        has = sparse.csr_array((ones, (pair.ravel(), link)), shape=(size, 2 * num_relations))
        has.sum_duplicates()
        has.data[:] = 1
        forward = counted_together(has)
        turned = (np.arange(2 * num_relations) + num_relations) % (2 * num_relations)
        return cls((forward + forward[turned][:, turned]).tocsr(), num_relations)

    def plus(self, others: LinkRules) -> LinkRules:
        """Both together: right where no entity pair is in the triples of both."""
        return LinkRules(self.together + others.together, self.num_relations)

    @cached_property
    def having(self) -> FloatArray:
        """(2·relations,) how many pairs have each directed relation."""
        return np.asarray(self.together.diagonal(), dtype=np.float64)

    def column(self, query: int) -> FloatArray:
        """(2·relations,) how many pairs have each directed relation and the query."""
        found = np.zeros(self.together.shape[0])
        rows = slice(self.together.indptr[query], self.together.indptr[query + 1])  # it is symmetric
        found[self.together.indices[rows]] = self.together.data[rows]
        return found

    def confidence(self, link: IntArray, query: IntArray) -> FloatArray:
        """(links,) the share of the pairs with each link that also have the query; 0 of a relation for itself."""
        both = np.asarray(self.together[link, query], dtype=np.float64).ravel() if len(link) else np.empty(0)
        found: FloatArray = np.where(link == query, 0.0, both / (self.having[link] + SMOOTHING))
        return found


@dataclass(frozen=True)
class Links:
    """The links of some entities: entity `owners[n]` has the rows offsets[n] to offsets[n + 1].

    other: (rows,) the entity at the other end; link: (rows,) the directed relation towards it
    """

    owners: IntArray
    offsets: IntArray
    other: IntArray
    link: IntArray

    @classmethod
    def of(cls, entities: IntArray, triples: IntArray, num_relations: int) -> Links:
        """The links of some entities in triples over the first `num_relations` relations."""
        owners = np.unique(entities)
        trained = triples[(triples[:, 1] >= 0) & (triples[:, 1] < num_relations)]
        wanted = np.zeros(int(max(trained[:, [0, 2]].max(initial=-1), owners.max(initial=-1))) + 1, dtype=np.bool_)
        wanted[owners] = True
        out, back = trained[wanted[trained[:, 0]]], trained[wanted[trained[:, 2]]]
        owner = np.concatenate([out[:, 0], back[:, 2]])
        other = np.concatenate([out[:, 2], back[:, 0]])
        link = np.concatenate([out[:, 1], back[:, 1] + num_relations])
        order = np.argsort(owner, kind="stable")
        offsets = np.searchsorted(owner[order], np.append(owners, owners[-1:] + 1))
        return cls(owners, offsets.astype(np.int64), other[order], link[order])

    def rows_of(self, entities: IntArray) -> tuple[IntArray, IntArray]:
        """The rows of some entities one after the other, and for each row its place in `entities`."""
        place = np.searchsorted(self.owners, entities)
        start, counts = self.offsets[place], np.diff(self.offsets)[place]
        group = np.repeat(np.arange(len(entities)), counts)
        rows = np.arange(len(group)) - (np.cumsum(counts) - counts)[group] + start[group]
        return rows, group


@dataclass(frozen=True)
class LinkEvidence:
    """The confidence of the best rule that a direct link between the two ends of a triple speaks for.

    triples: what is known and what is given, together; the asked triple itself is no evidence for itself
    """

    rules: LinkRules
    triples: IntArray

    @cached_property
    def _links(self) -> Links:
        """The links of all entities, sorted once."""
        return Links.of(np.unique(self.triples[:, [0, 2]]), self.triples, self.rules.num_relations)

    def _links_of(self, entities: IntArray) -> Links:
        """The links of at least some entities: looked up for a single one, sorted for all where there are more."""
        if len(np.unique(entities)) > 1 and np.isin(entities, self._links.owners).all():
            return self._links
        return Links.of(entities, self.triples, self.rules.num_relations)

    @cached_property
    def redundancy(self) -> float:
        """The share of the triples (of a sample) that another link between the same two entities all but states."""
        places = np.unique(np.linspace(0, len(self.triples) - 1, SAMPLED_TRIPLES).astype(np.int64))
        sample = self.triples[places[places >= 0]]
        return float((self.of_claims(sample) >= STRONG_CONFIDENCE).mean()) if len(sample) else 0.0

    def of_answers(self, queries: Queries, num_known: int, device: torch.device | str) -> Tensor:
        """(queries, known entities) the evidence for each known entity as the answer; its relations are trained."""
        size = self.rules.num_relations
        links = self._links_of(queries.entity)
        rows, query = links.rows_of(queries.entity)
        inside = links.other[rows] < num_known
        rows, query = rows[inside], query[inside]
        asked = queries.relation + np.where(queries.asks_tail, 0, size)
        values = torch.from_numpy(self.rules.confidence(links.link[rows], asked[query])).float().to(device)
        place = torch.from_numpy(query * num_known + links.other[rows]).to(device)
        found = torch.zeros(len(queries) * num_known, device=device)
        return found.scatter_reduce_(0, place, values, "amax").view(len(queries), num_known)

    def best_links(self, entity: int, asked: int, answers: IntArray) -> tuple[IntArray, FloatArray]:
        """(answers,) the directed relation from the entity to each answer that speaks most for `asked`, a directed
        relation too, and its confidence; -1 and 0 where none does.
        """
        links = Links.of(np.array([entity]), self.triples, self.rules.num_relations)
        confidence = self.rules.confidence(links.link, np.full(len(links.link), asked))
        found, sure = np.full(len(answers), -1), np.zeros(len(answers))
        for place, answer in enumerate(answers.tolist()):
            rows = np.flatnonzero((links.other == answer) & (confidence > 0))
            if len(rows):
                best = rows[np.argmax(confidence[rows])]
                found[place], sure[place] = links.link[best], confidence[best]
        return found, sure

    def of_claims(self, claims: IntArray) -> FloatArray:
        """(claims,) the evidence for each claim (head, relation, tail); 0 over a relation that is not trained."""
        found = np.zeros(len(claims))
        trained = np.flatnonzero((claims >= 0).all(axis=1) & (claims[:, 1] < self.rules.num_relations))
        if not len(trained):
            return found
        links = self._links_of(claims[trained, 0])
        rows, place = links.rows_of(claims[trained, 0])
        claim = trained[place]
        fits = links.other[rows] == claims[claim, 2]
        rows, claim = rows[fits], claim[fits]
        np.maximum.at(found, claim, self.rules.confidence(links.link[rows], claims[claim, 1]))
        return found
