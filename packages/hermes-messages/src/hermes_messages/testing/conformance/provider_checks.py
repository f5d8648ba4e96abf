"""What every `Provider` must do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from hermes_messages.abilities import supports
from hermes_messages.errors import ProviderError
from hermes_messages.exchange import (
    ChatRequest,
    ChatResponse,
    FinishReason,
    ModelInfo,
    PartialToolCall,
    ReasoningDelta,
    ResponseDone,
    StreamEvent,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallStarted,
)
from hermes_messages.history import History
from hermes_messages.messages import ToolCall, UserMessage, encode_messages
from hermes_messages.parts import content_text
from hermes_messages.protocols.provider import Provider, SupportsSecrets, SupportsTokenCount
from hermes_messages.testing.conformance.report import (
    UnmetError,
    cancel_after,
    expect,
    finish_within,
    made,
    run_checks,
)
from hermes_messages.testing.conformance.rounds import no_new_tasks
from hermes_messages.transcript_rules import is_blank

__all__ = ["MakeProvider", "check_provider"]

MakeProvider = Callable[[], Provider | Awaitable[Provider]]
"""Makes a provider, each time a new one."""


async def check_provider(
    make_provider: MakeProvider,
    *,
    request: ChatRequest | None = None,
    make_failing: MakeProvider | None = None,
    limit_s: float = 20.0,
) -> None:
    """Check the promises of `Provider`. Raises `ConformanceError`, which lists the broken ones.

    `make_provider` makes a new, unopened provider whose host answers every `request` (by default one short
    user message to its default model) with text, calls or both. `make_failing` makes one whose host fails
    each request in some way: its streams must raise `ProviderError`. Each check takes at most `limit_s`
    seconds.
    """
    await run_checks("Provider", _ProviderChecks(make_provider, request, limit_s), limit_s)
    if make_failing is not None:
        await run_checks("Provider", _FailureChecks(make_failing, request, limit_s), limit_s)


class _Opened:
    """A provider that is open inside `async with`."""

    def __init__(self, make_provider: MakeProvider) -> None:
        self._make = make_provider

    async def __aenter__(self) -> Provider:
        self._provider = await made(self._make())
        await self._provider.open()
        return self._provider

    async def __aexit__(self, *exc_info: object) -> None:
        await self._provider.close()


def _request_for(provider: Provider, given: ChatRequest | None) -> ChatRequest:
    if given is not None:
        return given
    model = provider.default_model
    if model is None:
        raise UnmetError("the provider has no default model; give check_provider a request")
    return ChatRequest(model=model, history=History.of([UserMessage("Say hello.")]))


class _ProviderChecks:
    def __init__(self, make_provider: MakeProvider, request: ChatRequest | None, limit_s: float) -> None:
        self._make = make_provider
        self._given = request
        self._limit_s = limit_s

    async def _answer(self, provider: Provider, request: ChatRequest | None = None) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        await self._answer_into(events, provider, request)
        return events

    async def _answer_into(
        self, events: list[StreamEvent], provider: Provider, request: ChatRequest | None = None
    ) -> None:
        request = request or _request_for(provider, self._given)
        async with aclosing(provider.stream(request)) as stream:
            async for event in stream:
                events.append(event)  # noqa: PERF401 - what came before a cancellation is looked at

    async def _works(self, provider: Provider, after: str) -> None:
        answer = finish_within(self._answer(provider), self._limit_s / 2, f"a request after {after}")
        expect(isinstance((await answer)[-1], ResponseDone), f"a request after {after} gave no response")

    async def says_what_it_is_before_it_is_open(self) -> None:
        provider = await made(self._make())
        model = _request_for(provider, self._given).model
        expect(bool(provider.name), "name is empty")
        expect(provider.origin(model) == provider.origin(model), "origin() differs from call to call")
        expect(isinstance(provider.model_info(model), ModelInfo), "model_info() gave no ModelInfo")
        await provider.close()

    async def open_and_close_are_idempotent(self) -> None:
        before = asyncio.all_tasks()
        provider = await made(self._make())
        await provider.close()
        await provider.open()
        await provider.open()
        await self._works(provider, "two open()")
        await provider.close()
        await provider.close()
        await no_new_tasks(before, "close()")

    async def open_may_follow_close(self) -> None:
        provider = await made(self._make())
        for _ in range(2):
            await provider.open()
            await self._works(provider, "open()")
            await provider.close()

    async def a_cancelled_open_can_be_repeated(self) -> None:
        for turns in range(6):
            provider = await made(self._make())
            await cancel_after(provider.open(), turns, self._limit_s / 4)
            await provider.open()
            await self._works(provider, "a cancelled open()")
            await provider.close()

    async def exactly_one_response_comes_last(self) -> None:
        async with _Opened(self._make) as provider:
            events = await self._answer(provider)
        done = [isinstance(event, ResponseDone) for event in events]
        expect(done.count(True) == 1, f"{done.count(True)} ResponseDone events came instead of one")
        expect(done[-1], "events came after ResponseDone")

    async def events_tell_the_same_as_the_response(self) -> None:
        async with _Opened(self._make) as provider:
            events = await self._answer(provider)
        last = events[-1]
        if not isinstance(last, ResponseDone):
            raise UnmetError("the last event is no ResponseDone")
        _compare(events, last.response)

    async def the_response_fits_together(self) -> None:
        async with _Opened(self._make) as provider:
            last = (await self._answer(provider))[-1]
            origin = provider.origin(_request_for(provider, self._given).model)
        if not isinstance(last, ResponseDone):
            raise UnmetError("the last event is no ResponseDone")
        message, unfinished = last.response.message, last.response.unfinished_calls
        ids = [*(call.id for call in message.tool_calls), *(call.id for call in unfinished)]
        expect(len(set(ids)) == len(ids), f"calls share an id: {ids}")
        stopped = last.response.finish is FinishReason.STOP and bool(message.tool_calls)
        expect(not stopped, "the finish is `stop` although there are calls to run")
        replay = message.replay
        expect(replay is None or replay.origin == origin, "replay data is stamped with an origin of another")

    async def the_response_is_no_empty_answer(self) -> None:
        async with _Opened(self._make) as provider:
            last = (await self._answer(provider))[-1]
        if isinstance(last, ResponseDone) and not last.response.unfinished_calls:
            expect(not is_blank(last.response.message), "an empty answer must be a ProviderError")

    async def the_request_stays_as_it_was(self) -> None:
        async with _Opened(self._make) as provider:
            request = _request_for(provider, self._given)
            before = encode_messages(tuple(request.history))
            await self._answer(provider, request)
        expect(encode_messages(tuple(request.history)) == before, "the history was changed by sending it")

    async def streams_may_run_side_by_side(self) -> None:
        async with _Opened(self._make) as provider:
            answers = await asyncio.gather(*(self._answer(provider) for _ in range(3)))
        expect(all(isinstance(events[-1], ResponseDone) for events in answers), "a response is missing")

    async def a_stream_closed_early_is_released(self) -> None:
        async with _Opened(self._make) as provider:
            for _ in range(8):
                stream = provider.stream(_request_for(provider, self._given))
                await anext(stream)
                await finish_within(stream.aclose(), self._limit_s / 4, "aclose() of a stream")
            await self._works(provider, "eight streams that were closed early")

    async def a_stream_never_started_holds_nothing(self) -> None:
        async with _Opened(self._make) as provider:
            for _ in range(8):
                await provider.stream(_request_for(provider, self._given)).aclose()
            await self._works(provider, "eight streams that were never started")

    async def a_cancelled_stream_is_released(self) -> None:
        async with _Opened(self._make) as provider:
            for turns in (0, 1, 2, 3, 5, 8, 13, 21, 34, 55):
                events: list[StreamEvent] = []
                work = self._answer_into(events, provider)
                cancelled = await cancel_after(work, turns, self._limit_s / 4)
                ended = bool(events) and isinstance(events[-1], ResponseDone)
                expect(cancelled or ended, "a cancelled stream ended as if it had come to its end")
            await self._works(provider, "cancelled streams")

    async def a_count_is_positive_or_unknown(self) -> None:
        async with _Opened(self._make) as provider:
            if supports(provider, SupportsTokenCount):
                count = await provider.count_tokens(_request_for(provider, self._given))
                known = count is None or (type(count) is int and count > 0)
                expect(known, f"count_tokens() gave {count!r} for a request that has text")
                await self._works(provider, "count_tokens()")

    async def secrets_are_texts_that_no_repr_shows(self) -> None:
        provider = await made(self._make())
        if supports(provider, SupportsSecrets):
            secrets = provider.secret_values()
            good = type(secrets) is tuple and all(type(value) is str and value for value in secrets)
            expect(good, "secret_values() is no tuple of texts with something in them")
            expect(
                not any(value in repr(provider) for value in secrets), "the provider's repr shows a secret"
            )
        await provider.close()

    async def close_ends_an_abandoned_stream(self) -> None:
        provider = await made(self._make())
        await provider.open()
        stream = provider.stream(_request_for(provider, self._given))
        await anext(stream)
        await finish_within(provider.close(), self._limit_s / 2, "close() with a stream that is still open")
        await stream.aclose()


class _FailureChecks:
    def __init__(self, make_provider: MakeProvider, request: ChatRequest | None, limit_s: float) -> None:
        self._make = make_provider
        self._given = request
        self._limit_s = limit_s

    async def a_failure_is_a_provider_error(self) -> None:
        async with _Opened(self._make) as provider:
            for _ in range(8):
                await self._fails(provider)

    async def _fails(self, provider: Provider) -> None:
        events: list[StreamEvent] = []
        try:
            async with aclosing(provider.stream(_request_for(provider, self._given))) as stream:
                async for event in stream:
                    events.append(event)  # noqa: PERF401 - what came before the failure is looked at
        except ProviderError:
            expect(
                not any(isinstance(event, ResponseDone) for event in events),
                "a ResponseDone came before the error",
            )
            return
        raise UnmetError(f"a failing host gave {len(events)} events and no ProviderError")


def _compare(events: list[StreamEvent], response: ChatResponse) -> None:
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    expect(text == content_text(response.message.content), "the text deltas are not the message's text")
    reasoning = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
    kept = response.message.reasoning
    expect(not reasoning or bool(kept), "reasoning was streamed and is not in the message")
    # The end of what was streamed may have turned out to be text.
    expect(
        not reasoning or reasoning.startswith(kept or ""), "the message's reasoning is not what was streamed"
    )
    arguments: dict[int, str] = {}
    started: dict[str, ToolCallStarted] = {}
    for event in events:
        if isinstance(event, ToolCallStarted):
            expect(event.position not in arguments, f"two calls started at position {event.position}")
            expect(bool(event.name and event.id), "a call started without name or id")
            arguments[event.position] = ""
            started[event.id] = event
        elif isinstance(event, ToolCallArgumentsDelta):
            expect(event.position in arguments, "arguments came before their ToolCallStarted")
            arguments[event.position] += event.text
    for call in response.message.tool_calls:
        expect(call.id in started, f"call {call.id!r} is in the message and was never started")
        event_of_call = started[call.id]
        expect(event_of_call.name == call.name, f"call {call.id!r} was started under another name")
        streamed = arguments[event_of_call.position]
        expect(
            streamed == call.arguments, f"the streamed arguments of call {call.id!r} are not the message's"
        )
    expect(sorted(arguments) == list(range(len(arguments))), f"the calls' positions are {sorted(arguments)}")
    _expect_no_call_lost(started, arguments, response)


def _expect_no_call_lost(
    started: dict[str, ToolCallStarted], arguments: dict[int, str], response: ChatResponse
) -> None:
    """A call that was started is in the response, or one like it: a call sent twice counts once."""
    told: list[ToolCall | PartialToolCall] = [*response.message.tool_calls, *response.unfinished_calls]
    ids = {call.id for call in told}
    alike = {(call.name, call.arguments) for call in told}
    for call_id, event in started.items():
        there = call_id in ids or (event.name, arguments[event.position]) in alike
        expect(there, f"call {call_id!r} was started and is neither in the message nor unfinished")
