"""Whole streams of the Messages wire, which several modules of tests read."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from anthropic_help import ORIGIN, begin, block, call_block, end, text_block, thinking_block, tidy, whole
from hermes_messages import ChatResponse

__all__ = ["CALL", "RICH", "STREAMS", "THOUGHT", "assert_keeps", "blocks_of"]

CALL = call_block(1, "toolu_1", "read_file", "", '{"path"', ': "x"}')
THOUGHT = {"type": "thinking", "thinking": "Look.", "signature": "sigA=="}


def blocks_of(response: ChatResponse) -> list[dict[str, Any]]:
    replay = response.message.replay
    if replay is None:
        return []
    assert replay.origin == ORIGIN
    assert replay.wire == "anthropic_messages"
    return [json.loads(bytes(raw)) for raw in replay.blocks]


def assert_keeps(response: ChatResponse) -> None:
    """What is stored can be read again."""
    assert msgspec.json.decode(msgspec.json.encode(response), type=ChatResponse) == response


RICH = tidy(
    thinking_block(0, "sig\u00e9==", "Denke \u2028 nach", "…"),
    text_block(1, "Größe ", "🦊\n"),
    call_block(2, "toolu_1", "f", '{"a": "日本', '語", "b": [1, 2]}'),
    block(3, {"type": "redacted_thinking", "data": "x"}),
    call_block(4, "toolu_2", "g"),
    reason="tool_use",
)


STREAMS = {
    "text": tidy(text_block(0, "Hel", "lo")),
    "call": tidy(text_block(0, "I look."), CALL, reason="tool_use"),
    "rich": RICH,
    "cached": whole(
        begin(input_tokens=5, cache_read_input_tokens=1000, cache_creation_input_tokens=200),
        *text_block(0, "Hi"),
        *end(input_tokens=6, cache_read_input_tokens=1001),
    ),
    "interleaved": tidy(
        thinking_block(0, "sigA==", "Look."),
        CALL,
        thinking_block(2, "sigB==", "And list."),
        call_block(3, "toolu_2", "list_files"),
        reason="tool_use",
    ),
    "server_tool": tidy(
        text_block(0, "I search."),
        block(
            1,
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"query":"x"}'},
        ),
        block(2, {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}),
        text_block(3, "Found."),
    ),
    "cut_off": tidy(text_block(0, "Half a sen"), reason="max_tokens"),
    "refused": tidy(text_block(0, "No."), reason="refusal"),
}
"""Whole streams by what is in them."""
