"""Chat streams of any cutting and any JSON: no message changes, and nothing breaks the reader."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

from chat_streams import assembled, call_chunk, deltas, reader
from hermes_messages import ProviderError
from hermes_messages.deltas import Delta
from hermes_providers import ServerSentEvent, get_profile
from wire_help import DONE, chunk, cut, event

RECORDED = b"".join(
    [
        b": ping\r\n\r\n",
        event(chunk({"role": "assistant", "content": None, "reasoning_content": "思考"})),
        event(chunk({"content": "<think>deep</think>Grüße\u2028!"})),
        event(call_chunk({"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}})),
        event(call_chunk({"index": 0, "function": {"arguments": '{"city": "Par'}})),
        b"data:\r\n\r\n",
        event(call_chunk({"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}})),
        event(call_chunk({"index": 0, "function": {"arguments": 'is"}'}})),
        event(chunk({}, "tool_calls")),
        event({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 6}}),
        DONE,
    ]
)


@given(st.lists(st.integers(min_value=0, max_value=len(RECORDED)), max_size=30))
def test_any_cutting_of_a_recorded_stream_gives_the_same_message(places: list[int]) -> None:
    told, response = assembled(RECORDED)
    assert assembled(*cut(RECORDED, places)) == (told, response)
    assert [c.arguments for c in response.message.tool_calls] == ['{"city": "Paris"}', "{}"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "choices",
                        "delta",
                        "error",
                        "usage",
                        "index",
                        "tool_calls",
                        "function",
                        "arguments",
                        "content",
                        "finish_reason",
                        "id",
                        "reasoning_details",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=20,
    )
)
def test_no_json_breaks_the_reader(value: object) -> None:
    one = reader(get_profile("openrouter").quirks)
    try:
        one.feed(ServerSentEvent(json.dumps(value).encode()))
        one.close()
    except ProviderError:
        pass


def mostly(usual: list[object], *odd: object) -> st.SearchStrategy[object]:
    """One of `usual`, now and then one of `odd`."""
    return st.sampled_from([*usual * 6, *odd])


CALLS = st.lists(
    st.fixed_dictionaries(
        {
            "index": mostly([0, 1], "1", None, True, 1.0),
            "id": mostly(["c1", "c2", "", None], 5),
            "function": st.fixed_dictionaries(
                {
                    "name": mostly(["look", "", None, "submit_structured_answer"], 5),
                    "arguments": mostly(["{", "{}", "", None], {"a": 1}),
                }
            ),
        }
    ),
    max_size=2,
)
CHOICES = st.lists(
    st.fixed_dictionaries(
        {
            "index": mostly([0], 1, "0", None),
            "finish_reason": mostly([None, "", " ", "stop", "tool_calls", "Error"], 3),
            "delta": st.fixed_dictionaries(
                {
                    "content": mostly([None, "", "text", "\u2028"], 3, ["part"]),
                    "tool_calls": st.none() | CALLS,
                },
                optional={"reasoning": mostly([None], "why"), "refusal": mostly([None], "no")},
            ),
        }
    ),
    max_size=2,
)
TOKENS = mostly([0, 3], None, -1, 2.0, True, "4", 1 << 41)
USAGES = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("prompt_tokens", "completion_tokens"), TOKENS),
        **dict.fromkeys(("input_tokens", "output_tokens"), mostly([None], 5)),
        **dict.fromkeys(("prompt_cache_hit_tokens", "cached_tokens"), TOKENS),
        "cost": mostly([None, 0, 0.5], -1, "1"),
        "prompt_tokens_details": st.none()
        | st.fixed_dictionaries({}, optional=dict.fromkeys(("cached_tokens", "cache_write_tokens"), TOKENS)),
        "completion_tokens_details": st.none()
        | st.fixed_dictionaries({}, optional={"reasoning_tokens": TOKENS}),
        "input_tokens_details": mostly([None], {"cached_tokens": 1}),
        "output_tokens_details": mostly([None], {"reasoning_tokens": 1}),
    },
)
CHUNKS = st.fixed_dictionaries(
    {"choices": CHOICES},
    optional={
        "id": mostly(["a", "b", "", None], 5),
        "model": mostly(["m", "", None], 5),
        "object": mostly(["chat.completion.chunk", "", None], "error"),
        "usage": mostly([None, {}, {"prompt_tokens": 3, "completion_tokens": 4}], {"a": [{}]}, 7) | USAGES,
    },
)


def call_of(call_id: str, name: str, finish: str) -> dict[str, object]:
    call = {"index": 0, "id": call_id, "function": {"name": name, "arguments": "{}"}}
    return {
        "choices": [{"index": 0, "delta": {"content": "", "tool_calls": [call]}, "finish_reason": finish}]
    }


@example([call_of("", "look", "tool_calls"), call_of("c1", "submit_structured_answer", "tool_calls")])
@example([call_of("c1", "submit_structured_answer", "tool_calls")])
@example([call_of("c1", "look", " ERROR ")])
@given(st.lists(CHUNKS, max_size=4))
def test_chunks_that_are_typed_say_what_the_tolerant_reader_hears(values: list[dict[str, object]]) -> None:
    def heard(further: dict[str, object]) -> list[Delta] | str:
        try:
            return deltas(*({**value, **further} for value in values))
        except ProviderError as error:
            return error.kind.name

    assert heard({}) == heard({"x_groq": {}})  # one with that field is not typed
