"""What is changed in a request that a host refused for its form. Pure.

A change belongs to one route of one turn: it is made again to each of its later requests, and nothing of it
reaches the conversation or the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hermes_messages import (
    ArgumentsError,
    AssistantMessage,
    ChatRequest,
    ErrorKind,
    History,
    Message,
    ProviderError,
    ToolCall,
    parse_arguments,
    parse_arguments_tolerantly,
)
from hermes_messages.repair import repair
from hermes_messages.shrinking import shorten_arguments

__all__ = ["NOTHING_CHANGED", "RequestChange", "apply_change", "find_change"]

MOST_PARAMETERS: Final = 8
LONGEST_ARGUMENTS: Final = 100_000
"""In characters. Hosts cap a string of a request, none below this; one call above it would have each later
request refused."""

_FIELDS: Final[Mapping[str, tuple[str, object]]] = {
    "temperature": ("temperature", None),
    "seed": ("seed", None),
    "stop": ("stop", ()),
    "parallel_tool_calls": ("parallel_tool_calls", None),
    "reasoning_effort": ("reasoning_effort", None),
    "reasoning": ("reasoning_effort", None),
}
"""Parameters that a request can do without, with the field that each is and its empty value."""


class RequestChange(Struct, frozen=True, kw_only=True):
    """All that was changed so far. `parameters` are the refused ones by name, whether it was the provider
    that leaves them out by now or we do; `max_tokens` is the smaller limit, 0 none at all."""

    parameters: frozenset[str] = frozenset()
    max_tokens: int | None = None
    repaired: bool = False


NOTHING_CHANGED: Final = RequestChange()


def find_change(error: ProviderError, request: ChatRequest, made: RequestChange) -> RequestChange | None:
    """`made` and one more change that may please the host; None when there is none that was not made yet."""
    match error.kind:
        case ErrorKind.UNSUPPORTED_PARAMETER:
            return _without_parameter(error, request, made)
        case ErrorKind.OUTPUT_CAP:
            return _with_smaller_output(error, request, made)
        case ErrorKind.FORMAT:
            if made.repaired or _repaired(request.history) is None:
                return None
            return replace(made, repaired=True)
        case _:
            return None


def apply_change(request: ChatRequest, change: RequestChange) -> ChatRequest:
    """`request` itself where nothing was changed, else a changed copy."""
    if change is NOTHING_CHANGED:
        return request
    fields: dict[str, object] = {}
    for name in change.parameters & _FIELDS.keys():
        field, empty = _FIELDS[name]
        fields[field] = empty
    if change.max_tokens is not None and request.max_tokens is not None:
        fields["max_tokens"] = min(change.max_tokens, request.max_tokens) or None
    if change.repaired:
        fields["history"] = _repaired(request.history) or request.history
    return replace(request, **fields) if fields else request


def _without_parameter(
    error: ProviderError, request: ChatRequest, made: RequestChange
) -> RequestChange | None:
    """Once for each parameter. A provider that says so leaves it out by itself from here on; otherwise it
    must be one that this request carries."""
    name = error.parameter
    if name is None or name in made.parameters or len(made.parameters) >= MOST_PARAMETERS:
        return None
    if not error.left_out:
        field, empty = _FIELDS.get(name, ("", None))
        if not field or msgspec.structs.asdict(request)[field] == empty:
            return None
    return replace(made, parameters=made.parameters | {name})


def _with_smaller_output(
    error: ProviderError, request: ChatRequest, made: RequestChange
) -> RequestChange | None:
    """Once. Where the host does not say what it allows, the limit is left to it."""
    was_refused = error.status is None or error.status >= 400  # else it was answered, and had no room
    if made.max_tokens is not None or request.max_tokens is None or not was_refused:
        return None
    allowed = error.output_limit or 0
    return replace(made, max_tokens=allowed) if allowed < request.max_tokens else None


def _repaired(history: History) -> History | None:
    """The messages as plain as they can be said: a valid transcript, arguments that are JSON and not too long
    for a host, nothing that another host or an older version put beside them. None when they are that
    already."""
    messages = tuple(history)
    plain = [_plain(message) for message in repair(messages).messages]
    changed = len(plain) != len(messages) or any(a is not b for a, b in zip(plain, messages, strict=True))
    return History.of(plain) if changed else None


def _plain(message: Message) -> Message:
    changes: dict[str, object] = {}
    if message.extra is not None:
        changes["extra"] = None
    if isinstance(message, AssistantMessage):
        shorter = shorten_arguments(message, LONGEST_ARGUMENTS).message
        calls = tuple(_plain_call(call) for call in shorter.tool_calls)
        if any(a is not b for a, b in zip(calls, message.tool_calls, strict=True)):
            changes["tool_calls"] = calls
        if message.replay is not None:
            changes["replay"] = None
    return replace(message, **changes) if changes else message


def _plain_call(call: ToolCall) -> ToolCall:
    try:
        parse_arguments(call.arguments)
    except ArgumentsError:
        pass
    else:
        return call if call.extra is None else replace(call, extra=None)
    try:
        parsed = parse_arguments_tolerantly(call.arguments).arguments
    except ArgumentsError:
        parsed = {}
    return replace(call, arguments=msgspec.json.encode(parsed).decode(), extra=None)
