"""A provider that answers from a script, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Iterable

import msgspec

from hermes_messages.assembler import StreamAssembler
from hermes_messages.errors import ConfigurationError, HermesError
from hermes_messages.exchange import ChatRequest, ModelInfo, ResponseDone, StreamEvent
from hermes_messages.history import History
from hermes_messages.parts import Origin
from hermes_messages.strangers import no_history
from hermes_messages.testing.script import Answer, Broken, Hang, ScriptStep, StepMaker

__all__ = ["ScriptExhaustedError", "ScriptedProvider"]

_WIRE = "scripted"


class ScriptExhaustedError(HermesError, AssertionError):
    """More requests came than the script has answers. `request_number` counts from 1."""

    def __init__(self, request_number: int, last: str) -> None:
        self.request_number = request_number
        super().__init__(
            f"the script has {request_number - 1} answers, but request {request_number} came, whose last "
            f"message is {last}; write an answer for it, or find out why it was sent"
        )


class ScriptedProvider:
    """Satisfies `Provider`. Each request takes the next step of `script`.

    `script` is an iterable of steps (also an endless one, such as `itertools.repeat(text("ok"))`), or one
    function that makes the step for every request. Any number of streams may run at once, in any event loop.

    What a test can look at: `requests` (as they stood when they were sent), `open_count`, `close_count`,
    `live_streams` (streams that are neither finished nor closed), `most_live_streams` and `cut_streams`
    (streams that ended without their `ResponseDone`).
    """

    def __init__(
        self,
        script: Iterable[ScriptStep] | StepMaker,
        *,
        name: str = "scripted",
        model: str = "scripted-model",
        model_info: ModelInfo | None = None,
    ) -> None:
        self._make_step = script if callable(script) else None
        self._steps = iter(()) if callable(script) else iter(script)
        self._name = name
        self._model = model
        self._model_info = model_info or ModelInfo(
            context_window=128_000, max_output_tokens=8_192, strong_efforts=True
        )
        self._is_open = False
        self.requests: list[ChatRequest] = []
        self.open_count: int = 0
        self.close_count: int = 0
        self.live_streams: int = 0
        self.most_live_streams: int = 0
        self.cut_streams: int = 0

    @property
    def name(self) -> str:
        """The provider's short name."""
        return self._name

    @property
    def default_model(self) -> str | None:
        """The model that the script plays."""
        return self._model

    @property
    def is_open(self) -> bool:
        """Whether `open` was called after the last `close`."""
        return self._is_open

    @property
    def last_request(self) -> ChatRequest:
        """The newest request. Raises `AssertionError` when none came."""
        assert self.requests, "no request was sent"
        return self.requests[-1]

    def origin(self, model: str) -> Origin:
        """Where its responses come from."""
        return Origin(self._name, "scripted", model)

    def model_info(self, model: str) -> ModelInfo:  # noqa: ARG002 - the same for every model
        """What was given at construction."""
        return self._model_info

    async def open(self) -> None:
        """Make ready; idempotent."""
        await asyncio.sleep(0)
        self.open_count += 1
        self._is_open = True

    async def close(self) -> None:
        """Close; idempotent. Streams are refused until the next `open`."""
        self.close_count += 1
        self._is_open = False
        await asyncio.sleep(0)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        """Play the next step. Raises its error, or `ScriptExhaustedError`; `MessageFormatError` where the
        request's history is none.

        The provider need not have been opened, but once closed it raises `ConfigurationError`.
        """
        if self.close_count and not self._is_open:
            raise ConfigurationError("stream() on a closed ScriptedProvider; open() it again first")
        if not isinstance(request.history, History):
            raise no_history(request.history)
        self.requests.append(request)
        self.live_streams += 1
        self.most_live_streams = max(self.most_live_streams, self.live_streams)
        done = False
        try:
            step = await self._next_step(request)
            for sent, event in enumerate(self._events(step, request.model)):
                if isinstance(step, Broken | Hang) and (
                    sent >= step.after or isinstance(event, ResponseDone)
                ):
                    await _stop(step)
                gate = step.gate if isinstance(step, Answer) else step.answer.gate
                await (gate() if gate is not None else asyncio.sleep(0))
                done = isinstance(event, ResponseDone)
                yield event
        finally:
            self.live_streams -= 1
            self.cut_streams += not done

    async def _next_step(self, request: ChatRequest) -> Answer | Broken | Hang:
        step: ScriptStep
        if self._make_step is not None:
            step = self._make_step
        else:
            try:
                step = next(self._steps)
            except StopIteration:
                last = request.history[-1] if len(request.history) else None
                raise ScriptExhaustedError(len(self.requests), repr(last)[:200]) from None
        while not isinstance(step, Answer | Broken | Hang):
            made = step(request)
            step = await made if inspect.isawaitable(made) else made
        return step

    def _events(self, step: Answer | Broken | Hang, model: str) -> list[StreamEvent]:
        answer = step if isinstance(step, Answer) else step.answer
        assembler = StreamAssembler(self.origin(model), _WIRE, think_tags=False)
        events = [event for delta in answer.deltas() for event in assembler.feed(delta)]
        response = assembler.finish(complete=answer.complete)
        return [*events, ResponseDone(msgspec.structs.replace(response, model=model))]


async def _stop(step: Broken | Hang) -> None:
    if isinstance(step, Broken):
        raise step.error.with_traceback(None)
    await asyncio.get_running_loop().create_future()
