"""Who is next to whom: a padded table of each entity's first neighbours, and LAN's logic weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ookg.datasets.encoded import EncodedDataset
from ookg.errors import InputError
from ookg.graph.statistics import directed_cooccurrence
from ookg.research.baselines.settings import OwnRelation
from ookg.types import IntArray

# How many pairs of an entity's relations are compared at once.
PAIRS_AT_ONCE = 1 << 24
# LAN's table of which relation implies which is dense: the square of twice their number.
MOST_IMPLYING = 4096


@dataclass(frozen=True, eq=False)
class Neighbors:
    """The neighbours of some entities, the real ones first.

    relation, entity: (entities, K) directed relation and id of each neighbour; anything within range in padding
    real: (entities, K) what is not padding; discount: (entities, K) LAN's 1 + max P(r' implies r), or None
    """

    relation: Tensor
    entity: Tensor
    real: Tensor
    discount: Tensor | None = None

    @property
    def count(self) -> Tensor:
        """(entities,) how many are not padding."""
        return self.real.sum(dim=1)

    @property
    def mean_weights(self) -> Tensor:
        """(entities, K) one over the number of neighbours; 0 in padding."""
        real = self.real.to(torch.float32)
        return real / real.sum(dim=1, keepdim=True).clamp_min(1.0)


@dataclass(frozen=True, eq=False)
class NeighborTable:
    """Neighbours of all entities, known and new.

    Neighbour (r, t) of h stands for a triple (h, r, t), neighbour (R + r, h) of t too: 2R directed relations. Known
    entities have those of train, new ones those of aux that tie them to a known entity over a trained relation; of
    each the first K in the order of the file. Self-loops are left out: no entity is its own neighbour.

    Padding points to changing rows, not to one: it never counts, but its zero gradients are added like all others,
    and on a GPU additions to one row wait for each other.

    relation, entity: (entities, K); count: (entities,); discount: (entities, K) or None
    """

    relation: Tensor
    entity: Tensor
    count: Tensor
    discount: Tensor | None = None

    @classmethod
    def of(cls, dataset: EncodedDataset, max_neighbors: int) -> NeighborTable:
        """The table of a data set."""
        return cls.build(_edges(dataset), dataset.num_entities, dataset.num_known, dataset.num_trained, max_neighbors)

    @classmethod
    def build(
        cls, edges: IntArray, num_entities: int, num_known: int, num_relations: int, max_neighbors: int
    ) -> NeighborTable:
        """The table of (owner, directed relation, neighbour) edges, (edges, 3), in their order."""
        edges = edges[np.sort(np.unique(edges, axis=0, return_index=True)[1])]  # distinct, in their order
        edges = edges[np.argsort(edges[:, 0], kind="stable")]
        counts = np.bincount(edges[:, 0], minlength=num_entities)
        place = np.arange(len(edges)) - (np.cumsum(counts) - counts)[edges[:, 0]]  # within the owner's neighbours
        edges, place = edges[place < max_neighbors], place[place < max_neighbors]
        width = max(1, min(max_neighbors, int(counts.max(initial=0))))
        spread = np.arange(num_entities * width).reshape(num_entities, width)
        relation, entity = spread % (2 * num_relations), spread % num_known
        relation[edges[:, 0], place], entity[edges[:, 0], place] = edges[:, 1], edges[:, 2]
        return cls(torch.from_numpy(relation), torch.from_numpy(entity), torch.from_numpy(counts.clip(max=width)))

    @property
    def width(self) -> int:
        """K: the neighbours an entity has room for."""
        return self.relation.shape[1]

    def to(self, device: torch.device | str) -> NeighborTable:
        """The table on another device."""
        discount = None if self.discount is None else self.discount.to(device)
        return NeighborTable(self.relation.to(device), self.entity.to(device), self.count.to(device), discount)

    def with_discounts(self, implies: Tensor) -> NeighborTable:
        """The table with LAN's 1 + max of P(r' implies r) over the owner's other relations r', 1 if there are none.

        Only the neighbours that the table has room for count. implies: (2R, 2R) as `implication` gives it, on the
        device of the table
        """
        discount = torch.empty(self.relation.shape, device=self.relation.device)
        slots = torch.arange(self.width, device=self.relation.device)
        at_once = max(1, PAIRS_AT_ONCE // self.width**2)
        for start in range(0, len(self.relation), at_once):
            relation, count = self.relation[start : start + at_once], self.count[start : start + at_once]
            other, own = relation[:, :, None], relation[:, None, :]
            counts = (slots < count[:, None])[:, :, None] & (other != own)  # (chunk, K, K)
            strongest = torch.where(counts, implies[other, own], 0.0).amax(dim=1)
            discount[start : start + at_once] = 1.0 + strongest
        return NeighborTable(self.relation, self.entity, self.count, discount)

    def with_whole_discounts(self, implies: Tensor, dataset: EncodedDataset) -> NeighborTable:
        """The same over the relations of all neighbours that the data set has, as LAN's code does it."""
        owner, relation = np.unique(_edges(dataset)[:, :2], axis=0).T
        implied = implies.cpu().numpy()
        strongest = np.zeros(len(owner), dtype=np.float32)
        for own in np.split(np.arange(len(owner)), np.flatnonzero(np.diff(owner)) + 1):  # one owner's relations
            shares = implied[np.ix_(relation[own], relation[own])]
            np.fill_diagonal(shares, 0.0)
            strongest[own] = shares.max(axis=0, initial=0.0)
        owners = np.arange(len(self.relation))[:, None]
        wanted = owners * len(implied) + self.relation.cpu().numpy()
        place = np.searchsorted(owner * len(implied) + relation, wanted).clip(max=len(owner) - 1)
        discount = torch.from_numpy(1.0 + strongest[place]).to(self.relation.device)  # anything in padding
        return NeighborTable(self.relation, self.entity, self.count, discount)

    def of_entities(self, entities: Tensor) -> Neighbors:
        """The neighbours of some entities, (entities,)."""
        slots = torch.arange(self.width, device=entities.device)
        discount = None if self.discount is None else self.discount[entities]
        real = slots < self.count[entities][:, None]
        return Neighbors(self.relation[entities], self.entity[entities], real, discount)

    def without(self, entities: Tensor, relation: Tensor, neighbor: Tensor) -> Neighbors:
        """The neighbours of some entities, each without one given neighbour if it has it; all (entities,).

        Later neighbours move up by one. The discounts stay those of the whole neighbourhood.
        """
        whole = self.of_entities(entities)
        hidden = (whole.relation == relation[:, None]) & (whole.entity == neighbor[:, None]) & whole.real
        found = hidden.any(dim=1, keepdim=True)
        slots = torch.arange(self.width, device=entities.device)
        passed = hidden.cumsum(dim=1)  # 1 from the hidden slot on
        source = (slots + passed).clamp_max(self.width - 1)
        real = slots < (self.count[entities][:, None] - found.to(torch.int64))
        discount = None if whole.discount is None else whole.discount.gather(1, source)
        return Neighbors(whole.relation.gather(1, source), whole.entity.gather(1, source), real, discount)


def implication(dataset: EncodedDataset, own_relation: OwnRelation = "mean") -> Tensor:
    """(2R, 2R) P(a implies b): the share of the entities having directed relation a that have b, on train.

    own_relation: what P(a implies a) is; "certain": 1 as counted, "mean": the mean over all b of P(a implies b), its
        own counted as 0, so that neighbours over the relation asked for do not outweigh all others
    """
    if dataset.num_trained > MOST_IMPLYING:
        problem = f"LAN compares every relation with every other: {dataset.num_trained:,} are too many"
        raise InputError(f"{problem}; it takes up to {MOST_IMPLYING:,}, choose another baseline")
    together = directed_cooccurrence(dataset.train, dataset.num_known, dataset.num_trained).toarray()
    shares = together / np.maximum(np.diagonal(together), 1)[:, None]
    if own_relation == "mean":
        np.fill_diagonal(shares, 0.0)
        np.fill_diagonal(shares, shares.mean(axis=1))
    return torch.from_numpy(shares).to(torch.float32)


def _edges(dataset: EncodedDataset) -> IntArray:
    """(owner, directed relation, neighbour) of train for known owners and of aux for new ones, in file order."""
    train = dataset.train[dataset.train[:, 0] != dataset.train[:, 2]]
    known_ends = dataset.aux[:, [0, 2]] < dataset.num_known
    usable = (known_ends.sum(axis=1) == 1) & (dataset.aux[:, 1] >= 0) & (dataset.aux[:, 1] < dataset.num_trained)
    aux = dataset.aux[usable]
    triples = np.concatenate([train, aux])
    forward = triples
    backward = triples[:, [2, 1, 0]] + [0, dataset.num_trained, 0]
    edges: IntArray = np.stack([forward, backward], axis=1).reshape(-1, 3)  # both of a triple, then the next triple's
    wanted = edges[:, 2] < dataset.num_known
    wanted &= (edges[:, 0] >= dataset.num_known) | (np.arange(len(edges)) < 2 * len(train))
    return edges[wanted]
