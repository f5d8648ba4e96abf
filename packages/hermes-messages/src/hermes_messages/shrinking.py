"""Pure steps that make a conversation smaller: where it may be cut, a summary, old images, long arguments,
long texts.

They return new lists and messages and never change one. The lists they take are valid transcripts (see
`hermes_messages.repair` for others), and so are the lists they return.

>>> from hermes_messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
>>> calls = (ToolCall("a", "ls", "{}"), ToolCall("b", "pwd", "{}"))
>>> messages = [UserMessage("Look."), AssistantMessage(tool_calls=calls), ToolMessage("a", "x"),
...             ToolMessage("b", "/"), AssistantMessage("One file."), UserMessage("And now?")]
>>> boundary_near(messages, 3)  # between two results of one round: the round stays whole
4
>>> [message.content for message in with_summary(messages, 4, "You listed the files.")]
['You listed the files.', 'One file.', 'And now?']
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from hermes_messages.errors import ConfigurationError, InvariantError
from hermes_messages.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_messages.parts import ImagePart, Part, TextPart
from hermes_messages.transcript_rules import TranscriptRule

__all__ = [
    "SMALLEST_ARGUMENT_LIMIT",
    "ShortenedCalls",
    "boundary_near",
    "keep_ends",
    "last_boundary",
    "retire_images",
    "shorten_arguments",
    "with_summary",
]


def last_boundary(messages: Sequence[Message]) -> int:
    """The last place at which `messages` may be cut: what is still being worked on lies behind it.

    That is the round whose results are owed or have not been answered yet, or the user's words that have not
    been: a summary of these would make the model do again what was done. The end when all is answered.
    """
    place = len(messages)
    while place and isinstance(messages[place - 1], ToolMessage):
        place -= 1
    if place and isinstance(before := messages[place - 1], AssistantMessage) and before.tool_calls:
        return place - 1
    while place and isinstance(messages[place - 1], UserMessage):
        place -= 1
    return place


def boundary_near(messages: Sequence[Message], cut: int) -> int:
    """`cut`, moved so that it parts no assistant message with calls from its results.

    It moves to the end of the round that it would part, and never past `last_boundary`. Both parts are valid
    then, the first one with no result owed.
    """
    latest = last_boundary(messages)
    cut = max(cut, 0)
    while cut < latest and isinstance(messages[cut], ToolMessage):
        cut += 1
    return min(cut, latest)


def with_summary(messages: Sequence[Message], cut: int, summary: str) -> list[Message]:
    """`messages` with everything before `cut`, save a leading system message, replaced by `summary`.

    The summary is a user message, so that there is always one: some chat templates need it, and an assistant
    message or a round may follow it. What comes after `cut` stays as it is. Raises `InvariantError` when
    `cut` is no boundary (`boundary_near` finds one), and `ConfigurationError` for a blank summary.
    """
    if not summary.strip():
        raise ConfigurationError("a summary must have text; nothing was replaced")
    if boundary_near(messages, cut) != cut:
        text = f"a cut at {cut}, in the middle of a round or of what is still being worked on"
        raise InvariantError(TranscriptRule.RESULTS_OWED, text, index=cut)
    head = [message for message in messages[:1] if isinstance(message, SystemMessage)]
    return [*head, UserMessage(summary), *messages[max(cut, len(head)) :]]


def retire_images(messages: Iterable[Message], keep: int) -> list[Message]:
    """`messages` in which only the newest `keep` images are left; a line of text stands for each other one.

    Messages without an image to retire are the same objects. Call this where earlier bytes change anyway (at
    compression), or the host's prompt cache is lost. Raises `ConfigurationError` for a negative `keep`.
    """
    if keep < 0:
        raise ConfigurationError("the number of images to keep can not be negative")
    kept: list[Message] = []
    left = keep
    for message in reversed(list(messages)):
        content = message.content
        count = 0 if isinstance(content, str | None) else sum(isinstance(part, ImagePart) for part in content)
        if count > left and isinstance(content, tuple):
            kept.append(replace(message, content=_without_oldest_images(content, count - left)))
        else:
            kept.append(message)
        left = max(left - count, 0)
    kept.reverse()
    return kept


def _without_oldest_images(content: tuple[Part, ...], number: int) -> tuple[Part, ...]:
    parts: list[Part] = []
    for part in content:
        if number and isinstance(part, ImagePart):
            number -= 1
            address = "" if part.url.startswith("data:") else f": {part.url}"
            parts.append(TextPart(f"[an image that is no longer shown{address}]"))
        else:
            parts.append(part)
    return tuple(parts)


def keep_ends(
    text: str, head: int, tail: int, note: Callable[[int], str], *, whole_lines: bool = False
) -> str:
    """The first `head` and the last `tail` characters of `text`, and between them, as a line of its own, what
    `note` says about the number of characters that are left out.

    The ends must not meet: whether a text is long enough to be cut is the caller's to judge. With
    `whole_lines` each end is moved to the end of a line, where there is one within a quarter of it.

    >>> keep_ends("abcdefghij", 3, 2, lambda left_out: f"[{left_out} more]")
    'abc\\n[5 more]\\nij'
    """
    begin, end = head, len(text) - tail
    if whole_lines:
        line_end = text.rfind("\n", begin - begin // 4, begin)
        begin = line_end + 1 if line_end > 0 else begin
        line_start = text.find("\n", end, end + tail // 4)
        end = line_start + 1 if line_start >= 0 else end
    first, last = text[:begin], text[end:]
    shown = first.rstrip() if whole_lines else first
    middle = f"{shown}\n{note(end - begin)}"
    return f"{middle}\n{last}" if last else middle


SMALLEST_ARGUMENT_LIMIT: Final = 256
"""The lowest limit, in characters, that `shorten_arguments` can keep."""


class ShortenedCalls(Struct, frozen=True):
    """An assistant message whose longest arguments were replaced, and what else has to be kept.

    `results` are the error results for the calls that were replaced: these must not run. `originals` are the
    calls as the model wrote them, for a file or a log outside the conversation.
    """

    message: AssistantMessage
    """The same calls with the same ids; only their arguments are shorter."""
    results: tuple[ToolMessage, ...] = ()
    originals: tuple[ToolCall, ...] = ()


def shorten_arguments(message: AssistantMessage, limit: int) -> ShortenedCalls:
    """`message` with no argument text of more than `limit` characters.

    Hosts cap the length of a string. One that was stored longer would be refused with every later request,
    so a valid JSON object that says what was cut stands in for it. Raises `ConfigurationError` for a limit
    below `SMALLEST_ARGUMENT_LIMIT`.
    """
    if limit < SMALLEST_ARGUMENT_LIMIT:
        raise ConfigurationError(
            f"arguments can not be shortened to fewer than {SMALLEST_ARGUMENT_LIMIT} characters"
        )
    originals = tuple(call for call in message.tool_calls if len(call.arguments) > limit)
    if not originals:
        return ShortenedCalls(message)
    calls = tuple(
        replace(call, arguments=_marker(call.arguments, limit)) if len(call.arguments) > limit else call
        for call in message.tool_calls
    )
    results = tuple(
        ToolMessage(
            call.id,
            f"This call was not run: its arguments are {len(call.arguments)} characters long and at most "
            f"{limit} can be sent. Make the call again with less, for example in several parts.",
            call.name,
            "not_started",
        )
        for call in originals
    )
    return ShortenedCalls(replace(message, tool_calls=calls), results, originals)


def _marker(arguments: str, limit: int) -> str:
    """A JSON object of at most `limit` characters; one character may take six when it is escaped."""
    start = arguments[: (limit - 128) // 6]
    return json.dumps(
        {"_shortened": True, "_characters": len(arguments), "_start": start}, ensure_ascii=False
    )
