"""Write a model's vectors, and after them those of new entities that were added or are given, for other programs.

Formats: parquet (entity, vector; relation, vector), npy, word2vec text, safetensors, kge (KnowledgeGraphEmbedding's
layout), pykeen (a state dict and its triples factory). Known entities keep their ids, new ones follow. RotatE entities
are d real parts, then d imaginary parts, its relations d phases in radians; kge and pykeen have their own layouts.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING

from ookg.cli.console import (
    add_format_options,
    add_model_argument,
    add_refine_options,
    add_weight_options,
    check_output,
    chosen_limit,
    chosen_refine,
    chosen_weights,
    load_current,
    note,
    print_notes,
    read_given,
)

if TYPE_CHECKING:
    from ookg.interchange.exports import Vectors
    from ookg.model.current import Current
    from ookg.model.model import NewVectors
    from ookg.newcomers.embedder import NeighborLimit
    from ookg.newcomers.reducer import Weights
    from ookg.newcomers.refinement import RefineSettings

SUMMARY = "write a model's vectors for other programs"
FORMATS = ("parquet", "npy", "word2vec", "safetensors", "kge", "pykeen")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_argument(parser)
    parser.add_argument("--entities", metavar="FILE", help="file to write (.parquet, .csv, .tsv, .jsonl)")
    parser.add_argument("--relations", metavar="FILE", help="likewise, for relations")
    parser.add_argument("--out", metavar="FOLDER", help="folder to write, in the format of --format")
    parser.add_argument("--format", choices=FORMATS, help="layout of the folder (parquet)")
    parser.add_argument("--overwrite", action="store_true", help="replace such files")
    parser.add_argument("--given", metavar="TRIPLES", help="triples of new entities, whose vectors are written too")
    parser.add_argument("--gamma", type=float, metavar="X", help="margin for --format kge (the training's, else 12)")
    add_weight_options(parser, "degree, or uniform for a model without its training triples")
    add_refine_options(parser, combines=False)
    add_format_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write what is named."""
    from ookg.errors import InputError
    from ookg.graph.tables import table_ending

    if not (arguments.entities or arguments.relations or arguments.out):
        raise InputError("nothing to write; name --entities FILE, --relations FILE or both, or --out FOLDER")
    outputs = [path for path in (arguments.entities, arguments.relations, arguments.out) if path]
    for place, path in enumerate(outputs):
        overwrite = None if path == arguments.out else arguments.overwrite  # a folder may hold other files
        check_output(path, [arguments.given, *outputs[:place]], arguments.model, overwrite=overwrite)
        if path != arguments.out:
            table_ending(path)
    if arguments.out and (arguments.entities or arguments.relations):
        raise InputError("--out names a folder for both tables; leave out --entities and --relations")
    if not arguments.out and arguments.format:
        raise InputError("--format goes with --out FOLDER")
    if arguments.gamma is not None and arguments.format != "kge":
        raise InputError("--gamma goes with --format kge")
    from ookg.newcomers.reducer import Correlation

    weights, limit = chosen_weights(arguments), chosen_limit(arguments)
    if isinstance(weights, Correlation):
        problem = "correlation weights give an entity another vector for every relation, and a file has one"
        raise InputError(f"{problem}; choose --weights uniform or degree")
    from ookg.interchange.exports import collect, export

    current = load_current(arguments)
    model = current.model
    refine = chosen_refine(arguments, model)
    says_how = weights is not None or limit is not None or refine is not None
    if arguments.given is None and not current.difference.added and says_how:
        problem = "weights, --max-neighbors and --refine are for new entities"
        raise InputError(f"{problem}; give --given TRIPLES, or add some")
    new = _new_vectors(arguments, current, weights, limit, refine)
    vectors = collect(model, new, arguments.gamma)
    appended = f", {len(new.entities):,} of them new" if new is not None else ""
    if arguments.out:
        names = export(vectors, arguments.format or "parquet", arguments.out, overwrite=arguments.overwrite)
        sizes = f"{len(vectors.entities):,} entities{appended}, {len(vectors.relations):,} relations"
        note(f"{arguments.out}: {sizes} in {', '.join(names)}")
    else:
        _write_files(arguments, vectors)
    if arguments.entities:
        note(f"{arguments.entities}: {len(vectors.entities):,} entities{appended}")
    if arguments.relations:
        note(f"{arguments.relations}: {len(vectors.relations):,} relations")
    return 0


def _write_files(arguments: argparse.Namespace, vectors: Vectors) -> None:
    """Write the files that are named; both are complete before either takes its place."""
    from pathlib import Path

    from ookg.graph.vectors import write_vectors
    from ookg.system.files import atomic_write

    with ExitStack() as writing:
        for path, column, labels, rows in (
            (arguments.entities, "entity", vectors.entities, vectors.entity_vectors),
            (arguments.relations, "relation", vectors.relations, vectors.relation_vectors),
        ):
            if path:
                write_vectors(Path(writing.enter_context(atomic_write(path))), column, labels.labels, rows)


def _new_vectors(
    arguments: argparse.Namespace,
    current: Current,
    weights: Weights | None,
    limit: NeighborLimit | None,
    refine: RefineSettings | None,
) -> NewVectors | None:
    from ookg.system.progress import Progress

    if arguments.given is None and not current.difference.added:
        return None
    more = None if arguments.given is None else read_given(arguments, arguments.given, current.model)
    with nullcontext() if refine is None else Progress("fitting new entities", refine.steps) as report:
        new = current.model.embed(
            current.given(more), weights=weights, limit=limit, refine=refine or False, report=report
        )
    print_notes(new.notes)
    return new
