"""How an answer ends on every wire: as one of few typed outcomes, whatever the host does."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from all_wires import WIRES, Block, error_event, model_of, provider_for, streamed, unfinished
from byte_server import ByteServer, Script, plain, stream
from hermes_messages import (
    ChatRequest,
    ChatResponse,
    ErrorKind,
    FinishReason,
    History,
    ProviderError,
    TextDelta,
    UserMessage,
)
from wire_help import SPEC, answer, collect, run

CALL: list[Block] = [("text", ["I look."]), ("read_file", ['{"path":"a"}'])]
LENGTH = {
    "openai_chat": "length",
    "openai_responses": "max_output_tokens",
    "anthropic_messages": "max_tokens",
    "gemini": "MAX_TOKENS",
}
FILTER = {
    "openai_chat": "content_filter",
    "openai_responses": "content_filter",
    "anthropic_messages": "refusal",
    "gemini": "SAFETY",
}
CALLS = {"openai_chat": "tool_calls", "anthropic_messages": "tool_use", "gemini": "FUNCTION_CALL"}


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def asked(wire: str) -> ChatRequest:
    return ChatRequest(model=model_of(wire), history=History.of([UserMessage("hi")]), tools=(SPEC,))


def response(wire: str, script: Script) -> ChatResponse:
    async def main() -> ChatResponse:
        async with ByteServer([script]) as server:
            provider = provider_for(wire, server.base_url)
            try:
                return await answer(provider, asked(wire))
            finally:
                await provider.close()
                assert len(server.requests) == 1  # nothing is sent again in secret

    return run(main())


def failure(wire: str, script: Script) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        response(wire, script)
    return caught.value


@pytest.mark.parametrize("blocks", [[("text", ["Half an ans"])], CALL, [("reasoning", ["hm"])]])
def test_an_end_without_a_finish_is_an_error(wire: str, blocks: Sequence[Block]) -> None:
    assert failure(wire, stream(*unfinished(wire, blocks))).kind is ErrorKind.TRANSPORT


@pytest.mark.parametrize("pieces", [[], [b": ping\n\n"], [b"\n\n"]])
def test_an_empty_stream_is_an_error(wire: str, pieces: list[bytes]) -> None:
    assert failure(wire, stream(*pieces)).kind is ErrorKind.TRANSPORT


def test_an_error_in_the_middle_is_typed_and_what_came_before_is_told(wire: str) -> None:
    async def main() -> None:
        pieces = [*unfinished(wire, [("text", ["Half"])]), error_event(wire)]
        async with ByteServer([stream(*pieces)]) as server:
            provider = provider_for(wire, server.base_url)
            told: list[str] = []

            async def listen() -> None:
                async for event in provider.stream(asked(wire)):
                    told.append(event.text if isinstance(event, TextDelta) else "")  # noqa: PERF401 - it raises

            with pytest.raises(ProviderError) as caught:
                await listen()
            await provider.close()
        assert "".join(told) == "Half"
        assert caught.value.kind is ErrorKind.OVERLOADED
        assert "verloaded" in caught.value.body

    run(main())


def test_a_success_that_is_an_error_is_one(wire: str) -> None:
    said = {"error": {"message": "Overloaded", "type": "overloaded_error", "code": 503}}
    assert failure(wire, plain(json.dumps(said).encode())).kind is ErrorKind.OVERLOADED
    assert failure(wire, stream(b"upstream connect error\n")).kind is not ErrorKind.UNKNOWN
    page = plain(b"<html>Bad gateway</html>", content_type="text/html")
    assert failure(wire, page).kind in {ErrorKind.SERVER, ErrorKind.TRANSPORT}


def test_a_call_that_the_limit_cut_is_never_handed_on(wire: str) -> None:
    if wire == "gemini":  # its calls come whole; the one that was being written never comes
        blocks: list[Block] = [("text", ["I loo"])]
    else:
        blocks = [("text", ["I look."]), ("read_file", ['{"path":"/tm'])]
    cut = response(wire, stream(*streamed(wire, blocks, finish=LENGTH[wire])))
    assert cut.finish is FinishReason.LENGTH
    assert cut.message.tool_calls == ()
    assert len(cut.unfinished_calls) == (wire != "gemini")


def test_a_filter_is_a_typed_outcome(wire: str) -> None:
    half = response(wire, stream(*streamed(wire, [("text", ["Half"])], finish=FILTER[wire])))
    assert (half.message.content, half.finish) == ("Half", FinishReason.CONTENT_FILTER)
    nothing: list[Block] = [("text", [""])]
    error = failure(wire, stream(*streamed(wire, nothing, finish=FILTER[wire])))
    assert error.kind is ErrorKind.CONTENT_POLICY


def test_an_unknown_word_for_the_end_keeps_the_text(wire: str) -> None:
    found = response(wire, stream(*streamed(wire, [("text", ["Done."])], finish="because_i_say_so")))
    assert found.message.content == "Done."
    # The wire that says "incomplete" in so many words was cut short, for whatever reason.
    expected = FinishReason.LENGTH if wire == "openai_responses" else FinishReason.STOP
    assert found.finish is expected


@pytest.mark.parametrize("word", ["", " "])
@pytest.mark.parametrize("wire", sorted(CALLS))  # the fourth says its end in the type of an event
def test_an_empty_word_ends_nothing(wire: str, word: str) -> None:
    pieces = streamed(wire, [("text", ["Half"])], finish=word)
    ended = pieces[:-2] if wire == "openai_chat" else pieces[:-1] if wire == "anthropic_messages" else pieces
    assert failure(wire, stream(*ended)).kind is ErrorKind.TRANSPORT


def test_a_finish_that_promises_calls_without_any(wire: str) -> None:
    word = CALLS.get(wire)
    found = response(wire, stream(*streamed(wire, [("text", ["Done."])], finish=word)))
    assert (found.message.content, found.message.tool_calls) == ("Done.", ())
    assert found.finish is FinishReason.STOP
    error = failure(wire, stream(*streamed(wire, [("text", [""])], finish=word)))
    assert error.kind is ErrorKind.SERVER


def test_a_finish_that_hides_its_calls(wire: str) -> None:
    word = {"openai_chat": "stop", "anthropic_messages": "end_turn"}.get(wire)
    found = response(wire, stream(*streamed(wire, CALL, finish=word)))
    assert [call.name for call in found.message.tool_calls] == ["read_file"]
    assert found.finish is FinishReason.TOOL_CALLS


def test_a_nameless_call_is_never_handed_on(wire: str) -> None:
    blocks: list[Block] = [("", ['{"path":"a"}']), ("read_file", ['{"path":"b"}'])]
    found = response(wire, stream(*streamed(wire, blocks)))
    assert [call.name for call in found.message.tool_calls] == ["read_file"]


def test_two_calls_with_one_id_get_two(wire: str) -> None:
    pieces = streamed(wire, [("read_file", ['{"path":"a"}']), ("read_file", ['{"path":"b"}'])])
    for number in (1, 0):
        for kind in ("call_", "toolu_"):
            pieces = [piece.replace(f'"{kind}{number}"'.encode(), f'"{kind}x"'.encode()) for piece in pieces]
    found = response(wire, stream(*pieces)).message.tool_calls
    assert len({call.id for call in found}) == 2
    assert [json.loads(call.arguments)["path"] for call in found] == ["a", "b"]


def test_the_events_of_a_response_end_with_it(wire: str) -> None:
    async def main() -> None:
        async with ByteServer([stream(*streamed(wire, CALL))]) as server:
            provider = provider_for(wire, server.base_url)
            events = await collect(provider, asked(wire))
            await provider.close()
        assert type(events[-1]).__name__ == "ResponseDone"
        assert [type(event).__name__ for event in events].count("ResponseDone") == 1

    run(main())
