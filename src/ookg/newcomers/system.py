"""The linear system of new entities that are solved together.

Each unknown vector is the weighted mean of its candidates, x_n = Σ w·(x_m moved by r) / Σ w, and a neighbour x_m may
be unknown itself. Moving is linear in x_m: TransE adds ±r, RotatE turns each complex coordinate by ±θ. So there is one
sparse system for each coordinate. With strengths that are the same seen from both ends of a triple it is Hermitian and,
as every unknown is tied to a fixed point in the end, positive definite: conjugate gradients solve it in rounds, each of
which passes once over the triples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from ookg.errors import InputError
from ookg.models.embedding import Embedding
from ookg.models.geometry import Geometry, Move
from ookg.types import BoolArray, FloatArray, IntArray

# How many numbers one array of the solver may hold, whatever the number of newcomers: coordinates take turns.
CHUNK_NUMBERS = 1 << 22
# Rounds end when another one would move no vector by more than this share of the largest coordinate.
TOLERANCE = 1e-9
MOST_ROUNDS = 5000

Coordinates = np.ndarray[Any, Any]  # (points, coordinates), float64 for TransE and complex128 for RotatE


@dataclass(frozen=True)
class FixedPoints:
    """Vectors that do not move: known entities by their ids, then some newcomers.

    ids: (known points,) rows of the embedding's entities; newcomers: (new points, entity_width)
    """

    embedding: Embedding
    ids: IntArray
    newcomers: Tensor

    def coordinates(self, part: slice) -> Coordinates:
        """Some coordinates of all points, (points, coordinates)."""
        tables = self.embedding.entities, self.newcomers
        halves = [_coordinates(self.embedding, table, part) for table in tables]
        ids = torch.from_numpy(self.ids).to(self.embedding.device)
        return np.concatenate([_as_numbers([half[ids] for half in halves[0]]), _as_numbers(halves[1])])


@dataclass(frozen=True)
class System:
    """Triples as seen from their unknown ends.

    fixed: the vectors that do not move
    owner: (rows,) the unknown end, 0 .. num_unknown - 1
    point: (rows,) the other end: unknown below num_unknown, from there on a fixed point
    relation, is_head: (rows,) as in `Support`, seen from the owner
    strength: (rows,) above 0, the same in both rows of a triple with two unknown ends
    """

    fixed: FixedPoints
    owner: IntArray
    point: IntArray
    relation: IntArray
    is_head: BoolArray
    strength: FloatArray
    num_unknown: int

    def solution(self) -> Tensor:
        """The unknown vectors, (num_unknown, entity_width), in the embedding's type and on its device."""
        embedding = self.fixed.embedding
        dim = embedding.geometry.dim
        vectors = torch.empty(self.num_unknown, embedding.geometry.entity_width, dtype=embedding.dtype)
        largest = max(len(self._move_owner), self.num_unknown, len(self.fixed.ids) + len(self.fixed.newcomers), 1)
        step = max(1, CHUNK_NUMBERS // largest)
        for first in range(0, dim, step):
            part = slice(first, min(first + step, dim))
            solved = self._solved(part)
            vectors[:, part] = torch.from_numpy(np.ascontiguousarray(solved.real)).to(vectors.dtype)
            if np.iscomplexobj(solved):
                imaginary = slice(dim + part.start, dim + part.stop)
                vectors[:, imaginary] = torch.from_numpy(np.ascontiguousarray(solved.imag)).to(vectors.dtype)
        return vectors.to(embedding.device)

    @cached_property
    def _moves(self) -> tuple[IntArray, IntArray]:
        """The distinct (owner, relation, side), ascending, as one number each; and the one of each row."""
        key = (self.owner * self.fixed.embedding.num_relations + self.relation) * 2 + self.is_head
        moves, place = np.unique(key, return_inverse=True)
        return moves, place.ravel()

    @cached_property
    def _move_owner(self) -> IntArray:
        owner: IntArray = self._moves[0] // (2 * self.fixed.embedding.num_relations)
        return owner

    @cached_property
    def _to_moves(self) -> tuple[Any, Any]:
        """Sums of strength · point by move: (moves, unknown points) and (moves, fixed points), sparse."""
        num_points = self.num_unknown + len(self.fixed.ids) + len(self.fixed.newcomers)
        shape = (len(self._moves[0]), num_points)
        matrix = sparse.csr_array((self.strength, (self._moves[1], self.point)), shape=shape).tocsc()
        return matrix[:, : self.num_unknown].tocsr(), matrix[:, self.num_unknown :].tocsr()

    @cached_property
    def _from_moves(self) -> Any:
        """(unknown, moves) sparse: each move belongs to its owner."""
        moves = np.arange(len(self._move_owner))
        shape = (self.num_unknown, len(moves))
        return sparse.csr_array((np.ones(len(moves)), (self._move_owner, moves)), shape=shape)

    @cached_property
    def _live(self) -> _Live:
        """What goes from unknown points to unknown points."""
        among = self._to_moves[0]
        moves = np.flatnonzero(np.diff(among.indptr))
        return _Live(moves, among[moves], self._from_moves[:, moves])

    @cached_property
    def _joined(self) -> Any:
        """(unknown, unknown) sparse: the same in one matrix, for moves without a turn, which need not be kept apart."""
        return self._live.back @ self._live.among

    @cached_property
    def _total(self) -> FloatArray:
        """(unknown, 1) the sum of each one's strengths: the diagonal of the system."""
        total: FloatArray = np.bincount(self.owner, self.strength, minlength=self.num_unknown).astype(np.float64)
        return total[:, None]

    def _solved(self, part: slice) -> Coordinates:
        """Some coordinates of the unknown vectors, (unknown, coordinates)."""
        motion = self._motion(part)  # (moves, coordinates)
        pulls = _product(self._to_moves[1], self.fixed.coordinates(part))
        if not np.iscomplexobj(motion):
            sums = np.bincount(self._moves[1], self.strength, minlength=len(motion))
            right = _product(self._from_moves, pulls + sums[:, None] * motion)
            return _conjugate_gradients(lambda vectors: _product(self._joined, vectors), right, self._total)
        live = self._live
        right = _product(self._from_moves, np.multiply(pulls, motion, out=pulls))
        turn = motion[live.moves]

        def pulled(vectors: Coordinates) -> Coordinates:
            sums = _product(live.among, vectors)
            return _product(live.back, np.multiply(sums, turn, out=sums))

        return _conjugate_gradients(pulled, right, self._total)

    def _motion(self, part: slice) -> Coordinates:
        """What each move does: TransE's translation, or RotatE's turn as a complex number; (moves, coordinates)."""
        embedding = self.fixed.embedding
        used, place = np.unique(self._moves[0] % (2 * embedding.num_relations), return_inverse=True)
        relation, is_head = np.divmod(used, 2)
        rows = embedding.relations[:, part][torch.from_numpy(relation).to(embedding.device)].double().cpu().numpy()
        signed = np.where(is_head[:, None] == 1, -rows, rows)
        return (np.exp(1j * signed) if _is_complex(embedding.geometry) else signed)[place.ravel()]


class _Live(NamedTuple):
    """The moves from unknown points: their numbers, sums by move (moves, unknown), and back (unknown, moves)."""

    moves: IntArray
    among: Any
    back: Any


def _conjugate_gradients(
    pulled: Callable[[Coordinates], Coordinates], right: Coordinates, total: FloatArray
) -> Coordinates:
    """The x with total · x - pulled(x) = right, each column a system of its own.

    Preconditioned by the diagonal: `step` is how far the mean of the candidates is from where the vectors are.
    """
    solution: Coordinates = right / total
    rest = right - (total * solution - pulled(solution))
    step = rest / total
    direction, length = step.copy(), _inner(rest, step)
    for _ in range(MOST_ROUNDS):
        # A column that has arrived stays: what is left of it is rounding, and a step along that could go anywhere.
        moves = np.abs(step).max(axis=0, initial=0.0) > TOLERANCE * np.abs(solution).max(initial=0.0)
        if not moves.any():
            break
        ahead = total * direction
        ahead -= pulled(direction)
        far = np.where(moves, _ratio(length, _inner(direction, ahead)), 0.0)
        solution += far * direction
        rest -= far * ahead
        np.divide(rest, total, out=step)
        before, length = length, _inner(rest, step)
        direction *= _ratio(length, before)
        direction += step
    return solution


def _coordinates(embedding: Embedding, table: Tensor, part: slice) -> list[Tensor]:
    """Some coordinates of a table: TransE's as they are, RotatE's real and imaginary parts."""
    if not _is_complex(embedding.geometry):
        return [table[:, part]]
    dim = embedding.geometry.dim
    return [table[:, part], table[:, dim + part.start : dim + part.stop]]


def _is_complex(geometry: Geometry) -> bool:
    """Whether moves turn complex coordinates, or else translate; a model without linear moves is refused."""
    move = geometry.linear_move
    if move is None:
        raise InputError(f"{geometry.name} does not say how newcomers are solved together; leave out what ties them")
    return {Move.TRANSLATION: False, Move.ROTATION: True}[move]


def _as_numbers(parts: list[Tensor]) -> Coordinates:
    arrays = [part.double().cpu().numpy() for part in parts]
    return arrays[0] if len(arrays) == 1 else arrays[0] + 1j * arrays[1]


def _product(matrix: Any, vectors: Coordinates) -> Coordinates:
    """A real sparse matrix times real or complex columns."""
    product: Coordinates = matrix @ np.ascontiguousarray(vectors).view(np.float64)
    return product.view(vectors.dtype)


def _inner(x: Coordinates, y: Coordinates) -> FloatArray:
    """The real inner product of each column."""
    if np.iscomplexobj(x):
        both: FloatArray = _inner(x.real, y.real) + _inner(x.imag, y.imag)
        return both
    total: FloatArray = np.einsum("nk,nk->k", x, y)
    return total


def _ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """above / below, and 0 for a column that has arrived."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
