"""From records to what the page of `hermes-batch view` holds: a line for the list and a text for the reader,
both packed so that nothing in them can be taken for markup. Pure.

What is packed is JSON, compressed (raw deflate) and written in base64; the page undoes it when it needs it.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Struct

from hermes_batch.records import Record, RecordStatus, Turn
from hermes_messages import AssistantMessage, Message, MessageFormatError, SystemMessage, ToolMessage
from hermes_messages.trajectory import from_trajectory, tools_from_trajectory

__all__ = ["ListLine", "RowText", "list_line", "packed", "packed_rows", "row_text"]

_STATUSES: Final[tuple[RecordStatus, ...]] = ("ok", "error", "discarded")
_TITLE: Final = 160
_ERROR: Final = 240
_LONGEST_TEXT: Final = 200_000
_PIECE: Final = 1 << 18


class ListLine(Struct, frozen=True, array_like=True):
    """A row in the page's list, and all that its plots and filters use. `tools` are those that were called:
    name, calls, failed calls. `status` counts in ok, error, discarded. Figures that nobody knows are -1."""

    index: int
    id: str
    status: int
    reason: str
    title: str
    error: str
    tools: list[tuple[str, int, int]]
    steps: int
    steps_with_reasoning: int
    api_calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float
    duration_s: float


class RowText(Struct, frozen=True, array_like=True):
    """A row as it is read: facts by name, the error, and the conversation's parts, each a list that begins
    with its kind:

    system, text, names of tools; user, text; assistant, reasoning, text, [[id, name, arguments]];
    tool, call id, name, content; other, speaker, text (a step that can not be read as any of these).
    """

    facts: list[tuple[str, str]]
    error: str
    parts: list[list[object]]


def list_line(record: Record, index: int) -> ListLine:
    """The record's line; `index` is the row's place in the dataset now."""
    steps = [turn.value for turn in record.conversations if turn.from_ == "gpt"]
    return ListLine(
        index=index,
        id=record.id,
        status=_STATUSES.index(record.status),
        reason=record.reason,
        title=_title(record.conversations),
        error=record.error[:_ERROR],
        tools=[
            (name, stats.count, stats.failure) for name, stats in record.tool_stats.items() if stats.count
        ],
        steps=len(steps),
        steps_with_reasoning=sum(_thinks(step) for step in steps),
        api_calls=record.api_calls,
        input_tokens=record.input_tokens if record.usage_known else -1,
        output_tokens=record.output_tokens if record.usage_known else -1,
        cost_usd=record.cost_usd if record.cost_known else -1,
        duration_s=record.duration_s,
    )


def _title(turns: Sequence[Turn]) -> str:
    said = next((turn.value for turn in turns if turn.from_ == "human"), "")
    return " ".join(said[: 4 * _TITLE].split())[:_TITLE]


def _thinks(step: str) -> bool:
    start, end, _ = step.partition("</think>")
    return bool(end) and bool(start.removeprefix("<think>").strip())


def row_text(record: Record) -> RowText:
    """The record as it is read. A text beyond 200,000 characters is cut, and says so."""
    facts = [
        ("id", record.id),
        ("model", record.model),
        ("provider", record.provider),
        ("toolsets", ", ".join(record.toolsets_used)),
        ("ended by", record.reason),
        ("completed", "yes" if record.completed else "no, partial" if record.partial else "no"),
        ("session", record.session_id),
        ("finished at", record.finished_at),
        ("row hash", record.row_hash),
        ("metadata", "" if record.metadata == "{}" else _bounded(record.metadata)),
    ]
    return RowText([fact for fact in facts if fact[1]], record.error, _parts(record.conversations))


def _parts(turns: Sequence[Turn]) -> list[list[object]]:
    rows = [{"from": turn.from_, "value": turn.value} for turn in turns]
    try:
        messages = from_trajectory(rows)
    except MessageFormatError:
        return [["other", turn.from_, _bounded(turn.value)] for turn in turns]
    parts = [_part(message) for message in messages]
    tools = [name for turn in turns if turn.from_ == "system" for name in _tool_names(turn.value)]
    if tools:
        if not (parts and parts[0][0] == "system"):
            parts.insert(0, ["system", ""])
        parts[0].append(tools)
    return parts


def _part(message: Message) -> list[object]:
    text = _bounded(message.content if isinstance(message.content, str) else "")
    match message:
        case SystemMessage():
            return ["system", text]
        case AssistantMessage():
            calls = [[call.id, call.name, _bounded(call.arguments)] for call in message.tool_calls]
            return ["assistant", _bounded(message.reasoning or ""), text, calls]
        case ToolMessage():
            return ["tool", message.tool_call_id, message.name or "", text]
        case _:
            return ["user", text]


@lru_cache(maxsize=32)
def _tool_names(system: str) -> tuple[str, ...]:
    """Rows of one toolset share the text, whose reading costs more than all the rest of a short row."""
    return tuple(tool.name for tool in tools_from_trajectory([{"from": "system", "value": system}]))


def _bounded(text: str) -> str:
    left_out = len(text) - _LONGEST_TEXT
    if left_out <= 0:
        return text
    return f"{text[:_LONGEST_TEXT]}\n… {left_out:,} more characters are left out of this page."


def packed_rows(rows: Sequence[tuple[int, Record]]) -> Iterator[bytes]:
    """The markup that holds these rows, made piece by piece so that its user can do other things in between:
    their lines, and apart from them their texts."""
    lines = [list_line(record, index) for index, record in rows]
    yield from packed("lines", lines)
    yield from packed("texts", [row_text(record) for _, record in rows])


def packed(kind: str, value: object) -> Iterator[bytes]:
    """A block of data in the page, in pieces. Nothing in `value` is markup there: base64 has no `<`."""
    yield f'<script type="text/plain" data-kind="{kind}">'.encode()
    data = msgspec.json.encode(value)
    deflate = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    waiting = b""
    for start in range(0, len(data), _PIECE):
        waiting += deflate.compress(data[start : start + _PIECE])
        whole = len(waiting) - len(waiting) % 3
        yield base64.b64encode(waiting[:whole])
        waiting = waiting[whole:]
    yield base64.b64encode(waiting + deflate.flush()) + b"</script>\n"
