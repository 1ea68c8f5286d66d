"""Translational models: each file holds one, its equation, its distance and its two inverses side by side.

Every model moves the head by the relation and measures the gap to the tail. TransE and RotatE move it among the
entities themselves, and both moves keep distances. So the distance of a triple is a gap between two points,
D(h, r, t) = gap(solve_tail(h, r), t) = gap(h, solve_head(r, t)): ranking tails or heads is a nearest-neighbour search
around one point.

TransH and TransR first project both ends into a space of the relation. There the same holds of what `project` returns:
D(h, r, t) = gap(solve_tail(h, r), project(t, r)) = gap(project(h, r), solve_head(r, t)). For TransE and RotatE
`project` returns the entities as they are.
"""

from ookg.models.projected import Projected
from ookg.models.rotate import RotatE
from ookg.models.transe import TransE
from ookg.models.transh import TransH
from ookg.models.transr import TransR

Geometry = TransE | RotatE | TransH | TransR
GEOMETRIES: dict[str, type[TransE] | type[RotatE] | type[TransH] | type[TransR]] = {
    "transe": TransE,
    "rotate": RotatE,
    "transh": TransH,
    "transr": TransR,
}

__all__ = ["GEOMETRIES", "Geometry", "Projected", "RotatE", "TransE", "TransH", "TransR"]
