"""Transitions: what a neighbour e over a directed relation r says about an entity, before the aggregation."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional

from ookg.research.baselines.neighbors import Neighbors
from ookg.research.baselines.rows import projections, rearranged, rows

CHANNELS = 8
KERNEL = 3
# Neighbours of one relation are multiplied in tiles of so many rows.
TILE = 256
DECAY = 0.9  # of the running means and variances
EPSILON = 1e-5


class TransitionLayer(nn.Module, ABC):
    """A vector for each neighbour."""

    @abstractmethod
    def forward(self, entities: Tensor, neighbors: Neighbors) -> Tensor:
        """(entities, K, d) given the table of input vectors, (known, d); anything finite in padding."""


class Projection(TransitionLayer):
    """e - (w·e) w, w the vector of the directed relation at length 1."""

    def __init__(self, dim: int, num_directed: int) -> None:
        super().__init__()
        self.normals = nn.Parameter(torch.empty(num_directed, dim))

    def forward(self, entities: Tensor, neighbors: Neighbors) -> Tensor:
        """The projections, the vectors of the relations scaled once for all neighbours."""
        return projections(entities, self.unit_normals(), neighbors.entity, neighbors.relation)

    def unit_normals(self) -> Tensor:
        """(2R, d) the vectors of the directed relations at length 1."""
        return functional.normalize(self.normals, dim=1)


class RelationLinear(TransitionLayer):
    """ReLU(BN_r(A_r e)): a matrix and a batch normalisation for each directed relation.

    There is no bias: the batch normalisation would take it away. Its means and variances are those of the relation's
    neighbours in the batch, in evaluation running ones.

    Neighbours are sorted by relation and laid out in tiles that hold one relation each. The number of tiles depends
    on nothing but the shapes, so that the step can be captured.
    """

    running_mean: Tensor
    running_variance: Tensor

    def __init__(self, dim: int, num_directed: int) -> None:
        super().__init__()
        self.matrices = nn.Parameter(torch.empty(num_directed, dim, dim))
        self.scale = nn.Parameter(torch.ones(num_directed, dim))
        self.shift = nn.Parameter(torch.zeros(num_directed, dim))
        self.register_buffer("running_mean", torch.zeros(num_directed, dim))
        self.register_buffer("running_variance", torch.ones(num_directed, dim))

    def forward(self, entities: Tensor, neighbors: Neighbors) -> Tensor:
        """The transformed neighbours, each by its relation's own layer."""
        num_directed, dim = self.scale.shape
        layout = TileLayout(neighbors, num_directed)
        filled = layout.filled[:, None]
        inputs = rows(entities, neighbors.entity.reshape(-1)[layout.slot_of_row]) * filled  # (tiles · TILE, d)
        matrices = rows(self.matrices, layout.relation)  # (tiles, d, d)
        outputs = torch.bmm(inputs.view(-1, TILE, dim), matrices)  # (tiles, TILE, d); 0 in rows that are not filled
        scale, shift = self._normalization(outputs, layout)
        outputs = torch.relu(torch.addcmul(shift[:, None], outputs, scale[:, None]))
        flat = rearranged(outputs.view(-1, dim), layout.row_of_slot, layout.slot_of_row, layout.filled)
        return flat.view(*neighbors.entity.shape, dim)

    def _normalization(self, outputs: Tensor, layout: TileLayout) -> tuple[Tensor, Tensor]:
        """Factor and summand of each tile's batch normalisation, (tiles, d)."""
        if self.training:
            count = layout.count.clamp_min(1)[:, None]
            zeros = torch.zeros_like(self.scale)
            mean = zeros.index_add(0, layout.relation, outputs.sum(dim=1)) / count
            square = zeros.index_add(0, layout.relation, outputs.square().sum(dim=1)) / count
            variance = (square - mean.square()).clamp_min(0.0)
            self._remember(mean.detach(), variance.detach(), layout.count)
        else:
            mean, variance = self.running_mean, self.running_variance
        factor = self.scale * torch.rsqrt(variance + EPSILON)
        return rows(factor, layout.relation), rows(self.shift - mean * factor, layout.relation)

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        """Move the running values where the batch has at least two neighbours of the relation."""
        share = torch.where(count > 1, 1.0 - DECAY, 0.0)[:, None]
        self.running_mean.lerp_(mean, share.expand_as(mean))
        self.running_variance.lerp_(variance, share.expand_as(variance))


class TileLayout:
    """Neighbours sorted by relation, each relation's from a new tile on.

    relation: (tiles,) of each tile; count: (2R,) real neighbours of each relation
    slot_of_row: (tiles · TILE,) the neighbour that a row holds, counted through the padded table; filled: whether it
        holds a real one; row_of_slot: (entities · K,) the inverse
    """

    def __init__(self, neighbors: Neighbors, num_directed: int) -> None:
        device = neighbors.relation.device
        size = neighbors.relation.numel()
        num_tiles = -(-size // TILE) + num_directed + 1  # each of the groups fills its last tile at least partly
        # Padding is a group of its own, after all relations.
        groups = torch.where(neighbors.real, neighbors.relation, num_directed).reshape(-1).to(torch.int32)
        ordered, slots = torch.sort(groups, stable=True)
        bounds = torch.searchsorted(ordered, torch.arange(num_directed + 2, device=device, dtype=torch.int32))
        counts = bounds.diff()  # (2R + 1,)
        tiles = (counts + TILE - 1) // TILE
        tile_ends = tiles.cumsum(dim=0)
        first_rows = (tile_ends - tiles) * TILE
        group = ordered.to(torch.int64)
        place = first_rows[group] + torch.arange(size, device=device) - bounds[group]
        self.count = counts[:num_directed]
        numbers = torch.arange(num_tiles, device=device)
        self.relation = torch.searchsorted(tile_ends, numbers, right=True).clamp_max(num_directed - 1)
        self.row_of_slot = torch.empty(size, dtype=torch.int64, device=device).scatter_(0, slots, place)
        spread = torch.arange(num_tiles * TILE, device=device) % size
        self.slot_of_row = spread.scatter_(0, place, slots)
        occupied = torch.zeros(num_tiles * TILE, device=device)
        self.filled = occupied.scatter_(0, place, (group < num_directed).to(torch.float32))


class Convolution(TransitionLayer):
    """conv₂(ReLU(conv₁([e; w_r]))): e and the vector of the relation as two channels, through two convolutions.

    A convolution of short vectors with few channels is computed as one product with its banded matrix: libraries are
    slow at so many so small ones.
    """

    shifts: Tensor

    def __init__(self, dim: int, num_directed: int) -> None:
        super().__init__()
        self.relations = nn.Parameter(torch.empty(num_directed, dim))
        self.first = nn.Conv1d(2, CHANNELS, KERNEL, padding=KERNEL // 2)
        self.second = nn.Conv1d(CHANNELS, 1, KERNEL, padding=KERNEL // 2)
        # (KERNEL, d, d) 1 where tap k takes coordinate i of the input to coordinate j of the output: i = j + k - 1
        offsets = [KERNEL // 2 - tap for tap in range(KERNEL)]
        diagonals = [torch.diag(torch.ones(max(0, dim - abs(offset))), offset)[:dim, :dim] for offset in offsets]
        self.register_buffer("shifts", torch.stack(diagonals), persistent=False)

    def forward(self, entities: Tensor, neighbors: Neighbors) -> Tensor:
        """The convolved pairs."""
        pairs = [rows(entities, neighbors.entity), rows(self.relations, neighbors.relation)]
        stacked = torch.cat(pairs, dim=2).flatten(0, 1)  # (entities · K, 2 · d)
        hidden = torch.relu(self.convolved(stacked, self.first))  # (entities · K, CHANNELS · d)
        return self.convolved(hidden, self.second).view(*neighbors.entity.shape, -1)

    def convolved(self, inputs: Tensor, layer: nn.Conv1d) -> Tensor:
        """(rows, out · d) of (rows, in · d): the layer's convolution of channels that lie one after the other."""
        dim = self.shifts.shape[1]
        matrix = torch.einsum("ock,kij->cioj", layer.weight, self.shifts)  # (in, d, out, d)
        matrix = matrix.reshape(layer.in_channels * dim, layer.out_channels * dim)
        assert layer.bias is not None  # as it was made
        return torch.addmm(layer.bias[:, None].expand(-1, dim).reshape(-1), inputs, matrix)


class Dense(TransitionLayer):
    """B ReLU(A [e; w_r] + a) + b: two fully connected layers on e and the vector of the relation.

    A [e; w_r] is the sum of a term of e and one of r: the first layer works on the tables, not on each neighbour.
    """

    def __init__(self, dim: int, num_directed: int) -> None:
        super().__init__()
        self.relations = nn.Parameter(torch.empty(num_directed, dim))
        self.of_entity = nn.Linear(dim, dim)
        self.of_relation = nn.Linear(dim, dim, bias=False)
        self.second = nn.Linear(dim, dim)

    def forward(self, entities: Tensor, neighbors: Neighbors) -> Tensor:
        """The output of the second layer."""
        hidden = rows(self.of_entity(entities), neighbors.entity)
        hidden = torch.relu(hidden + rows(self.of_relation(self.relations), neighbors.relation))
        found: Tensor = self.second(hidden)
        return found
