"""Choose how new entities are represented, on known entities that are made new again.

The power of the correlation weights, how vectors are refined, and the weights of the combination are chosen on one half
of the hidden entities and reported on the other. It trains once without the hidden entities; --quick takes the model's
own vectors instead, for a first look.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from ookg.cli.console import (
    add_json_option,
    add_model_argument,
    load_current,
    note,
    print_json,
    print_notes,
    print_table,
    whole_number,
)
from ookg.cli.simulating import add_simulation_options, chosen_hiding, numbers_of_triples, whole_numbers

SUMMARY = "choose the settings for new entities, by simulation"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_argument(parser)
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--retrain", action="store_true", help="train without the hidden entities (default)")
    way.add_argument("--quick", action="store_true", help="take the model's own vectors, which have seen the answers")
    parser.add_argument(
        "--trials", type=whole_number, default=20, metavar="N", help="settings of the refinement to try (20)"
    )
    parser.add_argument("--seconds", type=float, metavar="X", help="begin no further trial after so many seconds")
    parser.add_argument(
        "--triples",
        type=whole_numbers,
        metavar="N,N,...",
        help="for which numbers of triples to choose how newcomers are answered "
        "(those that the added newcomers have; 1,3,10,30 if there are none)",
    )
    parser.add_argument("--save", action="store_true", help="store the choice with the model; its vectors stay")
    add_simulation_options(parser)
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Choose, print, and store if asked for."""
    from ookg.errors import InputError
    from ookg.simulation.retraining import Retraining
    from ookg.simulation.tuning import TuningSettings
    from ookg.storage.checkpoint import MODEL_FILE, refuse_damage
    from ookg.system.files import check_place

    if arguments.quick and (arguments.save or arguments.steps is not None):
        problem = "--save stores settings for real newcomers" if arguments.save else "--steps is for training again"
        raise InputError(f"{problem}, which --quick does without; leave --quick out")
    retraining = None if arguments.quick else Retraining(arguments.steps, reference=False, progress=True)
    current = load_current(arguments)
    model, numbers = current.version, arguments.triples or numbers_of_triples(current)
    settings = TuningSettings(
        chosen_hiding(arguments), retraining, arguments.trials, arguments.seconds, progress=True, triples=numbers
    )
    if arguments.save:
        check_place(Path(arguments.model) / MODEL_FILE)
        refuse_damage(arguments.model, arguments.journal)
    tuning = model.tune(settings)
    if arguments.save:
        model.with_choice(tuning.choice).save_choice(arguments.model)
        note(f"{arguments.model}: the choice is stored")
    print_notes(tuning.notes)
    if arguments.json:
        print_json(tuning.to_dict())
        return 0
    choice = tuning.choice
    rows = [
        (name, figures.queries, figures.mrr, f"{figures.hits_at_10:.1f}", f"{figures.hits_at_1:.1f}")
        for name, figures in tuning.report.items()
    ]
    print_table(
        ("on the other half", "questions", "MRR", "Hits@10", "Hits@1"), rows, "What was chosen, where it was not chosen"
    )
    print(f"\npower {choice.power:g}")
    if choice.refine is not None:
        print(f"refine: margin {choice.refine.margin:g}, lr {choice.refine.lr:g}, steps {choice.refine.steps:,}")
    for name, weights in choice.ranking.items():
        print(f"combined, {name}: {', '.join(f'{what} {weight:g}' for what, weight in weights.items())}")
    if choice.ways is not None:
        ways = [
            (f"from {way.triples}", "fitted" if way.refine else "closed form", _weights_in_words(way.ranking))
            for way in choice.ways
        ]
        print_table(("triples", "vector", "weights"), ways, "\nhow newcomers are answered")
    print(f"best of closed form, refined and combined on the first half: {choice.best}")
    if not arguments.save and not arguments.quick:
        print("nothing is stored; --save stores it with the model")
    return 0


def _weights_in_words(weights: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {weight:.2g}" for name, weight in weights.items() if weight)
