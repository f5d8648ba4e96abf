"""Gemini answers, from the bytes of chunks to deltas, and through the assembler to a message."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byte_server import ByteServer, Reset, Script, head, plain, stream
from gemini_help import (
    NEW,
    SIGNATURE,
    USAGE,
    WHOLE,
    ask,
    assembled,
    blocks_of,
    call_part,
    chunk,
    event,
    provider_at,
    read_error,
    read_plainly,
)
from hermes_messages import (
    ErrorKind,
    FinishReason,
    History,
    ProviderError,
    TextDelta,
    ToolMessage,
    UserMessage,
)
from hermes_messages.exchange import ChatRequest
from hermes_messages.testing import check_provider
from hermes_providers import ServerSentEvent
from hermes_providers.wire.gemini_stream import GeminiStreamReader, read_gemini_usage
from wire_help import KEY, answer, cut, run


def test_whole_response_with_thoughts_text_and_parallel_calls() -> None:
    told, answered = assembled(*WHOLE)
    message = answered.message
    assert message.content == "Let me look.\u2028"
    assert message.reasoning == "**Plan** 计划"
    assert [(call.id, call.name, call.parse_arguments()) for call in message.tool_calls] == [
        ("a1", "f", {"x": 1, "城": "市"}),
        ("a2", "g", {"y": [2]}),
        ("a3", "now", {}),
    ]
    assert (answered.finish, message.finish_reason) == (FinishReason.TOOL_CALLS, "STOP")
    assert (answered.model, answered.response_id) == ("gemini-3-flash-001", "r1")
    usage = answered.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (100, 20)
    assert (usage.cache_read_tokens, usage.reasoning_tokens) == (60, 12)
    assert "".join(item.text for item in told if isinstance(item, TextDelta)) == message.content


def test_signatures_are_kept_on_exactly_the_part_that_had_them() -> None:
    assert blocks_of(assembled(*WHOLE)[1]) == [
        {"text": "Let me look.\u2028"},
        call_part("f", SIGNATURE, id="a1", args={"x": 1, "城": "市"}),
        call_part("g", id="a2", args={"y": [2]}),
        call_part("now", id="a3"),
    ]


def test_parts_with_a_signature_are_not_joined_with_others() -> None:
    parts = [
        {"text": "a", "thought": True, "thoughtSignature": "s1"},
        {"text": "b"},
        {"text": "c"},
        {"text": "", "thoughtSignature": "s2"},
        {"text": "d", "thoughtSignature": "s3"},
        {"text": "e"},
    ]
    answered = assembled(*[chunk(part) for part in parts], chunk(finish="STOP"))[1]
    assert blocks_of(answered) == [parts[0], {"text": "bc"}, *parts[3:]]
    assert (answered.message.content, answered.message.reasoning) == ("bcde", "a")


def test_parts_are_kept_byte_for_byte() -> None:
    raw = b'{ "functionCall" : {"name":"f", "args": {"b": 1.0, "a":"\\u002b"}}, "thoughtSignature":"+/=" }'
    data = b'data: {"candidates":[{"content":{"parts":[' + raw + b']},"finishReason":"STOP"}]}\n\n'
    answered = assembled(data)[1]
    assert answered.message.replay is not None
    assert bytes(answered.message.replay.blocks[0]) == raw
    assert answered.message.tool_calls[0].arguments == '{"b": 1.0, "a":"\\u002b"}'


@given(st.lists(st.integers(min_value=0), max_size=30))
def test_any_cutting_gives_the_same_message(places: list[int]) -> None:
    data = b"".join(WHOLE)
    assert assembled(*cut(data, places))[1] == assembled(data)[1]


def test_every_single_cut_gives_the_same_message() -> None:
    data = b"".join(WHOLE)
    wanted = assembled(data)[1]
    for place in range(len(data)):
        assert assembled(data[:place], data[place:])[1] == wanted


def test_answer_that_was_asked_for_as_a_tool_is_text() -> None:
    call = call_part("submit_structured_answer", args={"a": 1})
    answered = assembled(chunk(call, finish="STOP"))[1]
    assert (answered.message.content, answered.message.tool_calls) == ('{"a": 1}', ())
    assert answered.finish is FinishReason.STOP


def test_calls_without_ids_get_ids_of_their_own() -> None:
    parts = [call_part("f", args={"x": 1}), call_part("f", args={"x": 2}), call_part("f", args={"x": 2})]
    answered = assembled(chunk(*parts, finish="STOP"))[1]
    calls = answered.message.tool_calls
    assert [call.parse_arguments() for call in calls] == [{"x": 1}, {"x": 2}, {"x": 2}]
    assert len({call.id for call in calls}) == 3


@pytest.mark.parametrize(
    ("candidate", "finish"),
    [
        ({"finishReason": "STOP"}, FinishReason.STOP),
        ({"content": {}, "finishReason": "STOP"}, FinishReason.STOP),
        ({"content": {"role": "model"}, "finishReason": "STOP"}, FinishReason.STOP),
        ({"content": None, "finishReason": "MAX_TOKENS"}, FinishReason.LENGTH),
        ({"content": {"parts": None}, "finishReason": "SAFETY"}, FinishReason.CONTENT_FILTER),
    ],
)
def test_candidate_without_content(candidate: object, finish: FinishReason) -> None:
    answered = assembled(chunk({"text": "Hel"}), event({"candidates": [candidate]}))[1]
    assert (answered.message.content, answered.finish) == ("Hel", finish)
    alone = assembled(event({"candidates": [candidate]}))[1]
    assert alone.message.content is None


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("STOP", FinishReason.STOP),
        ("MAX_TOKENS", FinishReason.LENGTH),
        ("SAFETY", FinishReason.CONTENT_FILTER),
        ("RECITATION", FinishReason.CONTENT_FILTER),
        ("BLOCKLIST", FinishReason.CONTENT_FILTER),
        ("PROHIBITED_CONTENT", FinishReason.CONTENT_FILTER),
        ("SPII", FinishReason.CONTENT_FILTER),
        ("LANGUAGE", FinishReason.CONTENT_FILTER),
        ("MALFORMED_FUNCTION_CALL", FinishReason.MALFORMED_CALL),
        ("UNEXPECTED_TOOL_CALL", FinishReason.MALFORMED_CALL),
        ("OTHER", FinishReason.STOP),
        ("SOMETHING_NEW", FinishReason.STOP),
    ],
)
def test_finish_reasons_are_an_open_set_and_the_hosts_word_is_kept(word: str, finish: FinishReason) -> None:
    answered = assembled(chunk({"text": "x"}, finish=word))[1]
    assert (answered.finish, answered.message.finish_reason) == (finish, word)


@pytest.mark.parametrize("word", ["", " ", "FINISH_REASON_UNSPECIFIED"])
def test_empty_finish_reason_ends_nothing(word: str) -> None:
    answered = assembled(chunk({"text": "a"}, finish=word), chunk({"text": "b"}, finish="STOP"))[1]
    assert answered.message.content == "ab"
    reader = GeminiStreamReader(read_error)
    reader.feed(ServerSentEvent(chunk({"text": "a"}, finish=word).removeprefix(b"data: ")))
    assert not reader.finished


def test_call_that_was_being_written_at_the_cut_is_not_handed_on() -> None:
    answered = assembled(chunk(call_part("f", args={"x": 1}), finish="MAX_TOKENS"))[1]
    assert answered.message.tool_calls == ()
    assert [call.name for call in answered.unfinished_calls] == ["f"]


def test_missing_signature_is_an_error_of_the_request() -> None:
    with pytest.raises(ProviderError, match="MISSING_THOUGHT_SIGNATURE") as caught:
        assembled(event({"candidates": [{"finishReason": "MISSING_THOUGHT_SIGNATURE"}]}))
    assert caught.value.kind is ErrorKind.FORMAT


@pytest.mark.parametrize("reason", ["SAFETY", "OTHER", "PROHIBITED_CONTENT", "NEW_REASON"])
@pytest.mark.parametrize("way", ["streamed", "plain"])
def test_blocked_prompt_is_a_refusal_by_policy(reason: str, way: str) -> None:
    value = {"promptFeedback": {"blockReason": reason}, "usageMetadata": {"promptTokenCount": 3}}
    with pytest.raises(ProviderError, match=f"blocked.*{reason}") as caught:
        _ = read_plainly(value) if way == "plain" else assembled(event(value))
    assert caught.value.kind is ErrorKind.CONTENT_POLICY
    assert str(caught.value).endswith("[content_policy]")


ERROR = {"error": {"code": 429, "message": "Resource exhausted.", "status": "RESOURCE_EXHAUSTED"}}


@pytest.mark.parametrize("value", [ERROR, [ERROR], [chunk({"text": "a"}), ERROR][1:]])
def test_error_inside_a_success(value: object) -> None:
    for attempt in (
        lambda: assembled(chunk({"text": "a"}), event(value)),
        lambda: read_plainly(value),
    ):
        with pytest.raises(ProviderError, match="exhausted") as caught:
            attempt()
        assert caught.value.kind is ErrorKind.RATE_LIMIT
        assert caught.value.status == 429


def test_error_behind_chunks_in_an_array() -> None:
    first = json.loads(chunk({"text": "a"}).removeprefix(b"data: "))
    with pytest.raises(ProviderError, match="exhausted"):
        read_plainly([first, ERROR])


@pytest.mark.parametrize("body", [b"<html>502</html>", b"{}", b"null", b"[]", b"3", b'{"usageMetadata":{}}'])
def test_plain_answer_that_is_no_response(body: bytes) -> None:
    with pytest.raises(ProviderError):
        GeminiStreamReader(read_error).read_plain(body)


def test_plain_answers_are_read_as_the_stream_is() -> None:
    streamed = assembled(*WHOLE)[1]
    values = [json.loads(piece.removeprefix(b"data: ")) for piece in WHOLE]
    assert read_plainly(values) == streamed  # a stream without `alt=sse` is an array of the same chunks
    parts = [part for value in values for part in value["candidates"][0]["content"]["parts"]]
    whole = {**values[-1], "candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
    assert read_plainly(whole) == streamed


def test_last_chunk_cut_in_the_middle_says_nothing() -> None:
    reader = GeminiStreamReader(read_error)
    assert reader.feed(ServerSentEvent(b'{"candidates":[', terminated=False)) == []
    with pytest.raises(ProviderError):
        reader.feed(ServerSentEvent(b'{"candidates":['))


def test_other_candidates_and_unreadable_parts_are_passed_over() -> None:
    value = {
        "candidates": [
            {
                "index": 0,
                "content": {"parts": [3, {"text": "a"}, {"text": 7}, {"new": 1}]},
                "finishReason": "STOP",
            },
            {"index": 1, "content": {"parts": [{"text": "other"}]}},
        ]
    }
    assert assembled(event(value), b"data: [DONE]\n\n", b": ping\n\n")[1].message.content == "a"


@pytest.mark.parametrize("usage", [None, {}, [], {"promptTokenCount": 0}, {"promptTokenCount": "x"}])
def test_usage_that_says_nothing_is_unknown_not_zero(usage: object) -> None:
    assert assembled(chunk({"text": "x"}, finish="STOP", usageMetadata=usage))[1].usage is None


def test_usage_counts_what_tools_of_the_host_put_in() -> None:
    usage = read_gemini_usage({"promptTokenCount": 10, "toolUsePromptTokenCount": 5, "totalTokenCount": 15})
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens) == (15, None, None)


FAILURES: dict[str, Script] = {
    "status": plain(json.dumps([ERROR]).encode(), "429 Too Many Requests"),
    "error array in a 200": plain(json.dumps([ERROR]).encode()),
    "blocked": stream(event({"promptFeedback": {"blockReason": "SAFETY"}})),
    "early end": stream(chunk({"text": "a"})),
    "empty stream": stream(b""),
    "empty answer": stream(event({"candidates": [{"content": {}, "finishReason": "STOP"}]})),
    "malformed call": stream(event({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]})),
    "reset": [head(), chunk({"text": "a"}), Reset()],
}


@pytest.mark.parametrize("name", FAILURES)
def test_provider_keeps_the_promises_of_the_protocol(name: str) -> None:
    async def main() -> None:
        async with ByteServer([stream(*WHOLE)]) as good, ByteServer([FAILURES[name]]) as bad:
            await check_provider(
                lambda: provider_at(good.base_url),
                request=ask(),
                make_failing=lambda: provider_at(bad.base_url),
                limit_s=600,
            )

    run(main())


def test_next_request_carries_the_parts_of_the_answer() -> None:
    async def main() -> None:
        text = stream(chunk({"text": "Done."}, finish="STOP", usageMetadata=USAGE))
        async with ByteServer([stream(*WHOLE), text]) as server:
            provider = provider_at(server.base_url)
            await provider.open()
            first = await answer(provider, ask())
            results = [ToolMessage(call.id, "done") for call in first.message.tool_calls]
            history = History.of([UserMessage("hi"), first.message, *results])
            await answer(provider, ChatRequest(model=NEW, history=history))
            await provider.close()
        sent = server.requests[1].json()["contents"]
        assert isinstance(sent, list)
        assert [content["role"] for content in sent] == ["user", "model", "user"]
        assert sent[1]["parts"] == blocks_of(first)
        assert [part["functionResponse"]["id"] for part in sent[2]["parts"]] == ["a1", "a2", "a3"]
        request = server.requests[1]
        assert request.line == f"POST /v1/models/{NEW}:streamGenerateContent?alt=sse HTTP/1.1"
        assert request.headers["x-goog-api-key"] == KEY
        assert "authorization" not in request.headers

    run(main())
