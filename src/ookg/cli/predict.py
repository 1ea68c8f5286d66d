"""What is missing: the best tails for (head, relation), or the best heads for (relation, tail).

The given end may be known, or new and tied to known entities by triples that were added, or by the --given ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ookg.cli.console import (
    add_alone_option,
    add_format_options,
    add_json_option,
    add_model_argument,
    add_prefix_option,
    add_refine_options,
    add_weight_options,
    chosen_limit,
    chosen_refine,
    chosen_weights,
    load_current,
    meant,
    namer,
    print_json,
    print_notes,
    print_table,
    shortener,
    triple_format,
    trust_in_words,
    whole_number,
)

if TYPE_CHECKING:
    from ookg.graph.names import Names
    from ookg.model.model import Answer, LinkReason, Prediction

MOST_SHARES, MOST_TRIPLES = 5, 10  # of an answer, and of a vector, that are printed
SUMMARY = "what is missing about an entity, and why"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_argument(parser)
    parser.add_argument("--given", metavar="TRIPLES", help="more triples about new entities, for this call alone")
    parser.add_argument("--head", metavar="H", help="ask for the tails of this head")
    parser.add_argument("--relation", metavar="R", required=True, help="the relation that is asked for")
    parser.add_argument("--tail", metavar="T", help="ask for the heads of this tail")
    parser.add_argument("--top", type=whole_number, default=10, metavar="K", help="how many answers (10)")
    parser.add_argument(
        "--known-answers",
        choices=("drop", "mark"),
        default="drop",
        help="leave out answers that training or given triples state (default), or keep and mark them",
    )
    parser.add_argument(
        "--candidates", choices=("all", "known"), default="all", help="answer with new entities too (all), or not"
    )
    parser.add_argument("--explain", action="store_true", help="show what speaks for each answer against the next ones")
    add_prefix_option(parser)
    add_alone_option(parser)
    add_json_option(parser)
    add_weight_options(parser, "by the newcomer's number of triples; correlation with --refine or --[no-]combine")
    add_refine_options(parser, combines=True)
    add_format_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Predict and print."""
    from ookg.graph.triples import read_triples

    current = load_current(arguments, alone=arguments.alone)
    model, names = current.model, current.model.names
    given = current.given(read_triples(arguments.given, triple_format(arguments)) if arguments.given else None)

    def is_entity(label: str) -> bool:
        return label in model.entities or label in given.entities

    head, tail = (
        None if text is None else meant(text, "entity", names, is_entity) for text in (arguments.head, arguments.tail)
    )
    asked_relation = meant(
        arguments.relation, "relation", names, lambda label: label in model.relations or label in given.relations
    )
    prediction = model.predict(
        given,
        relation=asked_relation,
        head=head,
        tail=tail,
        weights=chosen_weights(arguments),
        limit=chosen_limit(arguments),
        refine=chosen_refine(arguments, model),
        combine=arguments.combine,
        top=arguments.top,
        known_answers=arguments.known_answers,
        new_answers=arguments.candidates == "all",
        explain=arguments.explain,
    )
    print_notes(prediction.notes)
    if arguments.json:
        print_json(_document(prediction, names))
        return 0
    short, shown = shortener(arguments), namer(arguments, names)
    entity = shown(head or tail or "")
    triple = f"({shown(head or '?')}, {shown(asked_relation)}, {shown(tail or '?')})"
    marks = {(True, True): "known, new", (True, False): "known", (False, True): "new", (False, False): ""}
    columns: dict[str, list[object]] = {
        "rank": [a.rank for a in prediction.answers],
        "entity": [short(a.entity) for a in prediction.answers],
        "name": [names.name(a.entity) or "" for a in prediction.answers],
        "score": [a.score for a in prediction.answers],
        "": [marks[a.is_known, a.is_new] for a in prediction.answers],
        "a link that speaks for it": [_link_in_words(entity, a, shown) for a in prediction.answers],
    }
    for name in ("name", "a link that speaks for it"):
        if not any(columns[name]):
            del columns[name]
    print_table(tuple(columns), list(zip(*columns.values(), strict=True)), triple)
    if arguments.explain:
        _print_reasons(prediction.answers, shown)
    if prediction.trust is not None:
        print(f"\n{entity} is new: {trust_in_words(prediction.trust)}")
    if prediction.way is not None:
        print(f"answered by the {prediction.way}")
    if arguments.explain:
        if prediction.explanation:
            reasons = []
            for reason in prediction.explanation:
                neighbor, relation = shown(reason.entity), shown(reason.relation)
                ends = (entity, relation, neighbor) if reason.direction == "out" else (neighbor, relation, entity)
                reasons.append((f"{reason.weight:.1%}", *ends))
            made = f"what the vector of {entity} is made of"
            if arguments.refine or (prediction.way or "").startswith("fitted"):
                made = f"what the vector of {entity} was fitted to, and with which weights that began"
            print_table(("weight", "head", "relation", "tail"), reasons[:MOST_TRIPLES], f"\n{made}")
            if len(reasons) > MOST_TRIPLES:
                print(f"... and {len(reasons) - MOST_TRIPLES:,} more; --json lists them all")
        elif prediction.trust is None:
            mixture = "its triples count as far as a mixture of them comes near that vector"
            print(f"\n{entity} is known: its vector was trained; {mixture}")
    return 0


def _document(prediction: Prediction, names: Names) -> dict[str, Any]:
    """The answers as plain values; `name` is null where there is none."""
    answers = [
        {"entity": a.entity, "name": names.name(a.entity), "score": a.score, "rank": a.rank}
        | {"known": a.is_known, "new": a.is_new, "link": None if a.link is None else _link(a.link, names)}
        | {"reasons": [why.to_dict() for why in a.reasons]}
        | {"lead": a.lead if a.shares else None, "shares": [share.to_dict() for share in a.shares]}
        for a in prediction.answers
    ]
    explanation = [
        vars(reason) | {"name": names.name(reason.entity), "relation_name": names.name(reason.relation)}
        for reason in prediction.explanation
    ]
    trust = None if prediction.trust is None else prediction.trust.to_dict()
    return {"answers": answers, "explanation": explanation, "trust": trust, "way": prediction.way}


def _link(link: LinkReason, names: Names) -> dict[str, Any]:
    via = None if link.via is None else names.name(link.via)
    return vars(link) | {"relation_name": names.name(link.relation), "via_name": via}


def _print_reasons(answers: Sequence[Answer], shown: Callable[[str], str]) -> None:
    """What each answer is ahead by, and what makes that: evidence in words, triples by what they do to the vector."""
    print("\nwhat puts each answer ahead of the next ones: parts of the difference in score, which add up")
    for answer in answers:
        ahead = f"{answer.lead:+.2f}" if answer.shares else "nothing ranks below it"
        print(f"{answer.rank:>4}  {shown(answer.entity)}  {ahead}")
        for share in answer.shares[:MOST_SHARES]:
            print(f"      {share.worth:>+7.2f}  {share.text(shown)}")
        others = answer.shares[MOST_SHARES:]
        if others:
            print(f"      {sum(share.worth for share in others):>+7.2f}  {len(others):,} more; --json lists them")
        counted = {share.reason for share in answer.shares[:MOST_SHARES] if share.worth > 0}
        for reason in answer.reasons:
            if reason not in counted:
                print(f"               also: {reason.text(shown)}")


def _link_in_words(asked: str, answer: Answer, shown: Callable[[str], str]) -> str:
    """The link of the asked entity that speaks for an answer, and how far."""
    if answer.link is None:
        return ""
    relation, other = shown(answer.link.relation), shown(answer.link.via or answer.entity)
    ends = (asked, relation, other) if answer.link.direction == "out" else (other, relation, asked)
    return f"{' '.join(ends)} ({answer.link.confidence:.0%})"
