"""Running one row: an agent of its own, a directory of its own, and in the end exactly one record."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Sequence

import msgspec

from hermes_batch.files import is_directory
from hermes_batch.records import Record
from hermes_batch.row_directories import RowDirectories
from hermes_batch.row_records import Outcome, added_up, outcome_of_result, record_of
from hermes_batch.row_settings import RowSettings, toolsets_for
from hermes_batch.rows import PromptRow
from hermes_batch.statistics import has_reasoning
from hermes_batch.supervision import OverrunError, supervised
from hermes_messages import HermesError
from hermes_messages.argument_text import JsonObject
from hermes_messages.protocols import Agent, AgentFactory, AgentRequest, ConversationResult

__all__ = ["run_row"]

logger: logging.Logger = logging.getLogger(__name__)

_CLOSE_LIMIT_S = 30.0


async def run_row(
    row: PromptRow, factory: AgentFactory, settings: RowSettings, directories: RowDirectories
) -> Record:
    """Run `row` and say what came of it. Only cancellation and the failure to make the row's directory are
    raised; the directory is given back and all that the agent holds released before this returns.

    A row that names a directory works there, and that directory stays; the others get an empty one each.
    """
    started = time.monotonic()
    toolsets = toolsets_for(row, settings)
    session_id = f"{settings.run_name}-{row.index:06}-{secrets.token_hex(4)}"

    async def outcome_in(cwd: str) -> Outcome:
        request = AgentRequest(
            session_id=session_id,
            task_id=session_id,
            cwd=cwd,
            source="batch",
            toolsets=toolsets,
            max_iterations=row.max_iterations or settings.max_iterations,
            system_prompt=row.system,
            image=row.image or settings.image,
        )
        return await _converse(row, factory, request, settings)

    def record(outcome: Outcome) -> Record:
        spent = time.monotonic() - started
        return record_of(row, outcome, session_id=session_id, toolsets=toolsets, duration_s=spent)

    if row.cwd is None:
        temporary = await directories.take()
        try:
            outcome = await outcome_in(temporary)
        finally:
            await directories.give_back(temporary)
    elif await is_directory(row.cwd):
        outcome = await outcome_in(row.cwd)
    else:
        outcome = Outcome(
            status="error", reason="bad_row", error=f'line {row.line}: "cwd" {row.cwd!r} is no directory'
        )
    try:
        made = record(outcome)
    except Exception as error:  # noqa: BLE001 - whatever a broken result raises becomes the row's error
        made = record(_broken_result(error, row.index))
    if made.status == "ok" and settings.require_reasoning and not has_reasoning(made):
        return msgspec.structs.replace(made, status="discarded", reason="no_reasoning")
    return made


async def _converse(
    row: PromptRow, factory: AgentFactory, request: AgentRequest, settings: RowSettings
) -> Outcome:
    what = f"the agent of row {row.index}"
    try:
        agent = factory.create_agent(request)
    except Exception as error:  # noqa: BLE001 - recorded as the row's error
        return _failure(error, row.index)
    results: list[ConversationResult] = []
    ended: Outcome | None = None
    try:
        await supervised(
            _take_turns(row, agent, request.task_id, results), what=what, limit_s=settings.timeout_s
        )
    except OverrunError:
        late = f"not finished in {settings.timeout_s:g} s"
        ended = Outcome(status="error", reason="row_timeout", error=late)
    except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - recorded as the row's error
        ended = _failure(error, row.index)
    finally:
        await _close(agent, what)
    try:
        if ended is None:
            return outcome_of_result(added_up(results))
        return msgspec.structs.replace(ended, result=added_up(results)) if results else ended
    except Exception as error:  # noqa: BLE001 - whatever a broken result raises becomes the row's error
        return _broken_result(error, row.index)


async def _take_turns(row: PromptRow, agent: Agent, task_id: str, results: list[ConversationResult]) -> None:
    """The row's turns in order, as far as each is answered."""
    history: Sequence[JsonObject] | None = row.history or None
    for said in row.turns:
        result = await agent.run_conversation(said, conversation_history=history, task_id=task_id)
        results.append(result)
        if not result["completed"]:
            return
        history = None  # the agent remembers


async def _close(agent: Agent, what: str) -> None:
    """Close an agent. What the row came to stands, however that goes."""
    try:
        await supervised(agent.close(), what=f"closing {what}", limit_s=_CLOSE_LIMIT_S)
    except Exception:  # the agent may be anybody's
        logger.exception("%s could not be closed", what)


def _failure(error: BaseException, index: int) -> Outcome:
    if isinstance(error, HermesError):
        return Outcome(status="error", reason=type(error).__name__, error=str(error), raised=error)
    logger.error("row %d failed", index, exc_info=error)
    return Outcome(status="error", reason="internal_error", error=f"{type(error).__name__}: {error}")


def _broken_result(error: Exception, index: int) -> Outcome:
    logger.error("the result of row %d can not be used", index, exc_info=error)
    return Outcome(
        status="error",
        reason="broken_result",
        error=f"the agent's result can not be used: {type(error).__name__}: {error}",
    )
