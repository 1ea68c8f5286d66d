"""Aggregators: one vector from the transitions of an entity's neighbours."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from ookg.research.baselines.neighbors import Neighbors
from ookg.research.baselines.rows import rows

OPEN = 2.0  # the bias of a gate that is open: 0.88 of what comes passes
MASKED = -1e9  # the logit of padding; finite, so that an entity without neighbours gives zeros and not NaN


class Aggregator(nn.Module, ABC):
    """Joins (entities, K, d) transitions into (entities, d) vectors.

    query_aware: whether the vector depends on the relation that is asked for
    fuses: whether `join_projections` is there
    """

    query_aware = False
    fuses = False

    def keys(self, transitions: Tensor) -> Tensor:
        """What of the work does not depend on the query."""
        return transitions

    @abstractmethod
    def join(self, transitions: Tensor, keys: Tensor, neighbors: Neighbors, query: Tensor) -> Tensor:
        """(entities, d); keys: of these transitions; query: (entities,) directed relations."""

    def forward(self, transitions: Tensor, neighbors: Neighbors, query: Tensor) -> Tensor:
        """(entities, d)."""
        return self.join(transitions, self.keys(transitions), neighbors, query)

    def join_projections(self, entities: Tensor, normals: Tensor, neighbors: Neighbors, query: Tensor) -> Tensor:
        """The same from the tables of `projections`, in one kernel on a GPU."""
        raise NotImplementedError


class Mean(Aggregator):
    """The mean of the transitions."""

    fuses = True

    def join(self, transitions: Tensor, keys: Tensor, neighbors: Neighbors, query: Tensor) -> Tensor:
        """The mean over what is not padding."""
        return weighted_sum(neighbors.mean_weights, transitions)

    def join_projections(self, entities: Tensor, normals: Tensor, neighbors: Neighbors, query: Tensor) -> Tensor:
        """The mean of the projections."""
        from ookg.research.kernels.gpu_neighbors import averaged

        return averaged((neighbors.entity, neighbors.relation, neighbors.count), entities, normals)


class Lstm(Aggregator):
    """An LSTM over the transitions in the given order, the mean of its outputs."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(dim, dim, batch_first=True)

    def join(self, transitions: Tensor, keys: Tensor, neighbors: Neighbors, query: Tensor) -> Tensor:
        """Padding comes last and so changes no output that counts."""
        outputs, _ = self.lstm(transitions)
        return weighted_sum(neighbors.mean_weights, outputs)

    def join_by_kernel(self, transitions: Tensor, neighbors: Neighbors) -> Tensor:
        """The same, all steps in one kernel on a GPU."""
        from ookg.research.kernels.gpu_lstm import lstm_outputs

        return weighted_sum(neighbors.mean_weights, lstm_outputs(self.lstm, transitions))

    def remember(self) -> None:
        """Set the forget gate's bias to 1, so that a sequence is not forgotten before anything is learned."""
        biases = dict(self.lstm.named_parameters())["bias_ih_l0"]  # of input, forget, cell and output gate
        nn.init.ones_(biases.chunk(4)[1])

    def add_up(self) -> None:
        """Make it a sum that fades: cells take inputs as they are, and all gates are open, but for a little, always."""
        values = dict(self.lstm.named_parameters())
        for name in ("weight_ih_l0", "weight_hh_l0"):
            nn.init.zeros_(values[name])
        nn.init.eye_(values["weight_ih_l0"].chunk(4)[2])
        nn.init.constant_(values["bias_ih_l0"], OPEN)
        nn.init.zeros_(values["bias_ih_l0"].chunk(4)[2])


class LogicAttention(Aggregator):
    """LAN: Σ (logic + network) · transition, both depending on the query q.

    network = softmax over neighbours of v·tanh(W [z_q; transition]), W a matrix of 2d by 2d
    logic = P(r implies q) / (1 + max over the entity's other relations r' of P(r' implies r))
    """

    query_aware = True
    fuses = True

    implies: Tensor

    def __init__(self, dim: int, implies: Tensor) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.empty(len(implies), dim))  # z
        self.of_query = nn.Linear(dim, 2 * dim, bias=False)  # W, its part for z_q
        self.of_transition = nn.Linear(dim, 2 * dim, bias=False)  # W, its part for the transition
        self.readout = nn.Parameter(torch.empty(2 * dim, 1))  # v
        self.register_buffer("implies", implies, persistent=False)

    def keys(self, transitions: Tensor) -> Tensor:
        """The part of W [z_q; transition] that comes from the transition."""
        found: Tensor = self.of_transition(transitions)
        return found

    def join(self, transitions: Tensor, keys: Tensor, neighbors: Neighbors, query: Tensor) -> Tensor:
        """Logic and network weights are added, as they are."""
        asked = self.of_query(rows(self.queries, query))  # (entities, 2d)
        network = attention((keys + asked[:, None]).tanh_() @ self.readout, neighbors.real)
        return weighted_sum(network + self.logic(neighbors, query), transitions)

    def join_projections(self, entities: Tensor, normals: Tensor, neighbors: Neighbors, query: Tensor) -> Tensor:
        """W is applied to the tables, as a projection is a sum of their rows."""
        from ookg.research.kernels.gpu_neighbors import Question, attended

        assert neighbors.discount is not None  # LAN's table has them
        return attended(
            (neighbors.entity, neighbors.relation, neighbors.count),
            Question(query, self.implies, neighbors.discount),
            (entities, normals),
            (self.of_transition(entities), self.of_transition(normals)),
            self.of_query(rows(self.queries, query)),
            self.readout.squeeze(1),
        )

    def logic(self, neighbors: Neighbors, query: Tensor) -> Tensor:
        """(entities, K) the weights by logic; 0 in padding."""
        assert neighbors.discount is not None  # LAN's table has them
        return self.implies[neighbors.relation, query[:, None]] / neighbors.discount * neighbors.real


class Attention(Aggregator):
    """Σ softmax over neighbours of v·tanh(U transition + u) · transition."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.of_transition = nn.Linear(dim, dim)  # U
        self.readout = nn.Parameter(torch.empty(dim, 1))  # v

    def join(self, transitions: Tensor, keys: Tensor, neighbors: Neighbors, query: Tensor) -> Tensor:
        """The weights do not depend on the query."""
        weights = attention(torch.tanh(self.of_transition(transitions)) @ self.readout, neighbors.real)
        return weighted_sum(weights, transitions)


def attention(logits: Tensor, real: Tensor) -> Tensor:
    """Softmax over what is not padding, (entities, K) from (entities, K, 1); zeros where there is nothing else."""
    return torch.softmax(logits.squeeze(2).masked_fill(~real, MASKED), dim=1) * real


def weighted_sum(weights: Tensor, transitions: Tensor) -> Tensor:
    """(entities, d) from (entities, K) weights and (entities, K, d) transitions."""
    return torch.bmm(weights[:, None], transitions).squeeze(1)
