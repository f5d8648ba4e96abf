"""From what an agent returned to the record of its row. Pure; an agent's word is checked, not trusted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache

import msgspec
from msgspec import Struct

from hermes_batch.records import Record, RecordStatus, ToolStats, Turn, decode_record, encode_record
from hermes_batch.rows import BadRow, PromptRow
from hermes_messages import (
    AssistantMessage,
    ErrorKind,
    Message,
    ProviderError,
    SystemMessage,
    ToolMessage,
    ToolSpec,
    UserMessage,
    validate,
)
from hermes_messages.argument_text import JsonObject
from hermes_messages.hygiene import replace_surrogates
from hermes_messages.openai_shape import messages_from_dicts
from hermes_messages.protocols import ConversationResult
from hermes_messages.trajectory import to_trajectory

__all__ = [
    "UNKNOWN_TOOL",
    "Outcome",
    "added_up",
    "bad_row_record",
    "count_tools",
    "outcome_of_result",
    "record_of",
]

UNKNOWN_TOOL = "unknown_tool"
"""Under this name all calls of tools that the model invented are counted: names from a model have no end, and
every record names every tool."""

_LONGEST_ERROR = 4_000

_HOST_UNAVAILABLE = frozenset(
    {
        ErrorKind.AUTH,
        ErrorKind.BILLING,
        ErrorKind.NOT_FOUND,
        ErrorKind.OVERLOADED,
        ErrorKind.RATE_LIMIT,
        ErrorKind.SERVER,
        ErrorKind.TIMEOUT,
        ErrorKind.TRANSPORT,
    }
)


class Outcome(Struct, frozen=True, kw_only=True):
    """What happened to a row, before it is turned into a record. `raised` is what the agent raised."""

    status: RecordStatus
    reason: str = ""
    error: str = ""
    result: ConversationResult | None = None
    raised: BaseException | None = None


def added_up(results: Sequence[ConversationResult]) -> ConversationResult:
    """The result of the last of a row's turns, with the figures of all of them; one that is unknown for any
    turn is unknown for the row."""
    last = results[-1]
    if len(results) == 1:
        return last
    total = last.copy()
    total["api_calls"] = sum(result["api_calls"] for result in results)
    total["input_tokens"] = _sum([result["input_tokens"] for result in results])
    total["output_tokens"] = _sum([result["output_tokens"] for result in results])
    costs = [result["cost_usd"] for result in results]
    total["cost_usd"] = None if None in costs else math.fsum(cost for cost in costs if cost is not None)
    return total


def _sum(figures: Sequence[int | None]) -> int | None:
    return None if None in figures else sum(figure for figure in figures if figure is not None)


def outcome_of_result(result: ConversationResult) -> Outcome:
    """What a returned result means. Raises whatever a broken one makes of itself."""
    reason = str(result["turn_exit_reason"])
    if result["failed"]:
        kind = result["error_kind"]
        reason = reason if kind is None else f"{reason}:{kind.value}"
        return Outcome(status="error", reason=reason, error=result["error"] or "", result=result)
    if not result["transcript"]:
        return Outcome(status="discarded", reason="empty_transcript", result=result)
    if broken := validate(result["transcript"]):
        return Outcome(status="discarded", reason="invalid_transcript", error=str(broken[0]), result=result)
    return Outcome(status="ok", reason=reason, result=result)


def bad_row_record(row: BadRow) -> Record:
    """The record of a line that is no row."""
    return record_of(row, Outcome(status="error", reason="bad_row", error=f"line {row.line}: {row.reason}"))


def record_of(
    row: PromptRow | BadRow,
    outcome: Outcome,
    *,
    session_id: str = "",
    toolsets: Sequence[str] = (),
    duration_s: float = 0.0,
) -> Record:
    """The record of a row and of what its agent returned, if it returned.

    Raises whatever a broken result makes of itself: every record that is returned can be written and read.
    """
    result = outcome.result
    transcript: Sequence[Message] = () if result is None else result["transcript"]
    tools: Sequence[JsonObject] = () if result is None else result["tools"]
    stats, errors = count_tools(transcript, [_tool_name(tool) for tool in tools])
    input_tokens = None if result is None else result["input_tokens"]
    output_tokens = None if result is None else result["output_tokens"]
    cost = None if result is None else result["cost_usd"]
    if cost is not None and not math.isfinite(cost):
        cost = None
    record = Record(
        prompt_index=row.index,
        id="" if isinstance(row, BadRow) else row.id,
        row_hash=row.content_hash,
        status=outcome.status,
        reason=outcome.reason,
        error=replace_surrogates(outcome.error)[:_LONGEST_ERROR],
        conversations=tuple([Turn(step["from"], step["value"]) for step in _steps(row, transcript, tools)]),
        completed=result is not None and result["completed"],
        partial=result is not None and result["partial"],
        run_again=_host_was_unavailable(transcript, outcome),
        api_calls=0 if result is None else result["api_calls"],
        toolsets_used=tuple(toolsets),
        tool_stats=stats,
        tool_error_counts=errors,
        model="" if result is None else result["model"],
        provider="" if result is None else result["provider"],
        session_id=session_id,
        input_tokens=input_tokens or 0,
        output_tokens=output_tokens or 0,
        usage_known=input_tokens is not None and output_tokens is not None,
        cost_usd=cost or 0.0,
        cost_known=cost is not None,
        duration_s=round(duration_s, 3),
        finished_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        metadata="{}" if isinstance(row, BadRow) else msgspec.json.encode(row.metadata).decode(),
    )
    return decode_record(encode_record(record))


def _host_was_unavailable(transcript: Sequence[Message], outcome: Outcome) -> bool:
    """Whether this row cost nothing and may go well another time."""
    if any(isinstance(message, AssistantMessage) for message in transcript):
        return False
    if outcome.result is not None:
        return outcome.result["error_kind"] in _HOST_UNAVAILABLE
    return isinstance(outcome.raised, ProviderError) and outcome.raised.kind in _HOST_UNAVAILABLE


def _tool_name(tool: JsonObject) -> str:
    function = tool.get("function")
    return str(function.get("name", "")) if isinstance(function, dict) else ""


def _tool_spec(tool: JsonObject) -> ToolSpec:
    function = tool.get("function")
    fields = function if isinstance(function, dict) else {}
    parameters = fields.get("parameters")
    return ToolSpec.from_schema(
        str(fields.get("name", "")),
        str(fields.get("description", "")),
        parameters if isinstance(parameters, dict) else {},
    )


def _steps(
    row: PromptRow | BadRow, transcript: Sequence[Message], tools: Sequence[JsonObject]
) -> list[dict[str, str]]:
    """The conversation as training data. The agent's own system prompt names this machine and stays out; the
    row's own is part of the sample."""
    if isinstance(row, BadRow):
        return []
    instructions = [] if row.system is None else [SystemMessage(row.system)]
    if not transcript:  # nothing came of it: what was asked is there to be looked at
        said = [UserMessage(turn) if isinstance(turn, str) else turn for turn in row.turns]
        return to_trajectory([*instructions, *messages_from_dicts(row.history), *said], ())
    conversation = [message for message in transcript if not isinstance(message, SystemMessage)]
    if not instructions:
        with suppress(TypeError, ValueError):  # what is no JSON, half a character even, is told all the same
            return [*_tools_alone(msgspec.json.encode(tools)), *to_trajectory(conversation, ())]
    return to_trajectory([*instructions, *conversation], [_tool_spec(tool) for tool in tools])


@lru_cache(maxsize=64)
def _tools_alone(tools: bytes) -> Sequence[dict[str, str]]:
    """How a trajectory without instructions tells the tools: the same for most rows of a run."""
    listed: list[JsonObject] = msgspec.json.decode(tools)
    return to_trajectory((), [_tool_spec(tool) for tool in listed])


def count_tools(
    transcript: Sequence[Message], known: Sequence[str]
) -> tuple[dict[str, ToolStats], dict[str, int]]:
    """Calls, successes and failures per tool; every known tool is named, zeros if never called.

    Calls of any other name are counted together under `UNKNOWN_TOOL`. A call without a result, as an
    interrupted turn leaves it, is a failure: `count` is always `success + failure`.
    """
    names = {name for name in known if name}
    count: Counter[str] = Counter()
    success: Counter[str] = Counter()
    waiting: dict[str, str] = {}
    for message in transcript:
        match message:
            case AssistantMessage():
                waiting = {}
                for call in message.tool_calls:
                    waiting[call.id] = call.name if call.name in names else UNKNOWN_TOOL
                    count[waiting[call.id]] += 1
            case ToolMessage() if message.tool_call_id in waiting:
                success[waiting.pop(message.tool_call_id)] += message.status == "ok"
            case _:
                pass
    tools = sorted(names | set(count))
    stats = {name: ToolStats(count[name], success[name], count[name] - success[name]) for name in tools}
    return stats, {name: count[name] - success[name] for name in tools}
