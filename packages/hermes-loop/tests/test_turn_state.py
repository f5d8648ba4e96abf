"""Two turns of one agent share nothing that changes, however the first one went."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

from msgspec import Struct

from hermes_loop import AIAgent, Budget
from hermes_loop.phases.call import show
from hermes_loop.turn_state import TurnState
from hermes_messages import (
    ChatRequest,
    ErrorKind,
    JsonObject,
    ProviderError,
    StoreError,
    TextDelta,
    Usage,
    UserMessage,
)
from hermes_messages.protocols import ConversationResult, HookContext
from hermes_messages.testing import (
    MemoryStore,
    ScriptedProvider,
    ScriptStep,
    SimpleExecutor,
    broken,
    call,
    calls,
    error,
    text,
)

LASTING = {"session_id", "conversation"}
"""What belongs to the agent, and not to one of its turns."""
VALUES = (str, int, float, bool, tuple, frozenset, type(None))
USAGE = Usage(input_tokens=9, output_tokens=9, cost_usd=0.1)


async def fail(_: JsonObject) -> str:
    raise ValueError("no")


class Trouble:
    """A hook that leaves a note and a failure in the first turn."""

    turns = 0

    async def pre_model(self, context: HookContext, message: UserMessage) -> str | None:
        self.turns += 1
        return "a note" if self.turns == 1 else None

    async def post_turn(self, context: HookContext, result: ConversationResult) -> None:
        if self.turns == 1:
            raise ValueError("once")


def is_value(thing: object) -> bool:
    """Whether it can not change."""
    return isinstance(thing, VALUES) or (isinstance(thing, Struct) and thing.__struct_config__.frozen)


def fields(turn: TurnState) -> dict[str, Any]:
    return {field.name: getattr(turn, field.name) for field in dataclasses.fields(turn)}


def test_two_turns_share_nothing_that_changes() -> None:
    turns: list[TurnState] = []

    def noted(step: ScriptStep) -> ScriptStep:
        def answer(_: ChatRequest) -> ScriptStep:
            turn = agent._lifecycle.current
            assert turn is not None
            turns.append(turn)
            return step

        return answer

    no_seed = ProviderError("no seed", kind=ErrorKind.UNSUPPORTED_PARAMETER, parameter="seed")
    messy: list[ScriptStep] = [
        noted(error(no_seed)),
        calls(call("fail"), usage=USAGE),
        text(" "),
        broken(text("half"), after=1, error=ErrorKind.CONTENT_POLICY),
    ]
    store = MemoryStore()
    provider = ScriptedProvider([*messy, noted(text("fine", usage=USAGE))])
    agent = AIAgent(
        provider=provider,
        fallback_models=[ScriptedProvider([error(ErrorKind.CONTENT_POLICY)], name="other")],
        tools=SimpleExecutor({"fail": fail}),
        session_db=store,
        session_id="s",
        seed=3,
        hooks=[Trouble()],
        budget=Budget(tokens=10**6),
    )
    store.fail_next("update_token_counts", StoreError("down"))

    async def main() -> None:
        async with agent:
            first = await agent.run_conversation("one")
            assert first["turn_exit_reason"] == "refused"
            assert len(first["cleanup_errors"]) == 2
            second = await agent.run_conversation("two")
            assert (second["final_response"], second["cleanup_errors"]) == ("fine", [])
            assert (second["api_calls"], second["input_tokens"], second["error_kind"]) == (1, 9, None)
            assert [row["provider"] for row in second["usage_by_route"]] == ["scripted"]

    asyncio.run(main())
    assert [request.seed for request in provider.requests] == [3, None, None, None, 3]
    before, after = (fields(turn) for turn in turns)
    # The first turn left something in these; the second began without it.
    for name in ("note", "route_failures", "empty_responses", "failing_rounds", "error_kind"):
        assert before[name], name
        assert not after[name], name
    for name in before.keys() - LASTING:
        same = before[name] is after[name]
        assert not same or is_value(before[name]), f"{name} is shared by two turns"


def test_an_attempt_that_is_over_reaches_nobody() -> None:
    shown: list[str] = []

    def step(_: ChatRequest) -> ScriptStep:
        turn = agent._lifecycle.current
        assert turn is not None
        attempts.append((turn, turn.live_attempt))
        return (
            broken(text("half"), after=1, error=ErrorKind.TRANSPORT) if len(attempts) == 1 else text("whole")
        )

    attempts: list[tuple[TurnState, object]] = []
    agent = AIAgent(provider=ScriptedProvider(step), stream_delta_callback=shown.append)

    async def main() -> None:
        async with agent:
            await agent.run_conversation("go")
        before = list(shown)
        for turn, attempt in attempts:
            await show(turn, TextDelta("a late word"), attempt)
        assert shown == before
        assert attempts[0][1] is not attempts[1][1]

    asyncio.run(main())
