"""How newcomers with 1, 2, 3, 5, 10 and 30 triples are answered: as `predict` does by default, and by the closed form.

python benchmarks/few_triples.py [SET ...]

For each set known entities are hidden, the default model is trained without them, and so many triples of each are
given; others are asked, ranked among all entities, known and hidden. A set is the name of a data set, whose training
triples are taken, or of an .npz file with an array `train`, (triples, 3), or "films": the demo's graph, by the demo's
settings. `--seeds N` hides others N times; figures are the means, and the gain over the better of the two closed forms
comes with its standard error over the seeds. `--models FOLDER` keeps what is trained.
`--network N` trains a network in N steps too, on the same triples, and asks it beside all else; it sees the gaps that
hidden entities leave, so that its figures are too kind (docs/network.md). `--encoder N` trains an encoder in N steps
likewise, which reads no links but the newcomer's own and sees no gaps. `--steps N` trains vectors in so many steps.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from ookg.demo.tour import SETTINGS as FILMS
from ookg.demo.tour import film_graph
from ookg.evidence.network import AnswerNetwork
from ookg.graph.index import GraphIndex
from ookg.graph.triples import as_triples
from ookg.models.embedding import Embedding
from ookg.newcomers.reducer import Correlation, Uniform, Weights
from ookg.newcomers.refinement import RefineSettings, default_refinement
from ookg.scoring.link_prediction import link_prediction
from ookg.scoring.scorer import Scorer, TranslationScorer
from ookg.simulation.contenders import Contenders
from ookg.simulation.hiding import Hidden, HidingSettings, hide
from ookg.simulation.simulated import Simulation
from ookg.simulation.ways import DEFAULT_WAYS
from ookg.training.encoder import train_encoder
from ookg.training.loop import TrainingRun, choose_device
from ookg.training.network import NetworkSettings
from ookg.training.network_training import train_network
from ookg.training.settings import TrainingSettings
from ookg.training.trainer import Trainer
from ookg.types import IntArray

NUMBERS = (1, 2, 3, 5, 10, 30)
MOST_HIDDEN, MOST_QUESTIONS, FEWEST_QUESTIONS = 700, 400, 60


def triples_of(name: str) -> IntArray:
    """The training triples of a data set, as ids."""
    if name == "films":
        return as_triples(film_graph()).ids
    if name.endswith(".npz"):
        triples: IntArray = np.load(name)["train"].astype(np.int64)
        return triples
    from ookg.datasets.folder import load_dataset

    return load_dataset(name).train.ids


def vectors_of(hidden: Hidden, settings: TrainingSettings, kept: Path | None) -> Embedding:
    """The default model of what is left, trained or read from where it was kept."""
    if kept is not None and kept.exists():
        stored = np.load(kept)
        vectors = {name: torch.from_numpy(stored[name]).float() for name in ("entities", "relations")}
        return Embedding(settings.geometry, **vectors)
    ids = torch.from_numpy(hidden.known).to(choose_device("auto"))
    tables = TrainingRun(Trainer(ids, hidden.num_known, hidden.num_relations, settings)).run()
    if kept is not None:
        entities, relations = tables.entity_vectors.cpu().numpy(), tables.relation_vectors.cpu().numpy()
        np.savez(kept, entities=entities, relations=relations)
    return Embedding(settings.geometry, tables.entity_vectors.cpu(), tables.relation_vectors.cpu())


def mrr(scorer: Scorer, simulation: Simulation) -> float:
    """Over the questions, among all entities, known and hidden."""
    hidden = simulation.hidden
    counts = link_prediction(scorer, simulation.queries, hidden.true, len(hidden.entities), "all")
    return float((1 / counts.ranks()).mean())


def simulated(
    name: str, seed: int, model: str, models: Path | None, network_steps: int, encoder_steps: int, steps: int
) -> tuple[Simulation, RefineSettings]:
    """Hidden entities of a set, and how vectors would be fitted."""
    triples = triples_of(name)
    entities, relations = 1 + int(triples[:, [0, 2]].max()), 1 + int(triples[:, 1].max())
    hidden = hide(triples, entities, relations, HidingSettings(sample=min(MOST_HIDDEN, entities // 10), seed=seed))
    settings = FILMS if name == "films" else TrainingSettings(model=model, steps=steps)
    ending = "" if seed == 1 else f"-{seed}"
    kept = None if models is None else models / f"fit-{Path(name).stem}-{model}{ending}.npz"
    embedding = vectors_of(hidden, settings, kept)
    network = None
    if network_steps or encoder_steps:
        index = GraphIndex.of(hidden.known, hidden.num_known, hidden.num_relations)
        how, place = NetworkSettings(network_steps, encoder_steps=encoder_steps, seed=seed), choose_device("auto")
        messages = train_network(index, how, place).cpu() if network_steps else None
        encoder = train_encoder(index, embedding.entities, how, place).cpu() if encoder_steps else None
        network = AnswerNetwork(messages, encoder, embedding)
    simulation = replace(Simulation.of(hidden, embedding, None, is_exact=True), network=network)
    return simulation, default_refinement(embedding, settings.margin)


def figures(whole: Simulation, refine: RefineSettings, number: int) -> list[float] | None:
    """The number of questions, and MRR by each closed form, by default, and with the network if there is one.

    None with too few questions.
    """
    simulation = whole.with_few(number, 0, 4)
    some = np.random.default_rng(0).permutation(len(simulation.queries))[:MOST_QUESTIONS]
    if len(some) < FEWEST_QUESTIONS:
        return None
    simulation = replace(simulation, queries=simulation.queries.select(np.sort(some)))
    closed: list[Weights] = [Uniform(), Correlation()]
    row = [mrr(TranslationScorer(simulation.newcomers(one)), simulation) for one in closed]
    row.append(mrr(Contenders(simulation).by_ways(DEFAULT_WAYS, refine), simulation))
    if simulation.network is not None:
        ways = DEFAULT_WAYS.with_learned(simulation.network.weights_at)
        row.append(mrr(Contenders(simulation).by_ways(ways, refine), simulation))
    return [len(some), *row]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", metavar="SET")
    parser.add_argument("--model", default="transe")
    parser.add_argument("--models", type=Path, metavar="FOLDER")
    parser.add_argument("--seeds", type=int, default=1, metavar="N")
    parser.add_argument("--network", type=int, default=0, metavar="N")
    parser.add_argument("--encoder", type=int, default=0, metavar="N")
    parser.add_argument("--steps", type=int, default=20_000, metavar="N")
    options = parser.parse_args()
    with_it = bool(options.network or options.encoder)
    more = " | with network" if with_it else ""
    print(f"| set | triples | questions | closed form, uniform | correlation | default{more} | gain |")
    print("| --- |" + " ---: |" * (7 if with_it else 6))
    for name in options.sets:
        simulations = [
            simulated(name, seed, options.model, options.models, options.network, options.encoder, options.steps)
            for seed in range(1, 1 + options.seeds)
        ]
        for number in NUMBERS:
            rows = [row for row in (figures(*one, number) for one in simulations) if row is not None]
            if not rows:
                continue
            means = np.mean([row[1:] for row in rows], axis=0)
            shown = " | ".join(f"{figure:.3f}" for figure in means)
            closed = 1 + int(np.argmax(means[:2]))
            gains = np.array([row[-1] - row[closed] for row in rows])
            error = f" ± {gains.std(ddof=1) / len(gains) ** 0.5:.3f}" if len(gains) > 1 else ""
            asked = sum(int(row[0]) for row in rows)
            print(f"| {Path(name).stem} | {number} | {asked} | {shown} | {gains.mean():+.3f}{error} |", flush=True)


if __name__ == "__main__":
    main()
