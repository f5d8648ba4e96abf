"""Whatever the model, the store and the host do: the turn ends, and what it leaves is valid."""

from __future__ import annotations

import asyncio
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_loop import AIAgent
from hermes_loop.events import (
    StepEnded,
    StepStarted,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnEvent,
    TurnStarted,
)
from hermes_messages import ErrorKind, JsonObject, LeaseLostError, StoreError, validate
from hermes_messages.protocols import TurnExitReason
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
    "try_acquire_session_turn_lease",
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


@settings(max_examples=200, deadline=None)
@given(st.lists(_steps, max_size=12), _faults, st.integers(1, 4), st.integers(0, 60), st.booleans())
def test_a_turn_always_ends_and_leaves_a_valid_conversation(
    steps: list[ScriptStep],
    faults: list[tuple[str, StoreError, int, bool]],
    max_iterations: int,
    interrupt_at: int,
    steer: bool,
) -> None:
    events: list[TurnEvent] = []

    async def main() -> None:
        store = MemoryStore()
        provider = ScriptedProvider([*steps, *[text("the end")] * MAX_CALLS])
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
                    assert result["saved"]
                    assert validate(store.messages("s")) == []
                if result["saved"]:
                    assert tuple(store.messages("s")) == result["transcript"]
                if result["completed"]:
                    assert result["final_response"]
                assert result["api_calls"] <= (max_iterations + 1) * 6
        assert provider.live_streams == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    for start, end in ((TurnStarted, TurnEnded), (StepStarted, StepEnded), (ToolStarted, ToolEnded)):
        assert sum(isinstance(e, start) for e in events) == sum(isinstance(e, end) for e in events)
