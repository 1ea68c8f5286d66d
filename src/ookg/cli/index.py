"""Make an approximate index of a model's vectors: questions score the entities that it names, a few of them all.

What that misses is measured on questions drawn from the graph, and an index that misses too much is refused. `predict
--approximate` and `serve --approximate` use it. It is for the vectors of one version: make it anew after an update.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ookg.cli.console import add_json_option, add_model_argument, load_current, note, print_json, whole_number

if TYPE_CHECKING:
    from ookg.scoring.approximate import ApproximateIndex

WORTHWHILE = 1.2  # times as fast
SUMMARY = "an approximate index, for fast answers from a large model"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_argument(parser)
    parser.add_argument(
        "--recall", type=float, default=0.95, metavar="R", help="refuse to miss more of the ten best answers (0.95)"
    )
    parser.add_argument(
        "--questions", type=whole_number, default=500, metavar="N", help="that measure it, in each direction (500)"
    )
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help="seed of all random draws (0)")
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Make, measure, store and print."""
    from pathlib import Path

    from ookg.model.approximate import IndexSettings, make_index, store_index
    from ookg.storage.approximate import INDEX_FILE
    from ookg.system.files import check_place
    from ookg.system.progress import Progress

    settings = IndexSettings(arguments.recall, arguments.questions, arguments.seed)
    model = load_current(arguments).version
    check_place(Path(arguments.model) / INDEX_FILE)
    with Progress("sorting into lists", len(model.entities), "entities") as report:
        index = make_index(model, settings, report)
    path = store_index(index, model, arguments.model)
    if arguments.json:
        print_json(index_values(index) | {"file": str(path), "bytes": path.stat().st_size})
        return 0
    measured = index.measured
    if measured is not None:
        print(f"recall of the ten best: {measured.tails:.1%} of tails, {measured.heads:.1%} of heads", end="")
        print(f" ({measured.questions:,} questions each, drawn from the graph)")
        print(f"a question takes {measured.approximate_ms:.1f} ms instead of {measured.exact_ms:.1f}", end="")
        print(f": {measured.speed_up:.1f} times as fast")
        if measured.speed_up < WORTHWHILE:
            note("note: exact answers take hardly longer; leave --approximate out until the graph is larger")
    lists = f"{index.probes:,} of {len(index.centres):,} lists, about {index.share:.1%} of the entities"
    print(f"it looks into {lists}")
    note(f"{path}: {path.stat().st_size / 1e6:,.1f} MB; `predict --approximate` and `serve --approximate` use it")
    return 0


def index_values(index: ApproximateIndex) -> dict[str, Any]:
    """What is known of an index, for JSON."""
    measured = index.measured
    values: dict[str, Any] = {"lists": len(index.centres), "probes": index.probes, "share": index.share}
    if measured is None:
        return values
    return values | vars(measured) | {"recall": measured.recall, "speed_up": measured.speed_up}


def index_in_words(directory: str) -> str | None:
    """What there is to know of a directory's index: its recall, or that it is of no use; None if there is none."""
    from ookg.errors import OokgError
    from ookg.model.approximate import stored_index
    from ookg.model.model import Model
    from ookg.storage.approximate import index_stamp

    if index_stamp(directory) is None:
        return None
    try:
        index = stored_index(Model.load(directory))
    except OokgError as error:
        return f"approximate index: of no use: {error}"
    speed = 0.0 if index.measured is None else index.measured.speed_up
    return f"approximate index: {index.recall:.1%} of the ten best answers, {speed:.1f} times as fast"
