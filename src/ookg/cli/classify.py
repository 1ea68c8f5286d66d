"""Is it true: a verdict on each claimed triple.

A claim's score is held against its relation's threshold, found on labelled validation triples.
"""

from __future__ import annotations

import argparse
from pathlib import Path

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
    trust_in_words,
    whole_number,
    with_vectors,
)

SUMMARY = "is this triple true"
MOST_TRUSTS = 10  # new entities that are listed below the table


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_argument(parser)
    parser.add_argument(
        "claims", metavar="CLAIMS", help="triples to judge; with a label column the accuracy is reported"
    )
    parser.add_argument("--valid", required=True, metavar="FILE", help="labelled triples to find the thresholds on")
    parser.add_argument("--given", metavar="TRIPLES", help="triples about new entities")
    add_vectors_option(parser)
    parser.add_argument(
        "--judge",
        action="store_true",
        help="judge claims about new entities by all evidence: by the judge stored with the model, or by one that "
        "learns on --valid, which trains once more without some of its entities",
    )
    parser.add_argument("--judge-steps", type=whole_number, metavar="N", help="steps of that training (as the model's)")
    parser.add_argument(
        "--save",
        action="store_true",
        help="train the judge anew and store it with the model, where the next --judge finds it",
    )
    add_prefix_option(parser)
    add_json_option(parser)
    add_weight_options(parser, "degree")
    add_refine_options(parser, combines=False)
    add_format_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Classify and print."""
    from ookg.errors import InputError
    from ookg.simulation.judge import JudgeSettings
    from ookg.storage.checkpoint import MODEL_FILE, refuse_damage
    from ookg.system.files import check_place

    current = load_current(arguments)
    model = with_vectors(arguments, current.model)
    claims = read_given(arguments, arguments.claims, model, claims=True)
    valid = read_given(arguments, arguments.valid, model, claims=True, labels="required")
    given = current.given(read_given(arguments, arguments.given, model) if arguments.given else None)
    weights, limit, refine = chosen_weights(arguments), chosen_limit(arguments), chosen_refine(arguments, model)
    if arguments.judge:
        if weights is not None or limit is not None or refine is not None:
            raise InputError(
                "--judge has its own way to weigh evidence; leave out --weights, --max-neighbors, --refine"
            )
        if arguments.save:
            check_place(Path(arguments.model) / MODEL_FILE)
            refuse_damage(arguments.model, arguments.journal)
        is_stored = model.choice.judge is not None and arguments.judge_steps is None and not arguments.save
        judge = True if is_stored else JudgeSettings(steps=arguments.judge_steps, progress=True)
        judged = model.classify(claims, valid=valid, given=given, judge=judge)
        if arguments.save and judged.judge is None:
            note("no claim about a new entity, so there is no judge to store")
        elif arguments.save:
            model.with_judge(judged.judge).save_choice(arguments.model)
            note(f"{arguments.model}: the judge is stored")
    else:
        if arguments.judge_steps is not None:
            raise InputError("--judge-steps without --judge; give both")
        if arguments.save:
            raise InputError("--save stores the judge, and there is none without --judge; give both")
        judged = model.classify(claims, valid=valid, given=given, weights=weights, limit=limit, refine=refine or False)
    print_notes(judged.notes)
    if arguments.json:
        trust = {entity: value.to_dict() for entity, value in judged.trust.items()}
        print_json({"claims": [vars(claim) for claim in judged.claims], "accuracy": judged.accuracy, "trust": trust})
        return 0
    shown = namer(arguments, model.names)
    words = {True: "true", False: "false", None: "unknown"}
    rows = [
        (words[c.verdict], shown(c.head), shown(c.relation), shown(c.tail), c.score, c.threshold) for c in judged.claims
    ]
    print_table(("verdict", "head", "relation", "tail", "score", "threshold"), rows)
    for entity, value in list(judged.trust.items())[:MOST_TRUSTS]:
        print(f"{shown(entity)} is new: {trust_in_words(value)}")
    if len(judged.trust) > MOST_TRUSTS:
        print(f"... and {len(judged.trust) - MOST_TRUSTS:,} more new entities; --json lists them all")
    if judged.accuracy is not None:
        print(f"\naccuracy: {judged.accuracy:.1f}% of {len(judged.claims):,} claims")
    return 0
