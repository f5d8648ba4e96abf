"""Whatever the model, the store and the host do: the turn ends, and what it leaves is valid."""

from __future__ import annotations

import asyncio
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hermes_loop import AIAgent, Budget
from hermes_loop.events import (
    StepEnded,
    StepStarted,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnEvent,
    TurnStarted,
)
from hermes_messages import (
    ChatRequest,
    ErrorKind,
    JsonObject,
    LeaseLostError,
    Message,
    StoreError,
    ToolCall,
    ToolMessage,
    TurnStoppedError,
    UserMessage,
    validate,
)
from hermes_messages.protocols import ConversationResult, HookContext, TurnExitReason
from hermes_messages.testing import (
    MemoryStore,
    ScriptedProvider,
    ScriptStep,
    SimpleExecutor,
    broken,
    call,
    calls,
    error,
    failure,
    text,
)

WRITES = (
    "acquire_session_turn_lease",
    "ensure_session",
    "get_messages",
    "update_session_meta",
    "append_messages_batch",
    "begin_tool_round",
    "set_tool_result",
    "update_token_counts",
    "release_session_turn_lease",
)
MAX_CALLS = 200


def _failure(kind: ErrorKind) -> ScriptStep:
    return error(failure(kind, retry_after_s=0))


_calls = st.lists(
    st.builds(
        call, st.sampled_from(["ok", "fail", "nobody", " "]), st.sampled_from(["{}", '{"a": 1}', "{bad", ""])
    ),
    min_size=1,
    max_size=3,
)
_steps = st.one_of(
    st.builds(text, st.sampled_from(["fine", "", " ", "two words"])),
    st.builds(text, st.just("cut"), finish=st.sampled_from(["length", "content_filter", "stop", "odd"])),
    _calls.map(lambda wanted: calls(*wanted, text="hm")),
    _calls.map(lambda wanted: calls(*wanted, finish="length")),
    st.sampled_from(ErrorKind).map(_failure),
    st.sampled_from(ErrorKind).map(
        lambda kind: broken(text("half"), after=1, error=failure(kind, retry_after_s=0))
    ),
)
_faults = st.lists(
    st.tuples(
        st.sampled_from(WRITES),
        st.sampled_from([StoreError("down"), LeaseLostError("taken")]),
        st.integers(1, 3),
        st.booleans(),
    ),
    max_size=3,
)


async def ok(_: JsonObject) -> str:
    return "ok"


async def fail(_: JsonObject) -> str:
    raise ValueError("no")


class Troubled:
    """A hook each of whose calls may fail, stop the turn or change something, as `plan` says."""

    def __init__(self, plan: list[str]) -> None:
        self._plan = iter(plan)

    def _next(self) -> bool:
        match next(self._plan, "fine"):
            case "fails":
                raise ZeroDivisionError("a hook's bug")
            case "stops":
                raise TurnStoppedError("a hook's will")
            case step:
                return step == "changes"

    async def pre_model(self, context: HookContext, message: UserMessage) -> str | None:
        return "a note" if self._next() else None

    async def transform_request(self, context: HookContext, request: ChatRequest) -> ChatRequest:
        return replace(request, seed=1) if self._next() else request

    async def transform_tool_result(
        self, context: HookContext, call: ToolCall, result: ToolMessage
    ) -> ToolMessage:
        return replace(result, content="changed") if self._next() else result

    async def post_turn(self, context: HookContext, result: ConversationResult) -> None:
        self._next()


def made_up(message: Message) -> bool:
    """A result that stands for one that never came; a store that can not keep it gets it the next time."""
    return isinstance(message, ToolMessage) and message.status == "unknown"


_plans = st.lists(st.sampled_from(["fine", "fine", "changes", "fails", "stops"]), max_size=12)
_budgets = st.sampled_from([None, Budget(tokens=60), Budget(cost_usd=1.0), Budget(seconds=30.0)])


@settings(max_examples=200, deadline=None)
@given(
    st.lists(_steps, max_size=12),
    st.one_of(st.none(), st.lists(_steps, max_size=6)),
    _plans,
    _budgets,
    _faults,
    st.integers(1, 4),
    st.integers(0, 60),
    st.booleans(),
)
def test_a_turn_always_ends_and_leaves_a_valid_conversation(
    steps: list[ScriptStep],
    elsewhere: list[ScriptStep] | None,
    plan: list[str],
    budget: Budget | None,
    faults: list[tuple[str, StoreError, int, bool]],
    max_iterations: int,
    interrupt_at: int,
    steer: bool,
) -> None:
    events: list[TurnEvent] = []

    async def main() -> None:
        store = MemoryStore()
        provider = ScriptedProvider([*steps, *[text("the end")] * MAX_CALLS])
        others = [ScriptedProvider([*elsewhere, *[text("the end")] * MAX_CALLS])] if elsewhere else []
        for method, problem, times, after in faults:
            store.fail_next(method, problem, times=times, after=after)

        def on_event(event: TurnEvent) -> None:
            events.append(event)
            if len(events) == interrupt_at:
                agent.interrupt()
                if steer:
                    agent.steer("a note")

        agent = AIAgent(
            provider=provider,
            fallback_models=others,
            hooks=[Troubled(plan)] if plan else [],
            budget=budget,
            temperature=0.5,
            max_tokens=100,
            tools=SimpleExecutor({"ok": ok, "fail": fail}),
            session_db=store,
            session_id="s",
            max_iterations=max_iterations,
            event_callback=on_event,
        )
        async with agent:
            for message in ("one", "two"):
                result = await agent.run_conversation(message)
                assert result["turn_exit_reason"] in get_args(TurnExitReason)
                assert result["turn_exit_reason"] != "internal_error", result["error"]
                assert validate(result["transcript"]) == []
                if not faults:
                    assert result["saved"] or result["turn_exit_reason"] in {
                        "stopped_by_hook",
                        "provider_error",
                    }
                    assert validate(store.messages("s")) == []
                if result["saved"]:
                    stored = store.messages("s")
                    assert stored == [m for m in result["transcript"] if m in stored or not made_up(m)]
                if result["completed"]:
                    assert result["final_response"]
                assert result["api_calls"] <= (max_iterations + 1) * 7 * (1 + len(others))
                assert sum(row["api_calls"] for row in result["usage_by_route"]) == result["api_calls"]
        assert all(one.live_streams == 0 for one in (provider, *others))
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    for start, end in ((TurnStarted, TurnEnded), (StepStarted, StepEnded), (ToolStarted, ToolEnded)):
        assert sum(isinstance(e, start) for e in events) == sum(isinstance(e, end) for e in events)
