"""Give vectors to the entities of a file that the model does not know, and write them: entity, vector.

The name's ending says how: .parquet, .csv, .tsv (vector_1, vector_2, ...) or .jsonl. Where ids have names (`ookg
names`), there is a column name. `ookg predict --vectors FILE` takes them back.
"""

from __future__ import annotations

import argparse
from contextlib import nullcontext

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
    meant,
    note,
    print_notes,
    read_given,
)

SUMMARY = "vectors for new entities"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_argument(parser)
    parser.add_argument(
        "triples",
        metavar="TRIPLES",
        nargs="?",
        help="triples that tie new entities to known ones (those that were added)",
    )
    parser.add_argument("--out", required=True, metavar="FILE", help="file to write (.parquet, .csv, .tsv, .jsonl)")
    parser.add_argument("--overwrite", action="store_true", help="replace the file of --out")
    columns = "triples, spread, uncertainty, expected_hits_at_10, expected_mrr"
    parser.add_argument("--trust", action="store_true", help=f"add columns: {columns}")
    parser.add_argument("--query-relation", metavar="R", help="the relation that correlation weights look at")
    add_weight_options(parser, "correlation with --query-relation, else degree")
    add_refine_options(parser, combines=False)
    add_format_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Embed and write."""
    from ookg.errors import InputError
    from ookg.graph.tables import table_ending
    from ookg.graph.vectors import write_vectors
    from ookg.system.display import counted
    from ookg.system.progress import Progress

    check_output(arguments.out, [arguments.triples], arguments.model, overwrite=arguments.overwrite)
    table_ending(arguments.out)
    current = load_current(arguments)
    model = current.model
    triples = None if arguments.triples is None else read_given(arguments, arguments.triples, model)
    if triples is None and not current.difference.added:
        raise InputError("no TRIPLES, and none were added to this model; give some")
    refine, given, query_relation = chosen_refine(arguments, model), current.given(triples), arguments.query_relation
    if query_relation is not None:
        places = (model.relations, given.relations)
        query_relation = meant(query_relation, "relation", model.names, lambda label: any(label in p for p in places))
    with nullcontext() if refine is None else Progress("fitting new entities", refine.steps) as report:
        new = model.embed(
            given,
            weights=chosen_weights(arguments),
            query_relation=query_relation,
            limit=chosen_limit(arguments),
            refine=refine or False,
            report=report,
        )
    if triples is not None and current.difference.added:
        new = new.select(triples.entities.ids(new.entities) >= 0)  # what was added before is not asked for
    print_notes(new.notes)
    others = {"name": [model.names.name(label) for label in new.entities]} if len(model.names) else {}
    trust = vars(new.trust) if arguments.trust else {}
    write_vectors(arguments.out, "entity", new.entities, new.vectors, others | trust)
    note(f"{arguments.out}: vectors of {counted(len(new.entities), 'new entity', 'new entities')}")
    return 0
