"""The check passes for good providers and names each promise that a bad one breaks."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress

import pytest
from msgspec import Raw
from msgspec.structs import replace

from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    ErrorKind,
    FinishReason,
    History,
    ModelInfo,
    Origin,
    PartialToolCall,
    Replay,
    ResponseDone,
    StreamEvent,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallStarted,
    UserMessage,
)
from hermes_messages.protocols import Provider
from hermes_messages.testing import (
    Answer,
    ConformanceError,
    ScriptedProvider,
    broken,
    call,
    calls,
    check_provider,
    error,
    text,
)
from hermes_messages.testing.conformance import provider_checks

ANSWER = calls(call("f", {"a": "h\u00e9"}), call("g"), text="hello", reasoning="hm", chunk_size=2)


class Good(ScriptedProvider):
    """A provider that keeps every promise."""

    def __init__(self, answer: Answer = ANSWER) -> None:
        super().__init__(itertools.repeat(answer))


class Nameless(Good):
    @property
    def name(self) -> str:
        return ""


class OpensOnce(Good):
    async def open(self) -> None:
        if self.is_open:
            raise RuntimeError("already open")
        await super().open()


class StaysClosed(Good):
    async def open(self) -> None:
        if self.close_count:
            raise RuntimeError("can not be opened again")
        await super().open()


class OpensHalf(Good):
    opening = False

    async def open(self) -> None:
        if self.opening:
            raise RuntimeError("still opening")
        self.opening = True
        for _ in range(3):
            await asyncio.sleep(0)
        self.opening = False
        await super().open()


class SaysDoneTwice(Good):
    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        async for event in super().stream(request):
            yield event
            if isinstance(event, ResponseDone):
                yield event


class GoesOnBehindTheEnd(Good):
    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        async for event in super().stream(request):
            yield event
        yield TextDelta("more")


class DropsADelta(Good):
    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        dropped = False
        async for event in super().stream(request):
            if isinstance(event, TextDelta) and not dropped:
                dropped = True
                continue
            yield event


class StartsNoCall(Good):
    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        async for event in super().stream(request):
            if not isinstance(event, ToolCallStarted):
                yield event


class ChangesTheHistory(Good):
    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        request.history.log._messages[0] = UserMessage("changed")
        async for event in super().stream(request):
            yield event


class OneAtATime(Good):
    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        if self.live_streams:
            raise RuntimeError("busy")
        async for event in super().stream(request):
            yield event


class Pooled(Good):
    """Four connections; a subclass says when one is not given back."""

    def __init__(self) -> None:
        super().__init__()
        self.free = 4

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        if not self.free:
            raise RuntimeError("pool exhausted")
        self.free -= 1
        async for event in super().stream(request):
            yield event
        self.free += 1


class LeaksWhenCancelled(Pooled):
    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        if not self.free:
            raise RuntimeError("pool exhausted")
        self.free -= 1
        try:
            async for event in super(Pooled, self).stream(request):
                yield event
        except asyncio.CancelledError:
            self.free -= 1
            raise
        finally:
            self.free += 1


class TakesAConnectionAtOnce(Good):
    """Its `stream` is no generator function: it acts before the first event is asked for."""

    free = 4

    def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        if not self.free:
            raise RuntimeError("pool exhausted")
        self.free -= 1
        return self._events_of(request)

    async def _events_of(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        try:
            async for event in super().stream(request):
                yield event
        finally:
            self.free += 1


class WaitsForItsStreams(Good):
    async def close(self) -> None:
        while self.live_streams:  # noqa: ASYNC110 - a bad provider
            await asyncio.sleep(0.001)
        await super().close()


class NothingKnown(Good):
    def model_info(self, model: str) -> ModelInfo:
        if not self.is_open:
            raise RuntimeError("ask the network")
        return super().model_info(model)


class OtherOriginEachTime(Good):
    numbers: Iterator[int] = itertools.count()

    def origin(self, model: str) -> Origin:
        return Origin(self.name, str(next(self.numbers)), model)


class CountsNothing(Good):
    async def count_tokens(self, request: ChatRequest) -> int | None:
        return 0


class Keyed(Good):
    """A provider with a key."""

    key = "sk-secret"

    def secret_values(self) -> tuple[str, ...]:
        return (self.key,)


class ShowsItsKey(Keyed):
    def __repr__(self) -> str:
        return f"ShowsItsKey({self.key!r})"


class EmptyKey(Keyed):
    key = ""


class Changing(Good):
    """A subclass changes the response or the events."""

    def change(self, event: StreamEvent) -> StreamEvent | None:
        raise NotImplementedError

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        async for event in super().stream(request):
            changed = self.change(event)
            if changed is not None:
                yield changed


class ChangingTheMessage(Changing):
    """A subclass changes the message."""

    def changed(self, message: AssistantMessage) -> AssistantMessage:
        raise NotImplementedError

    def change(self, event: StreamEvent) -> StreamEvent:
        if isinstance(event, ResponseDone):
            return ResponseDone(replace(event.response, message=self.changed(event.response.message)))
        return event


class ThinksOtherwise(ChangingTheMessage):
    def changed(self, message: AssistantMessage) -> AssistantMessage:
        return replace(message, reasoning="not what was streamed")


class LosesACall(ChangingTheMessage):
    def changed(self, message: AssistantMessage) -> AssistantMessage:
        return replace(message, tool_calls=message.tool_calls[:1])


class StampsForAnother(ChangingTheMessage):
    def changed(self, message: AssistantMessage) -> AssistantMessage:
        return replace(message, replay=Replay(Origin("another", "h", "m"), "w", (Raw(b"{}"),)))


class CountsFromOne(Changing):
    def change(self, event: StreamEvent) -> StreamEvent:
        if isinstance(event, ToolCallStarted | ToolCallArgumentsDelta):
            return replace(event, position=event.position + 1)
        return event


class CallsItAStop(Changing):
    def change(self, event: StreamEvent) -> StreamEvent:
        if isinstance(event, ResponseDone):
            return ResponseDone(replace(event.response, finish=FinishReason.STOP))
        return event


class ListsACallTwice(Changing):
    def change(self, event: StreamEvent) -> StreamEvent:
        if isinstance(event, ResponseDone):
            found = event.response.message.tool_calls[0]
            twice = PartialToolCall(found.id, found.name, found.arguments, "cut off")
            return ResponseDone(replace(event.response, unfinished_calls=(twice,)))
        return event


class SwallowsCancellation(Good):
    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        with suppress(asyncio.CancelledError):
            async for event in super().stream(request):
                yield event


class LeavesATask(Good):
    async def open(self) -> None:
        await super().open()
        self.task = asyncio.ensure_future(asyncio.Event().wait())


BROKEN: list[tuple[Callable[[], Provider], str]] = [
    (Nameless, "says_what_it_is_before_it_is_open"),
    (NothingKnown, "says_what_it_is_before_it_is_open"),
    (OtherOriginEachTime, "says_what_it_is_before_it_is_open"),
    (OpensOnce, "open_and_close_are_idempotent"),
    (StaysClosed, "open_may_follow_close"),
    (OpensHalf, "a_cancelled_open_can_be_repeated"),
    (SaysDoneTwice, "exactly_one_response_comes_last"),
    (GoesOnBehindTheEnd, "exactly_one_response_comes_last"),
    (DropsADelta, "events_tell_the_same_as_the_response"),
    (StartsNoCall, "events_tell_the_same_as_the_response"),
    (ThinksOtherwise, "events_tell_the_same_as_the_response"),
    (LosesACall, "events_tell_the_same_as_the_response"),
    (CountsFromOne, "events_tell_the_same_as_the_response"),
    (StampsForAnother, "the_response_fits_together"),
    (CallsItAStop, "the_response_fits_together"),
    (ListsACallTwice, "the_response_fits_together"),
    (LeavesATask, "open_and_close_are_idempotent"),
    (SwallowsCancellation, "a_cancelled_stream_is_released"),
    (lambda: Good(text("")), "the_response_is_no_empty_answer"),
    (ChangesTheHistory, "the_request_stays_as_it_was"),
    (OneAtATime, "streams_may_run_side_by_side"),
    (Pooled, "a_stream_closed_early_is_released"),
    (TakesAConnectionAtOnce, "a_stream_never_started_holds_nothing"),
    (LeaksWhenCancelled, "a_cancelled_stream_is_released"),
    (WaitsForItsStreams, "close_ends_an_abandoned_stream"),
    (CountsNothing, "a_count_is_positive_or_unknown"),
    (ShowsItsKey, "secrets_are_texts_that_no_repr_shows"),
    (EmptyKey, "secrets_are_texts_that_no_repr_shows"),
]


def broken_promises(
    make: Callable[[], Provider], failing: Callable[[], Provider] | None = None, *, limit_s: float = 2
) -> set[str]:
    with pytest.raises(ConformanceError) as caught:
        asyncio.run(check_provider(make, make_failing=failing, limit_s=limit_s))
    assert all(promise.check in str(caught.value) for promise in caught.value.broken)
    return {promise.check for promise in caught.value.broken}


@pytest.mark.parametrize("answer", [ANSWER, text("plain"), calls(call("f"))])
def test_a_good_provider_passes(answer: Answer) -> None:
    steps = [error(ErrorKind.SERVER), broken(text("abc", chunk_size=1), after=2, error=ErrorKind.TRANSPORT)]
    asyncio.run(
        check_provider(
            lambda: Good(answer), make_failing=lambda: ScriptedProvider(itertools.cycle(steps)), limit_s=600
        )
    )


def test_a_provider_with_a_key_passes() -> None:
    asyncio.run(check_provider(Keyed, limit_s=600))


def test_a_provider_may_be_made_asynchronously() -> None:
    async def make() -> Provider:
        await asyncio.sleep(0)
        return Good()

    asyncio.run(check_provider(make, limit_s=600))


@pytest.mark.parametrize(("make", "promise"), BROKEN)
def test_a_broken_promise_is_found(make: Callable[[], Provider], promise: str) -> None:
    assert promise in broken_promises(make)


def test_a_failing_host_that_answers_as_if_nothing_were() -> None:
    assert broken_promises(Good, failing=Good, limit_s=600) == {"a_failure_is_a_provider_error"}


def test_every_check_was_seen_to_fail() -> None:
    checks = vars(provider_checks._ProviderChecks)
    names = {name for name in checks if not name.startswith("_")}
    assert names == {promise for _, promise in BROKEN}


def test_a_provider_without_default_model_needs_a_request() -> None:
    class ManyModels(Good):
        @property
        def default_model(self) -> str | None:
            return None

    request = ChatRequest(model="m", history=History.of([UserMessage("hi")]))
    asyncio.run(check_provider(ManyModels, request=request, limit_s=600))
    with pytest.raises(ConformanceError, match="give check_provider a request"):
        asyncio.run(check_provider(ManyModels, limit_s=600))
