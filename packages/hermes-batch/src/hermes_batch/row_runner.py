"""Running one row: an agent of its own, a directory of its own, and in the end exactly one record."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from hermes_batch.distributions import sample_toolsets
from hermes_batch.files import make_temporary_directory, remove_tree
from hermes_batch.records import Record, RecordStatus, ToolStats, Turn
from hermes_batch.rows import BadRow, PromptRow
from hermes_batch.statistics import has_reasoning
from hermes_messages import (
    AssistantMessage,
    ErrorKind,
    HermesError,
    Message,
    SystemMessage,
    ToolMessage,
    ToolSpec,
)
from hermes_messages.argument_text import JsonObject
from hermes_messages.protocols import AgentFactory, AgentRequest, ConversationResult
from hermes_messages.trajectory import to_trajectory

__all__ = ["RowSettings", "bad_row_record", "count_tools", "run_row"]

logger = logging.getLogger(__name__)

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


class RowSettings(Struct, frozen=True, kw_only=True):
    """What all rows of a run share. `toolsets` given wins over `distribution`; `timeout_s` is per row."""

    run_name: str
    distribution: Mapping[str, float]
    toolsets: tuple[str, ...] | None = None
    seed: int = 0
    max_iterations: int = 10
    timeout_s: float | None = None
    require_reasoning: bool = True


class _Outcome(Struct, frozen=True, kw_only=True):
    """What happened to a row, before it is turned into a record."""

    status: RecordStatus
    reason: str = ""
    error: str = ""
    result: ConversationResult | None = None


def toolsets_for(row: PromptRow, settings: RowSettings) -> tuple[str, ...]:
    """The toolsets of a row: its own, the run's, or a sample of the distribution."""
    if row.toolsets is not None:
        return row.toolsets
    if settings.toolsets is not None:
        return settings.toolsets
    seed = f"{settings.seed}:{row.index}:{row.content_hash}"
    return sample_toolsets(settings.distribution, seed=seed)


async def run_row(row: PromptRow, factory: AgentFactory, settings: RowSettings) -> Record:
    """Run `row` and say what came of it. Only cancellation and the failure to make or remove the row's
    directory are raised; the directory and all that the agent holds are released before this returns."""
    started = time.monotonic()
    toolsets = toolsets_for(row, settings)
    session_id = f"{settings.run_name}-{row.index:06}-{secrets.token_hex(4)}"
    cwd = await make_temporary_directory("hermes-row-")
    try:
        request = AgentRequest(
            session_id=session_id,
            task_id=session_id,
            cwd=str(cwd),
            source="batch",
            toolsets=toolsets,
            max_iterations=row.max_iterations or settings.max_iterations,
            system_prompt=row.system,
        )
        outcome = await _converse(row, factory, request, settings)
    finally:
        await remove_tree(cwd)
    record = record_of(
        row,
        outcome,
        session_id=session_id,
        toolsets=toolsets,
        duration_s=time.monotonic() - started,
    )
    if record.status == "ok" and settings.require_reasoning and not has_reasoning(record):
        return msgspec.structs.replace(record, status="discarded", reason="no_reasoning")
    return record


async def _converse(
    row: PromptRow, factory: AgentFactory, request: AgentRequest, settings: RowSettings
) -> _Outcome:
    try:
        agent = factory.create_agent(request)
        try:
            async with asyncio.timeout(settings.timeout_s):
                result = await agent.run_conversation(row.prompt, task_id=request.task_id)
        finally:
            await agent.close()
    except TimeoutError:
        return _Outcome(
            status="error", reason="row_timeout", error=f"not finished in {settings.timeout_s:g} s"
        )
    except HermesError as error:
        return _Outcome(status="error", reason=type(error).__name__, error=str(error))
    except Exception as error:
        logger.exception("row %d failed", row.index)
        return _Outcome(status="error", reason="internal_error", error=f"{type(error).__name__}: {error}")
    if result["failed"]:
        kind = result["error_kind"]
        reason = result["turn_exit_reason"] if kind is None else f"{result['turn_exit_reason']}:{kind.value}"
        return _Outcome(status="error", reason=reason, error=result["error"] or "", result=result)
    return _Outcome(status="ok", reason=result["turn_exit_reason"], result=result)


def bad_row_record(row: BadRow) -> Record:
    """The record of a line that is no row."""
    return record_of(row, _Outcome(status="error", reason="bad_row", error=f"line {row.line}: {row.reason}"))


def record_of(
    row: PromptRow | BadRow,
    outcome: _Outcome,
    *,
    session_id: str = "",
    toolsets: Sequence[str] = (),
    duration_s: float = 0.0,
) -> Record:
    """The record of a row and of what its agent returned, if it returned."""
    result = outcome.result
    transcript: Sequence[Message] = () if result is None else result["transcript"]
    tools: Sequence[JsonObject] = () if result is None else result["tools"]
    stats, errors = count_tools(transcript, [_tool_name(tool) for tool in tools])
    input_tokens = None if result is None else result["input_tokens"]
    output_tokens = None if result is None else result["output_tokens"]
    cost = None if result is None else result["cost_usd"]
    return Record(
        prompt_index=row.index,
        id="" if isinstance(row, BadRow) else row.id,
        row_hash=row.content_hash,
        status=outcome.status,
        reason=outcome.reason,
        error=outcome.error,
        conversations=tuple(Turn(step["from"], step["value"]) for step in _steps(row, transcript, tools)),
        completed=result is not None and result["completed"],
        partial=result is not None and result["partial"],
        reached_model=_reached_model(row, transcript, result),
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


def _reached_model(
    row: PromptRow | BadRow, transcript: Sequence[Message], result: ConversationResult | None
) -> bool:
    """Whether this row cost anything, or would fail again in the same way."""
    if isinstance(row, BadRow) or result is None:
        return True
    if any(isinstance(message, AssistantMessage) for message in transcript):
        return True
    return result["error_kind"] not in _HOST_UNAVAILABLE


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
    if not transcript:
        return []
    instructions = [] if isinstance(row, BadRow) or row.system is None else [SystemMessage(row.system)]
    conversation = [message for message in transcript if not isinstance(message, SystemMessage)]
    return to_trajectory([*instructions, *conversation], [_tool_spec(tool) for tool in tools])


def count_tools(
    transcript: Sequence[Message], known: Sequence[str]
) -> tuple[dict[str, ToolStats], dict[str, int]]:
    """Calls, successes and failures per tool; every known tool is named, zeros if never called."""
    names: dict[str, str] = {}
    count: Counter[str] = Counter()
    success: Counter[str] = Counter()
    failure: Counter[str] = Counter()
    for message in transcript:
        match message:
            case AssistantMessage():
                names = {call.id: call.name for call in message.tool_calls}
                count.update(names.values())
            case ToolMessage() if message.tool_call_id in names:
                ended = success if message.status == "ok" else failure
                ended[names[message.tool_call_id]] += 1
            case _:
                pass
    tools = sorted({*known, *count} - {""})
    stats = {name: ToolStats(count[name], success[name], failure[name]) for name in tools}
    return stats, {name: failure[name] for name in tools}
