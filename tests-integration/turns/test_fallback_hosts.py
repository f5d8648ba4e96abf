"""A turn that moves from one real host to another in mid-stream: two wires, two sockets, one conversation."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from socket_host import SocketHost

from hermes_loop import AIAgent
from hermes_messages import AssistantMessage, ErrorKind, ToolMessage, validate
from hermes_store import SessionDB

pytestmark = pytest.mark.needs("hermes-loop", "hermes-providers", "hermes-tools", "hermes-store")

LONG_ID = "call_abc|fc_HIR/d_iG+0123456789012345678901234567890123456789012345678901234567890"
SIGNATURE = "EqQBCkYIBxgCKkA"


class Host(SocketHost):
    """Answers each POST with the next body and keeps what it was asked."""

    def __init__(self, *answers: tuple[str, str]) -> None:
        self._answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    async def respond(self, asked: dict[str, Any]) -> tuple[str, str]:
        self.asked.append(asked)
        return self._answers.pop(0)


def chat(*deltas: dict[str, Any], finish: str | None = None) -> str:
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    if finish is not None:
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return "".join(lines) + ("data: [DONE]\n\n" if finish is not None else "")


def messages(*blocks: tuple[dict[str, Any], dict[str, Any]], stop: str) -> str:
    """Blocks of the Messages wire, each with its start and its one delta."""
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 9, "output_tokens": 1}}}
    ]
    for index, (start, delta) in enumerate(blocks):
        events += [
            {"type": "content_block_start", "index": index, "content_block": start},
            {"type": "content_block_delta", "index": index, "delta": delta},
        ]
        if start["type"] == "thinking":
            signed = {"type": "signature_delta", "signature": SIGNATURE}
            events.append({"type": "content_block_delta", "index": index, "delta": signed})
        events.append({"type": "content_block_stop", "index": index})
    events += [
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def said(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"type": "text", "text": ""}, {"type": "text_delta", "text": text}


def write_call(id_: str) -> dict[str, Any]:
    arguments = json.dumps({"path": "a.txt", "content": "made"})
    return {
        "tool_calls": [{"index": 0, "id": id_, "function": {"name": "write_file", "arguments": arguments}}]
    }


OUT_OF_CREDIT = json.dumps({"error": {"message": "Insufficient credits", "code": 402}})


def test_a_conversation_moves_from_chat_completions_to_messages_in_mid_stream(tmp_path: Path) -> None:
    async def main() -> None:
        first = Host(
            ("200 OK", chat({"reasoning_content": "hm"}, write_call(LONG_ID), finish="tool_calls")),
            ("200 OK", chat({"content": "I have wri"}) + f"data: {OUT_OF_CREDIT}\n\n"),
        )
        second = Host(("200 OK", messages(said("I have written it."), stop="end_turn")))
        shown: list[str] = []
        async with first, second, SessionDB(tmp_path / "state.db") as store:
            fallback = {
                "provider": "anthropic",
                "model": "claude-sonnet-4-5",
                "base_url": second.address,
                "api_key": "sk-ant-0123456789abcdef",
            }
            async with AIAgent(
                provider="custom",
                base_url=f"{first.address}/v1",
                api_key="sk-first",
                model="small",
                fallback_model=fallback,
                enabled_toolsets=["file"],
                session_db=store,
                session_id="s",
                cwd=tmp_path,
                stream_delta_callback=shown.append,
            ) as agent:
                result = await agent.run_conversation("Write it.")
            rows = [row.message for row in await store.get_messages("s")]
        assert result["final_response"] == "I have written it.", result["error"]
        assert "".join(shown) == "I have written it."
        assert (result["provider"], result["model"]) == ("anthropic", "claude-sonnet-4-5")
        assert [row["api_calls"] for row in result["usage_by_route"]] == [2, 1]
        assert validate(rows) == []
        assert tuple(rows) == result["transcript"]
        kept = rows[1]
        assert isinstance(kept, AssistantMessage)
        assert (kept.tool_calls[0].id, kept.reasoning) == (LONG_ID, "hm")
        [asked] = second.asked
        assert asked["model"] == "claude-sonnet-4-5"
        calls, results = asked["messages"][1]["content"], asked["messages"][2]["content"]
        [use] = [block for block in calls if block["type"] == "tool_use"]
        [answer] = [block for block in results if block["type"] == "tool_result"]
        assert use["id"] == answer["tool_use_id"]
        assert len(use["id"]) <= 64
        assert use["id"].replace("_", "").replace("-", "").isalnum()
        assert "thinking" not in {block["type"] for block in calls}
        assert "sk-" not in json.dumps(result["messages"])

    asyncio.run(main())


def test_signed_reasoning_of_one_host_is_not_sent_to_another_and_stays_in_the_session(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        arguments = json.dumps({"path": "a.txt", "content": "made"})
        thought = ({"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": "hm"})
        use = (
            {"type": "tool_use", "id": "toolu_1", "name": "write_file", "input": {}},
            {"type": "input_json_delta", "partial_json": arguments},
        )
        first = Host(
            ("200 OK", messages(thought, use, stop="tool_use")),
            ("402 Payment Required", OUT_OF_CREDIT),
        )
        second = Host(("200 OK", chat({"content": "Written."}, finish="stop")))
        async with first, second, SessionDB(tmp_path / "state.db") as store:
            async with AIAgent(
                provider="anthropic",
                base_url=first.address,
                api_key="sk-ant-0123456789abcdef",
                model="claude-sonnet-4-5",
                fallback_models=[{"model": "small", "base_url": f"{second.address}/v1", "api_key": "k"}],
                enabled_toolsets=["file"],
                session_db=store,
                session_id="s",
                cwd=tmp_path,
            ) as agent:
                result = await agent.run_conversation("Write it.")
            rows = [row.message for row in await store.get_messages("s")]
        assert (result["final_response"], result["provider"]) == ("Written.", "custom"), result["error"]
        assert result["error_kind"] is None
        [asked] = second.asked
        assert SIGNATURE not in json.dumps(asked)
        kept = rows[1]
        assert isinstance(kept, AssistantMessage)
        assert kept.replay is not None
        assert any(SIGNATURE.encode() in bytes(block) for block in kept.replay.blocks)
        assert isinstance(rows[2], ToolMessage)

    asyncio.run(main())


def test_two_dead_hosts_end_the_turn_with_what_each_said_and_rest(tmp_path: Path) -> None:
    async def main() -> None:
        first = Host(("402 Payment Required", OUT_OF_CREDIT))
        second = Host(("401 Unauthorized", json.dumps({"error": {"message": "bad key"}})))
        async with (
            first,
            second,
            AIAgent(
                provider="custom",
                base_url=f"{first.address}/v1",
                api_key="sk-first",
                model="a",
                fallback_models=[{"model": "b", "base_url": f"{second.address}/v1", "api_key": "sk-second"}],
            ) as agent,
        ):
            result = await agent.run_conversation("Hello")
            again = await agent.run_conversation("Hello")
        assert (result["turn_exit_reason"], result["error_kind"]) == ("provider_error", ErrorKind.AUTH)
        assert "bad key" in str(result["error"])
        assert "Insufficient credits" in str(result["error"])
        assert "sk-" not in str(result["error"])
        assert (len(first.asked), len(second.asked), again["api_calls"]) == (1, 1, 0)

    asyncio.run(main())
