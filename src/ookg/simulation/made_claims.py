"""Labelled claims where nobody has labelled any: triples of the graph, and as many false ones made from them."""

from __future__ import annotations

import numpy as np

from ookg.datasets.negatives import Corruptor
from ookg.errors import InputError
from ookg.graph.triples import Triples
from ookg.graph.vocabulary import Vocabulary
from ookg.types import IntArray

# The source of such claims: triples that the vectors have learned, or that their training held out.
MADE, MADE_OF_UNSEEN = "training triples", "held-out triples"
SAMPLE, SAMPLE_SHARE = 5_000, 0.1  # a tenth, for the rest must stay a graph


def made_claims(
    triples: IntArray,
    entities: Vocabulary,
    relations: Vocabulary,
    most: int = SAMPLE,
    unseen: IntArray | None = None,
) -> Triples:
    """Training triples, `most` at most, and as many false ones; always the same ones for the same model.

    A false one has another entity at one end, where possible one that stands at that end of the relation elsewhere.

    unseen: which of the triples the vectors have not learned; the true claims are among these then
    """
    if not len(triples):
        raise InputError("this model has no triples from which claims could be made; give labelled ones (`valid=...`)")
    triples, random = np.asarray(triples).astype(np.int64), np.random.default_rng(0)
    if unseen is None:
        size = min(most, max(1, round(SAMPLE_SHARE * len(triples))))
        positives = triples[np.sort(random.choice(len(triples), size, replace=False))]
    else:
        positives = triples[unseen[:most]]
    corruptor = Corruptor(triples, len(entities), len(relations), random)
    negatives, made = corruptor.corrupt(positives, (0, 2), np.arange(len(entities)), positives)
    ids = np.concatenate([positives[made], negatives[made]])
    source = MADE if unseen is None else MADE_OF_UNSEEN
    return Triples(ids, entities, relations, np.arange(len(ids)) < made.sum(), source)
