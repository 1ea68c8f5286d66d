"""Choose what evidence counts for in answers about known entities, and measure how likely these are right.

Both on true triples that training did not have. From then on `predict` answers so, with a probability. For new entities
`ookg tune --save` does the same.
"""

from __future__ import annotations

import argparse

from ookg.cli.console import (
    add_format_options,
    add_json_option,
    add_model_argument,
    load_current,
    note,
    print_json,
    print_table,
    read_given,
    whole_number,
)

SUMMARY = "what ranks answers about known entities best, and how likely they are right"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_argument(parser)
    parser.add_argument("held_out", metavar="HELD_OUT", help="true triples of known entities, none of them of training")
    parser.add_argument("--save", action="store_true", help="store it with the model; its vectors stay")
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help="seed of the questions drawn (0)")
    add_json_option(parser)
    add_format_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, and store if asked to."""
    from pathlib import Path

    from ookg.storage.checkpoint import MODEL_FILE, refuse_damage
    from ookg.system.files import check_place

    model = load_current(arguments).version
    held_out = read_given(arguments, arguments.held_out, model)
    if arguments.save:
        check_place(Path(arguments.model) / MODEL_FILE)
        refuse_damage(arguments.model, arguments.journal)
    model = model.calibrated(held_out, arguments.seed)
    if arguments.save:
        model.save_choice(arguments.model)
        note(f"{arguments.model}: the weights and probabilities are stored")
    fitted, ranking = model.choice.likelihood["known"], model.choice.known
    weights = {} if ranking is None else ranking.to_dict()
    if arguments.json:
        print_json(fitted.to_dict() | {"ranking": weights})
        return 0
    named = ", ".join(f"{name} {weight:g}" for name, weight in weights.items() if weight)
    print(f"answers about known entities are ranked by {named}\n")
    rows = [(f"{one.expected:.1%}", f"{one.right:.1%}", one.answers) for one in fitted.bins]
    title = "How likely answers were held, and how often they were right, on entities that this was not fitted to"
    print_table(("probability", "right", "answers"), rows, title)
    print(f"\n{100 * fitted.error:.1f} points apart in the mean, over answers from 10 % on")
    if not arguments.save:
        print("nothing is stored; --save stores it with the model")
    return 0
