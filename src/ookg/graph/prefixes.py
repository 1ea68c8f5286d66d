"""Triples in which IRIs are written by their prefixes, as tables print them: `wd:Q42 rdfs:label ...`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ookg.graph.ids import first_occurrences
from ookg.graph.triples import Triples
from ookg.graph.vocabulary import Vocabulary
from ookg.system.display import PREFIXES, in_full, spelled_out
from ookg.types import IntArray


def with_whole_iris(
    triples: Triples,
    entities: Vocabulary,
    relations: Vocabulary,
    prefixes: Mapping[str, str] = PREFIXES,
    *,
    keep_duplicates: bool = False,
) -> Triples:
    """Triples whose shortened labels are written out, where a model has the IRI or others of its namespace.

    entities, relations: what the model has. A label that is there as it is written stays.
    """
    entity_places, entity_labels = _written_out(triples.entities, entities, prefixes)
    relation_places, relation_labels = _written_out(triples.relations, relations, prefixes)
    if entity_labels is triples.entities and relation_labels is triples.relations:
        return triples
    ids = np.stack(
        [entity_places[triples.ids[:, 0]], relation_places[triples.ids[:, 1]], entity_places[triples.ids[:, 2]]], axis=1
    )
    whole = replace(triples, ids=ids, entities=entity_labels, relations=relation_labels)
    kept = None if keep_duplicates else first_occurrences(ids, len(entity_labels), len(relation_labels), whole.truth)
    if kept is None:
        return whole
    truth = None if whole.truth is None else whole.truth[kept]
    return replace(whole, ids=ids[kept], truth=truth, duplicates=triples.duplicates + len(ids) - len(kept))


def _written_out(labels: Vocabulary, known: Vocabulary, prefixes: Mapping[str, str]) -> tuple[IntArray, Vocabulary]:
    """The new id of each label, and the new labels: the same ones if nothing is shortened."""
    begins = pa.array([f"{name}:" for name in prefixes])
    heads = pc.replace_substring_regex(labels.labels, r"^([^:]*:)?.*$", r"\1")
    whole = {}
    for place in np.flatnonzero(pc.is_in(heads, begins).to_numpy(zero_copy_only=False)).tolist():
        label = labels.label(place)
        if (full := _whole(label, known, prefixes)) != label:
            whole[place] = full
    if not whole:
        return np.arange(len(labels)), labels
    texts = [whole.get(place, label) for place, label in enumerate(labels.labels.to_pylist())]
    distinct = Vocabulary(list(dict.fromkeys(texts)))
    return distinct.ids(texts), distinct


def _whole(label: str, known: Vocabulary, prefixes: Mapping[str, str]) -> str:
    full = in_full(label, lambda one: one in known, prefixes)
    if full != label or label in known:
        return full
    # Something new beside others of its namespace: its IRI is what RDF would call it.
    local = label.partition(":")[2]
    return next((iri for iri in spelled_out(label, prefixes) if len(known.beginning(iri.removesuffix(local)))), label)
