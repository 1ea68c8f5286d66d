"""How good a model is on a data set with new entities. Hits and accuracy are percentages."""

from __future__ import annotations

import argparse
from dataclasses import replace

from ookg.cli.console import (
    add_json_option,
    add_model_argument,
    add_refine_options,
    add_weight_options,
    chosen_limit,
    chosen_refine,
    chosen_weights,
    load_current,
    print_json,
    print_notes,
    print_table,
)

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
    from ookg.datasets import load_dataset
    from ookg.evaluation.evaluate import LinkPredictionResult
    from ookg.scoring.link_prediction import PROTOCOLS

    dataset = load_dataset(arguments.dataset, arguments.data)
    current = load_current(arguments)
    model = current.model
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
    print_notes(result.notes)
    if arguments.json:
        print_json(result.to_dict())
        return 0
    if isinstance(result, LinkPredictionResult):
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
