"""A baseline's network: vectors of entities from their neighbours, and the distance of a triple."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec

import torch
from torch import Tensor, nn
from torch.nn import functional

from ookg.datasets.encoded import EncodedDataset
from ookg.kernels.randomness import stream
from ookg.research.baselines.aggregators import Aggregator, Attention, LogicAttention, Lstm, Mean
from ookg.research.baselines.neighbors import Neighbors, NeighborTable, implication
from ookg.research.baselines.rows import rows
from ookg.research.baselines.settings import BaselineSettings
from ookg.research.baselines.transitions import Convolution, Dense, Projection, RelationLinear, TransitionLayer

LAYERS: dict[str, type[Projection | RelationLinear | Convolution | Dense]] = {
    "projection": Projection,
    "linear": RelationLinear,
    "convolution": Convolution,
    "dense": Dense,
}
INITIAL = 1  # the stream that initial values are drawn from


class Encoder(nn.Module):
    """Input vectors of the known entities, a transition, an aggregator, and the relations of the score.

    Directed relations: r as seen from a head, R + r as seen from a tail.
    uses_kernels: whether kernels are used where there are some, on a GPU with Triton; if not, it computes the same step
        by step
    """

    def __init__(self, dataset: EncodedDataset, settings: BaselineSettings, device: torch.device | str = "cpu") -> None:
        super().__init__()
        self.settings = settings
        self.num_known, self.num_relations = dataset.num_known, dataset.num_trained
        dim, num_directed = settings.dim, 2 * dataset.num_trained
        self.table = NeighborTable.of(dataset, settings.max_neighbors).to(device)
        self.aggregator: Aggregator = Mean()  # of GNN-MEAN and ConvLayer
        if settings.method == "LAN":
            implies = implication(dataset, settings.own_relation)
            if settings.discounts == "all":
                self.table = self.table.with_whole_discounts(implies, dataset)
            else:
                self.table = self.table.with_discounts(implies.to(device))
            self.aggregator = LogicAttention(dim, implies)
        elif settings.method == "GNN-LSTM":
            self.aggregator = Lstm(dim)
        elif settings.method == "FCLEntity":
            self.aggregator = Attention(dim)
        self.entities = nn.Parameter(torch.empty(dataset.num_known, dim))
        self.relations = nn.Parameter(torch.empty(dataset.num_trained, dim))
        self.padding = nn.Parameter(torch.empty(dim)) if settings.padding == "learned" else None
        self.transition: TransitionLayer = LAYERS[settings.transition](dim, num_directed)
        self._initialize()
        self.to(device)
        self.uses_kernels = self.device.type == "cuda" and find_spec("triton") is not None

    def _initialize(self) -> None:
        """Xavier's uniform values, zeros for biases, for an LSTM what `lstm_start` says; the same everywhere."""
        generator = torch.Generator().manual_seed(stream(self.settings.seed, INITIAL) >> 1)
        for name, values in self.named_parameters():
            if name in ("transition.scale", "transition.shift"):
                continue
            if name == "padding":
                bound = (6 / sum(self.entities.shape)) ** 0.5  # that of the entities
                nn.init.uniform_(values, -bound, bound, generator=generator)
            elif values.ndim == 1:
                nn.init.zeros_(values)
            elif name == "transition.matrices":
                for matrix in values.unbind():
                    nn.init.xavier_uniform_(matrix, generator=generator)
            else:
                nn.init.xavier_uniform_(values, generator=generator)
        if isinstance(self.aggregator, Lstm):
            if self.settings.lstm_start == "sum":
                self.aggregator.add_up()
            else:
                self.aggregator.remember()

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.entities.device

    @property
    def query_aware(self) -> bool:
        """Whether vectors depend on the relation that is asked for."""
        return self.aggregator.query_aware

    @property
    def joins_by_kernel(self) -> bool:
        """Whether vectors come from one kernel: projections without padding, joined by an aggregator that can do so."""
        fuses = self.aggregator.fuses and isinstance(self.transition, Projection)
        return self.uses_kernels and fuses and self.padding is None

    @property
    def reads_by_kernel(self) -> bool:
        """Whether an LSTM's steps are one kernel, where its weights fit a program."""
        if not self.uses_kernels:
            return False
        from ookg.research.kernels.gpu_lstm import fits

        return fits(self.settings.dim, self.device)

    @property
    def ranks_by_kernel(self) -> bool:
        """Whether losses come from one kernel."""
        settings = self.settings
        return self.uses_kernels and (settings.distance, settings.objective) == ("l1-normalized", "ranking")

    def forward(self, neighbors: Neighbors, query: Tensor) -> Tensor:
        """(entities, d) vectors of entities with these neighbours; query: (entities,) directed relations."""
        if self.joins_by_kernel:
            assert isinstance(self.transition, Projection)
            return self.aggregator.join_projections(self.entities, self.transition.unit_normals(), neighbors, query)
        transitions: Tensor = self.transition(self.entities, neighbors)
        if self.padding is not None:
            transitions = torch.where(neighbors.real[:, :, None], transitions, self.padding)
            neighbors = replace(neighbors, real=torch.ones_like(neighbors.real))
        if isinstance(self.aggregator, Lstm) and self.reads_by_kernel:
            return self.aggregator.join_by_kernel(transitions, neighbors)
        found: Tensor = self.aggregator(transitions, neighbors, query)
        return found

    def by_query(self, neighbors: Neighbors) -> Callable[[int], Tensor]:
        """A function from a directed relation to the vectors of entities with these neighbours, asked from it.

        For query-aware aggregators. What does not depend on the question is done once, but by the kernel, where doing
        it again is faster.
        """
        assert self.query_aware
        size, device = len(neighbors.entity), self.device
        if self.joins_by_kernel:
            return lambda query: self(neighbors, torch.full((size,), query, device=device))
        transitions = self.transition(self.entities, neighbors)
        keys = self.aggregator.keys(transitions)
        return lambda query: self.aggregator.join(
            transitions, keys, neighbors, torch.full((size,), query, device=device)
        )

    def raw(self, entities: Tensor) -> Tensor:
        """The input vectors of known entities."""
        return rows(self.entities, entities)

    def relation_vectors(self, relations: Tensor) -> Tensor:
        """The vectors of relations in the score, as the distance adds them: tanh(r) for "squared", else scaled."""
        vectors = rows(self.relations, relations)
        return torch.tanh(vectors) if self.settings.distance == "squared" else self.scaled(vectors)

    def scaled(self, vectors: Tensor) -> Tensor:
        """Vectors as the distance compares them: at length 1 for "l1-normalized"."""
        return functional.normalize(vectors, dim=-1) if self.settings.distance == "l1-normalized" else vectors

    def distance(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """(triples,) of (triples, d) vectors: scaled ends, and relations as `relation_vectors` gives them."""
        gap = head + relation - tail
        return gap.square().sum(dim=-1) if self.settings.distance == "squared" else gap.abs().sum(dim=-1)

    def distances(self, points: Tensor, candidates: Tensor) -> Tensor:
        """(points, candidates) of scaled vectors: a point is where the other end of a triple should be."""
        if self.settings.distance == "squared":
            return torch.cdist(points, candidates, compute_mode="donot_use_mm_for_euclid_dist").square()
        return torch.cdist(points, candidates, p=1.0)
