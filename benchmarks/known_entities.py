"""How questions about known entities are answered: by their vectors alone, as `predict` does, and by chosen weights.

python benchmarks/known_entities.py [SET ...]

Of each set two parts of the triples are held out; each entity and relation keeps one. The default model is trained
without them. On the first part `choose_known` chooses what evidence counts, as `ookg calibrate` does; both ends of the
triples of the second part are asked for, among all entities. A set is one that `benchmarks/few_triples.py` knows.
`--seeds N` holds out others N times; a gain is over the vectors alone, with its standard error over questions.
Beside the default and what was chosen stand direct links alone, with the default's weight, and all evidence.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from few_triples import triples_of
from ookg.datasets.splitting import draw_valid
from ookg.demo.tour import SETTINGS as FILMS
from ookg.evidence.combined import CombinedScorer, GraphEvidence, RankingWeights
from ookg.graph.statistics import GraphStatistics, relations_with_loops
from ookg.models.embedding import Embedding
from ookg.newcomers.embedder import find_newcomers
from ookg.newcomers.reducer import Uniform
from ookg.scoring.link_prediction import link_prediction
from ookg.scoring.queries import both_ends
from ookg.scoring.scorer import Scorer, TranslationScorer
from ookg.simulation.choosing import choose_known
from ookg.simulation.ways import DEFAULT_KNOWN, KNOWN_RANKINGS
from ookg.training.loop import TrainingRun, choose_device
from ookg.training.settings import TrainingSettings
from ookg.training.trainer import Trainer
from ookg.types import FloatArray, IntArray

MOST_HELD_OUT, SHARE = 1_000, 0.05  # of triples, in each of the two parts


def settings_for(name: str, model: str, triples: int, seed: int) -> TrainingSettings:
    """Those of `ookg train`, without triples that it holds out itself."""
    settings = FILMS if name == "films" else TrainingSettings(model=model, seed=seed)
    return replace(settings, steps=settings.steps or settings.steps_for(triples), validate_every=0, patience=0)


def reciprocal(scorer: Scorer, asked: IntArray, true: IntArray) -> FloatArray:
    """1/rank of both ends of triples among all entities."""
    ranks: FloatArray = 1 / link_prediction(scorer, both_ends(asked), true, scorer.num_known, "paper").ranks()
    return ranks


def gains(name: str, model: str, seed: int) -> tuple[dict[str, FloatArray], RankingWeights | None]:
    """1/rank of every question, by how it is answered, the vectors alone first; and the chosen weights."""
    triples = triples_of(name)
    size, relations = 1 + int(triples[:, [0, 2]].max()), 1 + int(triples[:, 1].max())
    each = min(MOST_HELD_OUT, int(SHARE * len(triples)))
    random = np.random.default_rng(seed)
    rows = random.permutation(draw_valid(triples, np.arange(len(triples)), 2 * each / len(triples), random))
    known = np.delete(triples, rows, axis=0)
    first, second = triples[rows[: len(rows) // 2]], triples[rows[len(rows) // 2 :]]
    settings = settings_for(name, model, len(known), seed)
    ids = torch.from_numpy(known).to(choose_device("auto"))
    tables = TrainingRun(Trainer(ids, size, relations, settings)).run()
    embedding = Embedding(settings.geometry, tables.entity_vectors.cpu(), tables.relation_vectors.cpu())
    graph, nothing = GraphStatistics.count(known, size, relations), known[:0]
    found = find_newcomers(embedding, graph, known, nothing, Uniform())
    vectors = TranslationScorer(found, relations_with_loops(known, relations))
    evidence = GraphEvidence.count(known, nothing, relations)
    tried = choose_known([embedding], known, both_ends(first), relations, seed=seed)
    ways = {"links": RankingWeights.alone(vector=1.0, links=DEFAULT_KNOWN["links"]), "default": DEFAULT_KNOWN}
    if tried is not None:
        ways["chosen"] = tried.ranking
    ways["all"] = KNOWN_RANKINGS[-1]
    scorers: dict[str, Scorer] = {"vectors": vectors}
    scorers |= {label: CombinedScorer([vectors], evidence, ranking) for label, ranking in ways.items()}
    found_ranks = {label: reciprocal(scorer, second, triples) for label, scorer in scorers.items()}
    return found_ranks, None if tried is None else tried.ranking


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", metavar="SET")
    parser.add_argument("--model", default="transe")
    parser.add_argument("--seeds", type=int, default=1, metavar="N")
    options = parser.parse_args()
    print("| set | answered by | questions | MRR | gain |\n| --- | --- | ---: | ---: | ---: |")
    for name in options.sets:
        found = [gains(name, options.model, seed) for seed in range(1, 1 + options.seeds)]
        for label in found[0][0]:
            ranks = np.concatenate([one[label] for one, _ in found if label in one])
            gain = ranks - np.concatenate([one["vectors"] for one, _ in found if label in one])
            shown = "" if label == "vectors" else f"{gain.mean():+.3f} ± {gain.std() / len(gain) ** 0.5:.3f}"
            print(f"| {Path(name).stem} | {label} | {len(ranks)} | {ranks.mean():.3f} | {shown} |", flush=True)
        for _, ranking in found:
            print(f"<!-- chosen: {ranking} -->")


if __name__ == "__main__":
    main()
