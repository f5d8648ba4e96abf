"""Responses on the Messages wire: deltas to one message, and what its end says."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from anthropic_help import (
    MODEL,
    begin,
    block,
    call_block,
    end,
    read,
    read_plain,
    text_block,
    thinking_block,
    tidy,
    whole,
)
from anthropic_streams import CALL, THOUGHT, assert_keeps, blocks_of
from hermes_messages import FinishReason, ToolCall, Usage


def test_text() -> None:
    response = read(tidy(text_block(0, "Hel", "lo")))
    assert response.message.content == "Hello"
    assert response.finish is FinishReason.STOP
    assert (response.model, response.response_id) == (MODEL, "msg_1")
    assert response.message.replay is None
    assert response.message.reasoning is None


def test_a_call_with_its_text() -> None:
    response = read(tidy(text_block(0, "I look."), CALL, reason="tool_use"))
    assert response.message.tool_calls == (ToolCall("toolu_1", "read_file", '{"path": "x"}'),)
    assert response.finish is FinishReason.TOOL_CALLS
    assert response.message.replay is None


def test_parallel_calls_may_interleave() -> None:
    first, second = call_block(0, "a", "f", '{"n"', ": 1}"), call_block(1, "b", "g", '{"m"', ": 2}")
    mixed = [first[0], second[0], first[1], second[1], first[2], second[2], first[3], second[3]]
    calls = read(tidy(mixed, reason="tool_use")).message.tool_calls
    assert calls == (ToolCall("a", "f", '{"n": 1}'), ToolCall("b", "g", '{"m": 2}'))


@pytest.mark.parametrize(
    ("start", "pieces", "arguments"),
    [
        ({}, (), "{}"),
        (None, ("",), "{}"),
        ({"path": "x"}, (), '{"path": "x"}'),
        ('{"path": 1}', (), '{"path": 1}'),
        ({"path": "x"}, ('{"path": 2}',), '{"path": 2}'),
    ],
)
def test_input_comes_in_deltas_or_whole(start: object, pieces: tuple[str, ...], arguments: str) -> None:
    events = call_block(0, "toolu_1", "f", *pieces)
    events[0]["content_block"] = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": start}
    calls = read(tidy(events, reason="tool_use")).message.tool_calls
    assert [json.loads(call.arguments) for call in calls] == [json.loads(arguments)]


def test_interleaved_thinking_is_kept_in_order_with_its_signatures() -> None:
    response = read(
        tidy(
            thinking_block(0, "sigA==", "Lo", "ok."),
            CALL,
            thinking_block(2, "sigB==", "And list."),
            call_block(3, "toolu_2", "list_files"),
            reason="tool_use",
        )
    )
    assert response.message.reasoning == "Look.\n\nAnd list."
    assert [call.id for call in response.message.tool_calls] == ["toolu_1", "toolu_2"]
    assert blocks_of(response) == [
        THOUGHT,
        {"type": "tool_use", "id": "toolu_1", "name": "read_file"},
        {"type": "thinking", "thinking": "And list.", "signature": "sigB=="},
        {"type": "tool_use", "id": "toolu_2", "name": "list_files"},
    ]


def test_thinking_whose_text_is_withheld_is_still_reasoning() -> None:
    response = read(tidy(thinking_block(0, "sig"), text_block(1, "Hi")))
    assert response.message.reasoning == ""
    assert blocks_of(response)[0] == {"type": "thinking", "thinking": "", "signature": "sig"}


def test_redacted_thinking_is_kept() -> None:
    redacted = {"type": "redacted_thinking", "data": "EmwKAhgB"}
    response = read(tidy(block(0, redacted), text_block(1, "Hi")))
    assert blocks_of(response) == [redacted, {"type": "text", "text": "Hi"}]
    assert response.message.reasoning is None


def test_server_tool_blocks_stay_opaque_and_are_no_calls() -> None:
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"n": 1.50}]}
    pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in ('{"query":', '"x"}')]
    response = read(
        tidy(text_block(0, "I search."), block(1, use, *pieces), block(2, found), text_block(3, "Found."))
    )
    assert response.message.tool_calls == ()
    assert response.message.content == "I search.\n\nFound."
    kinds = [item["type"] for item in blocks_of(response)]
    assert kinds == ["text", "server_tool_use", "web_search_tool_result", "text"]
    assert blocks_of(response)[1]["input"] == {"query": "x"}
    assert blocks_of(response)[2] == found


def test_server_tool_that_is_cut_off_within_its_input_can_be_kept() -> None:
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    said = '{"query": ["a\u00e9", {"b": null}]}'
    for at in range(1, len(said)):
        response = read(
            tidy(
                text_block(0, "I search."),
                block(1, use, {"type": "input_json_delta", "partial_json": said[:at]}),
                reason="max_tokens",
            )
        )
        assert_keeps(response)
        assert isinstance(blocks_of(response)[1]["input"], dict)


def test_citations_are_kept_and_do_not_cut_the_text() -> None:
    cited = block(
        1,
        {"type": "text", "text": "", "citations": []},
        {"type": "text_delta", "text": "the sky is blue"},
        {"type": "citations_delta", "citation": {"type": "char_location", "cited_text": "blue"}},
    )
    response = read(tidy(text_block(0, "So "), cited, text_block(2, ".")))
    assert response.message.content == "So the sky is blue."
    assert blocks_of(response)[1]["citations"] == [{"type": "char_location", "cited_text": "blue"}]


def test_an_answer_given_as_a_tools_arguments_is_the_text() -> None:
    events = call_block(0, "toolu_1", "submit_structured_answer", '{"n"', ":1}")
    response = read(tidy(events, reason="tool_use"))
    assert response.message.content == '{"n":1}'
    assert response.message.tool_calls == ()
    assert response.finish is FinishReason.STOP


def test_usage_counts_the_whole_prompt() -> None:
    usage = read(
        whole(
            begin(input_tokens=5, cache_read_input_tokens=1000, cache_creation_input_tokens=200),
            *text_block(0, "Hi"),
            *end(output_tokens=40, output_tokens_details={"thinking_tokens": 30}),
        )
    ).usage
    assert usage == Usage(
        input_tokens=1205,
        output_tokens=40,
        cache_read_tokens=1000,
        cache_write_tokens=200,
        reasoning_tokens=30,
    )


def test_later_usage_replaces_earlier_usage_and_missing_figures_do_not() -> None:
    later = end(input_tokens=30, cache_read_input_tokens=None)
    usage = read(whole(begin(cache_read_input_tokens=7), *text_block(0, "Hi"), *later)).usage
    assert usage is not None
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (37, 7, 15)


@pytest.mark.parametrize("usage", [None, {}, {"input_tokens": 0, "output_tokens": 0}, "n/a"])
def test_absent_usage_is_unknown_and_not_zero(usage: object) -> None:
    start = {"type": "message_start", "message": {"id": "m", "model": "x", "usage": usage}}
    finish = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}
    assert read(whole(start, *text_block(0, "Hi"), finish, {"type": "message_stop"})).usage is None


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", FinishReason.STOP),
        ("stop_sequence", FinishReason.STOP),
        ("max_tokens", FinishReason.LENGTH),
        ("model_context_window_exceeded", FinishReason.LENGTH),
        ("refusal", FinishReason.CONTENT_FILTER),
        ("some_new_reason", FinishReason.STOP),
    ],
)
def test_stop_reasons(reason: str, finish: FinishReason) -> None:
    response = read(tidy(text_block(0, "Hi"), reason=reason))
    assert response.finish is finish
    assert response.message.finish_reason == reason


def test_a_refusal_says_why() -> None:
    delta = {"stop_reason": "refusal", "stop_details": {"type": "refusal", "explanation": "Not this."}}
    response = read(whole(begin(), {"type": "message_delta", "delta": delta}, {"type": "message_stop"}))
    assert response.message.refusal == "Not this."
    assert response.finish is FinishReason.CONTENT_FILTER


def test_a_call_that_the_output_limit_cut_is_never_handed_on() -> None:
    response = read(tidy(CALL, call_block(2, "toolu_2", "f", '{"a'), reason="max_tokens"))
    assert [call.id for call in response.message.tool_calls] == ["toolu_1"]
    assert [call.id for call in response.unfinished_calls] == ["toolu_2"]
    empty = read(tidy(call_block(0, "toolu_1", "f"), reason="max_tokens"))
    assert empty.message.tool_calls == ()


def test_an_empty_stop_reason_ends_nothing() -> None:
    early = {"type": "message_delta", "delta": {"stop_reason": ""}, "usage": None}
    nothing = {"type": "message_delta", "delta": {"stop_reason": None}}
    response = read(whole(begin(), early, nothing, *text_block(0, "Hi"), *end()))
    assert (response.message.content, response.finish) == ("Hi", FinishReason.STOP)


def test_unknown_events_and_deltas_are_passed_over() -> None:
    odd: list[dict[str, object]] = [
        {"type": "brand_new_event", "x": 1},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "brand_new_delta", "text": "no"}},
        {"type": "content_block_delta", "index": 0, "delta": None},
        {"type": "content_block_start", "index": 9, "content_block": None},
        {"type": "message_start", "message": None},
    ]
    events = text_block(0, "Hi")
    assert read(whole(begin(), events[0], *odd, *events[1:], *end())).message.content == "Hi"


def test_missing_indices_and_stops_are_borne() -> None:
    events = [*text_block(0, "I look."), *call_block(1, "toolu_1", "f", '{"a"', ":1}")]
    bare = [
        {key: value for key, value in item.items() if key != "index"}
        for item in events
        if item["type"] != "content_block_stop"
    ]
    response = read(whole(begin(), *bare, *end("tool_use")))
    assert response.message.content == "I look."
    assert response.message.tool_calls == (ToolCall("toolu_1", "f", '{"a":1}'),)


def test_deltas_without_a_start_are_read() -> None:
    deltas: list[Mapping[str, object]] = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hi"}},
    ]
    message = read(whole(begin(), *deltas, *end())).message
    assert (message.reasoning, message.content) == ("Hm.", "Hi")


def test_a_delta_of_another_kind_does_not_spoil_a_block() -> None:
    stray = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "oops"}}
    events = call_block(0, "toolu_1", "f", '{"a"', ":1}")
    response = read(whole(begin(), *events[:2], *events[2:], stray, *end("tool_use")))
    assert response.message.tool_calls[0].arguments == '{"a":1}'
    assert response.message.content == "oops"


def test_bytes_that_are_no_utf8_cost_one_character() -> None:
    sent = tidy(text_block(0, "a?b")).replace(b"a?b", b"a\xffb")
    assert read(sent).message.content == "a\ufffdb"


def test_half_a_surrogate_pair_costs_one_character() -> None:
    sent = tidy(text_block(0, "ab", "cd")).replace(b'"ab"', rb'"a\\ud83e\ud83e\udd8a\ud83e"')
    assert read(sent).message.content == "a\\ud83e\U0001f98a\ufffdcd"


def test_a_done_mark_of_an_imitating_host_ends_the_stream() -> None:
    events = whole(begin(), *text_block(0, "Hi"), end()[0]) + b"data: [DONE]\n\n"
    assert read(events).finish is FinishReason.STOP


def test_what_follows_the_end_is_not_read() -> None:
    assert read(tidy(text_block(0, "Hi")) + whole(*text_block(1, "ghost"))).message.content == "Hi"


def test_a_plain_answer_reads_like_a_stream() -> None:
    content = [
        THOUGHT,
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "x"}},
    ]
    usage = {"input_tokens": 25, "output_tokens": 15}
    answer = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": content,
        "stop_reason": "tool_use",
        "usage": usage,
    }
    streamed = read(
        tidy(thinking_block(0, "sigA==", "Look."), text_block(1, "I look."), _at(CALL, 2), reason="tool_use")
    )
    whole_answer = read_plain(answer)
    assert whole_answer == streamed


def _at(events: list[dict[str, object]], index: int) -> list[dict[str, object]]:
    return [item | {"index": index} for item in events]
