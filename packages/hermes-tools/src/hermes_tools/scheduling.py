"""Which calls of a round may overlap. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_messages.protocols import Scheduling

__all__ = ["plan_groups"]


def plan_groups(classes: Sequence[Scheduling]) -> list[tuple[int, ...]]:
    """The positions of a round's calls, divided into groups that run one after the other.

    Neighbours that are `parallel` share a group; a `sequential` or `interactive` call is a barrier: a
    group of its own, begun after all before it ended and ended before any after it begins.
    """
    groups: list[tuple[int, ...]] = []
    together: list[int] = []
    for position, scheduling in enumerate(classes):
        if scheduling == "parallel":
            together.append(position)
            continue
        if together:
            groups.append(tuple(together))
            together = []
        groups.append((position,))
    if together:
        groups.append(tuple(together))
    return groups
