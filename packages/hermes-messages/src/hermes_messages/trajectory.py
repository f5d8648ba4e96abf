"""Conversations as training rows of the `from`/`value` kind; OpenAI rows are in `hermes_messages.openai_row`.

A trajectory has the rows `system`, `human`, `gpt` and `tool`:

    system  the system text, and the tools as one JSON list in `<tools>` when there are any
    human   the user's text
    gpt     `<think>` with the reasoning (always there, often empty), the text, one `<tool_call>` per call:
            {"name": ..., "arguments": {...}}
    tool    all results of a round in the order of its calls, each in `<tool_response>`:
            {"tool_call_id": ..., "name": ..., "content": "..."}

`from_trajectory` gives back roles, texts, reasoning, calls and results. What the format has no place for is
lost: media (a line of text stands for it), usage, a result's status, `extra`, whether an absent text was
None or "", the spacing of arguments, the ids of calls that were never answered and, where only some calls of
one tool were answered in a round, which of them. Arguments that are no JSON object, or one with the only key
`_unparsed`, travel as {"_unparsed": "<the text>"}. How text that holds these tags survives is described in
`hermes_messages.trajectory_text`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec import Raw
from msgspec.structs import replace

from hermes_messages.argument_text import JsonObject, JsonValue, parse_arguments_tolerantly
from hermes_messages.errors import ArgumentsError, MessageFormatError
from hermes_messages.exchange import ToolSpec
from hermes_messages.hygiene import replace_surrogates
from hermes_messages.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_messages.openai_row import tool_definition
from hermes_messages.strangers import no_message
from hermes_messages.trajectory_text import (
    GPT_TAGS,
    SYSTEM_TAGS,
    content_with_stubs,
    split_scratchpad,
    to_json,
    without_scratchpad_tags,
)

__all__ = [
    "from_trajectory",
    "to_trajectory",
    "tools_from_trajectory",
]

_INTRODUCTION: Final = (
    "You can call the functions described below; call one only when it helps, and never guess a value.\n"
    "Their signatures, as a JSON list:\n"
)
_CALL_FORMAT: Final = (
    "\nTo call a function, write one JSON object with its name and its arguments in tool_call tags:\n"
    '<tool_call>\n{"name": "<function name>", "arguments": {"<parameter>": "<value>"}}\n</tool_call>\n'
    "What it returns comes back in tool_response tags."
)
_TOOL_SPEAKERS: Final = frozenset({"tool", "observation"})
_UNPARSED: Final = "_unparsed"
_THINK: Final = re.compile(r"\A\s*<think>\n?(.*?)</think>\n?", re.DOTALL)


def to_trajectory(messages: Iterable[Message], tools: Sequence[ToolSpec] = ()) -> list[dict[str, str]]:
    """The conversation as `{"from": ..., "value": ...}` rows. The messages are taken as they are.

    Raises `MessageFormatError` for what is no message.
    """
    rows: list[dict[str, str]] = []
    calls: tuple[ToolCall, ...] = ()
    results: list[ToolMessage] = []
    given = list(messages)
    if tools and not (given and isinstance(given[0], SystemMessage)):
        rows.append(_row("system", _tool_section(tools)))
    for index, message in enumerate(given):
        if results and not isinstance(message, ToolMessage):
            rows.append(_row("tool", _responses(results, calls)))
            results = []
        match message:
            case SystemMessage():
                rows.append(_row("system", _system_value(message, tools if index == 0 else ())))
            case UserMessage():
                rows.append(_row("human", content_with_stubs(message.content)))
            case AssistantMessage():
                calls = message.tool_calls
                rows.append(_row("gpt", _gpt_value(message)))
            case ToolMessage():
                results.append(message)
            case _:
                raise no_message(message, index)
    if results:
        rows.append(_row("tool", _responses(results, calls)))
    return rows


def _row(speaker: str, value: str) -> dict[str, str]:
    return {"from": speaker, "value": replace_surrogates(value)}


def _system_value(message: SystemMessage, tools: Sequence[ToolSpec]) -> str:
    text = SYSTEM_TAGS.escaped(content_with_stubs(message.content))
    if not tools:
        return text
    return f"{text}\n\n{_tool_section(tools)}" if text else _tool_section(tools)


def _tool_section(tools: Sequence[ToolSpec]) -> str:
    return _described(tuple((tool.name, tool.description, bytes(tool.parameters)) for tool in tools))


@lru_cache(maxsize=32)
def _described(tools: tuple[tuple[str, str, bytes], ...]) -> str:
    """The conversations of a data set have few sets of tools, some with long schemas."""
    listed: list[JsonValue] = [
        tool_definition(ToolSpec(name, description, Raw(schema))) for name, description, schema in tools
    ]
    return f"{_INTRODUCTION}<tools>\n{to_json(listed)}\n</tools>{_CALL_FORMAT}"


def _gpt_value(message: AssistantMessage) -> str:
    scratchpad, text = split_scratchpad(content_with_stubs(message.content) or message.refusal or "")
    reasoning = without_scratchpad_tags(message.reasoning or "")
    reasoning = "\n".join(piece for piece in (reasoning, scratchpad) if piece)
    thought = f"{GPT_TAGS.escaped(reasoning)}\n" if reasoning else ""
    pieces = [GPT_TAGS.escaped(text)] if text else []
    for call in message.tool_calls:
        body: JsonObject = {"name": call.name, "arguments": _argument_object(call.arguments)}
        pieces.append(f"<tool_call>\n{to_json(body)}\n</tool_call>")
    return f"<think>\n{thought}</think>\n" + "\n".join(pieces)


def _argument_object(text: str) -> JsonObject:
    try:
        arguments = parse_arguments_tolerantly(text).arguments
    except ArgumentsError:
        return {_UNPARSED: text}
    return {_UNPARSED: text} if arguments.keys() == {_UNPARSED} else arguments


def _responses(results: Sequence[ToolMessage], calls: Sequence[ToolCall]) -> str:
    order = {call.id: position for position, call in enumerate(calls)}
    names = {call.id: call.name for call in calls}
    blocks = []
    for result in sorted(results, key=lambda result: order.get(result.tool_call_id, len(order))):
        name = names.get(result.tool_call_id, "") if result.name is None else result.name
        body: JsonObject = {
            "tool_call_id": result.tool_call_id,
            "name": name,
            "content": content_with_stubs(result.content),
        }
        blocks.append(f"<tool_response>\n{to_json(body)}\n</tool_response>")
    return "\n".join(blocks)


def from_trajectory(rows: Iterable[Mapping[str, str]]) -> list[Message]:
    """The messages of a trajectory, ours or another writer's of this shape (`content` may be an object).

    Raises `MessageFormatError` with the row and what is wrong in it.
    """
    messages: list[Message] = []
    results: list[ToolMessage] = []
    for index, row in enumerate(rows):
        speaker, value = row.get("from"), row.get("value")
        if not isinstance(value, str):
            raise MessageFormatError("a row's value must be text", index=index, path="$.value")
        if speaker in _TOOL_SPEAKERS:
            results.extend(_read_responses(value, index))
            continue
        _close_round(messages, results)
        results = []
        match speaker:
            case "system":
                text = _system_text(value)
                if text is not None:
                    messages.append(SystemMessage(text))
            case "human" | "user":
                messages.append(UserMessage(value))
            case "gpt" | "assistant":
                messages.append(_read_gpt(value, index))
            case _:
                reason = f"unknown speaker {speaker!r} (known: system, human, gpt, tool)"
                raise MessageFormatError(reason, index=index, path="$.from")
    _close_round(messages, results)
    return messages


def tools_from_trajectory(rows: Iterable[Mapping[str, str]]) -> list[ToolSpec]:
    """The tools that the system row lists; empty when it lists none that can be read."""
    for row in rows:
        found = next(_blocks(row.get("value", ""), "tools"), None) if row.get("from") == "system" else None
        if found is None:
            continue
        try:
            listed = json.loads(found.text)
        except (ValueError, RecursionError):
            return []
        specs = (_read_tool(item) for item in listed if isinstance(item, dict))
        return [spec for spec in specs if spec is not None]
    return []


def _read_tool(item: JsonObject) -> ToolSpec | None:
    function = item.get("function", item)
    if not isinstance(function, dict):
        return None
    name, parameters = function.get("name"), function.get("parameters") or {}
    if not isinstance(name, str) or not isinstance(parameters, dict):
        return None
    return ToolSpec.from_schema(name, str(function.get("description") or ""), parameters)


def _system_text(value: str) -> str | None:
    """The system text before our tool section; None when there is nothing but the tool section."""
    found = next(_blocks(value, "tools"), None)
    if found is not None and value.endswith(_INTRODUCTION, 0, found.start):
        text = value[: found.start - len(_INTRODUCTION)]
        if not text:
            return None
        value = text.removesuffix("\n\n")
    return SYSTEM_TAGS.restored(value)


def _read_gpt(value: str, index: int) -> AssistantMessage:
    reasoning = ""
    thought = _THINK.match(value)
    if thought is not None:
        reasoning = GPT_TAGS.restored(thought.group(1).removesuffix("\n"))
        value = value[thought.end() :]
    calls: list[ToolCall] = []
    text, end = value, len(value)
    for place, found in enumerate(_blocks(value, "tool_call")):
        text = (
            value[: found.start].removesuffix("\n") if place == 0 else text + value[end : found.start].strip()
        )
        calls.append(_read_call(found.text, place, index))
        end = found.end
    text += value[end:].strip() if calls else ""
    return AssistantMessage(
        content=GPT_TAGS.restored(text) or (None if calls else ""),
        tool_calls=tuple(calls),
        reasoning=reasoning or None,
    )


def _read_call(text: str, place: int, index: int) -> ToolCall:
    body = _read_object(text, "tool_call", index)
    name, arguments = body.get("name"), body.get("arguments")
    if not isinstance(name, str):
        raise MessageFormatError("a tool_call without a name", index=index, path="$.value")
    if isinstance(arguments, dict) and arguments.keys() == {_UNPARSED}:
        arguments = arguments[_UNPARSED]
    if not isinstance(arguments, str):
        arguments = {} if arguments is None else arguments
        arguments = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    given = body.get("id")
    return ToolCall(given if isinstance(given, str) else f"call_{index}_{place + 1}", name, arguments)


def _read_responses(value: str, index: int) -> list[ToolMessage]:
    results = []
    for found in _blocks(value, "tool_response"):
        body = _read_object(found.text, "tool_response", index)
        call_id, name, content = body.get("tool_call_id"), body.get("name"), body.get("content")
        if not isinstance(content, str):
            content = json.dumps(content, ensure_ascii=False)
        results.append(
            ToolMessage(
                call_id if isinstance(call_id, str) else "", content, name if isinstance(name, str) else None
            )
        )
    if not results:
        raise MessageFormatError("a tool row without a tool_response", index=index, path="$.value")
    return results


class _Block(NamedTuple):
    """What stands between a pair of tags, without the line ends next to them, and where the tags stand."""

    start: int
    end: int
    text: str


def _blocks(value: str, tag: str) -> Iterator[_Block]:
    """The blocks of `tag`, none inside another; the time grows with the length of `value` only."""
    opening, closing = f"<{tag}>", f"</{tag}>"
    start = value.find(opening)
    while start >= 0:
        begin = start + len(opening)
        close = value.find(closing, begin)
        if close < 0:
            return
        end = close + len(closing)
        yield _Block(start, end, value[begin:close].removeprefix("\n").removesuffix("\n"))
        start = value.find(opening, end)


def _read_object(text: str, what: str, index: int) -> JsonObject:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MessageFormatError(f"a {what} that is no JSON: {error}", index=index, path="$.value") from None
    if not isinstance(body, dict):
        raise MessageFormatError(f"a {what} that is no JSON object", index=index, path="$.value")
    return body


def _close_round(messages: list[Message], results: list[ToolMessage]) -> None:
    """Append the results of the last message, calls and results with the same ids.

    The order pairs them, since the calls carry no ids; where some results are missing the names help.
    """
    message = messages[-1] if messages else None
    if not results or not isinstance(message, AssistantMessage):
        messages.extend(results)
        return
    calls = list(message.tool_calls)
    left = list(range(len(calls)))
    complete = len(results) == len(calls)
    for number, result in enumerate(results):
        fitting = [place for place in left if complete or calls[place].name == result.name] or left
        if not fitting:
            break
        place = fitting[0]
        left.remove(place)
        call_id = result.tool_call_id or calls[place].id
        calls[place] = replace(calls[place], id=call_id)
        results[number] = replace(result, tool_call_id=call_id)
    messages[-1] = replace(message, tool_calls=tuple(calls))
    messages.extend(results)
