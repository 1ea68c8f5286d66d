"""Labelled claims where nobody has labelled any: training triples, and as many false ones made from them."""

from __future__ import annotations

import numpy as np

from ookg.datasets.negatives import Corruptor
from ookg.errors import InputError
from ookg.graph.triples import Triples
from ookg.graph.vocabulary import Vocabulary
from ookg.types import IntArray

MADE = "training triples"  # the source of such claims
SAMPLE, SAMPLE_SHARE = 5_000, 0.1  # a tenth, for the rest must stay a graph
NO_TRIPLES = "this model came without its training triples, and claims need thresholds"


def made_claims(triples: IntArray, entities: Vocabulary, relations: Vocabulary, most: int = SAMPLE) -> Triples:
    """Training triples, `most` at most, and as many false ones; always the same ones for the same model.

    A false one has another entity at one end, where possible one that stands at that end of the relation elsewhere.
    """
    if not len(triples):
        raise InputError(f"{NO_TRIPLES}; give labelled triples (--valid FILE)")
    triples, random = np.asarray(triples).astype(np.int64), np.random.default_rng(0)
    size = min(most, max(1, round(SAMPLE_SHARE * len(triples))))
    positives = triples[np.sort(random.choice(len(triples), size, replace=False))]
    corruptor = Corruptor(triples, len(entities), len(relations), random)
    negatives, made = corruptor.corrupt(positives, (0, 2), np.arange(len(entities)), positives)
    ids = np.concatenate([positives[made], negatives[made]])
    return Triples(ids, entities, relations, np.arange(len(ids)) < made.sum(), MADE)
