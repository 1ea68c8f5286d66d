"""Translational models: each file holds one, its equation, its distance and its two inverses side by side.

Both models move the head by the relation and measure the gap to the tail, and both moves keep distances. So the
distance of a triple is a gap between two points, D(h, r, t) = gap(solve_tail(h, r), t) = gap(h, solve_head(r, t)):
ranking tails or heads is a nearest-neighbour search around one point.
"""

from ookg.models.rotate import RotatE
from ookg.models.transe import TransE

Geometry = TransE | RotatE
GEOMETRIES: dict[str, type[TransE] | type[RotatE]] = {"transe": TransE, "rotate": RotatE}

__all__ = ["GEOMETRIES", "Geometry", "RotatE", "TransE"]
