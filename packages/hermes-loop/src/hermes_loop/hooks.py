"""The hooks of one agent, sorted by what they can do: found out once, when the agent is wired."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from hermes_loop.watching import SupportsTurnEvents
from hermes_messages import ConfigurationError
from hermes_messages.abilities import supports
from hermes_messages.protocols import (
    SupportsAroundTurn,
    SupportsMemoryPrefetch,
    SupportsMemorySync,
    SupportsPostTurn,
    SupportsPreModel,
    SupportsRequestTransform,
    SupportsResponseTransform,
    SupportsToolResultTransform,
)

__all__ = ["Hooks", "check_hook", "collect_hooks", "read_hooks"]


ABILITIES: Final[dict[str, type[object]]] = {
    "around_turn": SupportsAroundTurn,
    "pre_model": SupportsPreModel,
    "prefetch_memory": SupportsMemoryPrefetch,
    "sync_memory": SupportsMemorySync,
    "transform_request": SupportsRequestTransform,
    "transform_response": SupportsResponseTransform,
    "transform_tool_result": SupportsToolResultTransform,
    "post_turn": SupportsPostTurn,
    "turn_event": SupportsTurnEvents,
}
"""The method that each ability is, and its Protocol."""

_PLAIN: Final = frozenset({"around_turn", "turn_event"})
"""All others are async."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Each in the order in which the host gave them."""

    around_turn: Sequence[SupportsAroundTurn] = ()
    pre_model: Sequence[SupportsPreModel] = ()
    prefetch_memory: Sequence[SupportsMemoryPrefetch] = ()
    sync_memory: Sequence[SupportsMemorySync] = ()
    transform_request: Sequence[SupportsRequestTransform] = ()
    transform_response: Sequence[SupportsResponseTransform] = ()
    transform_tool_result: Sequence[SupportsToolResultTransform] = ()
    post_turn: Sequence[SupportsPostTurn] = ()
    turn_event: Sequence[SupportsTurnEvents] = ()


NO_HOOKS: Final = Hooks()


def read_hooks(given: object) -> tuple[object, ...]:
    """What `hooks=` holds: names and objects. Raises `ConfigurationError` before anything is made."""
    if given is None:
        return ()
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigurationError(f"hooks must be a list of names and objects, not {type(given).__name__}")
    hooks = tuple(given)
    for hook in hooks:
        if not isinstance(hook, str):
            check_hook(hook)
    return hooks


def check_hook(hook: object) -> None:
    """An object that can do something as a hook. Raises `ConfigurationError`."""
    found = {name: getattr(hook, name) for name in ABILITIES if hasattr(hook, name)}
    methods = {name: method for name, method in found.items() if method is not None}
    if not methods or isinstance(hook, type):
        raise ConfigurationError(
            f"hooks= got {hook!r}, which is no hook: it needs one of the methods {', '.join(ABILITIES)} "
            "(see hermes_messages.protocols.hooks)"
        )
    for name, method in methods.items():
        if (name not in _PLAIN) is not inspect.iscoroutinefunction(method):
            kind = "a plain method" if name in _PLAIN else "an async method"
            raise ConfigurationError(f"{type(hook).__name__}.{name} must be {kind}")


def collect_hooks(hooks: Iterable[object], *, skip_memory: bool = False) -> Hooks:
    """The hooks by ability; with `skip_memory` without those of the memory."""
    given = tuple(hooks)
    if not given:
        return NO_HOOKS
    remembering = () if skip_memory else given
    return Hooks(
        around_turn=[hook for hook in given if supports(hook, SupportsAroundTurn)],
        pre_model=[hook for hook in given if supports(hook, SupportsPreModel)],
        prefetch_memory=[hook for hook in remembering if supports(hook, SupportsMemoryPrefetch)],
        sync_memory=[hook for hook in remembering if supports(hook, SupportsMemorySync)],
        transform_request=[hook for hook in given if supports(hook, SupportsRequestTransform)],
        transform_response=[hook for hook in given if supports(hook, SupportsResponseTransform)],
        transform_tool_result=[hook for hook in given if supports(hook, SupportsToolResultTransform)],
        post_turn=[hook for hook in given if supports(hook, SupportsPostTurn)],
        turn_event=[hook for hook in given if supports(hook, SupportsTurnEvents)],
    )
