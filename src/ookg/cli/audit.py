"""What a newcomer loses against a trained entity: known entities are made new again from their own triples, and asked.

By default the model's own vectors are taken as they are: quick, and too kind. --retrain trains without the hidden
entities, and once more with what is given of them: exact, and it takes two trainings.
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
from ookg.cli.simulating import add_simulation_options, chosen_hiding
from ookg.cli.status import status_in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ookg.simulation.audit import Audit, QuestionGroup

SUMMARY = "what a newcomer loses against a trained entity, and what would help"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_argument(parser)
    parser.add_argument("--retrain", action="store_true", help="train without the hidden entities: exact, and slow")
    parser.add_argument("--no-refine", action="store_true", help="leave out the refined vectors, which take most time")
    parser.add_argument("--figure", metavar="FILE", help="draw it, as FILE.png and FILE.svg")
    parser.add_argument("--overwrite", action="store_true", help="replace the files of --figure")
    parser.add_argument(
        "--save", action="store_true", help="store with the model what to expect of a new entity (needs --retrain)"
    )
    add_simulation_options(parser)
    add_json_option(parser)
    add_prefix_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Audit, print, and draw and store what is asked for."""
    from ookg.errors import InputError
    from ookg.model.living import status_of
    from ookg.simulation.audit import AuditSettings
    from ookg.simulation.picture import draw_audit, picture_files
    from ookg.simulation.retraining import Retraining
    from ookg.storage.checkpoint import MODEL_FILE, refuse_damage
    from ookg.system.files import check_place

    if arguments.save and not arguments.retrain:
        raise InputError("--save stores what to expect of a new entity, and a quick audit is too kind; add --retrain")
    if arguments.steps is not None and not arguments.retrain:
        raise InputError("--steps is for training again; add --retrain")
    if arguments.figure is not None:
        from ookg.system.figures import import_matplotlib

        import_matplotlib()
        for file in picture_files(arguments.figure):
            check_output(str(file), [], arguments.model, overwrite=arguments.overwrite)
    retraining = Retraining(arguments.steps, progress=True) if arguments.retrain else None
    settings = AuditSettings(chosen_hiding(arguments), retraining, not arguments.no_refine, progress=True)
    current = load_current(arguments)
    model = current.model_with_facts
    if arguments.save:
        check_place(Path(arguments.model) / MODEL_FILE)
        refuse_damage(arguments.model, arguments.journal)
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
        print(f"- {line}")
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
