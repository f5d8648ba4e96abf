"""Conversations made short enough for a trainer's window, with no model and nothing invented. Pure.

Only results of tools are shortened, the older ones first, to their beginning and end. What the user and the
model said stays word for word, and so do the calls and the results of the last round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from hermes_messages import AssistantMessage, Message, ToolMessage, ToolSpec, UserMessage, content_text
from hermes_messages.shrinking import keep_ends
from hermes_messages.tokens import estimate_tokens

__all__ = ["NOTE_ROOM", "fit_messages", "sample_tokens", "shortened_text"]

_LIMITS: Final = (4_000, 1_500, 500, 150)
"""Characters of a result, tried one after the other."""


def sample_tokens(messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> int:
    """About how many tokens a sample has, reasoning included: a trainer sees it."""
    reasoning = [
        UserMessage(message.reasoning)
        for message in messages
        if isinstance(message, AssistantMessage) and message.reasoning
    ]
    return estimate_tokens([*messages, *reasoning], tools)


def fit_messages(
    messages: Sequence[Message], tools: Sequence[ToolSpec], target_tokens: int
) -> Sequence[Message] | None:
    """`messages` within about `target_tokens`, shortened no more than that takes; None when it can not be."""
    size = sample_tokens(messages, tools)
    if size <= target_tokens:
        return messages
    fitted = list(messages)
    older = [place for place in _results(messages) if place < _last_round(messages)]
    for limit in _LIMITS:
        for place in older:
            message = fitted[place]
            shorter = _shortened(message, limit)
            if shorter is message:
                continue
            size += sample_tokens([shorter]) - sample_tokens([message])
            fitted[place] = shorter
            if size <= target_tokens:
                return fitted
    return None


def _results(messages: Sequence[Message]) -> list[int]:
    return [place for place, message in enumerate(messages) if isinstance(message, ToolMessage)]


def _last_round(messages: Sequence[Message]) -> int:
    """Where the last round of calls begins; the end when there is none."""
    rounds = [
        place
        for place, message in enumerate(messages)
        if isinstance(message, AssistantMessage) and message.tool_calls
    ]
    return rounds[-1] if rounds else len(messages)


def _shortened(message: Message, limit: int) -> Message:
    text = content_text(message.content)
    short = shortened_text(text, limit)
    return message if short is text else replace(message, content=short)


NOTE_ROOM: Final = 50
"""Characters that the note about what was left out takes, at the most."""


def shortened_text(text: str, limit: int) -> str:
    """The beginning and the end of `text`, `limit` characters in all, and a note between them; `text` itself
    where that would not be shorter."""
    if len(text) <= limit + NOTE_ROOM:
        return text
    head = limit * 2 // 3
    return keep_ends(text, head, limit - head, "[... {} characters left out ...]".format)
