import asyncio
import itertools

import pytest

from hermes_messages import (
    ChatRequest,
    ChatResponse,
    ConfigurationError,
    ErrorKind,
    FinishReason,
    HermesError,
    History,
    MessageLog,
    Origin,
    ProviderError,
    ReasoningDelta,
    ResponseDone,
    StreamEvent,
    TextDelta,
    ToolCall,
    ToolCallArgumentsDelta,
    ToolCallStarted,
    Usage,
    UserMessage,
)
from hermes_messages.protocols import Provider
from hermes_messages.testing import (
    Answer,
    ScriptedProvider,
    ScriptExhaustedError,
    ScriptStep,
    StepGate,
    broken,
    call,
    calls,
    error,
    failure,
    hang,
    text,
)


def _fits(provider: ScriptedProvider) -> Provider:
    return provider


def ask(content: str = "hi") -> ChatRequest:
    return ChatRequest(model="m", history=History.of([UserMessage(content)]))


async def play(provider: ScriptedProvider, request: ChatRequest | None = None) -> list[StreamEvent]:
    return [event async for event in provider.stream(request or ask())]


async def play_into(seen: list[StreamEvent], provider: ScriptedProvider) -> None:
    async for event in provider.stream(ask()):
        seen.append(event)  # noqa: PERF401 - what came before a failure counts


def response_of(events: list[StreamEvent]) -> ChatResponse:
    last = events[-1]
    assert isinstance(last, ResponseDone)
    return last.response


def test_answers_come_in_order_and_requests_are_kept() -> None:
    async def main() -> None:
        provider = ScriptedProvider([text("one"), text("two", usage=Usage(input_tokens=1))])
        first, second = (
            response_of(await play(provider, ask("a"))),
            response_of(await play(provider, ask("b"))),
        )
        assert (first.message.content, second.message.content) == ("one", "two")
        assert (first.usage, second.usage) == (None, Usage(input_tokens=1))
        assert first.finish is FinishReason.STOP
        assert first.model == "m"
        assert [list(request.history) for request in provider.requests] == [
            [UserMessage("a")],
            [UserMessage("b")],
        ]
        assert provider.last_request is provider.requests[1]

    asyncio.run(main())


def test_chunks_and_calls_are_streamed() -> None:
    answer = calls(call("f", {"a": 1}, id="x"), call("g"), text="abc", reasoning="r", chunk_size=2)

    async def main() -> None:
        events = await play(ScriptedProvider([answer]))
        assert events[:-1] == [
            ReasoningDelta("r"),
            TextDelta("ab"),
            TextDelta("c"),
            ToolCallStarted(0, "x", "f"),
            ToolCallArgumentsDelta(0, '{"'),
            ToolCallArgumentsDelta(0, 'a"'),
            ToolCallArgumentsDelta(0, ":1"),
            ToolCallArgumentsDelta(0, "}"),
            ToolCallStarted(1, "call_1", "g"),
            ToolCallArgumentsDelta(1, "{}"),
        ]
        response = response_of(events)
        assert response.message.tool_calls == (ToolCall("x", "f", '{"a":1}'), ToolCall("call_1", "g", "{}"))
        assert response.finish is FinishReason.TOOL_CALLS

    asyncio.run(main())


def test_arguments_given_as_text_are_the_models_own() -> None:
    async def main() -> None:
        response = response_of(await play(ScriptedProvider([calls(call("f", '{"a": listt"}'))])))
        assert response.message.tool_calls[0].arguments == '{"a": listt"}'

    asyncio.run(main())


def test_a_truncated_answer_has_unfinished_calls() -> None:
    async def main() -> None:
        response = response_of(await play(ScriptedProvider([calls(call("f", '{"a'), finish="length")])))
        assert response.finish is FinishReason.LENGTH
        assert response.message.tool_calls == ()
        assert [partial.arguments for partial in response.unfinished_calls] == ['{"a']

    asyncio.run(main())


def test_a_request_keeps_the_history_of_when_it_was_sent() -> None:
    async def main() -> None:
        log = MessageLog([UserMessage("a")])
        provider = ScriptedProvider([text("x")])
        await play(provider, ChatRequest(model="m", history=log.view()))
        log.append(UserMessage("later"))
        assert list(provider.requests[0].history) == [UserMessage("a")]

    asyncio.run(main())


def test_errors_before_and_inside_the_stream() -> None:
    late = ProviderError("gone", kind=ErrorKind.TRANSPORT)

    async def main() -> None:
        provider = ScriptedProvider(
            [error(ErrorKind.RATE_LIMIT), broken(text("abc", chunk_size=1), after=2, error=late)]
        )
        with pytest.raises(ProviderError) as caught:
            await play(provider)
        assert caught.value.kind is ErrorKind.RATE_LIMIT
        seen: list[StreamEvent] = []
        with pytest.raises(ProviderError) as caught:
            await play_into(seen, provider)
        assert caught.value is late
        assert seen == [TextDelta("a"), TextDelta("b")]
        assert (provider.live_streams, provider.cut_streams) == (0, 2)

    asyncio.run(main())


def test_a_break_behind_the_last_event_still_breaks() -> None:
    async def main() -> None:
        provider = ScriptedProvider(
            [broken(text("abc"), after=99, error=failure(ErrorKind.SERVER, status=502))]
        )
        with pytest.raises(ProviderError) as caught:
            await play(provider)
        assert caught.value.status == 502

    asyncio.run(main())


def test_a_hanging_stream_ends_when_it_is_cancelled() -> None:
    async def main() -> None:
        provider = ScriptedProvider([hang(text("abc", chunk_size=1), after=1), hang()])
        seen: list[StreamEvent] = []

        for expected in ([TextDelta("a")], [TextDelta("a")]):
            task = asyncio.create_task(play_into(seen, provider))
            for _ in range(10):
                await asyncio.sleep(0)
            assert provider.live_streams == 1
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert provider.live_streams == 0
            assert seen == expected

    asyncio.run(main())


def test_a_stream_closed_early_is_counted() -> None:
    async def main() -> None:
        provider = ScriptedProvider([text("abc", chunk_size=1)])
        stream = provider.stream(ask())
        await anext(stream)
        assert (provider.live_streams, provider.most_live_streams) == (1, 1)
        await stream.aclose()
        assert (provider.live_streams, provider.cut_streams) == (0, 1)

    asyncio.run(main())


def test_a_gate_lets_events_out_one_by_one() -> None:
    async def main() -> None:
        gate = StepGate()
        provider = ScriptedProvider([text("abc", chunk_size=1, gate=gate)])
        seen: list[StreamEvent] = []

        task = asyncio.create_task(play_into(seen, provider))
        for count in range(3):
            await gate.reached()
            assert len(seen) == count
            gate.let_pass()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        gate.open()
        await task
        assert len(seen) == 4

    asyncio.run(main())


def test_an_event_is_a_gate() -> None:
    async def main() -> None:
        event = asyncio.Event()
        provider = ScriptedProvider([text("abc", gate=event.wait)])
        task = asyncio.create_task(play(provider))
        await asyncio.sleep(0)
        assert not task.done()
        event.set()
        assert response_of(await task).message.content == "abc"

    asyncio.run(main())


def test_a_step_may_depend_on_the_request() -> None:
    def echo(request: ChatRequest) -> ScriptStep:
        message = request.history[-1]
        assert isinstance(message, UserMessage)
        return text(f"you said {message.content}")

    async def later(request: ChatRequest) -> ScriptStep:
        await asyncio.sleep(0)
        return echo

    async def main() -> None:
        listed = ScriptedProvider([echo, later])
        for word in ("a", "b"):
            assert response_of(await play(listed, ask(word))).message.content == f"you said {word}"
        every = ScriptedProvider(echo)
        answers = await asyncio.gather(*(play(every, ask(str(number))) for number in range(20)))
        assert [response_of(events).message.content for events in answers] == [
            f"you said {number}" for number in range(20)
        ]
        assert every.most_live_streams == 20

    asyncio.run(main())


def test_running_out_of_script_names_the_request() -> None:
    async def main() -> None:
        provider = ScriptedProvider([text("x")])
        await play(provider)
        with pytest.raises(AssertionError, match=r"request 2 came.*'more'") as caught:
            await play(provider, ask("more"))
        assert isinstance(caught.value, ScriptExhaustedError)
        assert isinstance(caught.value, HermesError)
        assert caught.value.request_number == 2

    asyncio.run(main())


def test_an_endless_script() -> None:
    async def main() -> None:
        provider = ScriptedProvider(itertools.repeat(text("ok")))
        for _ in range(5):
            await play(provider)
        assert len(provider.requests) == 5

    asyncio.run(main())


def test_a_closed_provider_refuses_and_can_be_opened_again_in_another_loop() -> None:
    provider = ScriptedProvider(itertools.repeat(text("ok")))

    async def use() -> None:
        await provider.open()
        await play(provider)
        await provider.close()

    async def refused() -> None:
        with pytest.raises(ConfigurationError, match="closed"):
            await play(provider)

    asyncio.run(use())
    asyncio.run(refused())
    asyncio.run(use())
    assert (provider.open_count, provider.close_count, provider.is_open) == (2, 2, False)
    assert len(provider.requests) == 2


def test_names_and_origin() -> None:
    provider = ScriptedProvider([], name="n", model="mm")
    assert (provider.name, provider.default_model) == ("n", "mm")
    assert provider.origin("z") == Origin("n", "scripted", "z")
    assert provider.model_info("z").context_window == 128_000


def test_an_answer_without_its_end_mark() -> None:
    async def main() -> None:
        response = response_of(await play(ScriptedProvider([Answer(text="half", complete=False)])))
        assert response.finish is FinishReason.LENGTH

    asyncio.run(main())


def test_blank_answers_are_played_as_they_are() -> None:
    async def main() -> None:
        assert response_of(await play(ScriptedProvider([text("")]))).message.content == ""
        assert response_of(await play(ScriptedProvider([Answer()]))).message.content is None

    asyncio.run(main())
