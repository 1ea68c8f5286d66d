"""The entities whose vectors are nearest to that of an entity, known or new, the nearest first.

The distance is that of the model between entity vectors: the norm it was trained with, under RotatE over complex
coordinates.
"""

from __future__ import annotations

import argparse

from ookg.cli.console import (
    add_format_options,
    add_json_option,
    add_model_argument,
    add_prefix_option,
    add_refine_options,
    add_vectors_option,
    add_weight_options,
    chosen_limit,
    chosen_prefixes,
    chosen_refine,
    chosen_weights,
    load_current,
    meant,
    namer,
    print_json,
    print_notes,
    print_table,
    read_given,
    shortener,
    whole_number,
    with_vectors,
)

SUMMARY = "entities with similar vectors"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_argument(parser)
    parser.add_argument("entity", metavar="ENTITY", help="a known or new entity")
    parser.add_argument("--given", metavar="TRIPLES", help="more triples about new entities, for this call alone")
    add_vectors_option(parser)
    parser.add_argument("--top", type=whole_number, default=10, metavar="K", help="how many (10)")
    add_prefix_option(parser)
    add_json_option(parser)
    add_weight_options(parser, "precision, or uniform for a model without its training triples")
    add_refine_options(parser, combines=False)
    add_format_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Look for them and print."""
    current = load_current(arguments, alone=True)
    model = with_vectors(arguments, current.model)
    given = current.given(read_given(arguments, arguments.given, model) if arguments.given else None)
    weights, refine = chosen_weights(arguments), chosen_refine(arguments, model)
    extended = model.extend(given, weights=weights, limit=chosen_limit(arguments), refine=refine)
    label = meant(arguments.entity, "entity", model.names, extended.has_entity, chosen_prefixes(arguments))
    near = extended.neighbors(label, arguments.top)
    print_notes(extended.notes)
    name = model.names.name
    if arguments.json:
        rows = [
            {"entity": one.entity, "name": name(one.entity), "distance": one.distance, "new": one.is_new}
            for one in near
        ]
        print_json({"entity": label, "name": name(label), "neighbors": rows})
        return 0
    short = shortener(arguments)
    columns: dict[str, list[object]] = {
        "rank": list(range(1, len(near) + 1)),
        "entity": [short(one.entity) for one in near],
        "name": [name(one.entity) or "" for one in near],
        "distance": [one.distance for one in near],
        "": ["new" if one.is_new else "" for one in near],
    }
    columns = {title: column for title, column in columns.items() if any(column)}
    print_table(
        tuple(columns), list(zip(*columns.values(), strict=True)), f"nearest to {namer(arguments, model.names)(label)}"
    )
    return 0
