"""The result of a turn is used as the plain dict that it stands for; nothing of the agent is behind it."""

from __future__ import annotations

import asyncio
import copy
import json
import operator
import pickle
import pprint
from collections import ChainMap, OrderedDict, UserDict
from collections.abc import Callable, Mapping, MutableMapping
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from hermes_loop import AIAgent
from hermes_loop.turn_result import TurnResult
from hermes_messages import JsonObject
from hermes_messages.protocols import ConversationResult
from hermes_messages.testing import ScriptedProvider, SimpleExecutor, call, calls, text
from loop_help import make, run

Result = dict[str, Any]


def rows() -> list[JsonObject]:
    function: JsonObject = {"name": "look", "arguments": '{"at": "a"}'}
    asked: JsonObject = {"id": "c1", "type": "function", "function": function}
    return [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": None, "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": "c1", "content": "seen"},
    ]


def plain() -> Result:
    tools: list[JsonObject] = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    return {"messages": rows(), "final_response": "x", "tools": tools, "error": None}


def containers(value: object) -> set[int]:
    """The ids of all dicts and lists within `value`."""
    if isinstance(value, Mapping):
        return {id(value)}.union(*(containers(value[key]) for key in value))
    if isinstance(value, list | tuple):
        return {id(value)}.union(*map(containers, value))
    return set()


def matched(result: Result) -> object:
    match result:
        case {"messages": messages, **rest}:
            return [messages, rest]
        case _:
            return None


def keywords(**values: object) -> dict[str, object]:
    return values


def after(change: Callable[[Result], object]) -> Callable[[Result], object]:
    """What is in a result behind a `change`."""

    def read(result: Result) -> object:
        change(result)
        return dict(result)

    return read


def merge(result: Result, values: Result) -> None:
    result |= values


READS: dict[str, Callable[[Result], Any]] = {
    "dict": dict,
    "stars": lambda result: {**result},
    "keywords": lambda result: keywords(**result),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "method copy": lambda result: result.copy(),
    "pickle": lambda result: pickle.loads(pickle.dumps(result)),
    "old pickle": lambda result: pickle.loads(pickle.dumps(result, 0)),
    "json": json.dumps,
    "json with an indent": lambda result: json.dumps(result, indent=1, sort_keys=True),
    "msgspec": msgspec.json.encode,
    "msgpack": msgspec.msgpack.encode,
    "builtins": msgspec.to_builtins,
    "item": lambda result: result["messages"],
    "itemgetter": operator.itemgetter("tools", "messages"),
    "get": lambda result: [result.get("messages"), result.get("none", 1), result.get("tools")],
    "items": lambda result: list(result.items()),
    "values": lambda result: list(result.values()),
    "keys": lambda result: [list(result), list(result.keys()), list(reversed(result)), len(result)],
    "pop": lambda result: [result.pop("messages"), result.pop("none", 1), list(result)],
    "popitem": lambda result: [result.popitem() for _ in range(4)],
    "setdefault": lambda result: [result.setdefault("messages", []), result.setdefault("new", 1)],
    "or": lambda result: result | {"new": 1},
    "or from the right": lambda result: {"new": 1, "error": 2} | result,
    "or of an ordered one": lambda result: OrderedDict(new=1) | result,
    "or in place": after(lambda result: merge(result, {"new": 1})),
    "update": after(lambda result: result.update({"new": 1}, more=2)),
    "ordered": OrderedDict,
    "match": matched,
    "proxy": lambda result: MappingProxyType(result)["messages"],
    "chain": lambda result: ChainMap({}, result)["messages"],
    "user dict": lambda result: UserDict(result).data,
    "format": lambda result: [
        "%(messages)s" % result,  # noqa: UP031 - what is tested
        "{tools}".format(**result),
    ],
    "repr": lambda result: [repr(result), str(result), pprint.pformat(result)],
    "contains": lambda result: ["messages" in result, "none" in result],
    "delete": after(lambda result: operator.delitem(result, "messages")),
    "clear": after(lambda result: result.clear()),
    "fromkeys": lambda result: dict(type(result).fromkeys(["messages", "b"], 1)),
    "hash": lambda result: type(result).__hash__,
}


@pytest.mark.parametrize("name", READS)
def test_whatever_is_done_with_it_gives_what_a_plain_dict_gives_and_shares_nothing(name: str) -> None:
    kept = plain()
    result = TurnResult(kept)
    given = READS[name](result)
    assert given == READS[name](plain())
    assert type(given) is type(READS[name](plain()))
    assert not containers(given) & containers(kept)
    assert not containers(result) & containers(kept)
    assert kept == plain()


def test_it_is_equal_to_a_plain_dict_both_ways() -> None:
    result = TurnResult(plain())
    assert result == plain()
    assert plain() == result
    assert result == TurnResult(plain())
    assert result != plain() | {"error": "e"}
    assert isinstance(result, dict)
    assert isinstance(result, MutableMapping)
    assert type(dict(result)) is dict


def test_what_is_changed_in_it_stays_changed_and_what_is_put_into_it_is_not_copied() -> None:
    result = TurnResult(plain())
    result["messages"][0]["content"][0]["text"] = "changed"
    result["messages"].append({"role": "user", "content": "more"})
    assert result["messages"] is result.get("messages") is dict(result)["messages"]
    assert [row.get("content") for row in result["messages"]][2:] == ["seen", "more"]
    assert result["messages"][0]["content"][0]["text"] == "changed"
    mine: list[JsonObject] = [{"role": "user"}]
    ways: list[Callable[[Result], object]] = [
        lambda one: operator.setitem(one, "messages", mine),
        lambda one: one.update(messages=mine),
        lambda one: merge(one, {"messages": mine}),
        lambda one: (one.pop("messages"), one.setdefault("messages", mine)),
        lambda one: (one.pop("tools"), one.update({"messages": mine})),
    ]
    for way in ways:
        other = TurnResult(plain())
        way(other)
        assert other["messages"] is mine


def spoil(value: Any) -> None:
    """Change everything within `value`."""
    match value:
        case dict():
            for item in value.values():
                spoil(item)
            value.clear()
        case list():
            for item in value:
                spoil(item)
            value.append("spoilt")
        case _:
            pass


def test_a_spoilt_result_changes_neither_what_the_model_sees_nor_the_next_result() -> None:
    async def look(_: JsonObject) -> str:
        return "seen"

    async def turns(spoils: bool) -> tuple[list[Any], list[Any]]:
        script = [calls(call("look", {"at": "a"})), text("one"), text("two"), text("three")]
        provider = ScriptedProvider(script)
        kept: list[Any] = []
        async with AIAgent(provider=provider, tools=SimpleExecutor({"look": look}), session_id="s") as agent:
            for message in ("first", "second", "third"):
                result = await agent.run_conversation(message)
                kept.append(copy.deepcopy([result["messages"], result["tools"], result["transcript"]]))
                if spoils:
                    spoil(result)
        return kept, [list(request.history) for request in provider.requests]

    spoilt, untouched = asyncio.run(turns(True)), asyncio.run(turns(False))
    assert spoilt == untouched
    assert [len(messages) for messages, _, _ in spoilt[0]] == [4, 6, 8]
    assert spoilt[0][0][1][0]["function"]["name"] == "look"


def test_a_whole_result_of_a_turn_can_be_copied_pickled_and_encoded() -> None:
    async def turn() -> Any:
        async with AIAgent(provider=ScriptedProvider([text("hi")]), session_id="s") as agent:
            return await agent.run_conversation("hello")

    result = asyncio.run(turn())
    expected = msgspec.json.decode(msgspec.json.encode(dict(result)))
    assert msgspec.json.decode(msgspec.json.encode(result)) == expected
    assert json.loads(json.dumps(result, default=msgspec.to_builtins)) == expected
    assert pickle.loads(pickle.dumps(result)) == result == copy.deepcopy(result)


def test_a_result_comes_back_from_json_as_what_it_was() -> None:
    [result] = run(make(calls(call("look", {"at": "a"})), text("ok")), "go")
    assert msgspec.json.decode(msgspec.json.encode(result), type=ConversationResult) == result
