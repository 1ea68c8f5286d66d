"""What the training triples say of new vectors before any is made: how far candidates are off, and where entities lie.

A directed relation l is a relation and a side: 2r where the entity that is spoken of (the owner) is the head, 2r + 1
where it is the tail. Over the training triples of l, with the owner's trained vector v and the candidate c that the
triple determines for it, and m₀ and v₀, the mean and variance of all entity vectors, for each coordinate on its own:

    s² = (Σ (v - c)² + k v₀) / (n + k)      m = (Σ v + k m₀) / (n + k)      t² = (Σ (v - m)² + k v₀) / (n + k)

A relation without a training triple has v₀, m₀ and v₀. A newcomer with the candidates cᵢ over lᵢ, and a prior of
strength λ, then has

    P = Σ 1/s²ᵢ + λ mean 1/t²ᵢ,        e = (Σ cᵢ/s²ᵢ + λ mean mᵢ/t²ᵢ) / P

and 1/P is how uncertain that is. Each triple is a summand of its own: one that comes or goes is added or taken away.
The prior counts once, however many triples there are: what they say outweighs it in the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from ookg.graph.index import GraphIndex
from ookg.kernels.threads import one_torch_thread
from ookg.models.embedding import Embedding
from ookg.newcomers.estimator import candidates, candidates_of
from ookg.newcomers.support import Support
from ookg.types import Array, BoolArray, FloatArray, IntArray

STRENGTH = 10  # k: a relation with this many triples is half its own and half all entities'
MOST_ROWS = 200_000  # of triples, and of entities, that are looked at; of more, every so-manyth
# A variance is at least this share of the typical one: what never varies would outweigh all else.
LEAST_SHARE = 1e-6
# How many numbers the candidates of one chunk may hold: small enough for a processor's cache when training triples are
# passed over, and bounded whatever the number of newcomers.
RESIDUAL_NUMBERS = 1 << 18
CHUNK_NUMBERS = 1 << 24
TABLES = ("precision", "centre", "centre_precision", "variance")


@dataclass(frozen=True, eq=False)
class Estimates:
    """New vectors, (newcomers, entity_width), and how certain each coordinate is: P, (newcomers, entity_width)."""

    vectors: Tensor
    precision: Tensor


@dataclass(frozen=True, eq=False)
class Residuals:
    """How far candidates are off, and where their owners lie, by directed relation.

    Variances are in a unit, the mean v₀ over the coordinates, so that the scale of the vectors does not matter.

    precision: (2·relations + 1, entity_width) 1/s²; the last row is for relations that no training triple has
    centre, centre_precision: the same shape; m and 1/t²
    variance: (entity_width,) v₀
    weight: (relations + 1,) one number for each relation: the mean of 1/s²
    unit: the mean v₀
    """

    precision: Tensor
    centre: Tensor
    centre_precision: Tensor
    variance: Tensor
    weight: FloatArray
    unit: float

    @classmethod
    def of(cls, embedding: Embedding, triples: IntArray | GraphIndex) -> Residuals:
        """Those of training triples, (triples, 3), or of their index, which is read only where it is needed.

        The same bits from either, unless there are so many that a sample counts.
        """
        owned = Owned.of_index(triples) if isinstance(triples, GraphIndex) else Owned.of(triples)
        return cls._counted(embedding, owned)

    @classmethod
    @one_torch_thread()
    def _counted(cls, embedding: Embedding, owned: Owned) -> Residuals:
        entities, device = embedding.entities, embedding.device
        mean, variance = _moments(entities[:: -(-embedding.num_entities // MOST_ROWS)])
        typical = float(variance.mean())
        typical = typical if 0 < typical < float("inf") else 1.0
        least = LEAST_SHARE * typical
        variance = variance.clamp(min=least)
        off, total, square = _sums(embedding, owned)
        count = np.bincount(owned.directed, minlength=2 * embedding.num_relations + 1)[:, None]
        number = torch.from_numpy(count).to(device)
        size = number + STRENGTH
        residual = (off + STRENGTH * variance) / size
        centre = (total + STRENGTH * mean) / size
        around = (square - 2 * centre * total + number * centre.square()).clamp(min=0)
        extent = (around + STRENGTH * variance) / size
        precision = typical / residual.clamp(min=least)
        # A scalar for both directions: they differ little, and newcomers tied together need the same seen from either.
        sides = precision.mean(dim=1)
        weight = torch.cat([sides[:-1].view(-1, 2).mean(dim=1), sides[-1:]])
        kind = embedding.dtype
        held = typical / extent.clamp(min=least)
        tables = precision.to(kind), centre.to(kind), held.to(kind), (variance / typical).to(kind)
        return cls(*tables, weight.cpu().numpy(), typical)

    def to_arrays(self) -> dict[str, Array]:
        """All of it, to be kept; on a CPU."""
        tables = {name: getattr(self, name).numpy() for name in TABLES}
        return tables | {"weight": self.weight, "unit": np.array([self.unit])}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array]) -> Residuals:
        """What `to_arrays` gave."""
        tables = {name: torch.from_numpy(arrays[name]) for name in TABLES}
        return cls(**tables, weight=arrays["weight"], unit=float(arrays["unit"][0]))

    def rows(self, relation: IntArray, is_head: BoolArray) -> IntArray:
        """The rows of directed relations in the tables; relations from the trained ones on are new."""
        directed: IntArray = np.minimum(2 * relation + ~is_head, len(self.precision) - 1)
        return directed

    def weights(self, relation: IntArray) -> FloatArray:
        """The weights of some relations, trained or new."""
        weights: FloatArray = self.weight[np.minimum(relation, len(self.weight) - 1)]
        return weights

    def estimates(
        self, embedding: Embedding, support: Support, rows: IntArray, place: IntArray, size: int, prior: float
    ) -> Estimates:
        """The estimate of each of `size` groups; NaN and a precision of 0 for a group without rows.

        rows: rows of the support; place: (rows,) their groups, ascending; prior: λ
        """
        compiled = _compiled(embedding)
        if compiled is None:
            sums = self.reference_sums(embedding, support, rows, place, size, prior)
            sums[0] /= sums[1]
        else:
            tables = embedding.entities.numpy(), embedding.relations.numpy()
            picked = rows, self.rows(support.relation[rows], support.is_head[rows]), place
            typical = self.precision.numpy(), self.centre.numpy(), self.centre_precision.numpy()
            sums = torch.from_numpy(
                compiled.estimates(embedding.geometry, tables, support.links, picked, typical, prior, size)
            )
        return Estimates(sums[0], sums[1])

    def reference_sums(
        self, embedding: Embedding, support: Support, rows: IntArray, place: IntArray, size: int, prior: float
    ) -> Tensor:
        """e·P and P of each group, (2, size, entity_width), in plain PyTorch."""
        table, device = embedding.entities, embedding.device
        sums = torch.zeros(2, size, table.shape[1], dtype=embedding.dtype, device=device)
        step, sizes = max(1, CHUNK_NUMBERS // table.shape[1]), np.bincount(place, minlength=size)
        for start in range(0, len(rows), step):
            chunk = rows[start : start + step]
            group = torch.from_numpy(place[start : start + step]).to(device)
            directed = torch.from_numpy(self.rows(support.relation[chunk], support.is_head[chunk])).to(device)
            precision = self.precision[directed]
            sums[0].index_add_(0, group, candidates(embedding, support, chunk) * precision)
            sums[1].index_add_(0, group, precision)
            if prior > 0:
                share = torch.from_numpy(prior / sizes[place[start : start + step]]).to(sums)
                held = share[:, None] * self.centre_precision[directed]
                sums[0].index_add_(0, group, self.centre[directed] * held)
                sums[1].index_add_(0, group, held)
        return sums


def _compiled(embedding: Embedding) -> ModuleType | None:
    """The compiled loops that can take the place of plain PyTorch, if there are any."""
    table = embedding.entities
    if table.is_cuda or embedding.dtype != torch.float32 or embedding.geometry.kernel is None:
        return None
    try:
        from ookg.kernels import cpu_prior
    except ImportError:
        return None
    return cpu_prior


@dataclass(frozen=True, eq=False)
class Owned:
    """Triples as seen from each of their ends: by directed relation, then by owner, then by the other end.

    A triple of an entity with itself says nothing about where it is, and is not here.
    owner, neighbor, directed: (2·triples,)
    """

    owner: IntArray
    neighbor: IntArray
    directed: IntArray

    @classmethod
    def of(cls, triples: IntArray) -> Owned:
        """Of triples, (triples, 3), or of an even sample of them."""
        head, relation, tail = triples[_sample(len(triples), MOST_ROWS)].T
        directed = np.concatenate([2 * relation, 2 * relation + 1])
        return cls._sorted(np.concatenate([head, tail]), np.concatenate([tail, head]), directed)

    @classmethod
    def of_index(cls, index: GraphIndex) -> Owned:
        """Of triples by entity, or of an even sample of what each end sees."""
        rows = _sample(len(index.link), 2 * MOST_ROWS)
        side, relation = np.divmod(index.links(rows).astype(np.int64), max(1, index.num_relations))
        return cls._sorted(index.owners(rows), index.others(rows).astype(np.int64), 2 * relation + side)

    @classmethod
    def _sorted(cls, owner: IntArray, neighbor: IntArray, directed: IntArray) -> Owned:
        order = np.lexsort((neighbor, owner, directed))
        order = order[(owner != neighbor)[order]]
        return cls(owner[order], neighbor[order], directed[order])


def _moments(table: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and variance of each column, in double precision; in chunks, as the table may be large."""
    parts = torch.split(table, max(1, RESIDUAL_NUMBERS // table.shape[1]))
    mean = sum((part.double().sum(dim=0) for part in parts), torch.zeros(table.shape[1], device=table.device).double())
    mean /= len(table)
    square = sum(((part.double() - mean).square().sum(dim=0) for part in parts), torch.zeros_like(mean))
    return mean, square / len(table)


def _sums(embedding: Embedding, owned: Owned) -> Tensor:
    """Σ (v - c)², Σ v and Σ v² of each directed relation and a last one, (3, 2·relations + 1, entity_width), double."""
    compiled = _compiled(embedding)
    if compiled is None:
        return reference_residual_sums(embedding, owned)
    tables, size = (embedding.entities.numpy(), embedding.relations.numpy()), 2 * embedding.num_relations + 1
    return torch.from_numpy(
        compiled.residual_sums(embedding.geometry, tables, owned.owner, owned.neighbor, owned.directed, size)
    )


def reference_residual_sums(embedding: Embedding, owned: Owned) -> Tensor:
    """The same in plain PyTorch."""
    device, width = embedding.device, embedding.geometry.entity_width
    totals = torch.zeros(3, 2 * embedding.num_relations + 1, width, dtype=torch.float64, device=device)
    step = max(1, RESIDUAL_NUMBERS // width)
    for start in range(0, len(owned.directed), step):
        part = slice(start, start + step)
        neighbor, directed = owned.neighbor[part], owned.directed[part]
        own = embedding.rows(torch.from_numpy(owned.owner[part]).to(device))
        off = own - candidates_of(embedding, (neighbor, directed // 2, directed % 2 == 0))
        reached, lengths = (torch.from_numpy(run).to(device) for run in np.unique(directed, return_counts=True))
        # Sums by segment: adding by index would race on a GPU, and the last bits be chance.
        for total, terms in zip(totals, (off.square_(), own, own.square()), strict=True):
            total[reached] += torch.segment_reduce(terms.double(), "sum", lengths=lengths, axis=0, unsafe=True)
    return totals


def _sample(size: int, most: int) -> IntArray:
    """All places below `size`, or `most` of them, evenly spread."""
    return np.arange(size) if size <= most else np.arange(most) * size // most
