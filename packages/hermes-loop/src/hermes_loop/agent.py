"""`AIAgent`: its settings and public methods. How its turns are run is in `hermes_loop.turn_runner`."""

from __future__ import annotations

import asyncio
import inspect
import os
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Self

from hermes_loop.admission import DEFAULT_TTL_S
from hermes_loop.budget import Budget, IterationBudget, read_budget, read_iteration_budget
from hermes_loop.checks import check_agent_arguments, check_text
from hermes_loop.compression import CompressionSettings, Compressor
from hermes_loop.compression.control import read_compression
from hermes_loop.context_files import read_names
from hermes_loop.events import Callbacks, TurnEvent
from hermes_loop.follow_ups import FollowUp
from hermes_loop.hooks import read_hooks
from hermes_loop.ids import new_id
from hermes_loop.lifecycle import Lifecycle
from hermes_loop.options import (
    AgentOptions,
    check_count,
    check_other_options,
    provider_of,
    read_effort,
    read_overrides,
    read_prefill,
    read_trajectory_dir,
)
from hermes_loop.output_type import read_output_type
from hermes_loop.request import check_turn_arguments, read_decisions, read_request
from hermes_loop.route_specs import RouteGiven, read_fallbacks
from hermes_loop.runtime import SupportsWholeTurn
from hermes_loop.steering import Steering, SteerNote
from hermes_loop.turn_log import log_unanswered
from hermes_loop.turn_runner import TurnRunner
from hermes_loop.wiring import Wiring
from hermes_messages import JsonValue, Message, ToolCall, UserMessage
from hermes_messages.hygiene import clean_text
from hermes_messages.protocols import (
    ApprovalAnswer,
    ApprovalCallback,
    ClarifyCallback,
    ConversationResult,
    PendingApproval,
    Provider,
    SessionInfo,
    SessionStore,
    StreamCallback,
    Tool,
    ToolCompleteCallback,
    ToolExecutor,
    ToolProgressCallback,
    ToolStartCallback,
)

__all__ = ["AIAgent"]


class AIAgent:
    """One model, one ordered conversation, tools, and a session that survives the process.

    `provider`, `session_db` and `tools` take a name (a path, a list of tools) or an object that satisfies
    the Protocol. What is made from a name belongs to the agent and is closed with it; objects stay the
    host's. Making an agent opens nothing: `async with`, or the first turn, does.

    An agent is used from one event loop at a time; turns wait for each other in the order of their arrival.

    The model: `provider` (a name or a `Provider`) or `base_url` of any host, `model`, `api_key`,
    `provider_settings`; `fallback_model` or `fallback_models` are asked where it fails. `max_tokens` of
    one answer, `temperature`, `seed`, `reasoning_effort` or `reasoning_config` (`{"enabled": ...,
    "effort": ...}`, from "none" to "max"), `request_overrides` (further fields of the request as the
    host knows them), `output_type` (the form of the final answer). A `runtime` outside does whole
    turns in the model's place.

    What is said: `system_prompt` takes the place of the whole system prompt, `identity` of its first
    part only; `context_files` are read from `cwd` unless `skip_context_files`. `ephemeral_system_prompt`
    is sent after it and never stored; `prefill_messages` are sent before the conversation and never
    stored.

    Tools: `enabled_toolsets` and `disabled_toolsets` by name, or `tools` of your own; `mcp_servers`,
    `tool_settings`, `approval_policy`, `checkpoints_enabled` (a snapshot before files change), and `cwd`,
    where they work. With `rerun_idempotent_tools`, calls that a crash left without a result run again where
    their tools say that this does no harm.

    Limits: `max_iterations` model calls in a turn, `budget` for its tokens, cost and seconds; an
    `iteration_budget` holds for all turns, also of other agents that are given the same. `compression`
    and `compressor` shorten long conversations.

    What is kept: `session_db` and `session_id`; `source`, `session_metadata` and `parent_session_id` are
    stored with a new session; a turn's lease ends after `lease_ttl_s` seconds without renewal.
    `save_trajectories` (True: here, or a directory) adds each turn to a JSONL file.

    Who is told: `event_callback` of everything, the other callbacks of one thing each;
    `clarify_callback` and `approval_callback` are asked. `hooks` change turns or watch them; `skip_memory`
    leaves those of the memory alone.

    Raises `ConfigurationError` for values that can not work, also a `TypeError` for an unknown keyword.
    """

    _is_made = False

    def __init__(
        self,
        *,
        provider: str | Provider | None = None,
        runtime: SupportsWholeTurn | None = None,
        model: str | None = None,
        fallback_model: RouteGiven | Sequence[RouteGiven] | None = None,
        fallback_models: RouteGiven | Sequence[RouteGiven] | None = None,
        tools: ToolExecutor | Sequence[Tool] | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        max_iterations: int = 90,
        iteration_budget: IterationBudget | int | None = None,
        budget: Budget | None = None,
        compression: bool | CompressionSettings = True,
        compressor: Compressor | None = None,
        enabled_toolsets: Sequence[str] | None = None,
        disabled_toolsets: Sequence[str] | None = None,
        session_id: str | None = None,
        session_db: str | os.PathLike[str] | SessionStore | None = None,
        save_trajectories: bool | str | os.PathLike[str] = False,
        ephemeral_system_prompt: str | None = None,
        system_prompt: str | None = None,
        identity: str | None = None,
        prefill_messages: Sequence[Message | Mapping[str, JsonValue]] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        seed: int | None = None,
        reasoning_config: Mapping[str, object] | None = None,
        reasoning_effort: str | None = None,
        request_overrides: Mapping[str, object] | None = None,
        output_type: type | Mapping[str, JsonValue] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        hooks: Sequence[object] | None = None,
        skip_memory: bool = False,
        context_files: Sequence[str] | None = None,
        skip_context_files: bool = False,
        provider_settings: Mapping[str, JsonValue] | None = None,
        tool_settings: Mapping[str, JsonValue] | None = None,
        mcp_servers: Mapping[str, JsonValue] | None = None,
        approval_policy: Mapping[str, JsonValue] | None = None,
        checkpoints_enabled: bool = False,
        source: str = "library",
        session_metadata: Mapping[str, JsonValue] | None = None,
        parent_session_id: str | None = None,
        lease_ttl_s: float = DEFAULT_TTL_S,
        rerun_idempotent_tools: bool = False,
        stream_delta_callback: StreamCallback | None = None,
        reasoning_callback: Callable[[str], Awaitable[None] | None] | None = None,
        tool_start_callback: ToolStartCallback | None = None,
        tool_progress_callback: ToolProgressCallback | None = None,
        tool_complete_callback: ToolCompleteCallback | None = None,
        step_callback: Callable[[int], Awaitable[None] | None] | None = None,
        status_callback: Callable[[str, str], Awaitable[None] | None] | None = None,
        clarify_callback: ClarifyCallback | None = None,
        approval_callback: ApprovalCallback | None = None,
        event_callback: Callable[[TurnEvent], Awaitable[None] | None] | None = None,
        **others: object,
    ) -> None:
        check_agent_arguments(locals())
        if others:
            check_other_options(others, inspect.signature(AIAgent.__init__).parameters)
        where = None if cwd is None else os.fspath(cwd)
        self._options = AgentOptions(
            provider=provider_of(provider, runtime, model),
            model=model,
            runtime=runtime,
            fallbacks=read_fallbacks(fallback_model, fallback_models),
            tools=tuple(tools) if isinstance(tools, Sequence) else tools,
            base_url=base_url,
            api_key=api_key,
            max_iterations=check_count("max_iterations", max_iterations),
            iteration_budget=read_iteration_budget(iteration_budget),
            budget=read_budget(budget),
            compression=read_compression(compression, compressor),
            enabled_toolsets=tuple(enabled_toolsets or ()),
            disabled_toolsets=tuple(disabled_toolsets or ()),
            session_db=os.fspath(session_db) if isinstance(session_db, os.PathLike) else session_db,
            trajectory_dir=read_trajectory_dir(save_trajectories),
            ephemeral_system_prompt=ephemeral_system_prompt,
            system_prompt=system_prompt,
            identity=identity,
            context_files=read_names(context_files, where, skip=bool(skip_context_files)),
            prefill=read_prefill(prefill_messages),
            max_tokens=None if max_tokens is None else check_count("max_tokens", max_tokens),
            temperature=temperature,
            seed=seed,
            reasoning_effort=read_effort(reasoning_config, reasoning_effort),
            extra_body=read_overrides(request_overrides),
            output=read_output_type(output_type),
            cwd=where,
            hooks=read_hooks(hooks),
            skip_memory=bool(skip_memory),
            callbacks=Callbacks(
                stream_delta=stream_delta_callback,
                reasoning=reasoning_callback,
                tool_start=tool_start_callback,
                tool_progress=tool_progress_callback,
                tool_complete=tool_complete_callback,
                step=step_callback,
                status=status_callback,
                clarify=clarify_callback,
                approval=approval_callback,
                event=event_callback,
            ),
            provider_settings=provider_settings or {},
            tool_settings=tool_settings or {},
            mcp_servers=mcp_servers or {},
            approval_policy=approval_policy or {},
            checkpoints_enabled=checkpoints_enabled,
            rerun_idempotent=bool(rerun_idempotent_tools),
            session_info=SessionInfo(
                source=source,
                model=model,
                provider=provider if isinstance(provider, str) else None,
                cwd=where,
                parent_session_id=parent_session_id,
                metadata=session_metadata or {},
            ),
        )
        self._options.check()
        self._session_id = session_id if session_id is not None else new_id()
        self._steering = Steering()
        self._lifecycle = Lifecycle(Wiring(self._options), self._session_id)
        self._turns = TurnRunner(
            self._options, self._lifecycle, self._steering, self._session_id, lease_ttl_s=lease_ttl_s
        )
        self._is_made = True

    def __repr__(self) -> str:
        return self._options.label(self._session_id)

    def __del__(self) -> None:
        if self._is_made and self._lifecycle.is_open:
            warnings.warn(
                f"unclosed agent {self!r}; use `async with`", ResourceWarning, source=self, stacklevel=2
            )

    @property
    def session_id(self) -> str:
        """The session that this agent's conversation is."""
        return self._session_id

    async def __aenter__(self) -> Self:
        await self._lifecycle.initialize()
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def run_conversation(
        self,
        user_message: str | UserMessage,
        system_message: str | None = None,
        conversation_history: Sequence[Mapping[str, JsonValue]] | None = None,
        task_id: str | None = None,
        stream_callback: StreamCallback | None = None,
        *,
        prelude: Sequence[ToolCall] = (),
    ) -> ConversationResult:
        """Run one turn.

        The agent remembers its conversation; a `conversation_history` replaces what it remembers. A
        `system_message` is part of the system prompt, which is built once per conversation; a different one
        later builds it anew. `stream_callback` gets visible text as it comes. The calls of a `prelude` run,
        and are recorded as the model's own would be, before the model is asked.

        A turn that fails is a result with `failed`, not an exception. Bad input raises `HermesError` before
        any side effect. A cancellation is raised after a short, bounded finalization.
        """
        request = read_request(user_message, system_message, conversation_history, prelude)
        check_turn_arguments(task_id, stream_callback)
        return await self._turns.run(request, task_id, stream_callback)

    async def chat(
        self, message: str | UserMessage, stream_callback: StreamCallback | None = None
    ) -> str | None:
        """Run one turn and return its `final_response`; None where a failed turn left no text, which the log
        tells with the reason."""
        result = await self.run_conversation(message, stream_callback=stream_callback)
        if result["failed"] and result["final_response"] is None:
            log_unanswered(result)
        return result["final_response"]

    def stream(
        self,
        user_message: str | UserMessage,
        system_message: str | None = None,
        conversation_history: Sequence[Mapping[str, JsonValue]] | None = None,
        task_id: str | None = None,
        *,
        prelude: Sequence[ToolCall] = (),
    ) -> AsyncGenerator[TurnEvent, None]:
        """Run one turn and yield its events, from `TurnStarted` to `TurnEnded`.

        Closing the iterator cancels the turn and returns when it has ended; wrap it in
        `contextlib.aclosing` where a loop may be left early.
        """
        request = read_request(user_message, system_message, conversation_history, prelude)
        check_turn_arguments(task_id, None)
        return self._turns.stream(request, task_id)

    async def resume(
        self,
        decisions: Mapping[str, ApprovalAnswer | Mapping[str, JsonValue]],
        task_id: str | None = None,
        stream_callback: StreamCallback | None = None,
    ) -> ConversationResult:
        """Finish the round of tool calls that a turn left with `approval_pending`, and go on with the turn.

        `decisions` are by call id: `Approve`, `Deny`, True, False, or as JSON (`{"decision": "approve"}`).
        Calls without one, or with `Later`, stay pending: the turn ends with `approval_pending` again. A call
        that ran never runs again. With a store an agent of another process can do this, made with the same
        `session_id` and tools.

        Raises `ConfigurationError`, with no side effect, when nothing waits and for decisions that do not fit
        the calls; the calls wait on.
        """
        request = read_decisions(decisions)
        check_turn_arguments(task_id, stream_callback)
        return await self._turns.run(request, task_id, stream_callback)

    def stream_resume(
        self, decisions: Mapping[str, ApprovalAnswer | Mapping[str, JsonValue]], task_id: str | None = None
    ) -> AsyncGenerator[TurnEvent, None]:
        """`resume` as the events of the turn; see `stream`."""
        request = read_decisions(decisions)
        check_turn_arguments(task_id, None)
        return self._turns.stream(request, task_id)

    async def pending_approvals(self) -> tuple[PendingApproval, ...]:
        """The calls of this session that wait for a decision, also those that another process left.

        Raises `StoreError`.
        """
        return await self._turns.pending_approvals()

    def interrupt(self) -> bool:
        """Stop the running turn at its next safe boundary; whether a turn was running.

        The turn returns what there is, with `interrupted`; one that waits for its session gives up waiting.
        Call it from the event loop's thread.
        """
        return self._lifecycle.interrupt()

    def steer(self, text: str) -> SteerNote:
        """Hand the model a note at the next boundary: after the tool results, or at the start of the next
        turn when this one ends before. Delivered once: what is returned tells, and a `SteerDelivered`."""
        check_text("a steer note", text, filled=True)
        return self._steering.add(clean_text(text))

    def follow_up(self, text: str) -> FollowUp:
        """Open a turn with this message by itself when the running turn has ended; at once where none runs.

        Await what is returned for the result of that turn. It begins however the running turn ended, also
        when that was interrupted or cancelled; while calls of the session wait for a decision it does not,
        but when they are settled: by another process, as soon as `pending_approvals` or a turn tells.
        `withdraw` takes it back before. A closed agent refuses what has not begun. To be called in the event
        loop that the agent is used from.
        """
        check_text("a follow-up", text, filled=True)
        return self._turns.follow_up(clean_text(text))

    def spawn_background(
        self, work: Coroutine[object, object, object], *, name: str = "background work"
    ) -> asyncio.Task[object]:
        """Run `work` beside the conversation; it is cancelled and awaited before the next turn."""
        return self._lifecycle.background.spawn(work, name)

    async def close(self) -> None:
        """Release everything that the agent owns. Idempotent.

        A running turn is interrupted and awaited, at most 10 seconds; 5 once this is cancelled. A later turn
        opens everything again. In a tool or callback of the running turn, which can not wait for itself, this
        only interrupts: the turn closes the agent when it ends.
        """
        await self._lifecycle.close()
