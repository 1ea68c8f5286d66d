"""Write a model's vectors as Parquet files.

RotatE entities are d real parts, then d imaginary parts; its relations d phases in radians.
"""

from __future__ import annotations

import argparse

from ookg.cli.console import add_model_argument, load_model, note

SUMMARY = "write a model's vectors as Parquet"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_argument(parser)
    parser.add_argument("--entities", metavar="FILE", help="Parquet file to write: entity, vector")
    parser.add_argument("--relations", metavar="FILE", help="Parquet file to write: relation, vector")


def run(arguments: argparse.Namespace) -> int:
    """Write the files that are named."""
    from ookg.errors import InputError
    from ookg.export import write_vectors

    if not (arguments.entities or arguments.relations):
        raise InputError("nothing to write; name --entities FILE, --relations FILE or both")
    model = load_model(arguments)
    if arguments.entities:
        write_vectors(arguments.entities, "entity", model.entities.labels, model.entity_vectors)
        note(f"{arguments.entities}: {len(model.entities):,} entities")
    if arguments.relations:
        write_vectors(arguments.relations, "relation", model.relations.labels, model.relation_vectors)
        note(f"{arguments.relations}: {len(model.relations):,} relations")
    return 0
