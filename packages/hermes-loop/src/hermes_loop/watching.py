"""The joint with hooks that watch a turn: told of every event in the task in which it happens."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol, runtime_checkable

from hermes_loop.events import WatchedEvent
from hermes_messages.protocols import HookContext

__all__ = ["SupportsTurnEvents", "WatchContext", "masked"]

HIDDEN: Final = "[hidden]"
_SHORTEST: Final = 6
"""Characters of a credential; shorter ones would hide half of any text."""


class WatchContext(HookContext, frozen=True, kw_only=True):
    """The turn that is watched. `mask` gives a text back without the credentials of the agent's providers."""

    mask: Callable[[str], str]


@runtime_checkable
class SupportsTurnEvents(Protocol):
    """A hook that is told of every event of a turn, and of its calls of models."""

    def turn_event(self, context: WatchContext, event: WatchedEvent) -> None:
        """Called on the event loop, in the task in which `event` happens: a context variable that is set when
        a tool starts is seen by the tool. It must be short. What it raises is reported like the failure of
        any hook, and ends nothing."""
        ...


def masked(text: str, secrets: Iterable[str]) -> str:
    """`text` with each of `secrets` replaced. Pure."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, HIDDEN)
    return text
