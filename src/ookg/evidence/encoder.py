"""What an encoder of links says about answers, by their vectors.

Nothing is counted: the encoder was trained before (`training/encoder.py`). When a question is asked, it reads the links
of the asked entity, and one pass over the entities' vectors gives the evidence for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor

from ookg.evidence.learned import nothing_said, spoken_of
from ookg.evidence.source import Asked, Source, Spoken
from ookg.graph.grown import GrownGraph, Triple
from ookg.kernels.threads import one_torch_thread
from ookg.scoring.scorer import NewVectors, VectorsOfNew
from ookg.training.encoder import BLOCK_ROWS, LinkEncoder, asked_direction
from ookg.types import FloatArray, IntArray, Scores

if TYPE_CHECKING:
    from ookg.models.embedding import Embedding


@dataclass(frozen=True, eq=False)
class Encoder(Source):
    """The evidence of `learned.py`, with s(a) = u · v(a), where u is what the encoder makes of the question and of the
    links of e.

    All known entities are answers. New ones that e is linked to are read by the vectors that they have; links to what
    has no vector are passed over. There is no evidence without an encoder, nor about a relation that it does not know.

    embedding: the vectors of known entities; encoder: None: it says nothing
    new_vectors: the vectors of new entities, as a relation sees them; None: they are left out
    """

    name: ClassVar[str] = "encoder"
    features: ClassVar[tuple[str, ...]] = ("encoder of the head", "encoder of the tail")
    judges: ClassVar[bool] = False
    judges_new: ClassVar[bool] = False
    known_alone: ClassVar[bool] = True
    reads_graph: ClassVar[bool] = True

    graph: GrownGraph
    encoder: LinkEncoder | None = None
    embedding: Embedding | None = None
    new_vectors: VectorsOfNew | None = None

    @classmethod
    def count(cls, triples: IntArray, graph: GrownGraph) -> Encoder:
        """With nothing to say yet."""
        del triples
        return cls(graph)

    def with_given(self, given: IntArray, after: GrownGraph) -> Encoder:
        """With given triples."""
        del given
        return replace(self, graph=after)

    def plus(self, triple: Triple, after: GrownGraph) -> Encoder:
        """With one more triple."""
        del triple
        return replace(self, graph=after)

    def minus(self, triple: Triple, after: GrownGraph) -> Encoder:
        """Without one triple."""
        del triple
        return replace(self, graph=after)

    def of_question(self, asked: Asked) -> Spoken:
        """The evidence for all known entities, and for all new ones."""
        encoder, embedding = self.encoder, self.embedding
        if encoder is None or embedding is None or not 0 <= asked.relation < encoder.num_relations:
            return nothing_said()
        links, vectors = self._read(asked, encoder, embedding)
        scores = _products(embedding.entities, asked_direction(encoder, asked.code, links, vectors))
        answers = np.arange(len(scores))
        if asked.entity < len(scores):
            answers, scores = np.delete(answers, asked.entity), np.delete(scores, asked.entity)
        return spoken_of(self.name, answers, scores, embedding.num_entities, asked.entity)

    def _read(self, asked: Asked, encoder: LinkEncoder, embedding: Embedding) -> tuple[IntArray, Tensor]:
        """The links of the asked entity whose other end has a vector, in one order, and these vectors."""
        links, others = self.graph.links_of(asked.entity)
        size, read = embedding.num_entities, (links < encoder.num_links) & (others != asked.entity)
        links, others = links[read], others[read]
        new = NewVectors(np.empty(0, dtype=np.int64), torch.empty(0, embedding.geometry.entity_width))
        if self.new_vectors is not None and (others >= size).any():
            new = self.new_vectors(asked.relation)
        read = np.flatnonzero((others < size) | np.isin(others, new.entities))
        read = read[np.lexsort((others[read], links[read]))]
        links, others = links[read], others[read]
        vectors = torch.empty(len(others), embedding.geometry.entity_width)
        is_known = torch.from_numpy(others < size)
        known, later = others[others < size], others[others >= size]
        vectors[is_known] = embedding.rows(torch.from_numpy(known).to(embedding.device)).float().cpu()
        vectors[~is_known] = new.vectors[torch.from_numpy(np.searchsorted(new.entities, later))].float().cpu()
        return links, vectors

    def of_claims(self, claims: IntArray) -> FloatArray:
        """(claims, 2) the evidence for the head, and for the tail, of each claim as an answer about the other one."""
        return self.of_both_ends(claims)

    def as_answers(self, features: FloatArray, *, asks_tail: bool) -> FloatArray:
        """That of the end which is asked for."""
        return features[:, 1 if asks_tail else 0]


@torch.no_grad()
@one_torch_thread()
def _products(vectors: Tensor, direction: Tensor) -> Scores:
    """(vectors,) each one's product with a direction; part by part, as the table may lie in a file."""
    direction = direction.to(vectors.device)
    parts = [(block.float() @ direction).cpu() for block in torch.split(vectors, BLOCK_ROWS)] if len(vectors) else []
    products: Scores = torch.cat([torch.empty(0), *parts]).numpy()
    return products
