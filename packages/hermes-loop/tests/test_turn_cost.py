"""What a turn asks of the event loop and of the interpreter, by counting. Nothing here is timed."""

from __future__ import annotations

import asyncio
import copy
import functools
import gc
import json
import pickle
import sys
import weakref
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from functools import partial
from types import FrameType
from typing import Any, cast

import msgspec
import pytest

from hermes_loop import AIAgent, ids
from hermes_loop.events import TurnEvents
from hermes_loop.stream_text import ShownText
from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    ChatResponse,
    FinishReason,
    JsonObject,
    ModelInfo,
    ResponseDone,
    StreamEvent,
    TextDelta,
    Usage,
)
from hermes_messages.parts import Origin
from hermes_messages.protocols import ConversationResult
from hermes_messages.testing import ScriptedProvider, SimpleExecutor, call, calls, text


class Instant:
    """A provider that answers without waiting for anything."""

    name = "instant"
    default_model = "m"

    def origin(self, model: str) -> Origin:
        return Origin("instant", "here", model)

    def model_info(self, model: str) -> ModelInfo:
        return ModelInfo(context_window=10_000_000)

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        yield TextDelta("well")
        usage = Usage(input_tokens=9, output_tokens=1)
        message = AssistantMessage("well", finish_reason="stop")
        yield ResponseDone(ChatResponse(message=message, finish=FinishReason.STOP, usage=usage))


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """An async test as pytest runs it."""

    @functools.wraps(test)
    def run(*args: Any, **keywords: Any) -> None:
        asyncio.run(test(*args, **keywords))

    return run


async def asked_of_the_loop(work: Callable[[], Awaitable[object]]) -> dict[str, int]:
    """How many tasks, timers and callbacks `work` makes."""
    loop = asyncio.get_running_loop()
    counts = {"create_task": 0, "call_at": 0, "call_soon": 0}

    def count(name: str) -> Callable[..., object]:
        real = getattr(loop, name)

        def counted(*args: object, **keywords: object) -> object:
            counts[name] += 1
            return real(*args, **keywords)

        return counted

    kept = {name: getattr(loop, name) for name in counts}
    for name in counts:
        setattr(loop, name, count(name))
    try:
        await work()
    finally:
        for name, real in kept.items():
            setattr(loop, name, real)
    return counts


async def function_calls(work: Callable[[], Awaitable[object]]) -> Counter[str]:
    """Which functions, also ones written in C, `work` calls how often. Neither the garbage collector nor
    the drawing of the next ids, which comes once in many turns, falls into it."""
    names: list[str] = []

    def counted(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            names.append(frame.f_code.co_qualname)
        elif event == "c_call":
            names.append(getattr(argument, "__qualname__", "?"))

    while len(ids._ready) < 8:
        ids.new_id()
    gc.collect()
    gc.disable()
    sys.setprofile(counted)
    try:
        await work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return Counter(names)


def long_history(count: int) -> list[JsonObject]:
    messages: list[JsonObject] = []
    for number in range(count // 4):
        called: JsonObject = {"id": f"c{number}", "type": "function"}
        called["function"] = {"name": "look", "arguments": "{}"}
        messages += [
            {"role": "user", "content": f"question {number}"},
            {"role": "assistant", "content": None, "tool_calls": [called]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": "seen"},
            {"role": "assistant", "content": "so it is"},
        ]
    return messages


@in_a_loop
async def test_a_turn_in_memory_asks_nothing_of_the_event_loop() -> None:
    async with AIAgent(provider=Instant()) as agent:
        await agent.run_conversation("hi")
        counts = await asked_of_the_loop(lambda: agent.run_conversation("hi"))
    assert counts == {"create_task": 0, "call_at": 0, "call_soon": 0}


@in_a_loop
async def test_a_new_agent_asks_nothing_of_the_event_loop_either() -> None:
    async def work() -> None:
        async with AIAgent(provider=Instant()) as agent:
            assert await agent.chat("hi") == "well"

    await work()
    assert await asked_of_the_loop(work) == {"create_task": 0, "call_at": 0, "call_soon": 0}


@in_a_loop
async def test_a_turn_costs_no_more_calls_on_a_long_conversation() -> None:
    counted = []
    for count in (40, 4_000):
        async with AIAgent(provider=Instant()) as agent:
            await agent.run_conversation("first", conversation_history=long_history(count))
            await agent.run_conversation("second")
            counted.append(await function_calls(partial(agent.run_conversation, "hi")))
            result = await agent.run_conversation("last")
            assert len(result["messages"]) == len(result["transcript"]) == count + 8
    assert counted[0] == counted[1]


@in_a_loop
async def test_nobody_pays_for_events_that_nobody_hears(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[object] = []
    monkeypatch.setattr(TurnEvents, "_note", lambda _, event: noted.append(event))
    async with AIAgent(provider=Instant()) as agent:
        await agent.run_conversation("hi")
    assert noted == []
    async with AIAgent(provider=Instant(), event_callback=lambda _: None) as agent:
        await agent.run_conversation("hi")
    assert noted


async def look(arguments: JsonObject) -> str:
    return f"seen {arguments}"


async def two_results() -> tuple[ConversationResult, ConversationResult]:
    script = [calls(call("look", {"at": 1})), text("one"), text("two")]
    provider = ScriptedProvider(script)
    async with AIAgent(provider=provider, tools=SimpleExecutor({"look": look})) as agent:
        return await agent.run_conversation("hi"), await agent.run_conversation("again")


@in_a_loop
async def test_what_a_host_does_to_a_result_does_not_show_in_the_next() -> None:
    first, second = await two_results()
    called = cast("Any", first["messages"][1])["tool_calls"][0]
    called["function"]["arguments"] = {"at": 1}
    first["messages"][0]["content"] = "changed"
    first["tools"][0]["type"] = "changed"
    assert type(second["messages"]) is list
    assert second["messages"][0]["content"] == "hi"
    assert cast("Any", second["messages"][1])["tool_calls"][0]["function"]["arguments"] == '{"at":1}'
    assert second["tools"][0]["type"] == "function"
    assert first["messages"][0]["content"] == "changed"


def _updated(result: dict[str, Any]) -> dict[str, Any]:
    other: dict[str, Any] = {}
    other.update(result)
    return other


def _matched(result: dict[str, Any]) -> Any:
    match result:
        case {"messages": messages}:
            return messages
        case _:
            raise AssertionError("a result is a mapping")


READERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "item": lambda result: result["messages"],
    "get": lambda result: result.get("messages"),
    "values": lambda result: list(result.values())[list(result).index("messages")],
    "items": lambda result: dict(result.items())["messages"],
    "dict": lambda result: dict(result)["messages"],
    "stars": lambda result: {**result}["messages"],
    "or": lambda result: (result | {})["messages"],
    "or of another": lambda result: ({} | result)["messages"],
    "update": lambda result: _updated(result)["messages"],
    "copy": lambda result: result.copy()["messages"],
    "copy.copy": lambda result: copy.copy(result)["messages"],
    "deepcopy": lambda result: copy.deepcopy(result)["messages"],
    "pickle": lambda result: pickle.loads(pickle.dumps(result))["messages"],
    "setdefault": lambda result: result.setdefault("messages", None),
    "pop": lambda result: result.pop("messages"),
    "match": _matched,
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@in_a_loop
async def test_whichever_way_a_result_is_read_its_messages_are_the_hosts_own(
    read: Callable[[dict[str, Any]], Any],
) -> None:
    first, second = await two_results()
    messages = read(cast("dict[str, Any]", first))
    assert type(messages) is list
    assert all(type(message) is dict for message in messages)
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    messages[0]["content"] = "changed"
    messages[1]["tool_calls"].clear()
    assert second["messages"][0]["content"] == "hi"
    assert second["messages"][1]["tool_calls"]


@in_a_loop
async def test_encoders_see_a_whole_result() -> None:
    first, _ = await two_results()
    plain = {name: value for name, value in first.items() if name != "transcript"}
    assert json.loads(json.dumps(plain))["messages"] == first["messages"]
    _, result = await two_results()
    second = cast("dict[str, Any]", result)
    del second["transcript"]
    assert msgspec.json.decode(msgspec.json.encode(second))["messages"] == second["messages"]
    assert len(second["messages"]) == 6


@in_a_loop
async def test_an_agent_that_is_done_leaves_nothing_to_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        agent = AIAgent(
            provider=ScriptedProvider([calls(call("look", {"at": 1})), text("done")]),
            tools=SimpleExecutor({"look": look}),
        )
        assert await agent.chat("hi") == "done"
        await agent.close()
        left = weakref.ref(agent._lifecycle)
        del agent
        assert left() is None
    finally:
        gc.enable()


def test_a_long_answer_is_kept_in_pieces_until_it_is_looked_at() -> None:
    shown = ShownText()
    assert "".join(shown.feed(piece) for piece in "abcdef") == "abcdef"
    shown.begin_attempt()
    assert [shown.feed(piece) for piece in ("abc", "defg", "h")] == ["", "g", "h"]
    shown.begin_attempt()
    assert shown.feed("x") == "\nx"
