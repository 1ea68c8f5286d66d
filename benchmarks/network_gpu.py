"""The training of a network on a GPU: checked against plain PyTorch, timed beside it, and run on packed graphs.

    python benchmarks/network_gpu.py [GRAPH.npz ...] [--steps N] [--batch N] [--most-links N] [--seeds N] [--out FOLDER]
        [--encoder-steps N] [--encoder-batch N]

A graph is a file with the arrays `triples` (triples, 3) and `sizes`: entities and relations. Networks are written as
FOLDER/GRAPH-SEED.pt, encoders of the vectors in GRAPH-SEED.npy beside the graph as FOLDER/GRAPH-SEED-encoder.pt,
parameters by name in 16 bits. Needs nothing beyond PyTorch, Triton and NumPy.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from ookg.graph.index import GraphIndex
from ookg.system.progress import Reporter
from ookg.training import network_gpu
from ookg.training.encoder import EncoderTraining, draw_questions, train_encoder
from ookg.training.network import NetworkGraph, NetworkSettings, Questions, RelationNetwork
from ookg.training.network_gpu import Batch, DenseGraph, DenseNetwork, MessageSum
from ookg.training.network_training import Episodes, train_network

BEGUN = time.perf_counter()


def say(*words: object) -> None:
    """Print a line with the seconds so far."""
    print(f"[{time.perf_counter() - BEGUN:6.1f}]", *words, flush=True)


def random_graph(entities: int, relations: int, triples: int) -> GraphIndex:
    """With hubs: entities are drawn by the square of an even number."""
    random = np.random.default_rng(0)
    ends = (entities * random.random((triples, 2)) ** 2).astype(np.int64)
    rows = np.stack([ends[:, 0], random.integers(0, relations, triples), ends[:, 1]], axis=1)
    return GraphIndex.of(np.unique(rows[rows[:, 0] != rows[:, 2]], axis=0), entities, relations)


def check(device: str) -> None:
    """Logits and gradients on the device, in 16 bits, against the network itself in 32."""
    index = random_graph(500, 7, 9000)
    settings = NetworkSettings(batch=16, most_links=8)  # so few that a batch has room for all
    graph, network = NetworkGraph.of(index), RelationNetwork(14, 0).eval()
    episodes = Episodes(graph, settings)
    drawn = episodes.drawn()
    whole = torch.from_numpy(Batch.packed(drawn, episodes, settings))
    given = drawn.entity, drawn.asked, drawn.of, episodes.link[drawn.given], episodes.other[drawn.given]
    plain = network(graph, Questions(*map(torch.from_numpy, given))).view(settings.batch, -1)
    is_seen = torch.ones_like(plain, dtype=torch.bool)
    is_seen[np.arange(settings.batch), drawn.entity] = False
    gradients = {}
    for place, dtype in (("cpu", torch.float32), (device, torch.bfloat16)):
        network = network.to(place)
        dense = DenseNetwork(network, DenseGraph(graph, place), dtype, compiles=place != "cpu")
        batch = Batch.unpacked(whole.to(place), settings)
        logits = dense.logits(batch).detach().cpu()
        error = float((logits - plain)[is_seen].norm() / plain[is_seen].norm())
        network.zero_grad()
        dense.loss(batch).backward()  # type: ignore[no-untyped-call]
        gradients[place] = torch.cat([one.grad.flatten().cpu() for one in network.parameters() if one.grad is not None])
        say(f"logits on {place} in {dtype}: relative error {error:.1e}")
    error = float((gradients[device] - gradients["cpu"]).norm() / gradients["cpu"].norm())
    say(f"gradient on {device}: relative error {error:.1e}")


def check_encoder(device: str) -> None:
    """The encoder's loss and gradient on the device, in 16 bits, against 32 bits on the CPU, of the same questions."""
    index, random = random_graph(500, 7, 9000), torch.Generator().manual_seed(0)
    vectors, settings = torch.randn(500, 40, generator=random), NetworkSettings(encoder_batch=64)
    there = {place: EncoderTraining(index, vectors, settings, torch.device(place)) for place in ("cpu", device)}
    torch.manual_seed(0)
    drawn = draw_questions(there["cpu"].rows, settings.encoder_batch, 16)
    found = {}
    for place, training in there.items():
        training.encoder.eval()
        questions = replace(drawn, **{part.name: getattr(drawn, part.name).to(place) for part in fields(drawn)})
        with torch.autocast(place, torch.bfloat16, enabled=place != "cpu"):
            loss = training.loss(questions)
        loss.backward()  # type: ignore[no-untyped-call]
        gradients = [one.grad.flatten().cpu() for one in training.encoder.parameters() if one.grad is not None]
        found[place] = float(loss.detach()), torch.cat(gradients)
    (plain, expected), (fast, gradient) = found["cpu"], found[device]
    error = float((gradient - expected).norm() / expected.norm())
    say(f"encoder: loss {fast:.4f} on {device}, {plain:.4f} on cpu; gradient: relative error {error:.1e}")


class PlainSum(MessageSum):
    """The same sums by plain PyTorch, with a tensor of links × columns."""

    def __call__(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """(rows, columns)"""
        out = torch.zeros(self.num_rows, left.shape[1], device=left.device)
        return out.index_add_(0, self.row, (left[self.left_of] * right[self.right_of]).float())


def compare(device: str) -> None:
    """Seconds of a step with the kernel and with plain PyTorch, side by side, on a graph of the size of FB15k-237's."""
    graph = NetworkGraph.of(random_graph(12_000, 237, 230_000))
    settings = NetworkSettings(batch=64, most_links=5)
    episodes = Episodes(graph, settings)
    whole = torch.from_numpy(Batch.packed(episodes.drawn(), episodes, settings)).to(device)
    batch, times = Batch.unpacked(whole, settings), {}
    for name, sums in (("kernel", MessageSum), ("plain", PlainSum)):
        network_gpu.MessageSum = sums  # type: ignore[misc]
        dense = DenseNetwork(
            RelationNetwork(graph.num_links).to(device), DenseGraph(graph, device), torch.bfloat16, compiles=True
        )
        seconds = []
        for _ in range(12):
            torch.cuda.synchronize()
            begun = time.perf_counter()
            dense.loss(batch).backward()  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - begun)
        times[name] = sorted(seconds)[len(seconds) // 2]
    network_gpu.MessageSum = MessageSum  # type: ignore[misc]
    ratio = times["plain"] / times["kernel"]
    say(f"loss and gradient: {1000 * times['kernel']:.1f} ms, plain {1000 * times['plain']:.1f} ms, {ratio:.1f} times")


def main() -> None:
    """Check, compare, train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", type=Path)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--most-links", type=int)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--encoder-steps", type=int, default=0)
    parser.add_argument("--encoder-batch", type=int, default=1024)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--no-check", action="store_true")
    arguments = parser.parse_args()
    device = arguments.device
    if not arguments.no_check:
        check(device)
        check_encoder(device)
        compare(device)
    for path in arguments.graphs:
        arrays = np.load(path)
        entities, relations = (int(size) for size in arrays["sizes"][:2])
        index = GraphIndex.of(arrays["triples"].astype(np.int64), entities, relations)
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            name = f"{path.stem}-{seed}"
            settings = NetworkSettings(
                steps=arguments.steps,
                batch=arguments.batch,
                most_links=arguments.most_links,
                seed=seed,
                encoder_steps=arguments.encoder_steps,
                encoder_batch=arguments.encoder_batch,
            )
            if settings.steps:
                write(name, partial(train_network, index, settings, device), arguments.out)
            if settings.encoder_steps:
                vectors = torch.from_numpy(np.load(path.with_name(f"{name}.npy")))
                write(f"{name}-encoder", partial(train_encoder, index, vectors, settings, device), arguments.out)


def write(name: str, train: Callable[[Reporter], torch.nn.Module], folder: Path) -> None:
    """Train, say how long it took, and write the parameters."""

    def report(done: int, figure: Callable[[], str] | None = None) -> None:
        if done % 2000 == 0 and figure is not None:
            say(f"{name}: step {done}, {figure()}")

    begun = time.perf_counter()
    trained = train(report)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    seconds = time.perf_counter() - begun
    say(f"{name}: {seconds:.1f} s")
    state = {name: table.half().cpu() for name, table in trained.state_dict().items()}
    torch.save({"state": state, "seconds": seconds}, folder / f"{name}.pt")


if __name__ == "__main__":
    main()
