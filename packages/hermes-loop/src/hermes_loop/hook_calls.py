"""Where a turn calls its hooks, and what becomes of one that fails, hangs or stops the turn."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final, TypeVar

import anyio
import msgspec

from hermes_loop.events import CALLBACK_GRACE_S, HookFailed, WatchedEvent
from hermes_loop.result import list_failures
from hermes_loop.shielding import is_being_cancelled
from hermes_loop.turn_log import log_phase
from hermes_loop.turn_state import TurnDeps, TurnState
from hermes_loop.watching import SupportsTurnEvents, WatchContext, masked
from hermes_messages import ChatRequest, ChatResponse, ToolCall, ToolMessage, TurnStoppedError, UserMessage
from hermes_messages.hygiene import clean_text
from hermes_messages.protocols import ConversationResult, HookContext, SupportsAroundTurn

__all__ = [
    "after_turn",
    "around_turn",
    "gather_note",
    "transform_request",
    "transform_response",
    "transform_tool_result",
    "watch_turn",
]

T = TypeVar("T")

AFTER_TURN_S: Final = 10.0
AFTER_CANCEL_S: Final = 2.0


async def gather_note(turn: TurnState, deps: TurnDeps, message: UserMessage) -> None:
    """Ask the memory, then the pre-model hooks, for what the model should know in this turn."""
    if not deps.hooks.prefetch_memory and not deps.hooks.pre_model:
        return
    context = _context(turn)
    asked: list[tuple[object, str, Callable[[], Awaitable[str | None]]]] = [
        *(
            (memory, "prefetch_memory", partial(memory.prefetch_memory, context, message))
            for memory in deps.hooks.prefetch_memory
        ),
        *((hook, "pre_model", partial(hook.pre_model, context, message)) for hook in deps.hooks.pre_model),
    ]
    notes: list[str] = []
    for hook, ability, ask in asked:
        notes += await _call(turn, hook, ability, partial(_texts, ask), [])
    turn.note = "\n\n".join(notes)


async def transform_request(turn: TurnState, deps: TurnDeps, request: ChatRequest) -> ChatRequest:
    """The request as the hooks want it sent."""
    for hook in deps.hooks.transform_request:
        work = partial(hook.transform_request, _context(turn), request)
        request = await _call(turn, hook, "transform_request", partial(_checked, work, ChatRequest), request)
    return request


async def transform_response(turn: TurnState, deps: TurnDeps, response: ChatResponse) -> ChatResponse:
    """The response as the hooks want it kept."""
    for hook in deps.hooks.transform_response:
        work = partial(hook.transform_response, _context(turn), response)
        response = await _call(
            turn, hook, "transform_response", partial(_checked, work, ChatResponse), response
        )
    return response


async def transform_tool_result(
    turn: TurnState, deps: TurnDeps, call: ToolCall, result: ToolMessage
) -> ToolMessage:
    """The result as the hooks want it stored; it still answers `call`."""
    for hook in deps.hooks.transform_tool_result:
        work = partial(hook.transform_tool_result, _context(turn), call, result)
        result = await _call(turn, hook, "transform_tool_result", partial(_same_call, work, result), result)
    return result


async def after_turn(turn: TurnState, deps: TurnDeps, result: ConversationResult) -> None:
    """Tell the memory and the post-turn hooks, each once, in bounded time. Their failures join those of
    `result`. After a lost lease the memory, like everything that is kept, is left alone."""
    if not deps.hooks.sync_memory and not deps.hooks.post_turn:
        return
    context = _context(turn)
    limit_s = AFTER_CANCEL_S if result["turn_exit_reason"] == "cancelled" else AFTER_TURN_S
    with anyio.move_on_after(limit_s) as scope:
        if not turn.lease.lost:
            for memory in deps.hooks.sync_memory:
                await _once(turn, memory, "sync_memory", partial(memory.sync_memory, context, result))
        for hook in deps.hooks.post_turn:
            await _once(turn, hook, "post_turn", partial(hook.post_turn, context, result))
    if scope.cancelled_caught:
        turn.cleanup_errors.append(f"the hooks after the turn took longer than {limit_s:g} s")
    result["cleanup_errors"] = list_failures(turn)


def around_turn(
    turn: TurnState, deps: TurnDeps, body: Callable[[], Awaitable[ConversationResult]]
) -> Awaitable[ConversationResult]:
    """Run `body` inside the hooks that go around a turn. Raises `TurnStoppedError` of one that refuses it."""
    return _inside_hooks(turn, deps, body) if deps.hooks.around_turn else body()


async def _inside_hooks(
    turn: TurnState, deps: TurnDeps, body: Callable[[], Awaitable[ConversationResult]]
) -> ConversationResult:
    entered: list[_Entered] = []
    failure: BaseException | None = None
    try:
        for hook in deps.hooks.around_turn:
            await _call(turn, hook, "around_turn", partial(_enter, turn, hook, entered), None)
        result = await body()
    except BaseException as error:
        failure = error
        raise
    finally:
        for left, manager in reversed(entered):
            await _leave(turn, left, manager, failure)
    result["cleanup_errors"] = list_failures(turn)
    return result


_Entered = tuple[SupportsAroundTurn, AbstractAsyncContextManager[object]]


async def _enter(turn: TurnState, hook: SupportsAroundTurn, entered: list[_Entered]) -> None:
    manager = hook.around_turn(_context(turn))
    await manager.__aenter__()
    entered.append((hook, manager))


async def _leave(
    turn: TurnState,
    hook: object,
    manager: AbstractAsyncContextManager[object],
    failure: BaseException | None,
) -> None:
    """In the turn's own task, for what was entered there must be left there; so a further cancellation cuts
    it short, and a cancelled scope does not."""
    kind = None if failure is None else type(failure)
    traceback = None if failure is None else failure.__traceback__
    with anyio.move_on_after(AFTER_CANCEL_S, shield=True) as scope:
        try:
            await manager.__aexit__(kind, failure, traceback)
        except asyncio.CancelledError as error:
            if error is not failure:
                raise
        except Exception as error:  # noqa: BLE001 - the host's code; reported
            if error is not failure:
                await _report(turn, hook, "around_turn", f"{type(error).__name__}: {error}")
    if scope.cancelled_caught:
        await _report(turn, hook, "around_turn", f"left behind after {AFTER_CANCEL_S:g} s")


def watch_turn(turn: TurnState, deps: TurnDeps) -> None:
    """Let the hooks that watch hear of this turn."""
    for hook in deps.hooks.turn_event:
        turn.events.watch(_Watcher(turn, deps, hook))


class _Watcher:
    """Tells one hook of one turn. The context is made anew only where it has changed: text comes in many
    pieces."""

    __slots__ = ("_api_calls", "_context", "_deps", "_hook", "_route", "_turn")

    def __init__(self, turn: TurnState, deps: TurnDeps, hook: SupportsTurnEvents) -> None:
        self._turn = turn
        self._deps = deps
        self._hook = hook
        self._route, self._api_calls = turn.route, turn.api_calls
        self._context = self._make_context()

    def __call__(self, event: WatchedEvent) -> None:
        turn = self._turn
        if turn.route is not self._route or turn.api_calls != self._api_calls:
            self._route, self._api_calls = turn.route, turn.api_calls
            self._context = self._make_context()
        try:
            self._hook.turn_event(self._context, event)
        except Exception as error:  # noqa: BLE001 - the host's code; reported once
            name = f"hook {type(self._hook).__name__}.turn_event"
            if name not in turn.events.failures:
                turn.events.failures[name] = f"{name}: {type(error).__name__}: {error}"
                log_phase(turn, "turn_event", "HookFailed", logging.WARNING, turn.events.failures[name])

    def _make_context(self) -> WatchContext:
        routes = self._deps.routes
        known = msgspec.structs.asdict(_context(self._turn))
        return WatchContext(**known, mask=lambda text: masked(text, routes.secrets()))


async def _once(turn: TurnState, hook: object, ability: str, work: Callable[[], Awaitable[None]]) -> None:
    """Finalization may run twice; a hook is told once. It can no longer stop the turn."""
    key = (id(hook), ability)
    if key in turn.hooks_done:
        return
    turn.hooks_done |= {key}
    try:
        await _call(turn, hook, ability, work, None)
    except TurnStoppedError as error:
        await _report(turn, hook, ability, f"{type(error).__name__}: {error}; the turn is over")


async def _call(
    turn: TurnState, hook: object, ability: str, work: Callable[[], Awaitable[T]], otherwise: T
) -> T:
    """What `work()` returns, or `otherwise` from a hook that fails, or hangs until the turn is interrupted.

    Raises `TurnStoppedError`.
    """
    try:
        with turn.interrupt.scope(grace_s=CALLBACK_GRACE_S) as scope:
            value = await work()
        if not scope.cancelled_caught:
            return value
        problem = "cut short by an interrupt of the turn"
    except TurnStoppedError:
        raise
    except asyncio.CancelledError as error:
        if is_being_cancelled():
            raise
        problem = f"something that it awaited was cancelled ({error!r})"
    except Exception as error:  # noqa: BLE001 - the host's code; reported
        problem = f"{type(error).__name__}: {error}"
    await _report(turn, hook, ability, problem)
    return otherwise


async def _report(turn: TurnState, hook: object, ability: str, problem: str) -> None:
    name = f"{type(hook).__name__}.{ability}"
    turn.events.failures.setdefault(f"hook {name}", f"hook {name}: {problem}")
    log_phase(turn, ability, "HookFailed", logging.WARNING, f"{name}: {problem}")
    await turn.events.emit(HookFailed(name, problem))


def _context(turn: TurnState) -> HookContext:
    return HookContext(
        session_id=turn.session_id,
        task_id=turn.task_id,
        turn_id=turn.turn_id,
        provider=turn.route.provider.name,
        model=turn.route.model,
        api_calls=turn.api_calls,
    )


async def _checked(work: Callable[[], Awaitable[T]], kind: type[T]) -> T:
    value: object = await work()
    if not isinstance(value, kind):
        raise TypeError(f"it must return a {kind.__name__}, not {type(value).__name__}")
    return value


async def _same_call(work: Callable[[], Awaitable[ToolMessage]], result: ToolMessage) -> ToolMessage:
    changed = await _checked(work, ToolMessage)
    if changed.tool_call_id != result.tool_call_id:
        raise TypeError("it must return a result of the same call")
    return changed


async def _texts(work: Callable[[], Awaitable[str | None]]) -> list[str]:
    value: object = await work()
    if not isinstance(value, str | None):
        raise TypeError(f"it must return text or None, not {type(value).__name__}")
    return [clean_text(value)] if value and value.strip() else []
