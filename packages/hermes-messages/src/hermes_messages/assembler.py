"""Typed deltas in, stream events out, and at the end one assistant message. No I/O.

>>> from hermes_messages import Origin
>>> from hermes_messages.deltas import FinishChunk, TextChunk, ToolCallChunk
>>> assembler = StreamAssembler(Origin("mine", "localhost", "m"), "openai_chat")
>>> assembler.feed(TextChunk("Let me look. "))
[TextDelta(text='Let me look. ')]
>>> assembler.feed(ToolCallChunk(index=0, id="a", name="read", arguments='{"path": "x"}'))
[ToolCallStarted(position=0, id='a', name='read'), ToolCallArgumentsDelta(position=0, text='{"path": "x"}')]
>>> assembler.feed(FinishChunk("tool_calls"))
[]
>>> assembler.finish().message.tool_calls[0].parse_arguments()
{'path': 'x'}

Which fragment belongs to which call is decided in `hermes_messages.call_assembly`. What may be run:

- A response that ended normally: every call with a name. Its arguments may be near-JSON; an executor reads
  them tolerantly or answers with an error.
- A response that was cut off (finish `LENGTH`, `CONTENT_FILTER` or `MALFORMED_CALL`, or no finish word and
  `complete=False`): only calls whose arguments are a complete JSON object, and not the one that was being
  written when the cut came, even if it parses: some hosts close the brackets of a truncated call
  themselves. A call counts as written when another call or text came after it.
- A stream that ended without its end mark but behind a finish word: calls whose arguments are a complete
  JSON object.

All other calls are in `ChatResponse.unfinished_calls`, with the reason.
"""

from __future__ import annotations

from msgspec import Raw

from hermes_messages.call_assembly import CallTable, OpenCall, is_json_object
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
from hermes_messages.errors import ConfigurationError
from hermes_messages.exchange import (
    ChatResponse,
    FinishReason,
    PartialToolCall,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallStarted,
)
from hermes_messages.finish_words import finish_of_word
from hermes_messages.messages import AssistantMessage, ToolCall
from hermes_messages.parts import Origin, Replay
from hermes_messages.think_tags import NOTHING_HELD, Piece, Remainder, ThinkTagSplitter
from hermes_messages.usage import Usage

__all__ = ["StreamAssembler"]

_CUT_SHORT = frozenset({FinishReason.LENGTH, FinishReason.CONTENT_FILTER, FinishReason.MALFORMED_CALL})


class StreamAssembler:
    """Puts one response together. Make a new one for each response."""

    def __init__(
        self, origin: Origin, wire: str, *, think_tags: bool = True, starts_inside: bool = False
    ) -> None:
        """`wire` names the format of replay blocks. `think_tags` takes tagged reasoning out of the text.

        `starts_inside` (with `think_tags`): the host's chat template opens the tag, so that the text begins
        with reasoning. It counts for nothing when the host takes the reasoning out by itself after all.
        """
        self._origin = origin
        self._wire = wire
        self._think_tags = think_tags
        self._starts_inside = starts_inside
        self._splitter: ThinkTagSplitter | None = None  # made for the first text: many answers have none
        self._text: list[str] | None = None
        self._reasoning: list[str] | None = None
        self._refusal: list[str] | None = None
        self._table = CallTable()
        self._being_written: OpenCall | None = None
        self._shown = 0
        self._blocks: list[Raw] = []
        self._usage: Usage | None = None
        self._model: str | None = None
        self._response_id: str | None = None
        self._finish_word: str | None = None
        self._finished = False

    @property
    def finish_word(self) -> str | None:
        """The host's own word for why the response ended, or None while it has said none."""
        return self._finish_word

    def feed(self, delta: Delta) -> list[StreamEvent]:
        """What the consumer learns from `delta`; often one event, sometimes none.

        A finish delta with a word releases the text that was held back as a possible tag.
        Raises `ConfigurationError` after `finish`.
        """
        if self._finished:
            raise ConfigurationError("this response is finished; make a new StreamAssembler for the next one")
        match delta:
            case TextChunk(text=text):
                return self._feed_text(text)
            case ToolCallChunk():
                return self._feed_call(delta)
            case ReasoningChunk(text=text):
                if text and self._text is None:
                    self._starts_inside, self._splitter = False, None
                return self._pieces([Piece(text, reasoning=True)])
            case UsageChunk(usage=usage):
                self._usage = usage
            case FinishChunk(reason=reason):
                if reason is not None and reason.strip():
                    self._finish_word = reason
                    return self.flush()
            case MetaChunk():
                self._model = delta.model or self._model
                self._response_id = delta.response_id or self._response_id
            case ReplayChunk(block=block):
                self._blocks.append(block)
            case RefusalChunk(text=text):
                self._refusal = self._refusal or []
                self._refusal.append(text)
        return []

    def flush(self) -> list[StreamEvent]:
        """The text held back as a possible tag. Call it before `finish` when no finish delta came."""
        if self._splitter is None:
            return []
        rest = self._splitter.finish(cut_off=finish_of_word(self._finish_word) in _CUT_SHORT)
        return [] if rest is NOTHING_HELD else self._release(rest)

    def finish(self, *, complete: bool = True) -> ChatResponse:
        """The response. `complete=False`: the stream ended without its end mark; without a finish word of
        the host that is reported as `LENGTH`.

        The message may be blank, which no transcript takes: judging that is the caller's.
        """
        said = finish_of_word(self._finish_word)
        if said is None and not complete:
            said = FinishReason.LENGTH
        cut_short = said in _CUT_SHORT
        if not self._finished:
            if self._splitter is not None:
                rest = self._splitter.finish(cut_off=cut_short or not complete)
                if rest is not NOTHING_HELD:
                    self._release(rest)
            self._finished = True
        calls, unfinished = self._sort_calls(strict=cut_short or not complete, cut_short=cut_short)
        return ChatResponse(
            message=AssistantMessage(
                content=_joined(self._text),
                tool_calls=calls,
                reasoning=_joined(self._reasoning),
                replay=Replay(self._origin, self._wire, tuple(self._blocks)) if self._blocks else None,
                refusal=_joined(self._refusal),
                finish_reason=self._finish_word,
                usage=self._usage,
            ),
            finish=_finish(said, complete, calls, unfinished),
            usage=self._usage,
            model=self._model,
            response_id=self._response_id,
            unfinished_calls=unfinished,
        )

    def _feed_text(self, text: str) -> list[StreamEvent]:
        if self._text is None:
            self._text = []
        if not text:
            return []
        if not text.isspace():
            self._being_written = None
        if not self._think_tags:
            self._text.append(text)
            return [TextDelta(text)]
        if self._splitter is None:
            self._splitter = ThinkTagSplitter(starts_inside=self._starts_inside)
        return self._pieces(self._splitter.feed(text))

    def _pieces(self, pieces: list[Piece] | tuple[Piece, ...]) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        for piece in pieces:
            if piece.reasoning:
                if self._reasoning is None:
                    self._reasoning = []
                self._reasoning.append(piece.text)
                if piece.text:
                    events.append(ReasoningDelta(piece.text))
            elif piece.text:
                self._text = self._text or []
                self._text.append(piece.text)
                events.append(TextDelta(piece.text))
        return events

    def _release(self, rest: Remainder) -> list[StreamEvent]:
        events = self._pieces(rest.pieces) if rest.pieces else []
        if not rest.reclaimed:
            return events
        reasoning = _joined(self._reasoning) or ""
        if rest.reclaimed.strip() and reasoning.endswith(rest.reclaimed):
            self._reasoning = [reasoning.removesuffix(rest.reclaimed)]
            events += self._pieces([Piece(rest.reclaimed.lstrip(), reasoning=False)])
        return events

    def _feed_call(self, chunk: ToolCallChunk) -> list[StreamEvent]:
        call = self._table.route(chunk)
        if call is None:
            return []
        self._being_written = call
        if chunk.arguments:
            call.add_arguments(chunk.arguments)
        if call.position is not None:
            return [ToolCallArgumentsDelta(call.position, chunk.arguments)] if chunk.arguments else []
        if not call.name:
            return []
        self._table.assign_id(call)
        call.position = self._shown
        self._shown += 1
        events: list[StreamEvent] = [ToolCallStarted(call.position, call.id, call.name)]
        arguments = call.arguments
        if arguments:
            events.append(ToolCallArgumentsDelta(call.position, arguments))
        return events

    def _sort_calls(
        self, *, strict: bool, cut_short: bool
    ) -> tuple[tuple[ToolCall, ...], tuple[PartialToolCall, ...]]:
        if not self._table.calls:
            return (), ()
        calls: list[ToolCall] = []
        unfinished: list[PartialToolCall] = []
        seen: set[tuple[str, str, str]] = set()
        for call in self._table.calls:
            if not call.id:
                self._table.assign_id(call)
            reason = self._why_unfinished(call, strict=strict, cut_short=cut_short)
            if reason is not None:
                unfinished.append(PartialToolCall(call.id, call.name, call.arguments, reason))
                continue
            arguments = call.arguments
            if call.host_id is not None:
                identity = (call.host_id, call.name, arguments)
                if identity in seen:
                    continue
                seen.add(identity)
            calls.append(ToolCall(call.id, call.name, arguments))
        return tuple(calls), tuple(unfinished)

    def _why_unfinished(self, call: OpenCall, *, strict: bool, cut_short: bool) -> str | None:
        if not call.name:
            return "the call has no tool name"
        if strict and not is_json_object(call.arguments):
            return "the response was cut off before the arguments were complete"
        if cut_short and call is self._being_written:
            return "the response was cut off while this call was being written"
        return None


def _joined(parts: list[str] | None) -> str | None:
    return None if parts is None else "".join(parts)


def _finish(
    said: FinishReason | None,
    complete: bool,
    calls: tuple[ToolCall, ...],
    unfinished: tuple[PartialToolCall, ...],
) -> FinishReason:
    """What the host said, corrected by what came: hosts say `stop` with calls and `tool_calls` without."""
    if said is not None and said in _CUT_SHORT:
        return said
    if calls:
        return FinishReason.TOOL_CALLS
    if unfinished:
        return FinishReason.MALFORMED_CALL if complete else FinishReason.LENGTH
    return FinishReason.STOP
