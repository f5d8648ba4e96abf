"""A fast estimate of how many tokens a prompt has, without a tokenizer.

What is counted is what a request carries: texts, calls, results, tools, media. Reasoning and replay data
are left out: most hosts drop or do not bill them on the way in. Typical error on mixed text is 10 to 20 per
cent; `TokenEstimator.calibrate` corrects it with the figure that the host reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from weakref import WeakKeyDictionary

from hermes_messages.exchange import ToolSpec
from hermes_messages.history import History, MessageLog
from hermes_messages.messages import AssistantMessage, Message, ToolMessage
from hermes_messages.parts import AudioPart, Content, FilePart, ImagePart, OpaquePart, TextPart

__all__ = ["TokenEstimator", "estimate_tokens"]

# Four ASCII characters are about one token; each further byte that UTF-8 needs for a character costs 0.4:
# Cyrillic 0.65 tokens a character, Chinese 1.05, emoji 1.45.
_PER_CHARACTER: Final = 0.25
_PER_EXTRA_BYTE: Final = 0.4
_PER_MESSAGE: Final = 4.0
_PER_CALL: Final = 8.0
_PER_TOOL: Final = 10.0
_PER_PROMPT: Final = 3.0
# What hosts publish for images lies between 85 (low detail) and 1,600 (Anthropic, 1,092 x 1,092 pixels).
_LOW_IMAGE: Final = 85.0
_IMAGE: Final = 1_200.0
_AUDIO_PER_CHARACTER: Final = 1 / 2_000
_FILE: Final = 1_500.0
_OPAQUE: Final = 300.0
_FACTOR_LIMITS: Final = (0.25, 4.0)


def estimate_tokens(messages: Iterable[Message], tools: Sequence[ToolSpec] = ()) -> int:
    """About how many prompt tokens `messages` and `tools` are, at least 1 unless there is nothing.

    A log that grows from one `History` to the next is not looked through again, only what is new in it.
    """
    costs = _log_cost(messages) if isinstance(messages, History) else sum(map(_message_cost, messages))
    costs += sum(map(_tool_cost, tools))
    return _whole(costs + _PER_PROMPT) if costs else 0


def _whole(tokens: float) -> int:
    """Rounded alike in whatever order it was summed up; since Python 3.12 `sum` itself rounds otherwise."""
    return round(round(tokens, 6))


_logs: WeakKeyDictionary[MessageLog, tuple[int, float]] = WeakKeyDictionary()
"""How many messages of a log were looked at, and what they cost."""


def _log_cost(history: History) -> float:
    seen, cost = _logs.get(history.log, (0, 0.0))
    if seen > history.logged:  # a view from before
        return sum(map(_message_cost, history))
    if seen < history.logged:
        cost += sum(map(_message_cost, history[seen : history.logged]))
        _logs[history.log] = history.logged, cost
    return cost + sum(map(_message_cost, history[history.logged :]))


class TokenEstimator:
    """A running estimate: adding messages costs what the new ones cost, however long the conversation is.

    >>> from hermes_messages import UserMessage
    >>> estimate = TokenEstimator()
    >>> estimate.add([UserMessage("How long is a piece of string?")])
    12
    >>> estimate.calibrate(24)
    >>> estimate.total
    24
    """

    __slots__ = ("_anchor", "_anchor_raw", "_factor", "_raw")

    def __init__(self, tools: Sequence[ToolSpec] = ()) -> None:
        self._raw = sum(_tool_cost(tool) for tool in tools)
        self._anchor = 0.0
        self._anchor_raw = 0.0
        self._factor = 1.0

    def add(self, messages: Iterable[Message]) -> int:
        """Count further messages; about how many tokens these are."""
        new = sum(_message_cost(message) for message in messages)
        self._raw += new
        return round(new * self._factor)

    def calibrate(self, real_prompt_tokens: int) -> None:
        """Tell what the host counted for exactly the messages and tools added so far.

        The total becomes this figure, and what is added later is scaled by how wrong the estimate was,
        within a factor of four. A figure of 0 or less is ignored: some hosts send it for "not counted".
        """
        if real_prompt_tokens <= 0:
            return
        low, high = _FACTOR_LIMITS
        if self._raw:
            self._factor = min(max(real_prompt_tokens / (self._raw + _PER_PROMPT), low), high)
        self._anchor = float(real_prompt_tokens)
        self._anchor_raw = self._raw

    @property
    def total(self) -> int:
        """About how many prompt tokens everything added so far is."""
        if self._anchor:
            return round(self._anchor + (self._raw - self._anchor_raw) * self._factor)
        return _whole(self._raw + _PER_PROMPT) if self._raw else 0


def _text_cost(text: str) -> float:
    cost = len(text) * _PER_CHARACTER
    if not text.isascii():
        cost += (len(text.encode("utf-8", "surrogatepass")) - len(text)) * _PER_EXTRA_BYTE
    return cost


def _tool_cost(tool: ToolSpec) -> float:
    parameters = len(bytes(tool.parameters)) * _PER_CHARACTER
    return _PER_TOOL + _text_cost(tool.name) + _text_cost(tool.description) + parameters


def _message_cost(message: Message) -> float:
    cost = _PER_MESSAGE + _content_cost(message.content)
    if message.name is not None and not isinstance(message, ToolMessage):
        cost += _text_cost(message.name)
    if isinstance(message, AssistantMessage):
        cost += _text_cost(message.refusal or "")
        for call in message.tool_calls:
            cost += _PER_CALL + _text_cost(call.name) + _text_cost(call.arguments)
    return cost


def _content_cost(content: Content | None) -> float:
    if content is None:
        return 0.0
    if isinstance(content, str):
        return _text_cost(content)
    cost = 0.0
    for part in content:
        match part:
            case TextPart():
                cost += _text_cost(part.text)
            case ImagePart():
                cost += _LOW_IMAGE if part.detail == "low" else _IMAGE
            case AudioPart():
                cost += len(part.data) * _AUDIO_PER_CHARACTER
            case FilePart():
                cost += _FILE
            case OpaquePart():
                cost += _OPAQUE
    return cost
