"""Compare the ranks of two systems on the same questions, as `ookg evaluate --test FILE --ranks FILE` writes them.

The difference is second less first. Its interval comes from drawing the test triples anew, p from flipping the sign of
each triple's difference: how often a difference as large comes about where both are equally good.
"""

from __future__ import annotations

import argparse

from ookg.cli.console import add_json_option, note, print_json, print_table, whole_number

SUMMARY = "two files of ranks, question by question"
NAMES = {"mrr": "MRR", "mean_rank": "mean rank", "hits@1": "Hits@1", "hits@3": "Hits@3", "hits@10": "Hits@10"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("first", metavar="FIRST", help="ranks of the first system (.parquet, .csv, .tsv, .jsonl)")
    parser.add_argument("second", metavar="SECOND", help="ranks of the second one")
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help="seed of interval and test (0)")
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compare and print."""
    from ookg.evaluation.ranks import compare

    result = compare(arguments.first, arguments.second, arguments.seed)
    for path, count in ((arguments.first, result.only_first), (arguments.second, result.only_second)):
        if count:
            note(f"note: {count:,} questions are in {path} alone and do not count")
    if arguments.json:
        print_json(result.to_dict())
        return 0
    rows = [
        (
            NAMES[name],
            *(f"{value:.4f}" for value in (one.first, one.second, one.difference)),
            f"{one.interval.low:.4f} to {one.interval.high:.4f}",
            f"{one.p_value:.4f}",
        )
        for name, one in result.measures.items()
    ]
    print_table(("", "first", "second", "difference", "95 %", "p"), rows)
    counts = f"better in {result.better:,}, worse in {result.worse:,}, equal in {result.equal:,}"
    print(f"\nof {result.questions:,} questions the second ranks the right answer {counts}")
    return 0
