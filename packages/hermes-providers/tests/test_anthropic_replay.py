"""What a model said goes back on the Messages wire: thinking, signatures, blocks in their order."""

from __future__ import annotations

import pytest
from msgspec import Raw

from anthropic_help import MODEL, ORIGIN, ask, builder, provider_at, replay, text_block, tidy, wired
from anthropic_requests import CALL, CALL_2, HI, INTERLEAVED, THINKING, THINKING_2, USE, USE_2, round_of
from byte_server import ByteServer, stream
from hermes_messages import AssistantMessage, JsonValue, ToolCall, encode_messages
from hermes_messages.parts import Origin, Replay
from hermes_providers.wire.anthropic_quirks import AnthropicQuirks
from wire_help import answer, run


def test_interleaved_thinking_keeps_its_order() -> None:
    content = wired(HI, *round_of(CALL, CALL_2, blocks=INTERLEAVED), reasoning_effort="low")[1]["content"]
    assert content == [
        THINKING,
        USE | {"input": {"path": "x"}},
        THINKING_2,
        USE_2 | {"input": {}},
    ]


def test_thinking_goes_back_byte_for_byte() -> None:
    raw = b'{"type":"thinking","thinking":"caf\\u00e9 \\/ \\u2028","signature":"Ep\\/+=="}'
    sent = builder().build(ask(HI, *round_of(CALL, blocks=replay(raw, USE))))
    assert raw in sent


@pytest.mark.parametrize(
    "origin",
    [
        Origin("openrouter", "openrouter.ai", MODEL),
        Origin("anthropic", "proxy.example", MODEL),
        Origin("anthropic", "api.anthropic.com", "claude-opus-5"),
    ],
)
def test_signature_from_another_origin_is_left_out_of_the_request_copy(origin: Origin) -> None:
    messages = [HI, *round_of(CALL, blocks=replay(THINKING, USE, origin=origin), text="I look.")]
    stored = encode_messages(messages)
    content = wired(*messages)[1]["content"]
    assert [block["type"] for block in content] == ["text", "tool_use"]
    assert encode_messages(messages) == stored


def test_profile_may_let_foreign_thinking_through() -> None:
    other_model = replay(THINKING, USE, origin=Origin("anthropic", "api.anthropic.com", "claude-opus-5"))
    other_host = replay(THINKING, USE, origin=Origin("minimax", "api.minimax.io", "m2"))
    for quirk, blocks, kinds in (
        ("same_host", other_model, ["thinking", "tool_use"]),
        ("same_host", other_host, ["tool_use"]),
        ("any", other_host, ["thinking", "tool_use"]),
    ):
        quirks = AnthropicQuirks(replay=quirk)  # type: ignore[arg-type]  # a table of literals
        content = wired(HI, *round_of(CALL, blocks=blocks), quirks=quirks)[1]["content"]
        assert [block["type"] for block in content] == kinds


def test_a_thinking_block_that_was_cut_off_is_not_sent() -> None:
    blocks = replay({"type": "thinking", "thinking": "half", "signature": ""}, {"type": "text", "text": "a"})
    answer = AssistantMessage("a", replay=blocks)
    assert wired(HI, answer, HI)[1]["content"] == [{"type": "text", "text": "a"}]
    kept = wired(HI, answer, HI, quirks=AnthropicQuirks(unsigned_thinking=True))[1]["content"]
    assert kept[0]["type"] == "thinking"


def test_output_only_fields_do_not_come_back_as_input() -> None:
    blocks = replay(
        THINKING | {"estimated_tokens": 5},
        {"type": "text", "text": "a", "citations": None, "parsed_output": {"n": 1}},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}, "took_ms": 3},
        {"type": "redacted_thinking", "data": "xyz", "note": "?"},
    )
    content = wired(HI, AssistantMessage("a", replay=blocks), HI)[1]["content"]
    assert content == [
        THINKING,
        {"type": "text", "text": "a"},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "redacted_thinking", "data": "xyz"},
    ]


def test_calls_that_the_message_does_not_hold_do_not_come_back() -> None:
    content = wired(HI, *round_of(CALL_2, blocks=INTERLEAVED))[1]["content"]
    assert [block.get("id") for block in content if block["type"] == "tool_use"] == ["toolu_2"]


def test_calls_that_got_other_ids_take_the_places_of_the_hosts() -> None:
    twice = replay(THINKING, USE, THINKING_2, USE)
    renamed = ToolCall("toolu_1_2", "read_file", '{"path": "y"}')
    content = wired(HI, *round_of(CALL, renamed, blocks=twice))[1]["content"]
    assert [block.get("id", "-") for block in content] == ["-", "toolu_1", "-", "toolu_1_2"]


def test_edited_text_wins_over_the_hosts_blocks() -> None:
    blocks = replay(THINKING, {"type": "text", "text": "long text"}, USE)
    content = wired(HI, *round_of(CALL, blocks=blocks, text="short"))[1]["content"]
    assert [block.get("text") for block in content] == [None, "short", None]
    without = replay(THINKING, USE)
    content = wired(HI, *round_of(CALL, blocks=without, text="added"))[1]["content"]
    assert [block["type"] for block in content] == ["thinking", "text", "tool_use"]


def test_blocks_that_can_not_be_read_are_as_good_as_none() -> None:
    broken = Replay(ORIGIN, "anthropic_messages", (Raw(b"[1]"),))
    assert [b["type"] for b in wired(HI, *round_of(CALL, blocks=broken))[1]["content"]] == ["tool_use"]


def test_thinking_of_a_conversation_that_changed_since_is_no_reason_to_refuse_the_request() -> None:
    feature = "thinking-binding-controls-2026-08-01"

    async def main() -> None:
        async with ByteServer([stream(tidy(text_block(0, "ok")))]) as server:
            for own, sent in (
                (None, feature),
                (f"compact-2026-01-12,{feature}", f"compact-2026-01-12,{feature}"),
                ("compact-2026-01-12", "compact-2026-01-12"),
            ):
                mine: dict[str, JsonValue] = {} if own is None else {"anthropic-beta": own}
                quirks = {"block_binding": "drop_block", "replay": "any"}
                provider = provider_at(server.base_url, quirks=quirks, headers=mine)
                history = (HI, *round_of(CALL, blocks=replay(THINKING, USE)), HI)
                await answer(provider, ask(*history, model="claude-haiku-5-5"))
                await provider.close()
                got = server.requests[-1]
                thinking = got.json().get("thinking")
                assert got.headers["anthropic-beta"] == sent
                # Without the feature the field is refused, so it goes only where the header goes.
                bound = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
                assert thinking == (bound if feature in sent else None)
                assert b'"signature"' in got.body

    run(main())
