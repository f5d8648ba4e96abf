"""A host that pauses its own tools' long turn is asked to go on, and the answer is one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from anthropic_help import ask, begin, block, call_block, end, provider_at, text_block, thinking_block, whole
from byte_server import ByteServer, plain, stream
from hermes_messages import (
    AssistantMessage,
    ErrorKind,
    FinishReason,
    ProviderError,
    TextDelta,
    UserMessage,
)
from hermes_providers.wire.anthropic_pause import MAX_PAUSES
from wire_help import SPEC, collect, run
from wire_help import answer as answer_of

SEARCH: dict[str, object] = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
FOUND: dict[str, object] = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "url": "https://example.org", "title": "It", "page_age": None}],
}


def searching(index: int, query: str) -> list[dict[str, object]]:
    pieces = [{"type": "input_json_delta", "partial_json": json.dumps({"query": query})}]
    return [*block(index, SEARCH, *pieces), *block(index + 1, FOUND)]


def reply(*blocks: list[dict[str, object]], reason: str, **container: object) -> list[Any]:
    closing = end(reason)
    if container:
        delta = closing[0]["delta"]
        assert isinstance(delta, dict)
        delta["container"] = container
    inner = [item for events in blocks for item in events]
    return stream(whole(begin(), *inner, *closing))


def test_only_blocks_of_the_hosts_tools_go_back_and_the_answer_follows() -> None:
    paused = reply(thinking_block(0, "c2ln", "look it up"), searching(1, "x"), reason="pause_turn")
    rest = reply(text_block(0, "Here ", "it is."), reason="end_turn")

    async def main() -> None:
        async with ByteServer([paused, rest]) as server:
            provider = provider_at(server.base_url)
            request = ask(UserMessage("Search."), tools=(SPEC,))
            events = await collect(provider, request)
            response = events[-1].response  # type: ignore[union-attr]
            first, second = (json.loads(sent.body) for sent in server.requests)
            # Nothing is different but the assistant message behind it.
            assert {**second, "messages": second["messages"][:-1]} == first
            assert server.requests[1].body.startswith(server.requests[0].body.removesuffix(b"]}"))
            resumed = second["messages"][-1]
            assert resumed["role"] == "assistant"
            assert [item["type"] for item in resumed["content"]] == [
                "thinking",
                "server_tool_use",
                "web_search_tool_result",
            ]
            assert resumed["content"][0]["signature"] == "c2ln"
            assert resumed["content"][1]["input"] == {"query": "x"}

            assert response.message.content == "Here it is."
            assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "Here it is."
            assert response.message.reasoning == "look it up"
            assert response.finish is FinishReason.STOP
            assert response.message.finish_reason == "end_turn"
            assert response.usage is not None
            assert (response.usage.input_tokens, response.usage.output_tokens) == (50, 30)  # of both requests

            # The next request of the conversation replays the whole as one message.
            messages = [UserMessage("Search."), response.message, UserMessage("And?")]
            await answer_of(provider, ask(*messages, tools=(SPEC,)))
            replayed = json.loads(server.requests[2].body)["messages"][1]["content"]
            assert [item["type"] for item in replayed] == [
                "thinking",
                "server_tool_use",
                "web_search_tool_result",
                "text",
            ]
            await provider.close()

    run(main())


def test_several_pauses_with_text_calls_and_a_container() -> None:
    scripts = [
        reply(text_block(0, "One."), searching(1, "a"), reason="pause_turn", id="box_1", expires_at="x"),
        reply(searching(0, "b"), reason="pause_turn"),
        reply(
            text_block(0, "Two."), call_block(1, "toolu_9", "read_file", '{"path":"x"}'), reason="tool_use"
        ),
    ]

    async def main() -> None:
        async with ByteServer(scripts) as server:
            provider = provider_at(server.base_url)
            response = await answer_of(provider, ask(UserMessage("Search."), tools=(SPEC,)))
            await provider.close()
            bodies = [json.loads(sent.body) for sent in server.requests]
        assert ["container" in body for body in bodies] == [False, True, True]
        assert bodies[2]["container"] == "box_1"
        kinds = [[item["type"] for item in body["messages"][-1]["content"]] for body in bodies[1:]]
        once = ["text", "server_tool_use", "web_search_tool_result"]
        assert kinds == [once, [*once, "server_tool_use", "web_search_tool_result"]]
        assert response.message.content == "One.\n\nTwo."
        assert [call.name for call in response.message.tool_calls] == ["read_file"]
        assert response.message.tool_calls[0].arguments == '{"path":"x"}'
        assert response.finish is FinishReason.TOOL_CALLS

    run(main())


def test_a_plain_answer_that_pauses_goes_on_too() -> None:
    def body(reason: str, *content: dict[str, object]) -> bytes:
        usage = {"input_tokens": 10, "output_tokens": 2}
        said = {"type": "message", "id": "m", "model": "c", "content": list(content), "usage": usage}
        return json.dumps({**said, "stop_reason": reason}).encode()

    async def main() -> None:
        scripts = [
            plain(body("pause_turn", {**SEARCH, "input": {"query": "x"}}, FOUND)),
            plain(body("end_turn", {"type": "text", "text": "Done."})),
        ]
        async with ByteServer(scripts) as server:
            provider = provider_at(server.base_url)
            response = await answer_of(provider, ask(UserMessage("Search.")))
            await provider.close()
            assert len(server.requests) == 2
        assert response.message.content == "Done."
        assert response.usage is not None
        assert response.usage.input_tokens == 20

    run(main())


def test_a_host_that_pauses_for_ever_ends_in_a_typed_error() -> None:
    async def main() -> None:
        async with ByteServer([reply(searching(0, "x"), reason="pause_turn")]) as server:
            provider = provider_at(server.base_url)
            with pytest.raises(ProviderError, match="pause_turn") as caught:
                await answer_of(provider, ask(UserMessage("Search.")))
            await provider.close()
            assert len(server.requests) == MAX_PAUSES + 1
        assert caught.value.kind is ErrorKind.SERVER

    run(main())


def test_a_failure_after_the_pause_is_that_of_the_second_reply() -> None:
    async def main() -> None:
        failed = plain(
            b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', "529 X"
        )
        async with ByteServer([reply(text_block(0, "One."), reason="pause_turn"), failed]) as server:
            provider = provider_at(server.base_url)
            with pytest.raises(ProviderError) as caught:
                await answer_of(provider, ask(UserMessage("Search.")))
            await provider.close()
        assert (caught.value.kind, caught.value.status) == (ErrorKind.OVERLOADED, 529)

    run(main())


def test_a_pause_beside_a_call_of_ours_leaves_the_turn_to_us() -> None:
    async def main() -> None:
        script = reply(
            searching(0, "x"), call_block(2, "toolu_1", "read_file", '{"path":"x"}'), reason="pause_turn"
        )
        async with ByteServer([script]) as server:
            provider = provider_at(server.base_url)
            response = await answer_of(provider, ask(UserMessage("Search."), tools=(SPEC,)))
            await provider.close()
            assert len(server.requests) == 1
        assert [call.name for call in response.message.tool_calls] == ["read_file"]
        assert isinstance(response.message, AssistantMessage)

    run(main())
