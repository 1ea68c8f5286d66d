"""Does one triple determine its head? The paper's appendix A as something to run.

Under each model D(h, r, t) = 0 is a linear system A h = v in the head h:

    TransE  A = I         v = t - r
    RotatE  A = rotation  v = t
    TransH  A = I - w wᵀ  v = A t - r
    TransR  A = M         v = M t - r

It has a solution exactly if rank(A) = rank([A v]), and at most one exactly if rank(A) is the number of unknowns, the
coordinates of h. The paper asks for the first alone and calls it uniqueness; TransH, and TransR with an M of lower
rank, meet it and have infinitely many solutions.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from ookg.errors import InputError
from ookg.models import RotatE, TransE, TransH, TransR
from ookg.models.geometry import Geometry

STEPS = (-10.0, -1.0, 1.0, 10.0)  # how far the solution is moved

Solutions = Literal["one", "infinitely many", "none"]


@dataclass(frozen=True)
class Determinacy:
    """What a triple says about its head.

    unknowns: coordinates of the head; rank, augmented_rank: of A and of [A v]
    distance: D at the least-squares solution h of A h = v
    moved: D at h + λ n for each λ of `STEPS`, where n is the unit vector that A shortens most
    """

    unknowns: int
    rank: int
    augmented_rank: int
    distance: float
    moved: tuple[float, ...]

    @property
    def exists(self) -> bool:
        """Whether some head fits the triple exactly: rank(A) = rank([A v]), the paper's condition."""
        return self.rank == self.augmented_rank

    @property
    def at_most_one(self) -> bool:
        """Whether no two heads fit equally well: A has full column rank."""
        return self.rank == self.unknowns

    @property
    def solutions(self) -> Solutions:
        """How many heads fit the triple exactly."""
        if not self.exists:
            return "none"
        return "one" if self.at_most_one else "infinitely many"

    def to_dict(self) -> dict[str, Any]:
        """The figures and what follows from them."""
        figures = asdict(self) | {"moved": dict(zip(map(str, STEPS), self.moved, strict=True))}
        return figures | {"exists": self.exists, "at_most_one": self.at_most_one, "solutions": self.solutions}


def determinacy(geometry: Geometry, relation: Tensor, tail: Tensor) -> Determinacy:
    """What (?, r, t) says about its head; relation: (relation_width,), tail: (entity_width,).

    Ranks are those of the numbers at their own precision: what is rounding counts as zero.
    """
    precision = torch.finfo(relation.dtype).eps
    relation, tail = relation.double(), tail.double()
    matrix, right = _system(geometry, relation, tail)
    if not bool(torch.isfinite(matrix).all() & torch.isfinite(right).all()):
        raise InputError("vectors that hold NaN or infinity; train or import the model again")
    left, sizes, directions = torch.linalg.svd(matrix)
    unknowns = matrix.shape[1]
    rounding = max(matrix.shape) * precision
    rank = int((sizes > sizes[0] * rounding).sum())
    seen, beyond = left[:, :rank], left[:, rank:]  # what A reaches, and what it does not
    # v comes from the numbers by some additions, so its rounding is a few times that of one.
    exists = bool((beyond.T @ right).norm() <= 10 * rounding * (tail.norm() * sizes[0] + right.norm()))
    head = directions[:rank].T @ ((seen.T @ right) / sizes[:rank])
    moved = [head + step * directions[-1] for step in STEPS]
    distances = [float(geometry.distance(point, relation, tail)) for point in (head, *moved)]
    return Determinacy(unknowns, rank, rank if exists else rank + 1, distances[0], tuple(distances[1:]))


def _system(geometry: Geometry, relation: Tensor, tail: Tensor) -> tuple[Tensor, Tensor]:
    """A, (equations, unknowns), and v, (equations,): the map h -> solve_tail(h, r) is linear but for a constant.

    A model for which that is not true is refused.
    """
    constant = geometry.solve_tail(torch.zeros_like(tail), relation)
    columns = geometry.solve_tail(torch.eye(len(tail), dtype=tail.dtype), relation) - constant  # (unknowns, equations)
    off = (tail @ columns + constant - geometry.solve_tail(tail, relation)).abs().max()
    if bool(off > 1e-6 * (tail.abs() @ columns.abs() + constant.abs()).max()):  # NaN is not, and is refused by its name
        raise InputError(f"under {geometry.name} a triple is no linear system in its head; ask for another model")
    return columns.T, geometry.project(tail, relation) - constant


@dataclass(frozen=True)
class Case:
    """A model at one random triple."""

    model: str
    case: str
    found: Determinacy


def random_cases(dim: int, norm: int = 1, seed: int = 0) -> list[Case]:
    """Each model at random vectors in double precision, TransR with three kinds of matrix.

    dim: coordinates, 2 or more
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    def transr(matrix: Tensor, r: Tensor) -> Determinacy:
        return determinacy(TransR(dim, norm), torch.cat([r, matrix.flatten()]), tail)

    tail, r = normal(dim), normal(dim)
    plane = TransH(dim, norm).relation_vectors(normal(2 * dim), 1.0)
    full, flat = normal(dim, dim), normal(dim, dim - 1) @ normal(dim - 1, dim)  # of rank dim and dim - 1
    return [
        Case("TransE", "any r", determinacy(TransE(dim, norm), r, tail)),
        Case("RotatE", "any r", determinacy(RotatE(dim, norm), r, normal(2 * dim))),
        Case("TransH", "any w", determinacy(TransH(dim, norm), plane, tail)),
        Case("TransR", "M of full column rank", transr(full, r)),
        Case("TransR", "M of lower rank, r within its reach", transr(flat, flat @ normal(dim))),
        Case("TransR", "M of lower rank, r beyond it", transr(flat, r)),
    ]
