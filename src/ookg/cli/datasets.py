"""List, count and fetch data sets, and make new ones with `split`: with new entities, few-shot ones or growing ones."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from ookg.cli.console import (
    add_format_options,
    add_json_option,
    is_redirected_from,
    note,
    print_json,
    print_table,
    refuse_empty,
    triple_format,
    whole_number,
)
from ookg.datasets.arrival import ArrivalSettings, split_by_arrival
from ookg.datasets.dataset import ALSO_TRUE, TARGETS, check_target, write_dataset
from ookg.datasets.download import BASE_URL, Progress, fetch
from ookg.datasets.entity_splitting import EntitySplitSettings, split_by_entities
from ookg.datasets.few_shot import (
    FewShotDataset,
    check_few_shot_target,
    few_shot_folders,
    find_few_shot,
    load_few_shot,
    write_few_shot,
)
from ookg.datasets.folder import find_dataset, load_dataset, refuse_another_kind
from ookg.datasets.growing import (
    GrowingDataset,
    check_growing_target,
    find_growing,
    growing_folders,
    load_growing,
    write_growing,
)
from ookg.datasets.published import published_sets
from ookg.datasets.splitting import Split, SplitSettings, split
from ookg.datasets.summary import (
    DatasetStatistics,
    SnapshotStatistics,
    TaskStatistics,
    few_shot_statistics,
    growth_statistics,
    statistics,
)
from ookg.datasets.task_splitting import TaskSplitSettings, split_into_tasks
from ookg.errors import InputError
from ookg.graph.reading import STANDARD_INPUT
from ookg.graph.triples import read_triples

SUMMARY = "list, count and fetch data sets, or split one off any triples"

TABLE = {
    "name": "data set",
    "train": "train",
    "valid": "valid",
    "aux": "aux",
    "test": "test",
    "relations": "relations",
    "entities": "entities",
    "new_entities": "new entities",
    "new_entities_in_test": "new in test",
    "new_without_neighbor": "without neighbor",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of `ookg datasets`."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    lister = actions.add_parser(
        "list", help="the published data sets, the growing and few-shot ones, and where they are"
    )
    _add_data_option(lister)
    add_json_option(lister)
    lister.set_defaults(action=_list)

    counter = actions.add_parser("stats", help="count triples, entities and relations")
    counter.add_argument("datasets", nargs="*", metavar="NAME|FOLDER", help="a data set that `list` shows, or a folder")
    counter.add_argument("--all", action="store_true", help="all the published data sets")
    _add_data_option(counter)
    add_json_option(counter)
    counter.set_defaults(action=_stats)

    fetcher = actions.add_parser("fetch", help="download published data sets; an interrupted download is resumed")
    fetcher.add_argument("names", nargs="+", metavar="NAME", help="a published data set, or all")
    fetcher.add_argument("--cache", metavar="DIR", help="where to keep them (default: the user's cache)")
    fetcher.add_argument("--base-url", metavar="URL", default=BASE_URL, help="a mirror's address")
    fetcher.set_defaults(action=_fetch)

    splitter = actions.add_parser(
        "split", help="make a data set with new entities, a few-shot or a growing one, out of triples"
    )
    splitter.add_argument("triples", metavar="TRIPLES", help="TSV, CSV, Parquet or RDF file")
    splitter.add_argument("--out", metavar="FOLDER", required=True, help="the folder to write")
    defaults = SplitSettings()
    splitter.add_argument(
        "--snapshots", type=whole_number, metavar="N", help="a growing data set: entities arrive in N snapshots"
    )
    splitter.add_argument(
        "--shots", type=whole_number, metavar="K", help="a few-shot data set: newcomers with more than K triples"
    )
    size = splitter.add_mutually_exclusive_group()
    size.add_argument(
        "--entities",
        type=_number_or_share,
        metavar="N|X",
        help="entities to hide, a number or a share (0.05); half of their triples are given, the others asked",
    )
    size.add_argument(
        "--share",
        type=float,
        metavar="X",
        help=f"as the published sets were made: a share of triples to test on ({defaults.test}); with --shots of "
        "entities",
    )
    size.add_argument("--count", type=whole_number, metavar="N", help="the same, a number of true triples to test on")
    splitter.add_argument(
        "--new", choices=("head", "tail", "both"), help=f"the same, the new ends in test ({defaults.new})"
    )
    splitter.add_argument("--seed", type=whole_number, metavar="N", default=defaults.seed)
    tasks = ("link-prediction", "triplet-classification")
    splitter.add_argument("--task", choices=tasks, help=f"the second adds false triples ({defaults.task})")
    splitter.add_argument(
        "--valid-share",
        type=float,
        metavar="X",
        default=defaults.valid_share,
        help="of train; with --shots of entities",
    )
    splitter.add_argument("--overwrite", action="store_true", help="replace the data set that FOLDER holds")
    add_json_option(splitter)
    add_format_options(splitter)
    splitter.set_defaults(action=_split)


def _number_or_share(text: str) -> int | float:
    """A whole number, or a share between 0 and 1."""
    try:
        return whole_number(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number; give one such as 100, or a share such as 0.05"
        ) from None


def run(arguments: argparse.Namespace) -> int:
    """Run one of the actions."""
    code: int = arguments.action(arguments)
    return code


def _add_data_option(parser: argparse.ArgumentParser) -> None:
    remark = "the folder that holds the published data sets (default: $OOKG_DATA, then the cache)"
    parser.add_argument("--data", metavar="DIR", help=remark)


def _list(arguments: argparse.Namespace) -> int:
    places = {name: find_dataset(name, arguments.data) for name in published_sets()}
    tasks: dict[str, str] = {name: published.task for name, published in published_sets().items()}
    for folder in growing_folders(arguments.data):
        places[folder.name], tasks[folder.name] = folder, "growing"
    for folder in few_shot_folders(arguments.data):
        places[folder.name], tasks[folder.name] = folder, "few-shot"
    if arguments.json:
        print_json([{"name": n, "task": tasks[n], "folder": str(p) if p else None} for n, p in places.items()])
    else:
        print_table(("data set", "task", "folder"), [(n, tasks[n], p or "not fetched") for n, p in places.items()])
    return 0


def _stats(arguments: argparse.Namespace) -> int:
    names = [*arguments.datasets, *(published_sets() if arguments.all else ())]
    if not names:
        raise InputError("no data set named; name one, give a folder, or use --all")
    growing = {name for name in names if find_growing(name, arguments.data) is not None}
    with_tasks = {name for name in names if name not in growing and find_few_shot(name, arguments.data) is not None}
    others = [name for name in names if name not in growing | with_tasks]
    counted = [statistics(load_dataset(name, arguments.data)) for name in others]
    few_shot = [load_few_shot(name, arguments.data) for name in names if name in with_tasks]
    grown = [load_growing(name, arguments.data) for name in names if name in growing]
    if arguments.json:
        documents = [asdict(numbers) for numbers in counted]
        documents += [asdict(few_shot_statistics(dataset.encoded)) for dataset in few_shot]
        documents += map(_growth_document, grown)
        print_json(documents[0] if len(documents) == 1 else documents)
        return 0
    if counted:
        _print_statistics(counted)
    for dataset in few_shot:
        _print_few_shot(dataset)
    for growing_set in grown:
        _print_growth(growing_set)
    return 0


def _print_statistics(counted: list[DatasetStatistics]) -> None:
    print_table(list(TABLE.values()), [[getattr(numbers, key) for key in TABLE] for numbers in counted])


def _print_few_shot(dataset: FewShotDataset) -> None:
    """A line for the tasks of each split."""
    numbers = few_shot_statistics(dataset.encoded)
    known = f"{numbers.train:,} known triples, {numbers.entities:,} entities, {numbers.relations:,} relations"
    if numbers.also_true:
        known += f"; {numbers.also_true:,} triples that are also true"
    columns = ["tasks", *(part.name.replace("_", " ") for part in fields(TaskStatistics))]
    rows = [[split, *asdict(getattr(numbers, split)).values()] for split in ("valid", "test")]
    print_table(columns, rows, f"{dataset.name}, a few-shot data set: {known}")


def _growth_document(dataset: GrowingDataset) -> dict[str, Any]:
    return {"name": dataset.name, "snapshots": [asdict(numbers) for numbers in growth_statistics(dataset.encoded)]}


def _print_growth(dataset: GrowingDataset) -> None:
    """A line for each snapshot."""
    rows = [list(asdict(numbers).values()) for numbers in growth_statistics(dataset.encoded)]
    columns = [part.name.replace("_", " ") for part in fields(SnapshotStatistics)]
    print_table(columns, rows, f"{dataset.name}, a growing data set")


def _fetch(arguments: argparse.Namespace) -> int:
    names = list(published_sets()) if "all" in arguments.names else arguments.names
    with _progress() as progress:
        folders = [fetch(name, arguments.cache, base_url=arguments.base_url, progress=progress) for name in names]
    for folder in folders:
        note(f"{folder.name} is in {folder}")
    return 0


@contextmanager
def _progress() -> Iterator[Progress]:
    """A bar per file on a terminal, otherwise a line per file."""
    started: dict[str, int] = {}
    if not sys.stderr.isatty():

        def line(file: str, done: int, total: int | None) -> None:
            if file not in started:
                started[file] = done
                note(f"fetching {file}" + (f", {total:,} bytes" if total else ""))

        yield line
        return

    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Bars(*columns, console=Console(stderr=True)) as bars:

        def bar(file: str, done: int, total: int | None) -> None:
            if file not in started:
                started[file] = bars.add_task(file, total=total)
            bars.update(started[file], completed=done, total=total)  # type: ignore[arg-type]

        yield bar


def _split(arguments: argparse.Namespace) -> int:
    source, folder = arguments.triples, Path(arguments.out)
    if source == STANDARD_INPUT:
        is_inside = folder.is_dir() and any(map(is_redirected_from, folder.iterdir()))
    else:
        is_inside = Path(source).resolve().parent == folder.resolve()
    if arguments.overwrite and is_inside:
        raise InputError(f"{source}: lies in the folder to overwrite; choose another one with --out")
    if arguments.snapshots is not None and arguments.shots is not None:
        raise InputError("--shots with --snapshots; a data set is few-shot or grows, leave one out")
    kind = "growing" if arguments.snapshots is not None else "ordinary" if arguments.shots is None else "few-shot"
    refuse_another_kind(folder, kind)
    if arguments.snapshots is not None:
        return _split_by_arrival(arguments, folder)
    if arguments.shots is not None:
        return _split_into_tasks(arguments, folder)
    settings = _split_settings(arguments)
    check_target(folder, overwrite=arguments.overwrite)
    triples = read_triples(source, triple_format(arguments), labels="refused")
    refuse_empty(triples)
    if isinstance(settings, EntitySplitSettings):
        made, in_words = split_by_entities(triples, settings), _hidden_in_words
    else:
        made, in_words = split(triples, settings), _drawn_in_words
    write_dataset(made, folder, overwrite=arguments.overwrite)
    written = statistics(load_dataset(folder))
    for text in (*triples.notes, *in_words(made, written)):
        note(text)
    if arguments.json:
        print_json(asdict(written))
    else:
        _print_statistics([written])
    return 0


def _drawn_in_words(made: Split, written: DatasetStatistics) -> Iterator[str]:
    """What was left out, and what is lacking."""
    del written
    if made.left_out:
        yield f"{made.left_out:,} triples left out, most of them between two new entities"
    if made.drawn < made.wanted:
        yield f"{made.drawn:,} true test triples instead of {made.wanted:,}: no others fit"


def _hidden_in_words(made: Split, written: DatasetStatistics) -> Iterator[str]:
    """What was hidden, and what is left."""
    if made.drawn < made.wanted:
        why = "hiding others would take more out of the graph"
        yield f"{made.drawn:,} hidden entities instead of {made.wanted:,}: {why}"
    everyone = written.entities + made.drawn
    asked = len(made.test) if made.test.truth is None else int(made.test.truth.sum())
    kept = f"{written.entities:,} stay, with {written.train:,} triples to train on and {written.valid:,} to validate"
    yield f"{made.drawn:,} of {everyone:,} entities hidden; {kept}"
    yield f"about the hidden ones {written.aux:,} triples are given, and {asked:,} asked; {made.left_out:,} left out"


def _split_settings(arguments: argparse.Namespace) -> SplitSettings | EntitySplitSettings:
    """By entities, unless an option of the published way is there."""
    defaults, hiding = SplitSettings(), EntitySplitSettings()
    task, seed, valid_share = arguments.task or defaults.task, arguments.seed, arguments.valid_share
    if arguments.share is None and arguments.count is None and arguments.new is None:
        entities = hiding.entities if arguments.entities is None else arguments.entities
        return EntitySplitSettings(entities, seed, task, valid_share)
    if arguments.entities is not None:
        raise InputError("--entities with --new; hidden entities are heads and tails, leave one out")
    size = arguments.count if arguments.count is not None else _share(arguments)
    return SplitSettings(arguments.new or defaults.new, size, seed, task, valid_share)


def _share(arguments: argparse.Namespace) -> float:
    return float(SplitSettings().test if arguments.share is None else arguments.share)


def _split_into_tasks(arguments: argparse.Namespace, folder: Path) -> int:
    _refuse_with(arguments, "shots")
    settings = TaskSplitSettings(arguments.shots, _share(arguments), arguments.valid_share, arguments.seed)
    check_few_shot_target(folder, overwrite=arguments.overwrite)
    triples = read_triples(arguments.triples, triple_format(arguments), labels="refused")
    refuse_empty(triples)
    made = split_into_tasks(triples, settings)
    write_few_shot(made, folder, overwrite=arguments.overwrite)
    for text in triples.notes:
        note(text)
    if made.also_true is not None and len(made.also_true):
        what = f"{len(made.also_true):,} triples between newcomers of valid and test or over unknown relations"
        note(f"{what} are in {TARGETS[ALSO_TRUE]}: neither known nor asked, and no wrong answers")
    written = load_few_shot(folder)
    numbers = few_shot_statistics(written.encoded)
    drawn = numbers.valid.newcomers + numbers.test.newcomers
    if drawn < sum(made.wanted):
        problem = f"{drawn:,} newcomers instead of {sum(made.wanted):,}"
        note(f"{problem}: no others keep {settings.shots + 1:,} triples or more")
    if arguments.json:
        print_json(asdict(numbers))
    else:
        _print_few_shot(written)
    return 0


def _refuse_with(arguments: argparse.Namespace, kind: str) -> None:
    """Refuse options that are for a data set with new entities alone."""
    for option in ("entities", "new", "count", "task"):
        if getattr(arguments, option) is not None:
            raise InputError(f"--{option} with --{kind}; it is for a data set with new entities, leave one out")


def _split_by_arrival(arguments: argparse.Namespace, folder: Path) -> int:
    _refuse_with(arguments, "snapshots")
    settings = ArrivalSettings(arguments.snapshots, _share(arguments), arguments.valid_share, arguments.seed)
    check_growing_target(folder, settings.snapshots, overwrite=arguments.overwrite)
    triples = read_triples(arguments.triples, triple_format(arguments), labels="refused")
    refuse_empty(triples)
    write_growing(split_by_arrival(triples, settings), folder, overwrite=arguments.overwrite)
    for text in triples.notes:
        note(text)
    written = load_growing(folder)
    if arguments.json:
        print_json(_growth_document(written))
    else:
        _print_growth(written)
    return 0
