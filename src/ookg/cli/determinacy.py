"""Does one triple determine its head? The argument of the paper's appendix A, run on numbers.

Without a model: each model at random vectors. With one: its relations, each at a training triple.
A h = v is what the triple says about its head h. "D moved" is the distance after a step of that length from the best h
along the direction that matters least: where it stays the same, the triple does not determine the head.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ookg.cli.console import add_json_option, print_json, print_table, whole_number

if TYPE_CHECKING:
    from ookg.models.determinacy import Case

SUMMARY = "does one triple determine its head, under each model"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("model", metavar="DIR", nargs="?", help="a model directory; without one, random vectors")
    parser.add_argument("--relation", metavar="LABEL", help="only this relation of the model")
    parser.add_argument(
        "--top", type=whole_number, metavar="K", default=10, help="at most K relations of the model (10)"
    )
    parser.add_argument("--dim", type=whole_number, metavar="N", help="coordinates of the random vectors (8)")
    parser.add_argument("--norm", type=whole_number, choices=(1, 2), help="norm of their distance (1)")
    parser.add_argument("--seed", type=whole_number, metavar="N", help="seed of the random vectors (0)")
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Work out and print."""
    from ookg.errors import InputError

    chosen = {
        name: getattr(arguments, name) for name in ("dim", "norm", "seed") if getattr(arguments, name) is not None
    }
    if arguments.model is None:
        if arguments.relation is not None:
            raise InputError("--relation names one of a model's relations; name the model's directory too")
        cases = _random_cases({"dim": 8, "norm": 1, "seed": 0} | chosen)
    else:
        if chosen:
            raise InputError(f"--{next(iter(chosen))} is for random vectors; leave it out, or leave out the model")
        cases = _trained_cases(arguments)
    if arguments.json:
        print_json([{"model": case.model, "case": case.case, **case.found.to_dict()} for case in cases])
        return 0
    _print(cases)
    return 0


def _random_cases(values: dict[str, int]) -> list[Case]:
    from ookg.errors import InputError
    from ookg.models.determinacy import random_cases

    if values["dim"] < 2:
        raise InputError(f"--dim {values['dim']}; give 2 or more, a plane in less is a point")
    if not 0 <= values["seed"] < 1 << 63:
        raise InputError(f"--seed {values['seed']}; give a number from 0 to 2^63 - 1")
    return random_cases(**values)


def _trained_cases(arguments: argparse.Namespace) -> list[Case]:
    import numpy as np

    from ookg.errors import InputError, lacks_triples, unknown_name
    from ookg.model.model import Model
    from ookg.models.determinacy import Case, determinacy

    model = Model.load(arguments.model)
    if arguments.top < 1:
        raise InputError(f"--top {arguments.top}; ask for 1 or more relations")
    if not len(model.checkpoint.triples):
        raise lacks_triples(model.checkpoint.graph is None, "what relations determine is measured on triples")
    relations, first = np.unique(model.checkpoint.triples[:, 1], return_index=True)
    if arguments.relation is not None:
        number = model.relations.find(arguments.relation)
        if number is None:
            known = model.relations.labels.to_pylist()
            raise unknown_name(
                "relation", arguments.relation, known, "only relations of the training triples are known"
            )
        relations, first = relations[relations == number], first[relations == number]
    embedding, cases = model.checkpoint.embedding, []
    for relation, place in zip(relations[: arguments.top].tolist(), first.tolist(), strict=False):
        tail = embedding.entities[int(model.checkpoint.triples[place, 2])]
        result = determinacy(embedding.geometry, embedding.relations[relation], tail)
        cases.append(Case(type(embedding.geometry).__name__, model.relations.label(relation), result))
    return cases


def _print(cases: list[Case]) -> None:
    from ookg.models.determinacy import STEPS

    columns = (
        "model",
        "case",
        "unknowns",
        "rank A",
        "rank [A v]",
        "solutions",
        "D",
        *(f"D moved {s:+g}" for s in STEPS),
    )
    rows: list[tuple[Any, ...]] = [
        (
            case.model,
            case.case,
            case.found.unknowns,
            case.found.rank,
            case.found.augmented_rank,
            case.found.solutions,
            *(float(f"{value:.6f}") for value in (case.found.distance, *case.found.moved)),
        )
        for case in cases
    ]
    print_table(columns, rows)
    print("A solution exists if both ranks are equal; there is at most one if rank A is the number of unknowns.")
