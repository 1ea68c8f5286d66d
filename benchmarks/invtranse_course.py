"""How InvTransE's accuracy on valid and on new entities moves during one training, by the authors' settings or others.

OOKG_DATA=FOLDER python benchmarks/invtranse_course.py WN11-Tail-5000 ['{"l2": 3e-5}' ...] [--simulated] [--share 0.2]
    [--seed 0] [--every 2000] [--duplicates] [--device cpu]

Each JSON object changes the settings of the authors' code for the data set; without one these are taken. With
--simulated the new entities are known ones made new again (a share of the valid claims asks about them), and nothing is
measured on test: so the settings of `ookg reproduce` were chosen (docs/reproduce.md). Without it test is measured, as
the authors' script logs it; that chooses nothing. A line every so many steps, also with thresholds on a grid of 0.1 as
in the authors' code. With --duplicates the training triples are those of the raw file, in which some stand twice.
"""

from __future__ import annotations

import argparse
import gzip
import json
from dataclasses import replace

import numpy as np
import torch

from ookg.datasets.dataset import part_files
from ookg.datasets.encoded import EncodedDataset
from ookg.datasets.folder import find_dataset, load_dataset
from ookg.graph.statistics import GraphStatistics
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import find_newcomers
from ookg.newcomers.reducer import Degree
from ookg.research.reproduction.methods.inverse import INV_TRANSE_AS_PUBLISHED, newcomers_with_untrained_rows
from ookg.scoring.scorer import TranslationScorer
from ookg.scoring.thresholds import Thresholds
from ookg.simulation.hidden_claims import hide_claims
from ookg.training.settings import TrainingSettings
from ookg.training.trainer import Trainer
from ookg.types import BoolArray, FloatArray

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
    """Accuracy in percent as it is now: on valid, on the new entities, and there with the authors' grid."""
    valid_truth, test_truth = dataset.valid_truth, dataset.test_truth
    assert valid_truth is not None  # WN11's claims are labelled
    assert test_truth is not None
    embedding = Embedding(trainer.geometry, trainer.entity_vectors, trainer.relation_vectors)
    newcomers = find_newcomers(embedding, graph, dataset.train, dataset.given, Degree(0.1))
    newcomers = newcomers.with_room_for(dataset.num_entities - dataset.num_known)
    scorer = TranslationScorer(newcomers_with_untrained_rows(newcomers, trainer.untrained_vectors))
    valid, test = scorer.scores(dataset.valid), scorer.scores(dataset.test)
    thresholds = Thresholds.fit(valid, dataset.valid[:, 1], valid_truth, dataset.num_relations)
    on_grid = grid_thresholds(dataset, valid, valid_truth, trainer.settings.margin)[dataset.test[:, 1]]
    right = [
        (valid >= thresholds.of(dataset.valid[:, 1])) == valid_truth,
        (test >= thresholds.of(dataset.test[:, 1])) == test_truth,
        (test >= on_grid) == test_truth,
    ]
    return "valid {:.2f}, new {:.2f}, new with the grid {:.2f}".format(*(100 * values.mean() for values in right))


def train(dataset: EncodedDataset, settings: TrainingSettings, every: int, device: str, label: str) -> None:
    """One training, with a line every so many steps."""
    graph = GraphStatistics.count(dataset.train, dataset.num_known, dataset.num_trained)
    triples = torch.from_numpy(dataset.train).to(device)
    trainer = Trainer(triples, dataset.num_known, dataset.num_trained, settings)
    while trainer.step_number < settings.steps:
        trainer.step()
        if trainer.step_number % every == 0 or trainer.step_number == settings.steps:
            print(f"{label}, step {trainer.step_number:,}: {evaluate(trainer, dataset, graph)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("changes", nargs="*", default=["{}"])
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=2000)
    parser.add_argument("--duplicates", action="store_true")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    dataset = EncodedDataset.of(load_dataset(options.dataset))
    published = INV_TRANSE_AS_PUBLISHED.training(dataset.name, options.seed)
    if options.duplicates:
        dataset = with_duplicates(dataset)
    if options.simulated:
        dataset = hide_claims(dataset, options.seed, options.share)
        published = replace(published, placeholder_entities=dataset.num_entities - dataset.num_known)
    for changes in options.changes:
        settings = published.changed(json.loads(changes))
        train(dataset, settings, options.every, options.device, f"{dataset.name}, seed {options.seed}, {changes}")


if __name__ == "__main__":
    main()
