"""Training a network of `network.py` on a GPU: every entity is a candidate, and a step is captured once and replayed.

The network is the same, number for number, as `RelationNetwork.forward` computes it for a few candidates; here all
states of all questions lie in one tensor of (entities, questions, width), in 16 bits, and messages are summed by a
kernel. A step has the same shapes each time: what a question has more or less of is cut off or filled up.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout, layer_norm, linear, one_hot, relu

from ookg.errors import InputError
from ookg.system.progress import Reporter
from ookg.training.network import DROPOUT, WIDTH, NetworkGraph, NetworkSettings, RelationNetwork
from ookg.training.network_training import Drawn, Episodes, learning_rate_at
from ookg.types import IntArray

PIECE = 128  # the most links that one program sums up
TILE = 1024  # columns of one program
LINKS_EACH = 192  # given links that a question has room for on average, where it may have any number
TRUE_EACH = 160  # right answers that a question has room for on average
AHEAD = 100  # batches that are drawn before they are needed
OUT_OF_REACH = -1e9  # the logit of what is no candidate


class MessageSum:
    """Sums over the pairs (a, b) of each row: out[row] = Σ left[a] · right[b]."""

    def __init__(self, row: Tensor, left_of: Tensor, right_of: Tensor, num_rows: int) -> None:
        """row, left_of, right_of: (pairs,)"""
        order = torch.argsort(row, stable=True)
        self.num_rows = num_rows
        self.row, self.left_of, self.right_of = (part[order].int() for part in (row, left_of, right_of))
        count = torch.bincount(row, minlength=num_rows)
        pieces = (count + PIECE - 1) // PIECE
        self.rows = torch.repeat_interleave(torch.arange(num_rows, device=row.device), pieces)
        first = torch.cumsum(count, 0) - count
        number = torch.arange(len(self.rows), device=row.device) - (torch.cumsum(pieces, 0) - pieces)[self.rows]
        self.starts = first[self.rows] + number * PIECE
        self.ends = torch.minimum(self.starts + PIECE, (first + count)[self.rows])
        self.alone = (pieces == 1)[self.rows].int()
        self.starts, self.ends, self.rows = self.starts.int(), self.ends.int(), self.rows.int()

    def __call__(self, left: Tensor, right: Tensor) -> Tensor:
        """(rows, columns), in 32 bits. left, right: (any, columns), contiguous"""
        columns = left.shape[1]
        out = torch.zeros(self.num_rows, columns, device=left.device)
        if left.device.type == "cpu":
            return out.index_add_(0, self.row, left[self.left_of].float() * right[self.right_of].float())
        from ookg.kernels.gpu_messages import summed

        grid = (len(self.rows), -(-columns // TILE))
        pairs = self.starts, self.ends, self.rows, self.alone, self.left_of, self.right_of
        summed[grid](left, right, out, *pairs, WIDTH=columns, TILE=min(TILE, _power_of_two(columns)), num_warps=4)
        return out


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()


class DenseGraph:
    """A graph as messages over all its links at once need it, on a device."""

    def __init__(self, graph: NetworkGraph, device: torch.device | str) -> None:
        self.num_entities, self.num_links = graph.num_entities, graph.num_links
        link, target = graph.link.to(device), graph.other.to(device)
        degree = (graph.starts[1:] - graph.starts[:-1]).to(device)
        source = torch.repeat_interleave(torch.arange(self.num_entities, device=device), degree)
        self.arriving = MessageSum(target, source, link, self.num_entities)
        self.back_to_source = MessageSum(source, target, link, self.num_entities)
        self.back_to_link = MessageSum(link, source, target, self.num_links)


class _Arrived(torch.autograd.Function):
    """(entities, columns) what arrives over all links: the sum of state[source] · carried[link]."""

    @staticmethod
    def forward(ctx: Any, state: Tensor, carried: Tensor, graph: DenseGraph) -> Tensor:
        ctx.graph = graph
        ctx.save_for_backward(state, carried)
        return graph.arriving(state, carried).to(state.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        state, carried = ctx.saved_tensors
        gradient = gradients[0].to(state.dtype).contiguous()
        to_state = ctx.graph.back_to_source(gradient, carried).to(state.dtype)
        return to_state, ctx.graph.back_to_link(state, gradient).to(carried.dtype), None


@dataclass(frozen=True, eq=False)
class Batch:
    """The questions of one step, as numbers of fixed lengths.

    entity, asked, answer: (questions,)
    of, link, neighbour: (links,) given links; what fills up has a hidden entity as neighbour, and says nothing
    true_of, true: right answers, the asked entity among them
    """

    entity: Tensor
    asked: Tensor
    answer: Tensor
    of: Tensor
    link: Tensor
    neighbour: Tensor
    true_of: Tensor
    true: Tensor

    @classmethod
    def lengths(cls, settings: NetworkSettings) -> list[int]:
        """Those of all parts."""
        number, most = settings.batch, settings.most_links
        links = number * min(LINKS_EACH, most or LINKS_EACH)
        return [number] * 3 + [links] * 3 + [number * TRUE_EACH] * 2

    @classmethod
    def packed(cls, drawn: Drawn, episodes: Episodes, settings: NetworkSettings) -> IntArray:
        """All parts one after the other."""
        lengths = dict(zip((field.name for field in fields(cls)), cls.lengths(settings), strict=True))
        of, given = _cut(drawn.of, drawn.given, lengths["of"], episodes.random)
        parts = {
            "entity": drawn.entity,
            "asked": drawn.asked,
            "answer": drawn.answer,
            "of": of,
            "link": episodes.link[given],
            "neighbour": episodes.other[given],
            "true_of": np.append(np.arange(len(drawn.entity)), drawn.true_of),
            "true": np.append(drawn.entity, drawn.true),
        }
        fill = {"neighbour": drawn.entity[0], "true": drawn.entity[0]}
        whole = np.empty(sum(lengths.values()), dtype=np.int64)
        place = 0
        for name, length in lengths.items():
            part = parts[name][:length]
            whole[place : place + len(part)] = part
            whole[place + len(part) : place + length] = fill.get(name, 0)
            place += length
        return whole

    @classmethod
    def unpacked(cls, whole: Tensor, settings: NetworkSettings) -> Batch:
        """The parts of what `packed` gave."""
        return cls(*torch.split(whole, cls.lengths(settings)))


def _cut(of: IntArray, row: IntArray, most: int, random: np.random.Generator) -> tuple[IntArray, IntArray]:
    """At most so many of some links, drawn evenly."""
    if len(of) <= most:
        return of, row
    kept = np.sort(random.permutation(len(of))[:most])
    return of[kept], row[kept]


def _layer(
    state: Tensor, arrived: Tensor, per_link: Tensor, mix: Tensor, shift: Tensor, scale: Tensor, offset: Tensor,
    share_dropped: float,
) -> Tensor:  # fmt: skip
    """As `RelationNetwork.layer`, on (entities, questions, width). per_link: 1 / degree"""
    seen = torch.cat([state, torch.asinh(arrived.float()).to(state.dtype), arrived * per_link], dim=-1)
    mixed = layer_norm(linear(seen, mix, shift).float(), (WIDTH,), scale, offset)
    return state + dropout(relu(mixed), share_dropped).to(state.dtype)


def _read_out(state: Tensor, facts: Tensor, asked: Tensor, weights: Tensor, out: Tensor) -> Tensor:
    """As `RelationNetwork.read_out`. asked: (questions, hidden) what the asked relation gives each unit"""
    units = linear(torch.cat([state, facts], dim=-1), weights) + asked
    return linear(relu(units), out)[..., 0]


class DenseNetwork:
    """A network's logits of all entities as answers to the questions of a batch."""

    def __init__(self, network: RelationNetwork, graph: DenseGraph, dtype: torch.dtype, *, compiles: bool) -> None:
        self.network, self.graph, self.dtype = network, graph, dtype
        self.layer: Callable[..., Tensor] = torch.compile(_layer) if compiles else _layer
        self.read_out: Callable[..., Tensor] = torch.compile(_read_out) if compiles else _read_out

    def logits(self, batch: Batch) -> Tensor:
        """(questions, entities)"""
        network, graph, dtype = self.network, self.graph, self.dtype
        number, size, links = len(batch.asked), graph.num_entities, graph.num_links
        device = batch.asked.device
        questions = torch.arange(number, device=device)
        asked = network.asked.index_select(0, batch.asked)
        begins = network.weights("start", asked).index_select(0, batch.of * links + batch.link)
        start = torch.zeros(size * number, WIDTH, device=device)
        start = start.index_add(0, batch.neighbour * number + batch.of, begins).view(size, number, WIDTH).to(dtype)
        seen = torch.ones(size * number, device=device, dtype=dtype)
        seen = seen.index_fill_(0, batch.entity * number + questions, 0).view(size, number)
        start = start * seen[..., None]
        every_link = torch.ones(links, number, device=device, dtype=dtype)
        degree = graph.arriving(seen, every_link).clamp_min(1)
        times = graph.arriving(seen, one_hot(batch.asked, links).T.to(dtype).contiguous())
        per_link = (1 / degree).to(dtype)[..., None]
        state, dropped = start, DROPOUT if network.training else 0.0
        for step, name in enumerate(("first", "second")):
            carried = network.weights(name, asked).view(number, links, WIDTH).transpose(0, 1)
            carried = carried.reshape(links, number * WIDTH).to(dtype).contiguous()
            arrived = _Arrived.apply(state.reshape(size, -1), carried, graph)  # type: ignore[no-untyped-call]
            mix = network.mix[step].to(dtype), network.shift[step].to(dtype), network.scale[step], network.offset[step]
            state = self.layer(state, arrived.view_as(state) + start, per_link, *mix, dropped) * seen[..., None]
        of_state, of_asked, of_facts = network.readout.split(  # type: ignore[no-untyped-call]
            [WIDTH, WIDTH, network.readout.shape[1] - 2 * WIDTH], dim=1
        )
        weights = torch.cat([of_state, of_facts], dim=1).to(dtype)
        said = linear(asked, of_asked, network.readout_bias).to(dtype)
        out = network.out.to(dtype)
        linked = (start.detach() != 0).any(dim=-1)
        facts = torch.stack([times.log1p(), linked, 0.1 * degree.log()], dim=-1).to(dtype)
        return self.read_out(state, facts, said, weights, out).float().T

    def loss(self, batch: Batch) -> Tensor:
        """The mean of -log p(right answer) among all entities that are not right as well."""
        logits = self.logits(batch)
        number, size = logits.shape
        out = torch.zeros(number * size, dtype=torch.bool, device=logits.device)
        out.index_fill_(0, batch.true_of * size + batch.true, True)
        out.index_fill_(0, torch.arange(number, device=logits.device) * size + batch.answer, False)
        return cross_entropy(logits.masked_fill(out.view_as(logits), OUT_OF_REACH), batch.answer)


def train_on_gpu(
    graph: NetworkGraph, settings: NetworkSettings, device: torch.device | str, report: Reporter | None = None
) -> RelationNetwork:
    """A network trained on all triples of a graph. On a CPU, for tests, nothing is compiled or captured."""
    on_gpu = torch.device(device).type == "cuda"
    with torch.random.fork_rng(["cuda"] if on_gpu else []):
        torch.manual_seed(settings.seed)  # of what is dropped out
        return _trained(graph, settings, torch.device(device), report)


def _trained(
    graph: NetworkGraph, settings: NetworkSettings, device: torch.device, report: Reporter | None
) -> RelationNetwork:
    on_gpu = device.type == "cuda"
    network = RelationNetwork(graph.num_links, settings.seed).to(device).train()
    dtype = torch.bfloat16 if on_gpu else torch.float32
    dense = DenseNetwork(network, DenseGraph(graph, device), dtype, compiles=on_gpu)
    rate = torch.tensor(0.0, device=device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=1e-4, capturable=on_gpu, fused=on_gpu)
    episodes = Episodes(graph, settings)
    whole = torch.from_numpy(Batch.packed(episodes.drawn(), episodes, settings)).to(device)
    last_loss = torch.zeros((), device=device)

    def step() -> None:
        loss = dense.loss(Batch.unpacked(whole, settings))
        optimizer.zero_grad(set_to_none=not on_gpu)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), 1.0, foreach=True)
        optimizer.step()
        last_loss.copy_(loss.detach())

    try:
        run = captured(step) if on_gpu else step
        with _drawn_ahead(episodes, settings) as batches:
            for number, drawn in enumerate(itertools.islice(batches, settings.steps)):
                rate.fill_(learning_rate_at(number, settings))
                whole.copy_(drawn)
                run()
                if report is not None:
                    report(number + 1, partial("loss {:.2f}".format, last_loss))
    except torch.cuda.OutOfMemoryError:
        questions = f"{settings.batch} questions over {graph.num_entities} entities"
        raise InputError(f"{questions} per step do not fit on the GPU; ask fewer, or train on the CPU") from None
    return network.requires_grad_(False).eval()


def captured(step: Callable[[], None]) -> Callable[[], None]:
    """A step as a CUDA graph; the rate is 0 meanwhile, so that the steps that warm it up change nothing."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


@contextmanager
def _drawn_ahead(episodes: Episodes, settings: NetworkSettings) -> Iterator[Iterator[Tensor]]:
    """Batches, drawn in another thread."""
    ready: queue.Queue[Tensor | BaseException] = queue.Queue(AHEAD)
    is_over = threading.Event()

    def put(drawn: Tensor | BaseException) -> None:
        while not is_over.is_set():
            try:
                ready.put(drawn, timeout=1)
                return
            except queue.Full:
                continue

    def draw() -> None:
        try:
            while not is_over.is_set():
                put(torch.from_numpy(Batch.packed(episodes.drawn(), episodes, settings)))
        except BaseException as error:
            put(error)

    def taken() -> Iterator[Tensor]:
        while True:
            drawn = ready.get()
            if isinstance(drawn, BaseException):
                raise drawn
            yield drawn

    thread = threading.Thread(target=draw, daemon=True)
    thread.start()
    try:
        yield taken()
    finally:
        is_over.set()
        thread.join()
