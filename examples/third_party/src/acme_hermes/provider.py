"""A provider that answers from a recording: a file of JSON lines, one answer each.

    {"calls": [{"name": "stock", "arguments": {"part": "B-17"}}]}
    {"text": "There are 12 of B-17."}

A conversation gets the line whose number is that of the answers it has; after the last line the first comes
again. So the provider keeps nothing between requests, and conversations may run side by side.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING

import aiofiles
import msgspec
from msgspec import Raw, Struct

from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    ChatResponse,
    ConfigurationError,
    ErrorKind,
    FinishReason,
    ModelInfo,
    Origin,
    ProviderError,
    ResponseDone,
    StreamEvent,
    TextDelta,
    ToolCall,
    ToolCallArgumentsDelta,
    ToolCallStarted,
)
from hermes_messages.protocols import Provider, ProviderOptions

__all__ = ["ReplayProvider", "make_provider"]


class RecordedCall(Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call of a recorded answer."""

    name: str
    arguments: Raw = Raw(b"{}")


class RecordedAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a recording: a text, calls, or an error that the host is to answer with."""

    text: str = ""
    calls: tuple[RecordedCall, ...] = ()
    error: str = ""


class ReplayProvider:
    """Answers of a recording. `open` reads it; a file that is no recording is a `ConfigurationError`."""

    name = "acme-replay"

    def __init__(self, recording: Path, model: str = "replay-1") -> None:
        self.default_model: str | None = model
        self._recording = recording
        self._answers: tuple[RecordedAnswer, ...] | None = None

    def origin(self, model: str) -> Origin:
        """Where answers come from."""
        return Origin(provider=self.name, host="localhost", model=model)

    def model_info(self, model: str) -> ModelInfo:  # noqa: ARG002 - one answer for all models
        """Nothing is known of a recorded model."""
        return ModelInfo()

    async def open(self) -> None:
        """Read the recording. A cancelled call lets it end first: half opened, the file would stay open."""
        if self._answers is not None:
            return
        reading = asyncio.create_task(self._read())
        try:
            self._answers = await asyncio.shield(reading)
        except asyncio.CancelledError:
            await asyncio.wait({reading})
            raise

    async def _read(self) -> tuple[RecordedAnswer, ...]:
        try:
            async with aiofiles.open(self._recording, "rb") as file:
                lines = (await file.read()).splitlines()
        except OSError as error:
            raise ConfigurationError(f"no recording: {error}") from error
        try:
            answers = tuple(msgspec.json.decode(line, type=RecordedAnswer) for line in lines if line.strip())
        except msgspec.DecodeError as error:
            raise ConfigurationError(f"{self._recording} is no recording: {error}") from error
        if not answers:
            raise ConfigurationError(f"{self._recording} is empty: a recording has an answer on each line")
        return answers

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        """The answer that follows on the request's conversation, word by word."""
        if self._answers is None:
            raise ProviderError("the provider is not open", kind=ErrorKind.TRANSPORT)
        given = sum(isinstance(message, AssistantMessage) for message in request.history)
        answer = self._answers[given % len(self._answers)]
        if answer.error or not (answer.text or answer.calls):
            raise ProviderError(answer.error or "the recorded answer is empty", kind=ErrorKind.SERVER)
        for word in answer.text.splitlines(keepends=True):
            yield TextDelta(word)
        calls = tuple(
            ToolCall(f"call_{given}_{place}", call.name, bytes(call.arguments).decode())
            for place, call in enumerate(answer.calls)
        )
        for position, call in enumerate(calls):
            yield ToolCallStarted(position=position, id=call.id, name=call.name)
            yield ToolCallArgumentsDelta(position=position, text=call.arguments)
        yield ResponseDone(
            ChatResponse(
                message=AssistantMessage(answer.text or None, calls),
                finish=FinishReason.TOOL_CALLS if calls else FinishReason.STOP,
                model=request.model,
            )
        )

    async def close(self) -> None:
        """Forget the recording; `open` reads it again."""
        self._answers = None


def make_provider(options: ProviderOptions) -> Provider:
    """What the entry point `acme-replay` names. Raises `ConfigurationError` for wrong settings."""
    unknown = sorted(set(options.settings) - {"recording"})
    if unknown:
        raise ConfigurationError(f"acme-replay has no setting {unknown[0]!r}: it has `recording`")
    recording = options.settings.get("recording")
    if not isinstance(recording, str):
        raise ConfigurationError("acme-replay needs the path of a recording: settings={'recording': ...}")
    return ReplayProvider(Path(recording), options.model or "replay-1")


if TYPE_CHECKING:

    def _fits(provider: ReplayProvider) -> Provider:
        return provider
