"""Hypothesis strategies: any messages that can be built, and conversations gone wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import Raw

from hermes_messages import (
    AssistantMessage,
    AudioPart,
    FilePart,
    ImagePart,
    JsonObject,
    JsonValue,
    Message,
    OpaquePart,
    Origin,
    Part,
    Replay,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolStatus,
    Transcript,
    Usage,
    UserMessage,
)

FRAGMENTS = [
    "<think>",
    "</think>",
    "<tools>",
    "</tools>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<\\think>",
    "<\\\\/tool_call>",
    "<\\tools>",
    "\n",
    "\n\n",
    " ",
    "\\",
    "<",
    "/",
    '{"name": "x"}',
    "word",
    "Grüße",
    "\u2028",
    "漢字",
    "\x00",
]

texts = st.text(max_size=20) | st.lists(st.sampled_from(FRAGMENTS), max_size=8).map("".join)
some_text = texts.filter(lambda text: bool(text.strip()))
names = st.sampled_from(["read_file", "terminal", "todo"])
json_values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(-1e9, 1e9) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
json_objects: st.SearchStrategy[JsonObject] = st.dictionaries(texts, json_values, max_size=3)


def raw(value: JsonValue) -> Raw:
    return Raw(msgspec.json.encode(value))


extras = st.none() | st.dictionaries(
    texts.map(lambda text: f"x_{text}"), json_values, min_size=1, max_size=2
).map(lambda value: raw(dict(value)))
parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(TextPart, texts, extras),
    st.builds(ImagePart, texts, st.none() | st.sampled_from(["low", "high"]), extras),
    st.builds(AudioPart, texts, st.sampled_from(["wav", "mp3"]), extras),
    st.builds(FilePart, st.none() | texts, st.none() | texts, st.none() | texts, extras),
    json_objects.map(lambda value: OpaquePart(raw({"type": "video", **value, "x": 1} | {"type": "video"}))),
)
contents = texts | st.lists(parts, max_size=3).map(tuple)
statuses: st.SearchStrategy[ToolStatus] = st.sampled_from(["ok", "error", "denied", "timed_out", "unknown"])
calls = st.builds(
    ToolCall,
    texts,
    texts,
    texts | json_objects.map(lambda value: msgspec.json.encode(value).decode()),
    extras,
)
counts = st.none() | st.integers(0, 10**6)
usages = st.builds(Usage, counts, counts, counts, counts, counts, st.none() | st.floats(0, 100))
replays = st.builds(
    Replay,
    st.builds(Origin, texts, texts, texts),
    texts,
    st.lists(json_values.map(raw) | st.just(Raw(b'{ "spaced" : 1.50 }')), max_size=2).map(tuple),
)
system_messages = st.builds(SystemMessage, contents, st.none() | texts, extras)
user_messages = st.builds(UserMessage, contents, st.none() | texts, extras)
assistant_messages = st.builds(
    AssistantMessage,
    content=st.none() | contents,
    tool_calls=st.lists(calls, max_size=2).map(tuple),
    reasoning=st.none() | texts,
    replay=st.none() | replays,
    refusal=st.none() | texts,
    name=st.none() | texts,
    finish_reason=st.none() | texts,
    usage=st.none() | usages,
    extra=extras,
)
tool_messages = st.builds(ToolMessage, texts, contents, st.none() | texts, statuses, extras)
any_messages: st.SearchStrategy[Message] = st.one_of(
    system_messages, user_messages, assistant_messages, tool_messages
)

# Dicts as hosts, data sets and other programs write them: the keys of the chat shape with values of any kind.
_odd_text = texts | st.none() | st.integers(-5, 5) | st.just("\ud83d")
_functions = st.just({"name": "f", "arguments": "{}"}) | st.fixed_dictionaries(
    {}, optional={"name": _odd_text, "arguments": json_values, "x": texts}
)
_call_keys: dict[str, st.SearchStrategy[Any]] = {
    "id": texts | st.integers(0, 9),
    "function": _functions,
    "type": st.sampled_from(["function", "custom", None]),
    "index": st.integers(0, 3),
    "name": texts,
    "extra_content": json_objects | st.none(),
}
_text_parts = st.fixed_dictionaries({"type": st.just("text"), "text": texts}, optional={"x": texts})
_message_keys: dict[str, st.SearchStrategy[Any]] = {
    "content": texts | st.none() | st.lists(_text_parts, max_size=2) | json_objects,
    "tool_calls": st.none() | st.lists(st.fixed_dictionaries({}, optional=_call_keys), max_size=2),
    "tool_call_id": texts | st.integers(0, 9),
    "name": st.none() | texts,
    "status": st.sampled_from(["ok", "denied", "odd", None]),
    "reasoning": _odd_text,
    "reasoning_content": _odd_text,
    "refusal": _odd_text,
    "finish_reason": _odd_text,
    "usage": st.none() | st.just({"input_tokens": 3}) | json_objects,
    "replay": st.none() | json_values,
    "extra": json_values,
    "audio": st.none() | texts,
    "x_trace": json_values,
}
_roles: st.SearchStrategy[Any] = st.sampled_from(
    ["user", "assistant", "assistant", "tool", "system", "developer"]
)
openai_dicts: st.SearchStrategy[JsonObject] = st.fixed_dictionaries({"role": _roles}, optional=_message_keys)

# Conversations gone wrong: few ids, so that they collide, and all the blanks there can be.
_ids = st.sampled_from(["a", "b", "c", ""])
_short = st.sampled_from(["", " \n", "one", "two"])
_broken_calls = st.builds(ToolCall, _ids, st.sampled_from(["f", "g", ""]), st.just("{}"))
_broken: st.SearchStrategy[Message] = st.one_of(
    st.builds(SystemMessage, _short),
    st.builds(UserMessage, _short),
    st.builds(AssistantMessage, st.none() | _short),
    st.builds(
        AssistantMessage,
        content=st.none() | _short,
        tool_calls=st.lists(_broken_calls, min_size=1, max_size=3).map(tuple),
    ),
    st.builds(ToolMessage, _ids, _short, st.none() | st.sampled_from(["f", "g"])),
    any_messages,
)


def _with_serial(messages: Sequence[Message]) -> list[Message]:
    """Each user text and each second result told apart, so that a test can see which one was lost."""
    told: list[Message] = []
    for number, message in enumerate(messages):
        if isinstance(message, UserMessage) and isinstance(message.content, str):
            told.append(UserMessage(f"{message.content}#{number}", message.name, message.extra))
        elif isinstance(message, ToolMessage) and isinstance(message.content, str) and number % 2:
            told.append(
                ToolMessage(message.tool_call_id, f"{message.content}#{number}", message.name, message.status)
            )
        else:
            told.append(message)
    return told


broken_conversations = st.lists(_broken, max_size=14).map(_with_serial)


@st.composite
def conversations(draw: st.DrawFn, *, plain: bool = False) -> list[Message]:
    """A valid transcript, its last round possibly open. `plain`: text only, arguments always an object."""
    text = some_text if plain else some_text | contents.filter(bool)
    transcript = Transcript()
    if draw(st.booleans()):
        transcript.append(SystemMessage(draw(some_text if plain else contents)))
    transcript.append(UserMessage(draw(texts if plain else contents)))
    for turn in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            _round(draw, transcript, turn, plain=plain)
        else:
            answer = AssistantMessage(draw(some_text), reasoning=draw(st.none() | some_text))
            transcript.append(answer)
            transcript.append(UserMessage(draw(text)))
    return list(transcript)


def _round(draw: st.DrawFn, transcript: Transcript, turn: int, *, plain: bool) -> None:
    count = draw(st.integers(1, 3))
    arguments = json_objects.map(lambda value: msgspec.json.encode(value).decode())
    made = tuple(
        ToolCall(
            f"call_{turn if draw(st.booleans()) else 0}_{number}",
            draw(names),
            draw(arguments if plain else arguments | texts),
        )
        for number in range(count)
    )
    unique = tuple({call.id: call for call in made}.values())
    transcript.append(
        AssistantMessage(draw(st.none() | some_text), unique, reasoning=draw(st.none() | some_text))
    )
    order = unique if plain else draw(st.permutations(unique))
    for call in order:
        transcript.append(ToolMessage(call.id, draw(texts), call.name))
