"""How good a model is: on a data set with new entities, a few-shot or a growing one, or on test triples of known ones.

Hits and accuracy are percentages. With --test both ends of each triple are asked for, among all known entities.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ookg.cli.console import (
    add_alone_option,
    add_format_options,
    add_json_option,
    add_model_argument,
    add_prefix_option,
    add_refine_options,
    add_weight_options,
    check_output,
    chosen_limit,
    chosen_refine,
    chosen_weights,
    load_current,
    namer,
    note,
    print_json,
    print_notes,
    print_table,
    read_also_true,
    read_given,
    triple_format,
    whole_number,
)

if TYPE_CHECKING:
    from ookg.datasets.dataset import Dataset
    from ookg.datasets.few_shot import FewShotDataset
    from ookg.datasets.growing import GrowingDataset
    from ookg.evaluation.few_shot import FewShotFigures
    from ookg.evaluation.growing import GrowthFigures
    from ookg.evaluation.ranks import RankFigures
    from ookg.model.current import Current
    from ookg.scoring.ranking import RankSummary

SUMMARY = "how good is that, on a data set or on test triples"
RANK_COLUMNS = ("MRR", "mean rank", "Hits@1", "Hits@3", "Hits@10")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_argument(parser)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--dataset", metavar="NAME|FOLDER", help="the data set to evaluate on")
    what.add_argument("--test", metavar="FILE", help="test triples of known entities: ordinary link prediction")
    parser.add_argument("--valid", metavar="FILE", help="with --test: further true triples, which are no wrong answers")
    parser.add_argument(
        "--ranks", metavar="FILE", help="with --test: write the rank of every question (.parquet, .csv, .tsv, .jsonl)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the file of --ranks")
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help="with --test: of the intervals (0)")
    parser.add_argument("--data", metavar="FOLDER", help="where data sets lie, instead of OOKG_DATA or the cache")
    parser.add_argument(
        "--task",
        choices=("link-prediction", "triplet-classification"),
        help="default: triplet-classification if the test triples are labelled",
    )
    parser.add_argument(
        "--protocol",
        choices=("paper", "lan", "all"),
        help="link prediction: rank among all ids, new ones last, every test triple (the paper's code, default), "
        "among known entities, relations of train only (LAN's code), "
        "or among all, each new one by its own vector (default for few-shot sets)",
    )
    parser.add_argument(
        "--shots", type=whole_number, metavar="K", help="few-shot sets: the first K triples of each newcomer are given"
    )
    parser.add_argument(
        "--also-true",
        metavar="FILE",
        nargs="+",
        help="with --dataset: further true triples, which are neither given nor asked, and no wrong answers",
    )
    parser.add_argument("--tasks", choices=("valid", "test"), help="few-shot sets: whose newcomers are asked (test)")
    parser.add_argument(
        "--ties",
        choices=("mean", "optimistic", "pessimistic"),
        default="mean",
        help="rank among equal scores: mean of best and worst (default), best, or worst",
    )
    parser.add_argument(
        "--chosen",
        action="store_true",
        default=None,
        help="answer as predict does with nothing said (default for few-shot sets)",
    )
    add_prefix_option(parser)
    add_alone_option(parser)
    add_json_option(parser)
    add_weight_options(parser, "correlation for link prediction, degree for triplet classification")
    add_refine_options(parser, combines=True)
    add_format_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Evaluate and print."""
    from ookg.evaluation.evaluate import LinkPredictionResult
    from ookg.evaluation.few_shot import FewShotFigures
    from ookg.evaluation.growing import GrowthFigures
    from ookg.scoring.link_prediction import PROTOCOLS

    if arguments.test is not None:
        return _known(arguments)
    _refuse(arguments, ("valid", "ranks", "overwrite", "seed"), "goes with --test FILE")
    current = load_current(arguments, alone=arguments.alone)
    model = current.model
    dataset = _dataset(arguments, current)
    result = model.evaluate(
        dataset,
        task=arguments.task,
        weights=chosen_weights(arguments),
        limit=chosen_limit(arguments),
        refine=chosen_refine(arguments, model) or False,
        combine=arguments.combine,
        protocol=arguments.protocol,
        ties=arguments.ties,
        shots=arguments.shots,
        tasks=arguments.tasks,
        chosen=arguments.chosen,
        progress=True,
    )
    if not isinstance(result, GrowthFigures):
        print_notes(result.notes)
    if arguments.json:
        print_json(result.to_dict())
        return 0
    if isinstance(result, GrowthFigures):
        _print_growth(dataset.name, result)
    elif isinstance(result, FewShotFigures):
        _print_few_shot(dataset.name, result)
    elif isinstance(result, LinkPredictionResult):
        title = f"{dataset.name}, link prediction ({PROTOCOLS[result.protocol]})"
        print_table(("queries", *RANK_COLUMNS), [(result.summary.queries, *_rank_row(result.summary))], title)
        if result.unscored:
            print(f"{result.unscored:,} queries could not be scored: all their candidates rank equal")
    else:
        rows = [(relation.relation, relation.claims, f"{relation.accuracy:.1f}") for relation in result.by_relation]
        rows.append(("all", result.claims, f"{result.accuracy:.1f}"))
        print_table(("relation", "claims", "accuracy"), rows, f"{dataset.name}, triplet classification")
        if result.unscored:
            print(f"{result.unscored:,} claims could not be scored: they count as held false")
    return 0


def _dataset(arguments: argparse.Namespace, current: Current) -> Dataset | GrowingDataset | FewShotDataset:
    """What is evaluated on; what was added to the model is given beside what is given there."""
    from ookg.datasets.few_shot import find_few_shot, load_few_shot
    from ookg.datasets.folder import load_dataset
    from ookg.datasets.growing import find_growing, load_growing
    from ookg.errors import InputError

    name, data, added = arguments.dataset, arguments.data, current.difference.added
    is_growing = find_growing(name, data) is not None
    if added and (is_growing or find_few_shot(name, data) is not None):
        note("note: what was added since the last update is not asked here; `ookg update` lets the vectors learn it")
    if is_growing:
        if arguments.also_true is not None:
            raise InputError(f"--also-true: data set {name} is a growing one; leave it out")
        return load_growing(name, data)
    dataset: Dataset | FewShotDataset
    if find_few_shot(name, data) is not None:
        dataset = load_few_shot(name, data)
    else:
        dataset = load_dataset(name, data)
        if added:
            dataset = replace(dataset, aux=current.given(dataset.aux))
    return dataset.with_also_true(*read_also_true(arguments.also_true, triple_format(arguments)))


def _known(arguments: argparse.Namespace) -> int:
    """Rank the answers to test triples of known entities, print, and write the ranks if asked to."""
    from ookg.evaluation.known_links import evaluate_known
    from ookg.graph.tables import table_ending

    others = ("data", "task", "protocol", "shots", "also_true", "tasks")
    weighting = ("weights", "power", "smoothing", "prior", "max_neighbors")
    fitting = ("refine", *(f"refine_{name}" for name in ("steps", "seconds", "margin", "lr", "seed")))
    _refuse(arguments, (*others, *weighting, *fitting), "is for new entities, and --test has known ones")
    if arguments.ranks is not None:
        check_output(arguments.ranks, [arguments.test, arguments.valid], arguments.model, overwrite=arguments.overwrite)
        table_ending(arguments.ranks)
    model = load_current(arguments, alone=arguments.alone).model_with_facts
    test = read_given(arguments, arguments.test, model)
    valid = () if arguments.valid is None else read_given(arguments, arguments.valid, model)
    result = evaluate_known(
        model,
        test,
        valid=valid,
        combine=bool(arguments.combine),
        chosen=bool(arguments.chosen),
        ties=arguments.ties,
        seed=arguments.seed,
        progress=True,
    )
    if arguments.ranks is not None:
        result.ranks.write(arguments.ranks)
        note(f"{arguments.ranks}: ranks of {len(result.ranks):,} questions")
    print_notes(result.notes)
    if arguments.json:
        print_json(result.to_dict())
        return 0
    parts = [("all", {"": result.all}), ("tails and heads", result.by_direction)]
    parts += [("triples of the entity asked about", result.by_triples), ("relation", result.by_relation)]
    shown = namer(arguments, model.names)
    for title, figures in parts:
        rows = [(shown(name), one.summary.queries, *_with_interval(one)) for name, one in figures.items()]
        columns = (title, "questions", *RANK_COLUMNS, "MRR, 95 %", "Hits@10, 95 %")
        print_table(columns, rows, "link prediction among all known entities" if title == "all" else "")
    return 0


def _with_interval(figures: RankFigures) -> tuple[object, ...]:
    """The figures as `RANK_COLUMNS` names them, and the intervals of two of them."""
    mrr, hits = figures.intervals["mrr"], figures.intervals["hits@10"]
    if figures.summary.queries <= 2:  # of one triple, which says nothing about its spread
        return (*_rank_row(figures.summary), None, None)
    return (*_rank_row(figures.summary), f"{mrr.low:.4f} to {mrr.high:.4f}", f"{hits.low:.1f} to {hits.high:.1f}")


def _refuse(arguments: argparse.Namespace, options: Sequence[str], problem: str) -> None:
    """Refuse options that have no place here."""
    from ookg.errors import InputError

    for name in options:
        if getattr(arguments, name) not in (None, False) and not (name == "seed" and arguments.seed == 0):
            raise InputError(f"--{name.replace('_', '-')} {problem}; leave it out")


def _rank_row(figures: RankSummary) -> tuple[object, ...]:
    """The figures as `RANK_COLUMNS` names them."""
    shares = (figures.mean_rank, figures.hits_at_1, figures.hits_at_3, figures.hits_at_10)
    if not figures.queries:
        return (None,) * len(RANK_COLUMNS)
    return (figures.mrr, *(f"{value:.1f}" for value in shares))


def _print_few_shot(name: str, figures: FewShotFigures) -> None:
    """All questions, those with a known and with a new answer, and those about newcomers with so many triples."""
    from ookg.scoring.link_prediction import PROTOCOLS

    parts = [("all", figures.all), ("with a known answer", figures.known), ("with a new answer", figures.new)]
    parts += [(f"of newcomers with {row.given} given", row.summary) for row in figures.by_given]
    title = f"{name}, {figures.split}-tasks, {figures.shots} given of each newcomer ({PROTOCOLS[figures.protocol]})"
    rows = [(part, summary.queries, *_rank_row(summary)) for part, summary in parts]
    print_table(("questions", "number", *RANK_COLUMNS), rows, title)
    if figures.unscored:
        print(f"{figures.unscored:,} questions could not be scored: all their candidates rank equal")


def _print_growth(name: str, figures: GrowthFigures) -> None:
    """A line for the test of each snapshot."""
    rows: list[tuple[object, ...]] = [
        (test.snapshot, test.queries, test.mrr, test.mrr_snapshot) for test in figures.tests
    ]
    rows.append(("all", figures.queries, figures.mrr, figures.mrr_snapshot))
    title = f"{name}, after snapshot {figures.after}: MRR among all entities known by then, and by the test's snapshot"
    print_table(("snapshot", "queries", "MRR", "MRR in its snapshot"), rows, title)
    unscored = sum(test.unscored for test in figures.tests)
    if unscored:
        print(f"{unscored:,} queries have an entity or a relation that the model does not know: they count as the last")
