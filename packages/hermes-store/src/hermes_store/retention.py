"""Which sessions may go: the rule, as a pure function over what the database knows of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from msgspec import Struct

__all__ = ["Candidate", "RetentionRule", "choose"]


class Candidate(Struct, frozen=True):
    """A session, as far as its retention depends on it. Times are seconds since the epoch."""

    id: str
    lineage: str
    source: str
    last_change: float
    ended: bool
    archived: bool
    held: bool
    messages: int
    characters: int


class RetentionRule(Struct, frozen=True, kw_only=True):
    """`before`: changed last before this time. `most_characters`: how much may stay, oldest first to go.

    `source` limits the rule to sessions of one source; `open_too` lets it take sessions that never ended;
    `archived` False leaves out those that are archived already.
    """

    before: float | None = None
    most_characters: int | None = None
    source: str | None = None
    open_too: bool = False
    archived: bool = True


def choose(candidates: Sequence[Candidate], rule: RetentionRule) -> list[list[Candidate]]:
    """The lineages that the rule takes, oldest first, each from its first session to its newest.

    A lineage is one conversation: it goes as a whole, by the age of its newest change, or stays. One whose
    turn lease is held stays.
    """
    order = sorted(candidates, key=attrgetter("lineage"))
    lineages = [list(group) for _, group in groupby(order, key=attrgetter("lineage"))]
    eligible = [group for group in lineages if _is_eligible(group, rule)]
    eligible.sort(key=_last_change)
    chosen = [group for group in eligible if rule.before is not None and _last_change(group) < rule.before]
    if rule.most_characters is not None:
        rest = eligible[len(chosen) :]
        of_source = [item for item in candidates if rule.source in (None, item.source)]
        left = sum(item.characters for item in of_source) - sum(_characters(group) for group in chosen)
        for group in rest:
            if left <= rule.most_characters:
                break
            chosen.append(group)
            left -= _characters(group)
    return chosen


def _is_eligible(group: Sequence[Candidate], rule: RetentionRule) -> bool:
    newest = group[-1]
    if any(item.held for item in group) or rule.source not in (None, newest.source):
        return False
    if newest.archived and not rule.archived:
        return False
    return newest.ended or rule.open_too


def _last_change(group: Sequence[Candidate]) -> float:
    return max(item.last_change for item in group)


def _characters(group: Sequence[Candidate]) -> int:
    return sum(item.characters for item in group)
