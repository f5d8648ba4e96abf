"""What broke for others on the wires, and where it is tested; at the end, what no other file has.

The table holds every known case of tool-call deltas, streams, framing, retries and classification. A test
proves that each test named here exists, so the table can not rot.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path

import pytest

from byte_server import ByteServer, Script, plain, stream
from hermes_messages import ChatResponse, ErrorKind, FinishReason, ProviderError
from hermes_providers import classify
from wire_help import DONE, SPEC, answer, ask, chunk, event, provider_at, run

CASES: dict[str, tuple[str, ...]] = {
    # Tool-call deltas
    "a call without an index": ("test_stream_reader.test_call_without_index",),
    "an unreliable index: two calls on one, a tail at an unknown one, ids that are numbers": (
        "test_stream_reader.test_two_calls_on_one_index",
        "test_stream_reader.test_number_ids_and_number_texts_as_index",
    ),
    "interleaved fragments, a name that comes late": (
        "test_stream_reader.test_interleaved_and_late_name",
        "test_adapter.test_tool_calls_and_reasoning_stream_as_they_come",
    ),
    "arguments as an object": ("test_stream_reader.test_arguments_as_an_object",),
    "arguments that are nearly JSON": (
        "test_field_cases.test_near_json_arguments_come_as_produced_beside_valid_siblings",
        "test_field_cases.test_arguments_cut_by_the_output_limit_are_never_run",
        "test_request.test_arguments_of_old_calls_are_json_for_hosts_that_parse_them",
    ),
    "arguments longer than the host takes": ("test_field_cases.test_too_long_arguments_are_a_format_error",),
    "an empty tool name": (
        "test_field_cases.test_a_call_without_a_name_is_never_run",
        "test_wire_outcomes.test_a_nameless_call_is_never_handed_on",
    ),
    "a tool name or schema that a host refuses": (
        "test_wire_features.test_tool_names_that_a_host_refuses_are_mapped_and_mapped_back",
        "test_wire_features.test_schemas_with_variants_at_the_top_become_one_object",
    ),
    "two calls with one id": (
        "test_field_cases.test_repeated_ids_are_made_unique",
        "test_wire_outcomes.test_two_calls_with_one_id_get_two",
    ),
    "ids that another host made": (
        "test_switching_hosts.test_what_one_host_made_can_be_sent_to_every_other",
        "test_request.test_foreign_ids_are_mapped_alike_on_call_and_result",
        "test_profiles.test_ids_of_exact_length_are_mapped_and_own_ones_stay",
    ),
    # Streams, finish, usage, errors
    "a chunk with usage only, first or last": (
        "test_stream_reader.test_chunk_with_usage_only",
        "test_adapter.test_text_answer_from_end_to_end",
    ),
    "usage inside the choice, or none": (
        "test_stream_reader.test_usage_inside_the_choice",
        "test_stream_reader.test_usage_that_says_nothing_is_unknown_not_zero",
        "test_prices.test_no_usage_stays_unknown",
    ),
    "an empty finish reason on every chunk": (
        "test_stream_reader.test_empty_finish_reason_on_every_chunk_ends_nothing",
    ),
    "unknown finish reasons": (
        "test_stream_reader.test_unknown_finish_reason_keeps_the_text_and_the_word",
        "test_field_cases.test_finish_reasons_that_mean_an_error",
        "test_wire_outcomes.test_an_unknown_word_for_the_end_keeps_the_text",
        "test_gemini_stream.test_finish_reasons_are_an_open_set_and_the_hosts_word_is_kept",
        "test_gemini_stream.test_candidate_without_content",
    ),
    "a finish that says calls and none came, or the reverse": (
        "test_wire_outcomes.test_a_finish_that_promises_calls_without_any",
        "test_wire_outcomes.test_a_finish_that_hides_its_calls",
    ),
    "an error event in the middle": (
        "test_anthropic_stream_trouble.test_an_error_event_mid_stream_is_a_typed_error",
        "test_anthropic_stream_trouble.test_text_before_an_error_event_is_told_before_the_error",
        "test_wire_outcomes.test_an_error_in_the_middle_is_typed_and_what_came_before_is_told",
    ),
    "responses that end incomplete or failed, streamed and plain": (
        "test_responses_outcomes.test_incomplete_response",
        "test_responses_outcomes.test_failed_response_is_a_classified_error",
        "test_responses_stream.test_plain_answer_is_read_as_the_stream_is",
    ),
    "an answer that the host paused": (
        "test_anthropic_pause.test_only_blocks_of_the_hosts_tools_go_back_and_the_answer_follows",
        "test_anthropic_pause.test_a_host_that_pauses_for_ever_ends_in_a_typed_error",
    ),
    "a success with an error inside": (
        "test_stream_reader.test_error_inside_a_success_is_an_error",
        "test_stream_reader.test_event_named_error_is_one_whatever_it_holds",
        "test_adapter.test_json_error_with_status_200",
        "test_adapter.test_plain_text_with_status_200",
        "test_adapter.test_html_page_with_status_200",
        "test_wire_outcomes.test_a_success_that_is_an_error_is_one",
        "test_adapter.test_error_event_in_the_middle_comes_after_what_was_before_it",
    ),
    "reasoning details with fields missing": (
        "test_stream_reader.test_reasoning_details_are_merged_by_index_with_any_field_missing",
    ),
    "empty reasoning is not absence": (
        "test_stream_reader.test_empty_reasoning_is_read_as_empty_not_as_absent",
        "test_request.test_empty_reasoning_is_not_absence",
    ),
    "think tags in the text, cut anywhere": (
        "test_stream_reader.test_think_tags_cut_anywhere_leave_the_text",
        "test_wire_features.test_reasoning_in_the_text_by_quirk",
    ),
    "reasoning blocks reordered or from elsewhere": (
        "test_request.test_reasoning_blocks_go_back_to_their_origin_alone",
        "test_request.test_one_builder_keeps_models_apart",
        "test_anthropic_replay.test_interleaved_thinking_keeps_its_order",
        "test_anthropic_stream.test_interleaved_thinking_is_kept_in_order_with_its_signatures",
        "test_anthropic_replay.test_signature_from_another_origin_is_left_out_of_the_request_copy",
        "test_anthropic_replay.test_profile_may_let_foreign_thinking_through",
        "test_switching_hosts.test_back_on_the_first_host_everything_is_as_it_was",
    ),
    "Gemini's thought signatures beside parallel calls": (
        "test_gemini_replay.test_one_response_stays_one_content_with_its_signature_where_it_was",
        "test_gemini_replay.test_dummy_signature_only_on_the_first_call_of_a_step_of_the_current_turn",
        "test_gemini_replay.test_real_signatures_are_never_joined_by_a_dummy",
        "test_gemini_stream.test_signatures_are_kept_on_exactly_the_part_that_had_them",
    ),
    "Gemini's ids by generation, and alternation": (
        "test_gemini_replay.test_ids_go_to_the_generations_that_know_them",
        "test_gemini_request.test_consecutive_contents_of_one_role_are_joined",
    ),
    "reasoning items of Responses and their neighbours": (
        "test_responses_request.test_output_items_go_back_verbatim_in_order_and_with_empty_arrays",
        "test_responses_request.test_items_go_back_all_or_none",
        "test_responses_request.test_interleaved_reasoning_and_calls_keep_their_order",
        "test_responses_request.test_reasoning_item_without_summary_gets_an_empty_one",
    ),
    "reasoning that a host wants back and another host never made": (
        "test_profiles.test_reasoning_of_rounds_goes_back_where_its_absence_is_an_error",
    ),
    "parameters that need tools": (
        "test_request.test_tool_options_only_with_tools",
        "test_anthropic_request.test_tool_options_need_tools",
        "test_responses_request.test_tool_options_only_with_tools",
        "test_gemini_request.test_tool_options_only_with_tools",
    ),
    "a schema forced on every turn": (
        "test_request.test_schema_and_tools_in_one_request_by_profile",
        "test_profiles.test_structured_output_by_host",
        "test_wire_features.test_an_answer_by_a_tool_is_the_text_of_the_message",
    ),
    "keys, proxies and addresses that can not work": (
        "test_credentials.test_key_is_trimmed",
        "test_credentials.test_key_that_no_header_carries_is_refused_without_showing_it",
        "test_credentials.test_base_url_that_can_not_work_is_refused",
        "engines/test_proxy.test_proxy_that_can_not_be_used_is_told_at_open",
        "test_request.test_half_surrogate_pairs_do_not_stop_a_request",
    ),
    # Framing
    "keep-alive comments": ("test_sse.test_keep_alive_comment_and_blank_line_dispatch_nothing",),
    "line ends, cuts, the optional space, the byte order mark": (
        "test_sse.test_every_line_end_is_one",
        "test_sse.test_cut_between_cr_and_lf",
        "test_sse.test_lone_cr_dispatches_without_waiting_for_more",
        "test_sse.test_character_cut_in_the_middle",
        "test_sse.test_several_data_lines_are_joined_by_lf",
        "test_sse.test_one_optional_space",
        "test_sse.test_leading_byte_order_mark_also_cut",
        "test_sse.test_any_cutting_gives_the_same_events",
        "test_any_chat_stream.test_any_cutting_of_a_recorded_stream_gives_the_same_message",
        "test_all_wires.test_a_cut_at_any_single_byte_gives_the_same_message",
        "test_all_wires.test_any_cutting_gives_the_same_message_and_the_same_deltas",
    ),
    "characters cut in two between events": (
        "test_all_wires.test_characters_cut_by_utf_16_units_come_whole",
        "test_all_wires.test_a_half_character_whose_other_half_never_comes_costs_one_character",
    ),
    "separators of Unicode inside JSON": ("test_sse.test_unicode_line_separators_inside_json_stay",),
    "several events in one network chunk": ("test_sse.test_several_events_in_one_chunk",),
    "an end without the blank line": (
        "test_sse.test_end_without_blank_line_keeps_the_last_event",
        "test_stream_reader.test_end_without_blank_line_counts_when_it_is_json_and_is_ignored_when_cut",
    ),
    # Retry, classification
    "all forms of Retry-After": (
        "test_classify.test_retry_after_forms",
        "test_classify.test_wait_that_only_the_body_tells",
        "test_adapter.test_error_status_keeps_status_headers_and_body",
    ),
    "a 429 that is no rate limit": (
        "test_classify.test_a_429_is_not_always_a_rate_limit",
        "test_keys.test_overload_rests_no_key",
    ),
    "transport errors in disguise": (
        "test_transport.test_transport_errors_are_told_apart_by_what_a_repetition_can_mend",
        "engines/test_requests.test_connection_lost",
        "engines/test_requests.test_what_is_no_http_is_a_transport_error",
        "test_field_cases.test_broken_json_in_a_success_is_the_hosts_failure",
        "engines/test_tls.test_certificate_that_nobody_vouches_for_is_refused_once_and_nothing_is_sent",
    ),
    "a context overflow in all its wordings": (
        "test_classify.test_verbatim_text_of_each_row_is_judged_by_its_row",
        "test_classify.test_overflow_wording_beats_every_status",
        "test_classify.test_413_and_a_bare_400_are_overflow",
        "test_classify.test_throttling_text_about_tokens_is_no_overflow",
        "test_classify.test_silent_overflow_shows_in_the_usage",
    ),
    "format errors are none of size": ("test_field_cases.test_format_errors_are_never_taken_for_overflow",),
    "fixed refusals": ("test_field_cases.test_refusals_are_typed_wherever_they_stand",),
    "a parameter that a model does not know": (
        "test_refusals.test_later_requests_of_that_model_leave_it_out_and_nothing_is_sent_by_itself",
        "test_wire_features.test_a_refused_parameter_is_left_out_when_the_same_request_is_sent_again",
        "test_wire_features.test_parameters_that_a_wire_does_not_have_are_left_out_and_told",
    ),
    # Connections
    "leaks after cancelling, breaking off, error answers": (
        "engines/test_waits.test_two_connections_outlast_five_of_everything",
        "engines/test_waits.test_cancel_at_each_stage_leaks_nothing",
        "engines/test_waits.test_cancel_at_any_moment_leaks_no_connection",
        "engines/test_http2.test_two_connections_outlast_five_cancelled_streams",
    ),
    "a client used in a second event loop": (
        "engines/test_connections.test_second_event_loop",
        "test_limiter.test_starts_afresh_in_another_event_loop",
    ),
}


@lru_cache
def names_in(module: str) -> frozenset[str]:
    tree = ast.parse((Path(__file__).parent / f"{module}.py").read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("case", CASES)
def test_every_case_is_tested_where_the_table_says(case: str) -> None:
    assert CASES[case]
    for place in CASES[case]:
        module, name = place.split(".")
        assert name in names_in(module), place


# What no other file has


async def _response(*pieces: bytes) -> ChatResponse:
    async with ByteServer([stream(*pieces)]) as server:
        provider = provider_at(server.base_url)
        try:
            return await answer(provider, ask(tools=(SPEC,)))
        finally:
            await provider.close()


async def _failure(script: Script) -> ProviderError:
    async with ByteServer([script]) as server:
        provider = provider_at(server.base_url)
        with pytest.raises(ProviderError) as caught:
            await answer(provider, ask(tools=(SPEC,)))
        assert len(server.requests) == 1
        await provider.close()
        return caught.value


def call(index: int, call_id: str, name: str, arguments: str) -> dict[str, object]:
    return {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}


def calls(*said: dict[str, object], finish: str = "tool_calls") -> list[bytes]:
    return [event(chunk({"tool_calls": list(said)})), event(chunk({}, finish)), DONE]


@pytest.mark.parametrize("arguments", ['{}""', '{"a":"x\ny"}', '{"action": listt}', "", "null", '{"a": 1'])
def test_near_json_arguments_come_as_produced_beside_valid_siblings(arguments: str) -> None:
    response = run(_response(*calls(call(0, "a", "f", arguments), call(1, "b", "g", '{"ok":1}'))))
    by_id = {one.id: one.arguments for one in response.message.tool_calls}
    assert by_id["b"] == '{"ok":1}'
    produced = {**by_id, **{one.id: one.arguments for one in response.unfinished_calls}}
    assert produced["a"] == arguments or (arguments == "" and produced["a"] in {"", "{}"})
    assert response.finish is FinishReason.TOOL_CALLS


def test_arguments_cut_by_the_output_limit_are_never_run() -> None:
    response = run(_response(*calls(call(0, "a", "f", '{"path": "/tm'), finish="length")))
    assert response.message.tool_calls == ()
    assert [one.arguments for one in response.unfinished_calls] == ['{"path": "/tm']
    assert response.finish is FinishReason.LENGTH


def test_too_long_arguments_are_a_format_error() -> None:
    text = (
        '{"error":{"message":"Invalid \'messages[2].tool_calls[0].function.arguments\': string too long. '
        'Expected a string with maximum length 1048576, but got a string with length 2000000 instead.",'
        '"type":"invalid_request_error","code":"string_above_max_length"}}'
    )
    error = classify(400, {}, text, now=0.0)
    assert (error.kind, error.code) == (ErrorKind.FORMAT, "string_above_max_length")


@pytest.mark.parametrize("name", ["", None])
def test_a_call_without_a_name_is_never_run(name: str | None) -> None:
    nameless = {"index": 0, "id": "a", "function": {"name": name, "arguments": "{}"}}
    response = run(_response(*calls(nameless, call(1, "b", "g", "{}"))))
    assert [one.id for one in response.message.tool_calls] == ["b"]


def test_repeated_ids_are_made_unique() -> None:
    response = run(_response(*calls(call(0, "call_1", "f", '{"x":1}'), call(1, "call_1", "f", '{"x":2}'))))
    made = response.message.tool_calls
    assert len({one.id for one in made}) == 2
    assert [one.arguments for one in made] == ['{"x":1}', '{"x":2}']


@pytest.mark.parametrize("word", ["error", "ERROR", " Error "])
def test_finish_reasons_that_mean_an_error(word: str) -> None:
    error = run(_failure(stream(event(chunk({"content": "a"})), event(chunk({}, word)), DONE)))
    assert error.kind is ErrorKind.SERVER


@pytest.mark.parametrize(
    "script",
    [
        stream(event(chunk({"content": "a"})), b"data: {broken\n\n", DONE),
        plain(b'{"choices":[{"mess'),
        stream(b"data: [1, 2]\n\n"),
    ],
)
def test_broken_json_in_a_success_is_the_hosts_failure(script: Script) -> None:
    assert run(_failure(script)).kind is ErrorKind.SERVER  # a kind that is sent again


@pytest.mark.parametrize(
    "text",
    [
        "invalid tool call arguments",
        "Invalid parameter: messages with role 'tool' must be a response to a preceding message.",
        "messages.3: `tool_use` ids must be unique",
        "text content blocks must contain non-whitespace text",
        "Invalid `signature` in `thinking` block",
        "[] is too short - 'messages.1.tool_calls'",
    ],
)
def test_format_errors_are_never_taken_for_overflow(text: str) -> None:
    assert classify(400, {}, f'{{"error":{{"message":"{text}"}}}}', now=0.0).kind is ErrorKind.FORMAT


@pytest.mark.parametrize(
    "script",
    [
        plain(b'{"error":{"code":"content_policy_violation","message":"no"}}', "400 Bad Request"),
        stream(event({"error": {"code": "content_filter", "message": "filtered"}})),
        stream(event(chunk({}, "content_filter")), DONE),
        stream(event(chunk({"content": ""}, "sensitive")), DONE),
    ],
)
def test_refusals_are_typed_wherever_they_stand(script: Script) -> None:
    assert run(_failure(script)).kind is ErrorKind.CONTENT_POLICY


def test_text_before_a_filter_is_kept_with_its_reason() -> None:
    response = run(_response(event(chunk({"content": "half"})), event(chunk({}, "content_filter")), DONE))
    assert (response.message.content, response.finish) == ("half", FinishReason.CONTENT_FILTER)
