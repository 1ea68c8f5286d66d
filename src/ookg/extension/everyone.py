"""All new entities in few groups, kept up as groups come and go: a question passes over each of these once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from ookg.extension.groups import Group, joined
from ookg.types import IntArray


@dataclass(frozen=True, eq=False)
class _Tied:
    """Groups that were each solved together, and the same as one."""

    groups: tuple[Group, ...]

    @cached_property
    def as_one(self) -> Group:
        return joined(self.groups)


@dataclass(frozen=True, eq=False)
class Everyone:
    """The groups that have new entities, joined to few. It is never changed: `changed` makes another one.

    What comes is joined to what came last as long as that is at most twice as large. So there are few groups, and an
    entity that comes costs little on average, however many there are.

    alone: entities that nothing ties together; those who have left are not present in their group any more
    tied: those solved together; with_relations: groups that have relations of their own, each as it is
    """

    alone: tuple[Group, ...] = ()
    tied: tuple[_Tied, ...] = ()
    with_relations: tuple[Group, ...] = ()

    @cached_property
    def groups(self) -> list[Group]:
        """All of them; each new entity is present in one."""
        return [*self.alone, *(part.as_one for part in self.tied), *self.with_relations]

    def __iter__(self) -> Iterator[Group]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def changed(self, come: Sequence[Group], left: IntArray) -> Everyone:
        """Without some entities, and with some more groups, in which these may come again."""
        come = [group for group in come if len(group.entities)]
        before = self._without(left) if len(left) else self
        return Everyone(
            _with_alone(before.alone, [group for group in come if not group.is_tied]),
            _with_tied(before.tied, [group for group in come if group.is_tied and not len(group.relations)]),
            (*before.with_relations, *(group for group in come if group.is_tied and len(group.relations))),
        )

    def _without(self, left: IntArray) -> Everyone:
        alone = [_fewer(group, left) for group in self.alone]
        tied = []
        for part in self.tied:
            kept = tuple(group for group in part.groups if not _has_any(group, left))
            if kept:
                tied.append(part if len(kept) == len(part.groups) else _Tied(kept))
        return Everyone(
            tuple(group for group in alone if len(group.present)),
            tuple(tied),
            tuple(group for group in self.with_relations if not _has_any(group, left)),
        )


def _has_any(group: Group, entities: IntArray) -> bool:
    return bool((group.places(entities) >= 0).any())


def _fewer(group: Group, left: IntArray) -> Group:
    """A group without some entities; once most of it has gone, it is made anew of those who are there."""
    mine = left[group.places(left) >= 0]
    if not len(mine):
        return group
    fewer = group.without(mine)
    return fewer if not 0 < 2 * len(fewer.present) < len(fewer.entities) else joined([fewer])


def _with_alone(there: tuple[Group, ...], come: list[Group]) -> tuple[Group, ...]:
    if not come:
        return there
    parts, latest = list(there), come
    size = sum(len(group.entities) for group in come)
    while parts and len(parts[-1].entities) <= 2 * size:
        latest = [parts.pop(), *latest]
        size += len(latest[0].entities)
    return (*parts, joined(latest))


def _with_tied(there: tuple[_Tied, ...], come: list[Group]) -> tuple[_Tied, ...]:
    if not come:
        return there
    parts, latest = list(there), tuple(come)
    while parts and len(parts[-1].groups) <= 2 * len(latest):
        latest = parts.pop().groups + latest
    return (*parts, _Tied(latest))
