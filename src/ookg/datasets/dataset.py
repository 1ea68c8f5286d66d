"""A data set with new entities: four lists of triples, and the rules they keep."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ookg.datasets.encoded import Task
from ookg.errors import DatasetError, InputError
from ookg.graph.triples import Triples, TripleSource, as_triples, first_occurrences, read_triples, write_triples
from ookg.graph.vocabulary import Vocabulary
from ookg.system.files import staged_folder

PARTS = ("train", "valid", "aux", "test")
ALSO_TRUE = "also-true"  # a file beside the parts, which may be missing
TEXT_ENDINGS = tuple(f".{kind}{compression}" for kind in ("txt", "tsv", "csv") for compression in ("", ".gz", ".zst"))
ENDINGS = (*TEXT_ENDINGS, ".parquet")
# Windows has no file named aux.txt; everywhere both names are read.
AUX_FILE = "aux_txt" if os.name == "nt" else "aux.txt"
TARGETS = {
    "train": "train.txt",
    "valid": "valid.txt",
    "aux": AUX_FILE,
    "test": "test.txt",
    "entities": "entities.dict",
    "relations": "relations.dict",
    ALSO_TRUE: f"{ALSO_TRUE}.txt",
}
AUX_ALIASES = ("aux_txt", "aux_txt.gz", "aux_txt.zst")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Triples to train on, and triples about entities that are not among them.

    train: triples of known entities
    valid: more triples of known entities, with labels for triplet classification; may be empty
    aux: what is given about the new entities: each triple joins a new one and a known one
    test: triples with a new entity, with labels for triplet classification
    also_true: triples that are neither learned nor asked, and no wrong answers
    """

    name: str
    task: Task
    train: Triples
    valid: Triples
    aux: Triples
    test: Triples
    also_true: Triples | None = None

    @cached_property
    def known_entities(self) -> Vocabulary:
        """The entities of train."""
        return compact(self.train).entities

    @cached_property
    def relations(self) -> Vocabulary:
        """The relations of train."""
        return compact(self.train).relations

    @cached_property
    def new_entities(self) -> Vocabulary:
        """The entities of aux, then of test, that do not occur in train."""
        known = self.known_entities
        everything = known.extended(compact(self.aux).entities.labels).extended(compact(self.test).entities.labels)
        return Vocabulary.distinct(everything.labels[len(known) :])

    def with_also_true(self, *more: TripleSource) -> Dataset:
        """With further true triples, which are no wrong answers; beyond that they change nothing."""
        return replace(self, also_true=with_more(self.also_true, more))

    def check(self) -> None:
        """Refuse a data set in which the new entities are not new, or are not where they belong."""
        if not len(self.train):
            raise DatasetError(f"{self.train.source}: train has no triples; give some triples to train on")
        self._refuse("valid", self._known_ends(self.valid) < 2, "both entities of a valid triple occur in train")
        self._refuse("aux", self._known_ends(self.aux) != 1, "exactly one entity of an aux triple occurs in train")
        self._refuse("test", self._known_ends(self.test) == 2, "at least one entity of a test triple is not in train")

    def _known_ends(self, triples: Triples) -> np.ndarray[Any, Any]:
        known = self.known_entities.ids(triples.entities.labels) >= 0
        count: np.ndarray[Any, Any] = known[triples.ids[:, [0, 2]]].sum(axis=1)  # (triples,)
        return count

    def _refuse(self, part: str, broken: np.ndarray[Any, Any], rule: str) -> None:
        rows = np.flatnonzero(broken)
        if not len(rows):
            return
        triples: Triples = getattr(self, part)
        examples = ", ".join(f"({', '.join(triple)})" for triple in triples.select(rows[:3]))
        problem = f"{len(rows):,} of {len(broken):,} {part} triples break a rule, such as {examples}"
        raise DatasetError(f"{triples.source}: {problem}; mend or drop them so that {rule}")


def with_more(triples: Triples | None, more: Sequence[TripleSource]) -> Triples:
    """One list of triples and others, each triple once; of labelled ones, those that are true."""
    parts = [true_part(as_triples(part)) for part in more]
    return joined([*([] if triples is None else [triples]), *parts])


def true_part(triples: Triples) -> Triples:
    """The triples that are not labelled as false."""
    return triples if triples.truth is None else triples.select(triples.truth)


def joined(parts: Sequence[Triples], source: str = "triples") -> Triples:
    """Several lists of triples as one, each triple once. source: where they are from, for messages"""
    entities, relations = Vocabulary([]), Vocabulary([])
    for part in parts:
        entities, relations = entities.extended(part.entities.labels), relations.extended(part.relations.labels)
    ids = np.concatenate([np.empty((0, 3), np.int64), *(part.encoded(entities, relations) for part in parts)])
    kept = first_occurrences(ids, len(entities), len(relations))
    repeated = 0 if kept is None else len(ids) - len(kept)
    return Triples(ids if kept is None else ids[kept], entities, relations, source=source, duplicates=repeated)


def compact(triples: Triples) -> Triples:
    """The same triples, with vocabularies of only the labels that occur in them."""
    entity_map, entities = _occurring(triples.entities, triples.ids[:, [0, 2]])
    relation_map, relations = _occurring(triples.relations, triples.ids[:, 1])
    if len(entities) == len(triples.entities) and len(relations) == len(triples.relations):
        return triples
    columns = [entity_map[triples.ids[:, 0]], relation_map[triples.ids[:, 1]], entity_map[triples.ids[:, 2]]]
    ids = np.stack(columns, axis=1)
    return Triples(ids, entities, relations, triples.truth, triples.source, triples.duplicates, triples.format)


def _occurring(vocabulary: Vocabulary, ids: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], Vocabulary]:
    occurs = np.zeros(len(vocabulary), dtype=np.bool_)
    occurs[ids] = True
    new_ids = np.cumsum(occurs, dtype=np.int64) - 1
    return new_ids, vocabulary if occurs.all() else Vocabulary.distinct(vocabulary.labels.filter(pa.array(occurs)))


def part_files(folder: Path, part: str) -> list[Path]:
    """The files of a folder that can hold one of the four parts."""
    names = [f"{part}{ending}" for ending in ENDINGS] + list(AUX_ALIASES if part == "aux" else ())
    return [folder / name for name in names if (folder / name).is_file()]


def check_target(folder: str | Path, *, overwrite: bool = False) -> None:
    """Refuse a folder that holds a data set, unless it is one to overwrite."""
    folder = Path(folder)
    present = [path.name for part in (*PARTS, ALSO_TRUE) for path in part_files(folder, part)]
    foreign = [name for name in present if name not in TARGETS.values()]
    if foreign:
        raise InputError(f"{folder}: already holds {foreign[0]}, which would make the data set ambiguous; move it")
    present += [name for name in TARGETS.values() if (folder / name).exists()]
    if present and not overwrite:
        raise InputError(
            f"{folder}: already holds {present[0]}; choose another folder, or write over it with `overwrite=True`"
        )


def write_also_true(triples: Triples | None, staging: Path, folder: Path) -> None:
    """Write what else is true, if anything is, or if the folder that is replaced has such a file."""
    triples = joined([]) if triples is None else triples
    if len(triples) or (folder / TARGETS[ALSO_TRUE]).exists():
        write_triples(staging / TARGETS[ALSO_TRUE], compact(triples))


def read_also_true(folder: Path) -> Triples | None:
    """What else is true, where a folder says so; of labelled triples, those that are."""
    files = part_files(folder, ALSO_TRUE)
    if len(files) > 1:
        names = " and ".join(path.name for path in files)
        raise DatasetError(f"{folder}: {names} are there, and only one can be the {ALSO_TRUE} file; move the others")
    return true_part(read_triples(files[0])) if files else None


def write_dataset(dataset: Dataset, folder: str | Path, *, overwrite: bool = False) -> None:
    """Write the four parts, `also-true.txt` where there is more, and every label of the four parts with an id."""
    folder = Path(folder)
    check_target(folder, overwrite=overwrite)
    parts = {part: compact(getattr(dataset, part)) for part in PARTS}
    with staged_folder(folder) as staging:
        for part, triples in parts.items():
            write_triples(staging / TARGETS[part], triples)
        write_also_true(dataset.also_true, staging, folder)
        for kind in ("entities", "relations"):
            vocabulary = Vocabulary([])
            for triples in parts.values():
                vocabulary = vocabulary.extended(getattr(triples, kind).labels)
            numbers = pa.array(np.arange(len(vocabulary))).cast(pa.string())
            lines = pc.binary_join_element_wise(numbers, vocabulary.labels, "\t").to_pylist()
            (staging / TARGETS[kind]).write_text("".join(f"{line}\n" for line in lines), "utf-8", newline="\n")
