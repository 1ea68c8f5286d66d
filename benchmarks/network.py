"""What a graph neural network costs: a step of its training on the CPU, and a question about a newcomer.

    python benchmarks/network.py [--quick] [--encoder]

Graphs are random, with a few entities in many triples. The newcomer has three triples: with entities that are in few
triples, or one of them with the entity that is in most. Medians; memory is the most that the process has held.
`--encoder` measures the encoder instead of messages, on random vectors of 200 numbers.
"""

from __future__ import annotations

import argparse
import resource
from time import perf_counter

import numpy as np
import torch

from ookg.evidence.combined import GraphEvidence
from ookg.evidence.network import AnswerNetwork
from ookg.evidence.source import Asked
from ookg.graph.index import GraphIndex
from ookg.graph.linked import graph_alone
from ookg.models.embedding import Embedding
from ookg.models.transe import TransE
from ookg.training.encoder import train_encoder
from ookg.training.network import NetworkSettings
from ookg.training.network_training import train_network
from ookg.types import IntArray

SIZES = {"15k": (15_000, 480_000), "100k": (100_000, 1_000_000), "1M": (1_000_000, 5_000_000)}
RELATIONS = 200
STEPS, QUESTIONS = 30, 15
WIDTH = 200


def zipf_ids(random: np.random.Generator, size: int, bound: int) -> IntArray:
    """Ids of which the first are drawn most often."""
    return (bound ** random.random(size)).astype(np.int64) - 1


def graph_of(entities: int, triples: int) -> IntArray:
    """Random triples; heads are drawn unevenly, tails evenly."""
    random = np.random.default_rng(0)
    columns = (
        zipf_ids(random, triples, entities),
        zipf_ids(random, triples, RELATIONS),
        random.integers(0, entities, triples),
    )
    return np.unique(np.stack(columns, axis=1), axis=0)


def asking(index: GraphIndex, network: AnswerNetwork, ends: list[int]) -> tuple[float, int]:
    """The median milliseconds of a question about a newcomer with triples to some ends, and how many answers it has."""
    new = index.num_entities
    graph = graph_alone(np.empty((0, 3), dtype=np.int64), RELATIONS, index)
    for number, end in enumerate(ends):
        graph = graph.plus((new, number, end), number)
    known = GraphEvidence.of_version(lambda: np.empty((0, 3), dtype=np.int64), index, None, network)
    source = known.beside(graph)[network.parts[0]]
    took, spoken = [], 0
    for relation in range(QUESTIONS):
        source.of_question(Asked(new, relation, True))  # the first one over a relation counts its ends
        begun = perf_counter()
        spoken = len(source.of_question(Asked(new, relation, True)).entities)
        took.append(perf_counter() - begun)
    return 1000 * float(np.median(took)), spoken


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the smallest graph alone")
    parser.add_argument("--encoder", action="store_true", help="the encoder instead of messages")
    options = parser.parse_args()
    sizes = list(SIZES.items())[:1] if options.quick else list(SIZES.items())
    for name, (entities, triples) in sizes:
        index = GraphIndex.of(graph_of(entities, triples), entities, RELATIONS)
        random = torch.Generator().manual_seed(0)
        vectors = torch.randn(entities, WIDTH, generator=random) if options.encoder else torch.empty(0, WIDTH)
        ended: list[float] = []

        def report(done: int, figure: object = None, ended: list[float] = ended) -> None:
            ended.append(perf_counter())

        if options.encoder:
            encoder = train_encoder(index, vectors, NetworkSettings(steps=0, encoder_steps=STEPS), report=report)
            network = AnswerNetwork(None, encoder, Embedding(TransE(WIDTH), vectors, torch.zeros(RELATIONS, WIDTH)))
        else:
            network = AnswerNetwork(train_network(index, NetworkSettings(steps=STEPS), report=report))
        step = 1000 * float(np.median(np.diff(ended)))
        degree = np.diff(index.offsets)
        few = np.flatnonzero((degree > 1) & (degree < 20))[:3].tolist()
        hub = [int(degree.argmax()), *few[1:]]
        print(f"{name} entities, {len(index.link) // 2:,} triples: a step of training {step:.0f} ms")
        for what, ends in (("with entities of few triples", few), ("one of them with the largest hub", hub)):
            milliseconds, spoken = asking(index, network, ends)
            print(f"  a question, three triples {what}: {milliseconds:.1f} ms, {spoken:,} answers")
        print(f"  memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB")


if __name__ == "__main__":
    main()
