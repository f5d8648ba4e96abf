"""`AIAgent`: configuration, the lock, and the public methods. What a turn does is in `hermes_loop.turn`."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import uuid
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from hermes_loop.admission import DEFAULT_TTL_S, LocalLease, admitted, lease_for
from hermes_loop.background import BackgroundWork, running_turn, stop_tasks
from hermes_loop.budget import IterationBudget
from hermes_loop.checks import check_agent_arguments, check_text
from hermes_loop.conversation import Conversation
from hermes_loop.events import Callbacks, TurnEvent, TurnEvents
from hermes_loop.interrupts import InterruptFlag
from hermes_loop.journal import Journal
from hermes_loop.loop_bound import LoopBound
from hermes_loop.options import (
    AgentOptions,
    check_count,
    check_other_options,
    read_effort,
    read_overrides,
    read_prefill,
    read_trajectory_dir,
)
from hermes_loop.request import check_turn_arguments, read_request
from hermes_loop.result import build_result
from hermes_loop.shielding import DEFAULT_BOUNDS, Bounds, finish_despite_cancel
from hermes_loop.steering import Steering
from hermes_loop.turn import run_turn
from hermes_loop.turn_log import log_phase
from hermes_loop.turn_state import TurnDeps, TurnRequest, TurnState
from hermes_loop.verdicts import Stop
from hermes_loop.wiring import Wiring
from hermes_messages import ConfigurationError, JsonValue, Message, StoreError, UserMessage
from hermes_messages.hygiene import clean_text
from hermes_messages.protocols import (
    ApprovalCallback,
    ClarifyCallback,
    ConversationResult,
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

logger = logging.getLogger(__name__)

CLOSE_LIMIT_S: Final = 10.0
CLOSE_BOUNDS: Final = Bounds(limit_s=2 * CLOSE_LIMIT_S + 1)


class AIAgent:
    """One model, one ordered conversation, tools, and a session that survives the process.

    `provider`, `session_db` and `tools` take a name (a path, a list of tools) or an object that satisfies
    the Protocol. What is made from a name belongs to the agent and is closed with it; objects stay the
    host's. Making an agent opens nothing: `async with`, or the first turn, does.

    An agent is used from one event loop at a time; turns wait for each other in the order of their arrival.

    Raises `ConfigurationError` for values that can not work, also a `TypeError` for an unknown keyword.
    """

    _is_open = False

    def __init__(
        self,
        *,
        provider: str | Provider | None = None,
        model: str | None = None,
        tools: ToolExecutor | Sequence[Tool] | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        max_iterations: int = 90,
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
        cwd: str | os.PathLike[str] | None = None,
        provider_settings: Mapping[str, JsonValue] | None = None,
        tool_settings: Mapping[str, JsonValue] | None = None,
        source: str = "library",
        session_metadata: Mapping[str, JsonValue] | None = None,
        parent_session_id: str | None = None,
        lease_ttl_s: float = DEFAULT_TTL_S,
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
            provider=provider,
            model=model,
            tools=tuple(tools) if isinstance(tools, Sequence) else tools,
            base_url=base_url,
            api_key=api_key,
            max_iterations=check_count("max_iterations", max_iterations),
            enabled_toolsets=tuple(enabled_toolsets or ()),
            disabled_toolsets=tuple(disabled_toolsets or ()),
            session_db=os.fspath(session_db) if isinstance(session_db, os.PathLike) else session_db,
            trajectory_dir=read_trajectory_dir(save_trajectories),
            ephemeral_system_prompt=ephemeral_system_prompt,
            system_prompt=system_prompt,
            identity=identity,
            prefill=read_prefill(prefill_messages),
            max_tokens=None if max_tokens is None else check_count("max_tokens", max_tokens),
            temperature=temperature,
            seed=seed,
            reasoning_effort=read_effort(reasoning_config, reasoning_effort),
            extra_body=read_overrides(request_overrides),
            cwd=where,
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
        self._session_id = session_id if session_id is not None else uuid.uuid4().hex
        self._lease_ttl_s = lease_ttl_s
        # One holder for all turns: a lease that could not be given back is this agent's own next time.
        self._holder = uuid.uuid4().hex
        self._wiring = Wiring(self._options)
        self._steering = Steering()
        self._background = BackgroundWork()
        self._conversation: Conversation | None = None
        self._current: TurnState | None = None
        self._bound: LoopBound | None = None
        self._closing = False
        self._close_after_turn = False
        self._warned = False

    def __repr__(self) -> str:
        return f"<AIAgent session_id={self._session_id!r} {self._options!r}>"

    def __del__(self) -> None:
        if self._is_open:
            warnings.warn(
                f"unclosed agent {self!r}; use `async with`", ResourceWarning, source=self, stacklevel=2
            )

    @property
    def session_id(self) -> str:
        """The session that this agent's conversation is."""
        return self._session_id

    async def __aenter__(self) -> Self:
        await self._initialize()
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
    ) -> ConversationResult:
        """Run one turn.

        The agent remembers its conversation; a `conversation_history` replaces what it remembers. A
        `system_message` is part of the system prompt, which is built once per conversation; a different one
        later builds it anew. `stream_callback` gets visible text as it comes.

        A turn that fails is a result with `failed`, not an exception. Bad input raises `HermesError` before
        any side effect. A cancellation is raised after a short, bounded finalization.
        """
        request = read_request(user_message, system_message, conversation_history)
        check_turn_arguments(task_id, stream_callback)
        return await self._run_turn(request, task_id, stream_callback, None)

    async def chat(
        self, message: str | UserMessage, stream_callback: StreamCallback | None = None
    ) -> str | None:
        """Run one turn and return its `final_response`; None where a failed turn left no text."""
        result = await self.run_conversation(message, stream_callback=stream_callback)
        return result["final_response"]

    async def stream(
        self,
        user_message: str | UserMessage,
        system_message: str | None = None,
        conversation_history: Sequence[Mapping[str, JsonValue]] | None = None,
        task_id: str | None = None,
    ) -> AsyncGenerator[TurnEvent, None]:
        """Run one turn and yield its events, from `TurnStarted` to `TurnEnded`.

        Closing the iterator cancels the turn and returns when it has ended; wrap it in
        `contextlib.aclosing` where a loop may be left early.
        """
        request = read_request(user_message, system_message, conversation_history)
        check_turn_arguments(task_id, None)
        queue: asyncio.Queue[TurnEvent | None] = asyncio.Queue()
        task = asyncio.create_task(self._run_turn(request, task_id, None, queue.put_nowait))
        task.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
            await task
        finally:
            if not task.done():
                await finish_despite_cancel(lambda: stop_tasks((task,), DEFAULT_BOUNDS.limit_s))
            if task.done() and not task.cancelled():
                task.exception()

    def interrupt(self) -> bool:
        """Stop the running turn at its next safe boundary; whether a turn was running.

        The turn returns what there is, with `interrupted`; one that waits for its session gives up waiting.
        Call it from the event loop's thread.
        """
        if self._current is None:
            return False
        self._current.interrupt.request()
        return True

    def steer(self, text: str) -> None:
        """Hand the model a note at the next boundary: after the tool results, or at the start of the next
        turn when this one ends before. Delivered once."""
        check_text("a steer note", text, filled=True)
        self._steering.add(clean_text(text))

    def spawn_background(
        self, work: Coroutine[object, object, object], *, name: str = "background work"
    ) -> asyncio.Task[object]:
        """Run `work` beside the conversation; it is cancelled and awaited before the next turn."""
        return self._background.spawn(work, name)

    async def close(self) -> None:
        """Release everything that the agent owns. Idempotent.

        A running turn is interrupted and awaited, at most 10 seconds; 5 once this is cancelled. A later turn
        opens everything again. In a tool or callback of the running turn, which can not wait for itself, this
        only interrupts: the turn closes the agent when it ends.
        """
        bound = self._bind()
        if self._inside_its_turn():
            self._closing = self._close_after_turn = True
            self.interrupt()
            return
        async with bound.opening:
            self._closing = True
            try:
                # Not cut short by a cancellation: the turn still needs what is about to be closed.
                await finish_despite_cancel(lambda: self._end_work(bound), CLOSE_BOUNDS)
            finally:
                self._is_open = False
                try:
                    await self._wiring.close()
                finally:
                    self._closing = False
        self._warned = False

    async def _end_work(self, bound: LoopBound) -> None:
        await self._end_running_turn(bound)
        await self._background.cancel(CLOSE_LIMIT_S)

    async def _end_running_turn(self, bound: LoopBound) -> None:
        if not bound.turns.locked():
            return
        self.interrupt()
        try:
            async with asyncio.timeout(CLOSE_LIMIT_S), bound.turns:
                pass
        except TimeoutError:
            warnings.warn(
                f"{self!r} is closed although its turn did not end",
                ResourceWarning,
                source=self,
                stacklevel=2,
            )

    async def _initialize(self) -> None:
        bound = self._bind()
        async with bound.opening:
            if self._is_open:
                if not bound.opened:
                    await self._wiring.reopen()
                    bound.opened = True
                return
            await self._wiring.open()
            bound.opened = True
            self._is_open = True
            journal = Journal(self._wiring.store, self._session_id)
            if self._conversation is None:
                self._conversation = Conversation(journal)
            else:
                self._conversation.journal = journal

    def _bind(self) -> LoopBound:
        """What belongs to the running event loop; made anew when the one before is gone."""
        loop = asyncio.get_running_loop()
        if self._bound is None or self._bound.loop is not loop:
            if self._bound is not None and self._bound.loop.is_running():
                raise ConfigurationError("this agent is in use by another event loop; one loop at a time")
            self._bound = LoopBound(loop)
            self._background = BackgroundWork()
            self._current = None
            self._closing = self._close_after_turn = False
        return self._bound

    async def _run_turn(
        self,
        request: TurnRequest,
        task_id: str | None,
        stream_callback: StreamCallback | None,
        sink: Callable[[TurnEvent], Awaitable[None] | None] | None,
    ) -> ConversationResult:
        if self._inside_its_turn():
            raise ConfigurationError(
                "a tool or callback must not start a turn of the agent that runs it: it would wait for itself"
            )
        await self._initialize()
        bound = self._bind()
        turn_id = uuid.uuid4().hex
        deps = self._wiring.turn_deps(self._steering, DEFAULT_BOUNDS)
        lease = lease_for(
            deps.store, self._session_id, self._holder, ttl_s=self._lease_ttl_s, clock=deps.clock
        )
        if deps.store is not None and isinstance(lease, LocalLease):
            self._warn_without_leases(deps.store)
        conversation = self._conversation
        assert conversation is not None
        turn = TurnState(
            session_id=self._session_id,
            task_id=task_id if task_id is not None else uuid.uuid4().hex,
            turn_id=turn_id,
            request=request,
            system_message=request.system_message,
            conversation=conversation,
            lease=lease,
            interrupt=InterruptFlag(),
            events=TurnEvents(self._options.callbacks, stream_callback, sink),
            budget=IterationBudget(self._options.max_iterations),
        )
        try:
            async with bound.turns:
                self._current = turn
                return await self._admit_and_run(turn, deps)
        except StoreError as error:  # only the admission lets one through
            log_phase(turn, "lease.admit", "Failed", logging.WARNING, str(error))
            return build_result(turn, deps, Stop("session_persistence_failed", str(error)))
        finally:
            if self._close_after_turn:
                self._close_after_turn = False
                await self.close()

    async def _admit_and_run(self, turn: TurnState, deps: TurnDeps) -> ConversationResult:
        """The turn, with the agent's lock held. Raises `StoreError` when it could not be admitted."""
        try:
            self._refuse_when_closed()
            async with admitted(
                self._background,
                turn.lease,
                turn.interrupt,
                deps.bounds,
                lambda step: log_phase(turn, step, "Done"),
            ) as is_admitted:
                self._refuse_when_closed()
                if not is_admitted:
                    return build_result(turn, deps, Stop("interrupted"))
                inside = running_turn.set(self)
                try:
                    return await run_turn(turn, deps)
                finally:
                    running_turn.reset(inside)
        finally:
            self._current = None

    def _refuse_when_closed(self) -> None:
        if self._closing or not self._is_open:
            raise ConfigurationError("the agent was closed while this turn waited; nothing was sent")

    def _inside_its_turn(self) -> bool:
        """Whether the caller is a tool or callback of the turn that is running."""
        return running_turn.get() is self and self._current is not None

    def _warn_without_leases(self, store: SessionStore) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(
                "%s has no turn leases: turns of session %s exclude each other in this process only",
                type(store).__name__,
                self._session_id,
            )
