"""What a model must say about itself, and what it may declare besides.

A model moves the head by the relation and measures the gap to the tail. The contract, for all h, r, t:

    D(h, r, t) = gap(solve_tail(h, r), project(t, r)) = gap(project(h, r), solve_head(r, t))

Everything can be computed from that, in plain PyTorch. What is faster, or needs more than that, a model declares. What
it does not declare is computed in plain PyTorch or refused; nothing is taken over from another model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

import torch
from torch import Tensor

from ookg.errors import InputError

# How many numbers `gap_to_all` may hold for the differences it sums up, whatever the size of the table.
BLOCK_NUMBERS = 1 << 23


class Move(Enum):
    """Moves that are linear in the entity, which kernels and the linear system of newcomers know.

    TRANSLATION: h + r and t - r; entities and relations have dim numbers
    ROTATION: h∘exp(iθ) and t∘exp(-iθ); an entity is dim real parts, then dim imaginary parts, a relation dim phases θ
    """

    TRANSLATION = "translation"
    ROTATION = "rotation"


class GapSum(Enum):
    """How a gap is added up: Σ|x - y|, √Σ(x - y)², or the sum of the moduli of complex coordinates."""

    SIZES = "sizes"
    LENGTH = "length"
    MODULI = "moduli"


@dataclass(frozen=True)
class Kernel:
    """What fast kernels compute in place of a model's own methods; a model that declares it promises that it is so.

    Such a model sees entities as they are: it has no `project`.

    move: `solve_tail` and `solve_head`; with it goes `relation_vectors`, which for a translation returns the parameters
        themselves, and for a rotation the parameters times π / initial_range
    gap: `gap` and `gap_to_all`, or their square root if `squared`
    unit_norm: `constrained` scales vectors to length 1 in this norm, 1 or 2; 0 if it leaves them as they are
    """

    move: Move
    gap: GapSum
    squared: bool = False
    unit_norm: int = 0


@dataclass(frozen=True)
class RelationForm:
    """The closed form of a new relation: what each of its pairs adds, and the vector that the sum makes.

    summand: heads and tails, (pairs, entity_width) each -> (pairs, entity_width)
    vector: the sums, (relations, entity_width), and how many pairs are in each, (relations, 1)
        -> (relations, relation_width)
    """

    summand: Callable[[Tensor, Tensor], Tensor]
    vector: Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Geometry(ABC):
    """A model's equations; every model is a frozen dataclass.

    dim: coordinates of an entity; norm: the p of its distance
    name: what the model is called in settings and files

    What may be declared:
    can_refine: whether new vectors may be fitted to their triples by gradient steps
    kernel: what fast kernels compute for this model; None: plain PyTorch
    linear_move: how the linear system of newcomers that are tied to newcomers moves them; None: such ties are not used
    relation_form: the closed form of new relations, which are made together with such newcomers; None: they get none
    A subclass that changes how anything is computed does not inherit the last three: it declares them anew.
    """

    dim: int
    norm: int = 1
    name: ClassVar[str]
    can_refine: ClassVar[bool] = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        forget(cls, _COMPUTES, ("kernel", "linear_move", "relation_form"), Geometry)
        forget(cls, {"gap"}, ("gap_to_all", "entity_gap", "space"), Geometry)
        forget(cls, {"relation_vectors"}, ("relation_parameters",), Geometry)

    @property
    @abstractmethod
    def entity_width(self) -> int:
        """Numbers stored for an entity."""

    @property
    @abstractmethod
    def relation_width(self) -> int:
        """Numbers stored for a relation."""

    @abstractmethod
    def solve_tail(self, head: Tensor, relation: Tensor) -> Tensor:
        """Where the tail fits best, as the relation sees it; (..., entity_width) and (..., relation_width)."""

    @abstractmethod
    def solve_head(self, relation: Tensor, tail: Tensor) -> Tensor:
        """Where the head fits best, as the relation sees it."""

    @abstractmethod
    def gap(self, x: Tensor, y: Tensor) -> Tensor:
        """How far points are apart, (..., width) and (..., width) -> (...); 0 for equal points, and only for them."""

    def project(self, entities: Tensor, relation: Tensor) -> Tensor:
        """Entities as a relation sees them: as they are, unless a model says otherwise."""
        del relation
        return entities

    @property
    def projects(self) -> bool:
        """Whether relations see entities differently: then one triple does not determine its new end."""
        return type(self).project is not Geometry.project

    @property
    def space(self) -> Geometry:
        """A geometry with the same gaps, whose entities are what `project` returns."""
        return self

    def distance(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """D(h, r, t) = gap(solve_tail(h, r), project(t, r))."""
        return self.gap(self.solve_tail(head, relation), self.project(tail, relation))

    def gap_to_all(self, points: Tensor, table: Tensor) -> Tensor:
        """The gaps from each point to each row of a table, (points, width) and (rows, width) -> (points, rows)."""
        rows = max(1, BLOCK_NUMBERS // max(1, len(points) * table.shape[-1]))
        gaps = points.new_empty(len(points), len(table), dtype=torch.result_type(points, table))
        for start in range(0, len(table), rows):  # into one place: small results between large ones split up the memory
            gaps[:, start : start + rows] = self.gap(points[:, None], table[None, start : start + rows])
        return gaps

    @property
    def has_entity_gap(self) -> bool:
        """Whether it says how far entities are apart."""
        return not self.projects or type(self).entity_gap is not Geometry.entity_gap

    def entity_gap(self, x: Tensor, y: Tensor) -> Tensor:
        """How far entity vectors are apart as they are stored, whatever a relation would see of them."""
        if self.projects:
            raise InputError(f"{self.name} does not say how far entities are apart; give it an `entity_gap`")
        return self.gap(x, y)

    def constrained(self, entities: Tensor) -> Tensor:
        """Entity vectors as the model wants them: any will do, unless a model says otherwise."""
        return entities

    def relation_vectors(self, parameters: Tensor, initial_range: float) -> Tensor:
        """The relation vectors for the trained parameters: the parameters themselves, unless a model says otherwise."""
        del initial_range
        return parameters

    def relation_parameters(self, vectors: Tensor, initial_range: float) -> Tensor:
        """Parameters that these relation vectors come from, so that training can go on from them.

        The inverse of `relation_vectors`: a model that has its own has to say this one too.
        """
        del initial_range
        if type(self).relation_vectors is not Geometry.relation_vectors:
            problem = f"{self.name} does not say which parameters its relation vectors come from"
            raise InputError(f"{problem}; give it a `relation_parameters`")
        return vectors

    def initial_relations(self, parameters: Tensor) -> Tensor:
        """What training starts from, given random parameters."""
        return parameters

    @property
    def kernel(self) -> Kernel | None:
        """What fast kernels compute for this model."""
        return None

    @property
    def linear_move(self) -> Move | None:
        """How newcomers that are tied to newcomers are moved when they are solved together."""
        return None

    @property
    def relation_form(self) -> RelationForm | None:
        """The closed form of new relations."""
        return None

    @property
    def solves_together(self) -> bool:
        """Whether newcomers get vectors from newcomers."""
        return self.linear_move is not None

    @property
    def makes_relations(self) -> bool:
        """Whether new relations get vectors."""
        return self.solves_together and self.relation_form is not None


_COMPUTES = {"solve_tail", "solve_head", "gap", "project", "distance", "gap_to_all", "constrained", "relation_vectors"}


def forget(cls: type, changed: set[str], follows: tuple[str, ...], base: type) -> None:
    """Where a class changes some of its methods, what follows from them is what `base` has, unless it is its own."""
    if changed & vars(cls).keys():
        for name in follows:
            if name not in vars(cls):
                setattr(cls, name, vars(base)[name])


def kernel_of(geometry: Geometry) -> Kernel:
    """What kernels compute for a model; one that declares nothing is refused."""
    kernel = geometry.kernel
    if kernel is None:
        raise InputError(f"{geometry.name} has no kernel; use the reference")
    return kernel
