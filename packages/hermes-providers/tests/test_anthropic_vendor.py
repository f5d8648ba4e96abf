"""Anthropic's own library, as a second opinion: its types take our requests, and it reads the same streams
to the same messages. The library is for this test only and never imported by the package."""

from __future__ import annotations

import asyncio
import importlib
import json
from typing import Any

import pytest
from msgspec import Raw

from anthropic_help import MODEL, builder, read, read_plain
from anthropic_requests import CASES
from anthropic_streams import STREAMS
from byte_server import ByteServer, plain, stream
from hermes_messages import ChatResponse
from hermes_messages.parts import content_text
from hermes_providers.wire.anthropic_pause import continued
from vendor_help import settled

_WHY = "not installed: anthropic (dependency group vendor-types)"
anthropic: Any = pytest.importorskip("anthropic", reason=_WHY)
pydantic: Any = pytest.importorskip("pydantic", reason=_WHY)

# The library warns of models and options that will end; what it makes of them is the point here.
pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated:Warning")


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_librarys_types_take_our_requests_and_know_every_field(name: str) -> None:
    sent = json.loads(builder().build(CASES[name]))
    binding = sent.get("thinking", {}).pop("block_binding", None)
    if binding is not None:  # of a feature that the header names, so among the library's types for those
        beta = importlib.import_module("anthropic.types.beta")
        kind = pydantic.TypeAdapter(beta.BetaThinkingBlockBindingParam)
        assert kind.validate_python(binding) == binding
    taken = validated(sent)
    if "temperature" in sent:  # the host still takes it for older models; the library's newest types do not
        taken.setdefault("temperature", sent["temperature"])
    assert taken == sent, "a field that the library does not know would be missing"


def test_the_librarys_types_take_the_request_that_lets_a_paused_answer_go_on() -> None:
    blocks = [
        Raw(b'{"type":"thinking","thinking":"look","signature":"c2ln"}'),
        Raw(b'{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"x"}}'),
        Raw(b'{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}'),
        Raw(b'{"type":"text","text":"So far. ","citations":null}'),
    ]
    body = continued(builder().build(CASES["interleaved_thinking"]), blocks, "box_1")
    assert body is not None
    sent = json.loads(body)
    assert sent["container"] == "box_1"
    assert len(sent["messages"][-1]["content"]) == 4
    assert validated(sent) == sent


def test_the_librarys_types_would_notice_a_mistake() -> None:
    sent = json.loads(builder().build(CASES["tool_round"]))
    call = sent["messages"][1]["content"][1]
    call["index"] = 1  # a field of responses
    assert validated(sent) != sent
    del call["index"]
    call["input"] = "{}"
    with pytest.raises(pydantic.ValidationError):
        validated(sent)


def validated(sent: dict[str, Any]) -> dict[str, Any]:
    types = importlib.import_module("anthropic.types.message_create_params")
    adapter = pydantic.TypeAdapter(types.MessageCreateParamsStreaming)  # the lazy sequences need it alive
    taken = settled(adapter.validate_python(sent))
    assert isinstance(taken, dict)
    return taken


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_library_sends_what_we_send(name: str) -> None:
    ours = json.loads(builder().build(CASES[name]))

    async def scenario() -> dict[str, object]:
        async with ByteServer([stream(STREAMS["text"])]) as server:
            async with client(server) as library:
                fields = {key: value for key, value in ours.items() if key not in {"stream", "temperature"}}
                extra = {"temperature": ours["temperature"]} if "temperature" in ours else None
                async with library.messages.stream(**fields, extra_body=extra) as answer:
                    await answer.until_done()
            return server.requests[0].json()

    assert asyncio.run(scenario()) == ours


@pytest.mark.parametrize("name", sorted(STREAMS))
def test_the_library_reads_a_stream_to_the_same_message(name: str) -> None:
    async def scenario() -> Any:
        async with (
            ByteServer([stream(STREAMS[name])]) as server,
            client(server) as library,
            library.messages.stream(model=MODEL, max_tokens=9, messages=[]) as answer,
        ):
            return await answer.get_final_message()

    theirs = asyncio.run(scenario())
    compare(read(STREAMS[name]), theirs)
    # The message that the library put together, given to us as a plain answer, says the same once more.
    compare(read_plain(theirs.to_dict()), theirs)


def test_the_library_reads_our_recorded_plain_answer_alike() -> None:
    async def scenario(body: bytes) -> Any:
        async with ByteServer([plain(body)]) as server, client(server) as library:
            return await library.messages.create(model=MODEL, max_tokens=9, messages=[])

    answer = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 3},
    }
    compare(read_plain(answer), asyncio.run(scenario(json.dumps(answer).encode())))


def client(server: ByteServer) -> Any:
    base_url = server.base_url.removesuffix("/v1")
    return anthropic.AsyncAnthropic(api_key="sk-ant-test", base_url=base_url, max_retries=0)


def compare(ours: ChatResponse, theirs: Any) -> None:
    message = ours.message
    calls = [block for block in theirs.content if block.type == "tool_use"]
    assert [(call.id, call.name) for call in message.tool_calls] == [(call.id, call.name) for call in calls]
    assert [call.parse_arguments() for call in message.tool_calls] == [call.input for call in calls]
    text = "".join(block.text for block in theirs.content if block.type == "text")
    assert content_text(message.content).replace("\n\n", "") == text.replace("\n\n", "")
    thoughts = [block for block in theirs.content if block.type == "thinking"]
    if thoughts:
        assert message.reasoning == "\n\n".join(block.thinking for block in thoughts)
        assert message.replay is not None
        kept = [json.loads(bytes(raw)) for raw in message.replay.blocks]
        assert [block["type"] for block in kept] == [block.type for block in theirs.content]
        signatures = [block["signature"] for block in kept if block["type"] == "thinking"]
        assert signatures == [block.signature for block in thoughts]
    assert message.finish_reason == theirs.stop_reason
    assert (ours.model, ours.response_id) == (theirs.model, theirs.id)
    usage = theirs.usage
    assert ours.usage is not None
    whole_prompt = (
        usage.input_tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    )
    assert (ours.usage.input_tokens, ours.usage.output_tokens) == (whole_prompt, usage.output_tokens)
