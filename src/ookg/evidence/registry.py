"""All kinds of evidence by name, in the order in which they add up."""

from __future__ import annotations

from ookg.errors import InputError
from ookg.evidence.company import Company
from ookg.evidence.encoder import Encoder
from ookg.evidence.habits import Habits
from ookg.evidence.likeness import Likeness
from ookg.evidence.links import Links
from ookg.evidence.network import Network
from ookg.evidence.paths import Paths
from ookg.evidence.source import Source

VECTOR = "vector"  # the weight of what is no source: where the vector points
NEW = "new"  # likewise: what an answer that is itself new gets on top
HUBNESS = "hubness"  # likewise: how much of what a new answer gains by lying near everything is taken off

SOURCES: dict[str, type[Source]] = {
    source.name: source for source in (Links, Habits, Paths, Company, Likeness, Network, Encoder)
}
LEARNED = (Network.name, Encoder.name)  # the parts of a network, which speak where one was trained
CAME_LATER = (*LEARNED, Likeness.name)  # after weights could be given in order: they come last there


def register(source: type[Source]) -> type[Source]:
    """Add a source after the existing ones; also works as a decorator of its class."""
    if source.name in (VECTOR, NEW, HUBNESS, *SOURCES) or not source.name.isidentifier():
        raise InputError(f"a source named {source.name!r}, which is taken or no name; name it otherwise")
    SOURCES[source.name] = source
    return source
