"""How good a model is on a data set with new entities, or on a growing one. Hits and accuracy are percentages."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from ookg.cli.console import (
    add_json_option,
    add_model_argument,
    add_refine_options,
    add_weight_options,
    chosen_limit,
    chosen_refine,
    chosen_weights,
    load_current,
    note,
    print_json,
    print_notes,
    print_table,
)

if TYPE_CHECKING:
    from ookg.datasets.dataset import Dataset
    from ookg.datasets.growing import GrowingDataset
    from ookg.evaluation.growing import GrowthFigures

SUMMARY = "how good is that, on a data set"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_argument(parser)
    parser.add_argument("--dataset", required=True, metavar="NAME|FOLDER", help="the data set to evaluate on")
    parser.add_argument("--data", metavar="FOLDER", help="where data sets lie, instead of OOKG_DATA or the cache")
    parser.add_argument(
        "--task",
        choices=("link-prediction", "triplet-classification"),
        help="default: triplet-classification if the test triples are labelled",
    )
    parser.add_argument(
        "--protocol",
        choices=("paper", "lan"),
        default="paper",
        help="link prediction: rank among all ids, every test triple (the paper's code, default), "
        "or among known entities, relations of train only (LAN's code)",
    )
    parser.add_argument(
        "--ties",
        choices=("mean", "optimistic", "pessimistic"),
        default="mean",
        help="rank among equal scores: mean of best and worst (default), best, or worst",
    )
    add_json_option(parser)
    add_weight_options(parser, "correlation for link prediction, degree for triplet classification")
    add_refine_options(parser, combines=True)


def run(arguments: argparse.Namespace) -> int:
    """Evaluate and print."""
    from ookg.datasets.folder import load_dataset
    from ookg.datasets.growing import find_growing, load_growing
    from ookg.evaluation.evaluate import LinkPredictionResult
    from ookg.evaluation.growing import GrowthFigures
    from ookg.scoring.link_prediction import PROTOCOLS

    current = load_current(arguments)
    model = current.model
    if find_growing(arguments.dataset, arguments.data) is not None:
        dataset: Dataset | GrowingDataset = load_growing(arguments.dataset, arguments.data)
        if current.difference.added:
            note(
                "note: what was added since the last update is not asked here; `ookg update` lets the vectors learn it"
            )
    else:
        dataset = load_dataset(arguments.dataset, arguments.data)
        if current.difference.added:
            dataset = replace(dataset, aux=current.given(dataset.aux))
    result = model.evaluate(
        dataset,
        task=arguments.task,
        weights=chosen_weights(arguments),
        limit=chosen_limit(arguments),
        refine=chosen_refine(arguments, model) or False,
        combine=arguments.combine,
        protocol=arguments.protocol,
        ties=arguments.ties,
        progress=True,
    )
    if not isinstance(result, GrowthFigures):
        print_notes(result.notes)
    if arguments.json:
        print_json(result.to_dict())
        return 0
    if isinstance(result, GrowthFigures):
        _print_growth(dataset.name, result)
    elif isinstance(result, LinkPredictionResult):
        title = f"{dataset.name}, link prediction ({PROTOCOLS[result.protocol]})"
        figures = result.summary
        row = (
            figures.queries,
            figures.mrr,
            figures.mean_rank,
            figures.hits_at_1,
            figures.hits_at_3,
            figures.hits_at_10,
        )
        print_table(
            ("queries", "MRR", "mean rank", "Hits@1", "Hits@3", "Hits@10"),
            [(row[0], row[1], *(f"{value:.1f}" for value in row[2:]))],
            title,
        )
        if result.unscored:
            print(f"{result.unscored:,} queries could not be scored: all their candidates rank equal")
    else:
        rows = [(relation.relation, relation.claims, f"{relation.accuracy:.1f}") for relation in result.by_relation]
        rows.append(("all", result.claims, f"{result.accuracy:.1f}"))
        print_table(("relation", "claims", "accuracy"), rows, f"{dataset.name}, triplet classification")
        if result.unscored:
            print(f"{result.unscored:,} claims could not be scored: they count as held false")
    return 0


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
