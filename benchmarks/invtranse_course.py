"""How InvTransE's accuracy on valid and test moves during one training, as the authors' script logs it.

OOKG_DATA=FOLDER python benchmarks/invtranse_course.py WN11-Tail-5000 [--seed 0] [--every 2000] [--duplicates]
    [--device cpu]

Trains by the settings that `ookg reproduce` has for the data set, evaluates as it does, and chooses nothing: a line
every so many steps, also with thresholds on a grid of 0.1 as in the authors' code. With --duplicates the training
triples are those of the raw file, in which some stand twice.
"""

from __future__ import annotations

import argparse
import gzip
from dataclasses import replace

import numpy as np
import torch

from ookg.datasets import find_dataset, load_dataset
from ookg.datasets.dataset import part_files
from ookg.datasets.encoded import EncodedDataset
from ookg.embedding import Embedding
from ookg.evaluation.scoring import TranslationScorer
from ookg.evaluation.thresholds import Thresholds
from ookg.newcomers.embedder import find_newcomers
from ookg.newcomers.reducer import Degree
from ookg.newcomers.support import BoolArray
from ookg.reproduction.methods.inverse import INV_TRANSE, newcomers_with_untrained_rows
from ookg.statistics import FloatArray, GraphStatistics
from ookg.training.trainer import Trainer

GRID = np.arange(-10, 10, 0.1)  # of γ - D


def with_duplicates(dataset: EncodedDataset) -> EncodedDataset:
    """The data set with every line of the raw training file."""
    folder = find_dataset(dataset.name)
    assert folder is not None  # it was loaded from there
    (path,) = part_files(folder, "train")
    data = path.read_bytes()
    lines = (gzip.decompress(data) if path.suffix == ".gz" else data).decode().splitlines()
    place = {line: number for number, line in enumerate(dict.fromkeys(lines))}
    assert len(place) == len(dataset.train)  # distinct ones, in their order
    return replace(dataset, train=dataset.train[[place[line] for line in lines]])


def grid_thresholds(dataset: EncodedDataset, scores: FloatArray, truth: BoolArray, margin: float) -> FloatArray:
    """(relations,) the highest of the best thresholds of the grid."""
    found = np.zeros(dataset.num_relations)
    for relation in range(dataset.num_relations):
        rows = dataset.valid[:, 1] == relation
        right = [((scores[rows] >= cut - margin) == truth[rows]).sum() for cut in GRID]
        found[relation] = GRID[np.flatnonzero(np.array(right) == max(right))[-1]] - margin
    return found


def evaluate(trainer: Trainer, dataset: EncodedDataset, graph: GraphStatistics) -> str:
    """Valid and test accuracy as they are now, and test accuracy with the authors' grid; in percent."""
    valid_truth, test_truth = dataset.valid_truth, dataset.test_truth
    assert valid_truth is not None  # WN11's claims are labelled
    assert test_truth is not None
    embedding = Embedding(trainer.geometry, trainer.entity_vectors, trainer.relation_vectors)
    newcomers = find_newcomers(embedding, graph, dataset.train, dataset.given, Degree(0.1))
    newcomers = newcomers.with_room_for(dataset.num_entities - dataset.num_known)
    scorer = TranslationScorer(newcomers_with_untrained_rows(newcomers, trainer.placeholder_vectors))
    valid, test = scorer.scores(dataset.valid), scorer.scores(dataset.test)
    thresholds = Thresholds.fit(valid, dataset.valid[:, 1], valid_truth, dataset.num_relations)
    on_grid = grid_thresholds(dataset, valid, valid_truth, trainer.settings.margin)[dataset.test[:, 1]]
    right = [
        (valid >= thresholds.of(dataset.valid[:, 1])) == valid_truth,
        (test >= thresholds.of(dataset.test[:, 1])) == test_truth,
        (test >= on_grid) == test_truth,
    ]
    return "valid {:.2f}, test {:.2f}, test with the grid {:.2f}".format(*(100 * values.mean() for values in right))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=2000)
    parser.add_argument("--duplicates", action="store_true")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    dataset = EncodedDataset.of(load_dataset(options.dataset))
    if options.duplicates:
        dataset = with_duplicates(dataset)
    settings = INV_TRANSE.training(dataset.name, options.seed)
    graph = GraphStatistics.count(dataset.train, dataset.num_known, dataset.num_trained)
    triples = torch.from_numpy(dataset.train).to(options.device)
    trainer = Trainer(triples, dataset.num_known, dataset.num_trained, settings)
    while trainer.step_number < settings.steps:
        trainer.step()
        if trainer.step_number % options.every == 0 or trainer.step_number == settings.steps:
            print(f"{dataset.name}, seed {options.seed}, step {trainer.step_number:,}: ", end="")
            print(evaluate(trainer, dataset, graph), flush=True)


if __name__ == "__main__":
    main()
