"""The answers of a scripted provider: what a test writes down instead of a model.

>>> script = [
...     calls(call("read_file", {"path": "a.txt"}), text="Let me look."),
...     broken(text("Half an ans"), after=1, error=failure(ErrorKind.TRANSPORT)),
...     text("The file is empty.", usage=Usage(input_tokens=20, output_tokens=5)),
... ]
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping

import msgspec
from msgspec import Raw, Struct

from hermes_messages.argument_text import JsonValue
from hermes_messages.deltas import (
    Delta,
    FinishChunk,
    MetaChunk,
    ReasoningChunk,
    RefusalChunk,
    ReplayChunk,
    TextChunk,
    ToolCallChunk,
    UsageChunk,
)
from hermes_messages.errors import ErrorKind, ProviderError
from hermes_messages.exchange import ChatRequest
from hermes_messages.messages import ToolCall
from hermes_messages.usage import Usage

__all__ = [
    "Answer",
    "Broken",
    "Gate",
    "Hang",
    "ScriptStep",
    "StepMaker",
    "broken",
    "call",
    "calls",
    "error",
    "failure",
    "hang",
    "text",
]

Gate = Callable[[], Awaitable[object]]
"""Awaited before each event of an answer: the `wait` of an `asyncio.Event`, or a `StepGate`."""


class Answer(Struct, frozen=True, kw_only=True):
    """One answer of the model. `finish` is the host's word; None picks `stop` or `tool_calls`.

    Text, reasoning and arguments are streamed in chunks of `chunk_size` characters (None: whole). With
    `complete` false the answer ends without its end mark, as `StreamAssembler.finish` has it.
    """

    text: str | None = None
    """The visible text; None: there is none."""
    calls: tuple[ToolCall, ...] = ()
    """What it asks for, in this order."""
    reasoning: str | None = None
    refusal: str | None = None
    """The model's words for not answering."""
    replay: tuple[Raw, ...] = ()
    """Blocks of the provider's own, as JSON bytes."""
    usage: Usage | None = None
    """What the host is to say of the cost; None: it says nothing."""
    finish: str | None = None
    chunk_size: int | None = None
    gate: Gate | None = None
    """Awaited before each event, to hold the answer at a step; None: nothing holds it."""
    complete: bool = True

    def deltas(self) -> Iterator[Delta]:
        """The answer as a host would send it."""
        yield MetaChunk(response_id="scripted")
        if self.reasoning is not None:
            yield from map(ReasoningChunk, self._chunks(self.reasoning))
        if self.text is not None:
            yield from map(TextChunk, self._chunks(self.text))
        if self.refusal is not None:
            yield RefusalChunk(self.refusal)
        for index, wanted in enumerate(self.calls):
            yield ToolCallChunk(index=index, id=wanted.id, name=wanted.name)
            for chunk in self._chunks(wanted.arguments):
                yield ToolCallChunk(index=index, arguments=chunk)
        yield from map(ReplayChunk, self.replay)
        if self.complete:
            yield FinishChunk(self.finish or ("tool_calls" if self.calls else "stop"))
        if self.usage is not None:
            yield UsageChunk(self.usage)

    def _chunks(self, whole: str) -> list[str]:
        size = self.chunk_size or len(whole)
        return [whole[start : start + size] for start in range(0, len(whole), size)] if whole else [whole]


class Broken(Struct, frozen=True, kw_only=True):
    """An answer whose stream fails with `error` after `after` events."""

    answer: Answer
    """What would have come."""
    after: int
    error: ProviderError


class Hang(Struct, frozen=True, kw_only=True):
    """An answer whose stream sends `after` events and then waits until it is cancelled or closed."""

    answer: Answer
    """What would have come."""
    after: int


StepMaker = Callable[[ChatRequest], "ScriptStep | Awaitable[ScriptStep]"]
"""Makes a step from the request that it answers, for answers that depend on what was asked."""

ScriptStep = Answer | Broken | Hang | StepMaker
"""What a scripted provider does with one request: an answer, a failure, or a function that makes one."""


def text(
    content: str,
    *,
    reasoning: str | None = None,
    usage: Usage | None = None,
    finish: str | None = None,
    chunk_size: int | None = None,
    gate: Gate | None = None,
) -> Answer:
    """A text answer, in pieces of `chunk_size` characters where it is given."""
    return Answer(
        text=content, reasoning=reasoning, usage=usage, finish=finish, chunk_size=chunk_size, gate=gate
    )


def call(name: str, arguments: Mapping[str, JsonValue] | str | None = None, id: str = "") -> ToolCall:  # noqa: A002 - the field's name
    """One tool call for `calls`. Arguments given as text are sent as they are; without `id` one is made."""
    encoded = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments or {}).decode()
    return ToolCall(id=id, name=name, arguments=encoded)


def calls(
    *wanted: ToolCall,
    text: str | None = None,
    reasoning: str | None = None,
    usage: Usage | None = None,
    finish: str | None = None,
    chunk_size: int | None = None,
    gate: Gate | None = None,
) -> Answer:
    """An answer that asks for tool calls."""
    return Answer(
        calls=wanted,
        text=text,
        reasoning=reasoning,
        usage=usage,
        finish=finish,
        chunk_size=chunk_size,
        gate=gate,
    )


def failure(
    kind: ErrorKind, message: str = "", *, status: int | None = None, retry_after_s: float | None = None
) -> ProviderError:
    """A `ProviderError` of `kind`, for `error` and `broken`."""
    return ProviderError(
        message or f"scripted {kind} failure", kind=kind, status=status, retry_after_s=retry_after_s
    )


def error(what: ProviderError | ErrorKind) -> Broken:
    """No answer at all: the stream fails before its first event."""
    return broken(Answer(), after=0, error=what)


def broken(answer: Answer, *, after: int, error: ProviderError | ErrorKind) -> Broken:
    """`answer`, cut after `after` events; at the latest before its `ResponseDone`."""
    return Broken(answer=answer, after=after, error=failure(error) if isinstance(error, ErrorKind) else error)


def hang(answer: Answer | None = None, *, after: int = 0) -> Hang:
    """`answer`, stopping for ever after `after` events; at the latest before its `ResponseDone`."""
    return Hang(answer=answer or Answer(), after=after)
