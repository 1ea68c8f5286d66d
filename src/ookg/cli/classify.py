"""Is it true: a verdict on each claimed triple.

A claim's score is held against its relation's threshold. Claims about new entities are judged by all evidence, by a
judge that learned on known entities made new again. Both are fitted once, to labelled triples (--valid) or else to
training triples and false ones made from them, and stored with the model, where the next call and the server find them.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ookg.cli.console import (
    add_format_options,
    add_json_option,
    add_model_argument,
    add_prefix_option,
    add_refine_options,
    add_vectors_option,
    add_weight_options,
    chosen_limit,
    chosen_refine,
    chosen_weights,
    load_current,
    namer,
    note,
    print_json,
    print_notes,
    print_table,
    read_given,
    triple_names,
    trust_in_words,
    whole_number,
    with_vectors,
)

if TYPE_CHECKING:
    from ookg.evaluation.verdicts import Classification, Verdict
    from ookg.model.model import Model

SUMMARY = "is this triple true"
MOST_TRUSTS = 10  # new entities that are listed below the table


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_argument(parser)
    parser.add_argument(
        "claims", metavar="CLAIMS", help="triples to judge; with a label column the accuracy is reported"
    )
    parser.add_argument(
        "--valid",
        metavar="FILE",
        help="labelled triples to fit thresholds and judge to (default: what is stored with the model, or else "
        "training triples and false ones made from them)",
    )
    parser.add_argument("--given", metavar="TRIPLES", help="triples about new entities")
    add_vectors_option(parser)
    parser.add_argument(
        "--judge",
        action=argparse.BooleanOptionalAction,
        help="judge claims about new entities by all evidence (default, unless an option says how they get vectors): "
        "by the judge stored with the model, or by one that learns now. --judge trains for that, once more "
        "without some entities; by default it learns on the vectors as they are. --no-judge: by thresholds",
    )
    parser.add_argument("--judge-steps", type=whole_number, metavar="N", help="steps of that training (as the model's)")
    parser.add_argument("--save", action="store_true", help="with --judge: train the judge anew and store it")
    add_prefix_option(parser)
    add_json_option(parser)
    add_weight_options(parser, "degree")
    add_refine_options(parser, combines=False)
    add_format_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Classify and print."""
    from ookg.simulation.judge import JudgeSettings

    current = load_current(arguments)
    model = with_vectors(arguments, current.model)
    claims = read_given(arguments, arguments.claims, model, claims=True)
    valid = None
    if arguments.valid is not None:
        valid = read_given(arguments, arguments.valid, model, claims=True, labels="required")
    given = current.given(read_given(arguments, arguments.given, model) if arguments.given else None)
    weights, limit, refine = chosen_weights(arguments), chosen_limit(arguments), chosen_refine(arguments, model)
    _check_options(arguments, says_how=weights is not None or limit is not None or refine is not None)
    stored = model.choice.judge
    judge: bool | JudgeSettings | None = arguments.judge
    has_learned = stored is not None and stored.serves(labelled=valid is not None)
    if arguments.judge and (not has_learned or arguments.judge_steps is not None or arguments.save):
        judge = JudgeSettings(steps=arguments.judge_steps, progress=True)
    judged = model.classify(
        claims, valid=valid, given=given, weights=weights, limit=limit, refine=refine or False, judge=judge
    )
    if arguments.save and judged.judge is None:
        note("no claim about a new entity, so there is no judge to store")
    _store(judged, model, arguments)
    print_notes(judged.notes)
    if arguments.json:
        trust = {entity: value.to_dict() for entity, value in judged.trust.items()}
        claimed = [vars(one) | triple_names((one.head, one.relation, one.tail), model.names) for one in judged.claims]
        print_json({"claims": claimed, "accuracy": judged.accuracy, "trust": trust})
        return 0
    shown = namer(arguments, model.names)
    words = {True: "true", False: "false", None: "unknown"}
    rows = [
        (words[c.verdict], _percent(c), shown(c.head), shown(c.relation), shown(c.tail), c.score, c.threshold)
        for c in judged.claims
    ]
    print_table(("verdict", "probability", "head", "relation", "tail", "score", "threshold"), rows)
    for entity, value in list(judged.trust.items())[:MOST_TRUSTS]:
        print(f"{shown(entity)} is new: {trust_in_words(value)}")
    if len(judged.trust) > MOST_TRUSTS:
        print(f"... and {len(judged.trust) - MOST_TRUSTS:,} more new entities; --json lists them all")
    if judged.accuracy is not None:
        unknown = sum(claim.verdict is None for claim in judged.claims)
        without = f" ({unknown:,} without a verdict count as held false)" if unknown else ""
        print(f"\naccuracy: {judged.accuracy:.1f}% of {len(judged.claims):,} claims{without}")
    return 0


def _percent(claim: Verdict) -> str:
    return "" if claim.probability is None else f"{claim.probability:.0%}"


def _check_options(arguments: argparse.Namespace, *, says_how: bool) -> None:
    """Refuse options that contradict each other, and a place that cannot be written to before a judge is trained."""
    from ookg.errors import InputError
    from ookg.storage.checkpoint import MODEL_FILE, refuse_damage
    from ookg.system.files import check_place

    if arguments.judge and says_how:
        raise InputError("--judge has its own way to weigh evidence; leave out --weights, --max-neighbors, --refine")
    if arguments.judge_steps is not None and not arguments.judge:
        raise InputError("--judge-steps without --judge; give both")
    if arguments.judge_steps is not None and arguments.judge_steps < 1:
        raise InputError(f"--judge-steps {arguments.judge_steps}; it must be 1 or more")
    if arguments.save and not arguments.judge:
        raise InputError("--save trains and stores the judge, and there is none without --judge; give both")
    if arguments.save:
        check_place(Path(arguments.model) / MODEL_FILE)
        refuse_damage(arguments.model, arguments.journal)


def _store(judged: Classification, model: Model, arguments: argparse.Namespace) -> None:
    """Store what was fitted now and is not there yet, or is there without labelled triples; with --save in any case.

    Thresholds of few labelled triples, or of such as are all true or all false, are for this call: those of many made
    ones serve others better. Where it was not asked for, a directory that cannot be written to is no error.
    """
    from dataclasses import replace

    from ookg.errors import OokgError
    from ookg.evaluation.judging import FEW_CLAIMS
    from ookg.storage.checkpoint import refuse_damage

    before = model.choice
    choice, parts = before, []
    if judged.judge is not None and (arguments.save or (arguments.judge is None and judged.judge is not before.judge)):
        choice, parts = replace(choice, judge=judged.judge), ["judge is"]
    fitted, stored = judged.thresholds, model.claim_thresholds
    fits = stored is not None and stored.for_model(model.relations, model.relation_vectors) is not None
    # without a worth they saw claims of one kind alone
    is_few = fitted is not None and not fitted.is_made and (fitted.learned["claims"] < FEW_CLAIMS or not fitted.worth)
    is_better = not is_few and (not fits or (stored is not None and (stored.is_made or stored.is_old)))
    if fitted is not None and fitted is not stored and (arguments.save or is_better):
        choice, parts = replace(choice, thresholds=fitted), [*parts, "thresholds are"]
    # With further vectors, other false triples are made; they are stored where that is asked for.
    if not parts or (arguments.vectors is not None and not arguments.save):
        return
    try:
        refuse_damage(arguments.model, arguments.journal)
        model.with_choice(choice).save_choice(arguments.model)
    except (OokgError, OSError) as error:
        if arguments.save:
            raise
        note(f"the {parts[0]} not stored: {error}")
    else:
        note("\n".join(f"{arguments.model}: the {part} stored" for part in parts))
