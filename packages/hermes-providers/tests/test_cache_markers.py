"""Cache markers on the chat wire: where they stand, and that the bytes below them stay the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    History,
    ImagePart,
    Message,
    MessageLog,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_providers import get_profile
from hermes_providers.refusals import Refusals
from hermes_providers.wire.cache_markers import marked
from hermes_providers.wire.openai_chat_request import ChatRequestBuilder

CLAUDE = "anthropic/claude-opus-5.5"


def builder(refusals: Refusals | None = None) -> ChatRequestBuilder:
    return ChatRequestBuilder(
        base_url="https://openrouter.ai/api/v1",
        provider="openrouter",
        host="openrouter.ai",
        quirks=get_profile("openrouter").quirks,
        refusals=refusals,
    )


def conversation(rounds: int) -> list[Message]:
    messages: list[Message] = [SystemMessage('You say "x".'), UserMessage('a "quoted" \\ text')]
    for number in range(rounds):
        messages += [
            AssistantMessage(None, (ToolCall(f"c{number}", "f", '{"content":"a"}'),)),
            ToolMessage(f"c{number}", f'result {number}: ,"content":"no"'),
        ]
    return messages


def places(body: bytes) -> list[int]:
    messages = json.loads(body)["messages"]
    return [at for at, message in enumerate(messages) if "cache_control" in json.dumps(message)]


def unmarked(value: Any) -> Any:
    """The request as it would be without markers."""
    for message in value["messages"]:
        content = message.get("content")
        if not isinstance(content, list) or "cache_control" not in content[-1]:
            continue
        del content[-1]["cache_control"]
        if len(content) == 1 and content[0]["type"] == "text":
            message["content"] = content[0]["text"]
    return value


def test_system_and_the_last_two_turns_are_marked_for_anthropic_models() -> None:
    body = builder().build(ChatRequest(model=CLAUDE, history=History.of(conversation(3))))
    assert places(body) == [0, 5, 7]
    last = json.loads(body)["messages"][7]["content"]
    assert last == [
        {"type": "text", "text": 'result 2: ,"content":"no"', "cache_control": {"type": "ephemeral"}}
    ]


@pytest.mark.parametrize("model", ["openai/gpt-5", "deepseek/deepseek-v4", "claude"])
def test_models_that_cache_by_themselves_get_no_marker(model: str) -> None:
    assert places(builder().build(ChatRequest(model=model, history=History.of(conversation(2))))) == []


def test_a_model_that_refused_markers_gets_none() -> None:
    refusals = Refusals()
    assert refusals.note(CLAUDE, "cache_control")
    request = ChatRequest(model=CLAUDE, history=History.of(conversation(2)))
    assert places(builder(refusals).build(request)) == []


def test_content_of_parts_is_marked_at_its_last_part() -> None:
    image = UserMessage((TextPart("look"), ImagePart("https://x.example/i.png")))
    body = builder().build(ChatRequest(model=CLAUDE, history=History.of([image])))
    parts = json.loads(body)["messages"][0]["content"]
    assert [("cache_control" in part) for part in parts] == [False, True]


def test_consecutive_bodies_differ_in_markers_alone_up_to_the_last_closed_segment() -> None:
    one = builder()
    log = MessageLog(conversation(1))
    before = json.loads(one.build(ChatRequest(model=CLAUDE, history=log.view())))
    for number in range(2, 6):
        log.extend(conversation(number)[-2:])
        calls = one.encode_calls
        after = json.loads(one.build(ChatRequest(model=CLAUDE, history=log.view())))
        assert one.encode_calls - calls <= 2
        earlier = unmarked(json.loads(json.dumps(before)))["messages"]
        assert unmarked(json.loads(json.dumps(after)))["messages"][: len(earlier)] == earlier
        before = after


@given(st.text(max_size=60))
def test_marking_keeps_every_text(text: str) -> None:
    segment = json.dumps({"role": "user", "content": text}, separators=(",", ":")).encode()
    value = json.loads(marked(segment))
    assert value["content"][0]["text"] == text
    assert value["content"][0]["cache_control"] == {"type": "ephemeral"}


@pytest.mark.parametrize(
    "segment",
    [
        b'{"role":"assistant","content":"a","reasoning":"r"}',
        b'{"role":"assistant","content":"x","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]}',
        b'{"role":"assistant","content":null}',
        b"",
    ],
)
def test_a_message_that_does_not_end_in_its_content_is_left_alone(segment: bytes) -> None:
    assert marked(segment) is segment
