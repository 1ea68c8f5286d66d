"""Choose how new entities are represented, on known entities that are made new again.

The power of the correlation weights, how vectors are refined, and the weights of the combination are chosen on one half
of the hidden entities and reported on the other. It trains once without the hidden entities; --quick takes the model's
own vectors instead, for a first look.

--tasks chooses on the valid-tasks of a few-shot data set instead how newcomers with --shots given triples are
answered; `ookg evaluate` reports on its test-tasks.

--training chooses the settings of a training instead, for the graph of DIR or for a file of triples: it tries some
within --minutes, judges them on held-out triples, and writes the better ones to --out, for `ookg train --config`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ookg.cli.console import (
    add_json_option,
    add_model_argument,
    check_output,
    load_current,
    note,
    print_json,
    print_notes,
    print_table,
    read_also_true,
    refuse_empty,
    whole_number,
)
from ookg.cli.simulating import add_simulation_options, chosen_hiding, numbers_of_triples, whole_numbers

if TYPE_CHECKING:
    from ookg.graph.triples import Triples
    from ookg.simulation.ways import Ways

SUMMARY = "choose the settings for new entities, or of a training, by simulation"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_argument(parser)
    training = parser.add_argument_group("the settings of a training instead")
    training.add_argument("--training", action="store_true", help="search them; DIR may be a file of triples then")
    training.add_argument("--minutes", type=float, metavar="X", help="for about so long (10)")
    training.add_argument("--config", metavar="FILE", help="TOML file of the settings to start from (the default ones)")
    training.add_argument("--out", metavar="FILE", help="TOML file to write, for `ookg train --config`")
    training.add_argument("--overwrite", action="store_true", help="replace the file of --out")
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--retrain", action="store_true", help="train without the hidden entities (default)")
    way.add_argument("--quick", action="store_true", help="take the model's own vectors, which have seen the answers")
    parser.add_argument("--trials", type=whole_number, metavar="N", help="settings of the refinement to try (20)")
    parser.add_argument("--seconds", type=float, metavar="X", help="begin no further trial after so many seconds")
    parser.add_argument(
        "--triples",
        type=whole_numbers,
        metavar="N,N,...",
        help="for which numbers of triples to choose how newcomers are answered "
        "(those that the added newcomers have; 1,3,10,30 if there are none)",
    )
    parser.add_argument(
        "--given", metavar="FILE", help="triples of newcomers: choose for the numbers of triples that these have"
    )
    tasks = parser.add_argument_group("on a few-shot data set instead of known entities")
    tasks.add_argument("--tasks", metavar="NAME", help="its name or folder: its valid-tasks are what is chosen on")
    tasks.add_argument("--shots", type=whole_numbers, metavar="K,K,...", help="how many triples of each are given")
    tasks.add_argument(
        "--also-true", metavar="FILE", nargs="+", help="further true triples, which are no wrong answers"
    )
    parser.add_argument("--save", action="store_true", help="store the choice with the model; its vectors stay")
    add_simulation_options(parser)
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Choose, print, and store if asked for."""
    from ookg.errors import InputError

    if arguments.also_true is not None and arguments.tasks is None:
        raise InputError("--also-true without --tasks; give both")
    if arguments.training:
        return _search_training(arguments)
    for option in ("minutes", "config", "out"):
        if getattr(arguments, option) is not None:
            raise InputError(f"--{option} without --training; give both")
    if arguments.tasks is not None or arguments.shots is not None:
        return _choose_on_tasks(arguments)
    from ookg.simulation.retraining import Retraining
    from ookg.simulation.tuning import TuningSettings
    from ookg.storage.checkpoint import MODEL_FILE, refuse_damage
    from ookg.system.files import check_place

    if arguments.quick and (arguments.save or arguments.steps is not None):
        problem = "--save stores settings for real newcomers" if arguments.save else "--steps is for training again"
        raise InputError(f"{problem}, which --quick does without; leave --quick out")
    retraining = None if arguments.quick else Retraining(arguments.steps, reference=False, progress=True)
    if arguments.given is not None and arguments.triples is not None:
        raise InputError("--given and --triples both say for which numbers of triples to choose; leave one out")
    current = load_current(arguments)
    model, numbers = current.version, arguments.triples or numbers_of_triples(current, arguments.given)
    settings = TuningSettings(
        chosen_hiding(arguments),
        retraining,
        TuningSettings.trials if arguments.trials is None else arguments.trials,
        arguments.seconds,
        progress=True,
        triples=numbers,
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
        _print_ways(choice.ways)
    print(f"best of closed form, refined and combined on the first half: {choice.best}")
    if not arguments.save and not arguments.quick:
        print("nothing is stored; --save stores it with the model")
    return 0


def _choose_on_tasks(arguments: argparse.Namespace) -> int:
    """Choose on valid-tasks, print, and store if asked for."""
    from ookg.datasets.few_shot import load_few_shot
    from ookg.errors import InputError
    from ookg.evaluation.task_tuning import tune_on_tasks
    from ookg.storage.checkpoint import MODEL_FILE, refuse_damage
    from ookg.system.files import check_place

    if arguments.tasks is None or arguments.shots is None:
        raise InputError("--tasks and --shots go together, as in --tasks FB15k-237 --shots 1,3; give both")
    for option in ("retrain", "quick", "trials", "seconds", "steps", "triples", "given", "sample"):
        if getattr(arguments, option):
            raise InputError(f"--{option} hides known entities, and --tasks has newcomers of its own; leave it out")
    if (arguments.draw, arguments.new) != ("entity", "both"):
        raise InputError("--draw and --new are for known entities that are hidden; leave them out with --tasks")
    dataset = load_few_shot(arguments.tasks).with_also_true(*read_also_true(arguments.also_true))
    model = load_current(arguments).version
    if arguments.save:
        check_place(Path(arguments.model) / MODEL_FILE)
        refuse_damage(arguments.model, arguments.journal)
    tuning = tune_on_tasks(model, dataset, arguments.shots, seed=arguments.seed)
    if arguments.save:
        model.with_choice(tuning.choice).save_choice(arguments.model)
        note(f"{arguments.model}: the choice is stored")
    if arguments.json:
        print_json(tuning.to_dict())
        return 0
    rows = [
        (one.triples, "fitted" if one.refine else "closed form", one.questions, one.alone, one.mrr)
        for one in tuning.tried
    ]
    columns = ("given", "vector", "questions", "MRR, closed form alone", "MRR, chosen on other newcomers")
    print_table(columns, rows, f"valid-tasks of {dataset.name}")
    _print_ways(tuning.ways)
    if not arguments.save:
        print("nothing is stored; --save stores it with the model")
    return 0


def _print_ways(ways: Ways) -> None:
    rows = [
        (f"from {way.triples}", "fitted" if way.refine else "closed form", _weights_in_words(way.ranking))
        for way in ways
    ]
    print_table(("triples", "vector", "weights"), rows, "\nhow newcomers are answered")


def _search_training(arguments: argparse.Namespace) -> int:
    """Search settings of a training, print what was tried, and write the better ones."""
    from ookg.errors import InputError
    from ookg.graph.triples import read_triples
    from ookg.model.training_search import changes_in_words, search_training
    from ookg.system.files import atomic_write
    from ookg.training.settings import TrainingSettings, read_settings, settings_text

    if arguments.save or arguments.quick or arguments.retrain or arguments.seconds is not None:
        raise InputError(
            "--save, --quick, --retrain or --seconds with --training; it has --minutes and --out, leave it out"
        )
    for option in ("given", "tasks", "shots", "triples", "trials"):
        if getattr(arguments, option) is not None:
            raise InputError(f"--{option} with --training; it is for the settings of new entities, leave it out")
    start = TrainingSettings() if arguments.config is None else read_settings(arguments.config)
    if arguments.out is not None:
        check_output(arguments.out, [arguments.config, arguments.model], overwrite=arguments.overwrite)
    if Path(arguments.model).is_file():
        triples = read_triples(arguments.model, labels="refused")
        refuse_empty(triples)
    else:
        triples = _graph_of(arguments)
    minutes = 10.0 if arguments.minutes is None else arguments.minutes
    search = search_training(
        triples,
        start.changed({"seed": arguments.seed}),
        seconds=60 * minutes,
        steps=arguments.steps,
        device=arguments.device,
    )
    text = settings_text(search.chosen(start))
    if arguments.out is not None:
        with atomic_write(Path(arguments.out)) as temporary:
            temporary.write_text(text, encoding="utf-8")
        note(f"{arguments.out}: the settings are written; train with `ookg train ... --config {arguments.out}`")
    if arguments.json:
        trials = [
            {"changed": trial.changed, "mrr": trial.mrr, "seconds": trial.seconds, "best": trial.is_best}
            for trial in search.trials
        ]
        values = {"trials": trials, "skipped": search.skipped, "held_out": search.held_out, "settings": text}
        print_json(values)
        return 0
    rows: list[tuple[object, ...]] = [
        (trial.in_words() or "the start", trial.mrr, f"{trial.seconds:.1f}", "better" if trial.is_best else "")
        for trial in search.trials
    ]
    skipped = [changes_in_words(one) for one in search.skipped]
    rows += [(changed, "", "", "not enough memory") for changed in skipped]
    steps = search.best.settings.steps
    title = f"Trials of {steps:,} steps, on {search.held_out:,} held-out triples"
    print_table(("changed from the best so far", "MRR", "seconds", ""), rows, title)
    print(f"\n{text}" if text else "\nthe start is the best: nothing to change")
    if arguments.out is None:
        print("nothing is written; --out FILE writes it for `ookg train --config FILE`")
    return 0


def _graph_of(arguments: argparse.Namespace) -> Triples:
    """The training triples of a model, and what was added to it."""
    from ookg.errors import lacks_triples
    from ookg.graph.triples import Triples

    model = load_current(arguments, alone=True).model_with_facts
    ids = model.checkpoint.triples
    if not len(ids):
        raise lacks_triples(model.checkpoint.graph is None, "a training is searched on triples")
    return Triples(ids, model.entities, model.relations, source=arguments.model)


def _weights_in_words(weights: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {weight:.2g}" for name, weight in weights.items() if weight)
