"""What a newcomer loses against a trained entity: known entities are made new again from their own triples, and asked.

It trains without the hidden entities, and once more with what is given of them to compare with: by the model's
settings, for 150 passes over the triples at most. --quick takes the model's own vectors as they are, which have
seen the answers: good to see where newcomers are weak, and no advice follows.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ookg.cli.console import (
    add_json_option,
    add_model_argument,
    add_prefix_option,
    check_output,
    load_current,
    namer,
    note,
    print_json,
    print_notes,
    print_table,
)
from ookg.cli.options import in_options
from ookg.cli.simulating import add_simulation_options, chosen_hiding
from ookg.cli.status import status_in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ookg.simulation.audit import Audit, QuestionGroup

SUMMARY = "what a newcomer loses against a trained entity, and what would help"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_argument(parser)
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--retrain", action="store_true", help="train without the hidden entities (default)")
    way.add_argument("--quick", action="store_true", help="take the model's own vectors, which have seen the answers")
    parser.add_argument("--no-refine", action="store_true", help="leave out the refined vectors, which take most time")
    parser.add_argument("--figure", metavar="FILE", help="draw it, as FILE.png and FILE.svg")
    parser.add_argument("--overwrite", action="store_true", help="replace the files of --figure")
    parser.add_argument(
        "--save", action="store_true", help="store with the model what to expect of a new entity (not --quick)"
    )
    add_simulation_options(parser)
    add_json_option(parser)
    add_prefix_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Audit, print, and draw and store what is asked for."""
    from ookg.errors import InputError
    from ookg.model.living import status_of
    from ookg.simulation.audit import PASSES, AuditSettings
    from ookg.simulation.picture import draw_audit, picture_files
    from ookg.simulation.retraining import Retraining
    from ookg.storage.checkpoint import MODEL_FILE, refuse_damage
    from ookg.system.files import check_place

    if arguments.quick and (arguments.save or arguments.steps is not None):
        problem = "--save stores what to expect of a new entity" if arguments.save else "--steps is for training again"
        raise InputError(f"{problem}, which --quick does without; leave --quick out")
    if arguments.figure is not None:
        from ookg.system.figures import import_matplotlib

        import_matplotlib()
        for file in picture_files(arguments.figure):
            check_output(str(file), [], arguments.model, overwrite=arguments.overwrite)
    current = load_current(arguments)
    model = current.model_with_facts
    passes = PASSES if arguments.steps is None else None
    retraining = None if arguments.quick else Retraining(arguments.steps, progress=True, passes=passes)
    if retraining is not None and not (arguments.retrain or arguments.save or model.was_trained_here):
        note("this model was imported, and how it was trained is not known: a quick audit")
        retraining = None
    settings = AuditSettings(chosen_hiding(arguments), retraining, not arguments.no_refine, progress=True)
    if arguments.save:
        check_place(Path(arguments.model) / MODEL_FILE)
        refuse_damage(arguments.model, arguments.journal)
    if retraining is not None:
        note(
            f"training again without the hidden entities: {retraining.in_words(model.checkpoint)}; --quick does without"
        )
    audit = model.audit(settings)
    if arguments.figure is not None:
        for file in draw_audit(audit, arguments.figure):
            note(f"{file}: written")
    if arguments.save:
        model.with_choice(audit.choice).save_choice(arguments.model)
        note(f"{arguments.model}: what to expect of a new entity is stored")
    print_notes(audit.notes)
    # What waits for an update, where anything does.
    status = status_of(current) if current.is_changed else None
    if arguments.json:
        print_json(audit.to_dict() | ({} if status is None else {"status": status.to_dict()}))
        return 0
    _print(audit, namer(arguments, model.names))
    for line in [] if status is None else status_in_words(status):
        print(f"- {line}")
    return 0


def _print(audit: Audit, shown: Callable[[str], str]) -> None:
    print_table(*_table(audit, "triples", [*audit.by_triples, audit.overall]), "By number of given triples")
    for title, groups in zip(("most", "least"), audit.relations(), strict=True):
        if groups:
            columns, rows = _table(audit, "relation", groups)
            rows = [(shown(str(row[0])), *row[1:]) for row in rows]
            print_table(columns, rows, f"\nRelations in which newcomers lose {title}")
    print()
    for line in audit.advice:
        print(f"- {in_options(line)}")
    for name, calibration in audit.calibration.items():
        hits, mrr = calibration.hits_at_10, calibration.mrr
        print(
            f"- What to expect of a new entity, {name}: off by {hits.error:.3f} in Hits@10 (as a share) and by "
            f"{mrr.error:.3f} in MRR, on entities it was not fitted to"
        )


def _table(audit: Audit, kind: str, groups: Sequence[QuestionGroup]) -> tuple[list[str], list[tuple[Any, ...]]]:
    methods = list(audit.overall.figures)
    columns = [kind, "entities", "questions"]
    columns += [f"{name} {measure}" for name in methods for measure in ("MRR", "Hits@10")]
    rows = []
    for group in groups:
        figures = [group.figures[name] for name in methods]
        cells = [cell for summary in figures for cell in (f"{summary.mrr:.3f}", f"{summary.hits_at_10:.1f}")]
        rows.append((group.name, group.entities, group.questions, *cells))
    return columns, rows
