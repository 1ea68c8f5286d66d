"""Is it true: a verdict on each claimed triple.

A claim's score is held against its relation's threshold, found on labelled validation triples.
"""

from __future__ import annotations

import argparse

from ookg.cli.console import (
    add_format_options,
    add_json_option,
    add_model_argument,
    add_prefix_option,
    add_refine_options,
    add_weight_options,
    chosen_limit,
    chosen_refine,
    chosen_weights,
    load_model,
    print_json,
    print_notes,
    print_table,
    shortener,
    triple_format,
)

SUMMARY = "is this triple true"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_argument(parser)
    parser.add_argument("claims", metavar="CLAIMS", help="triples to judge; with a label column the accuracy is told")
    parser.add_argument("--valid", required=True, metavar="FILE", help="labelled triples to find the thresholds on")
    parser.add_argument("--given", metavar="TRIPLES", help="triples about new entities")
    add_prefix_option(parser)
    add_json_option(parser)
    add_weight_options(parser, "degree")
    add_refine_options(parser, combines=False)
    add_format_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Classify and print."""
    from ookg.triples import read_triples

    form = triple_format(arguments)
    model = load_model(arguments)
    found = model.classify(
        read_triples(arguments.claims, form, keep_duplicates=True),
        valid=read_triples(arguments.valid, form, labels="required", keep_duplicates=True),
        given=read_triples(arguments.given, form) if arguments.given else (),
        weights=chosen_weights(arguments),
        limit=chosen_limit(arguments),
        refine=chosen_refine(arguments, model) or False,
    )
    print_notes(found.notes)
    if arguments.json:
        print_json({"claims": [vars(claim) for claim in found.claims], "accuracy": found.accuracy})
        return 0
    short = shortener(arguments)
    words = {True: "true", False: "false", None: "unknown"}
    rows = [
        (words[c.verdict], short(c.head), short(c.relation), short(c.tail), c.score, c.threshold) for c in found.claims
    ]
    print_table(("verdict", "head", "relation", "tail", "score", "threshold"), rows)
    if found.accuracy is not None:
        print(f"\naccuracy: {found.accuracy:.1f}% of {len(found.claims):,} claims")
    return 0
