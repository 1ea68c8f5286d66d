"""Thresholds for claims about newcomers, found on newcomers of the same kind.

A new vector is rougher than a trained one, and a fitted one lies elsewhere than one of the closed form: thresholds of
trained vectors fit neither. So known entities of labelled claims are made new again, get their vectors as the newcomers
do, and the thresholds are those that suit their claims. The model's own vectors stand for the known entities. They have
seen the hidden triples, so that these newcomers come out somewhat better than real ones (`ookg.simulation.judge` trains
without them).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ookg.datasets.encoded import EncodedDataset
from ookg.graph.statistics import GraphStatistics
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import NeighborLimit, Newcomers, find_newcomers
from ookg.newcomers.reducer import Weights
from ookg.newcomers.refinement import RefineSettings
from ookg.scoring.thresholds import Thresholds, Worth, checked_thresholds
from ookg.simulation.hidden_claims import hidden_claims
from ookg.simulation.hiding import NewEnd

FEWEST_CLAIMS = 20  # with fewer simulated claims nothing is concluded


@dataclass(frozen=True)
class Kind:
    """How newcomers get their vectors. least: those with fewer known neighbours are not fitted"""

    weights: Weights
    limit: NeighborLimit | None = None
    refine: RefineSettings | None = None
    least: int = 1

    def newcomers(self, embedding: Embedding, sample: EncodedDataset) -> Newcomers:
        """Those of a data set."""
        graph = GraphStatistics.count(sample.train, sample.num_known, sample.num_trained)
        found = find_newcomers(embedding, graph, sample.train, sample.given, self.weights, self.limit)
        found = found.with_room_for(sample.num_entities - sample.num_known)
        return found if self.refine is None else found.refined_by(self.refine, least=self.least)


def thresholds_of_newcomers(
    embedding: Embedding, dataset: EncodedDataset, kind: Kind, new: NewEnd
) -> tuple[Thresholds, Worth | None] | None:
    """Thresholds from the labelled claims of a data set, and what they are worth; None from too few claims.

    new: the end of those claims that is made new
    """
    assert dataset.valid_truth is not None  # `extension.claims` asks for labelled claims
    if len(dataset.valid) < FEWEST_CLAIMS or not len(dataset.train):
        return None
    sample, entities = hidden_claims(dataset, new=new)
    if not sample.num_known:
        return None
    rows = torch.from_numpy(entities[: sample.num_known]).to(embedding.device)
    known = Embedding(embedding.geometry, embedding.rows(rows), embedding.relations)
    scores, truth = kind.newcomers(known, sample).scores(sample.test), sample.test_truth
    assert truth is not None  # `hidden_claims` labels its claims
    scored = ~np.isnan(scores)
    if scored.sum() < FEWEST_CLAIMS or truth[scored].all() or not truth[scored].any():
        return None
    return checked_thresholds(scores[scored], sample.test[scored, 1], truth[scored], sample.num_trained)
