"""Characters that a host cut in two between two events, put together again. Pure.

A character above U+FFFF is two units in UTF-16; hosts that cut there escape one half at the end of an event
and the other at the start of the next. What waits for its other half is at most one unit for each kind of
text and each call.
"""

from __future__ import annotations

from collections.abc import Iterable

from hermes_messages.deltas import (
    Delta,
    FinishChunk,
    MetaChunk,
    ReasoningChunk,
    RefusalChunk,
    TextChunk,
    ToolCallChunk,
)
from hermes_providers.streaming.json_bytes import whole_characters

__all__ = ["HalfCharacters"]

_Key = tuple[type[Delta], int | None]


def _alone(text: str | None) -> str | None:
    """What comes in one piece: no other half follows."""
    return None if text is None else whole_characters(text)


class HalfCharacters:
    """Deltas in, the same deltas with whole characters out. A half that stays alone becomes U+FFFD."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[_Key, str] = {}

    @property
    def waiting(self) -> bool:
        """Whether a half waits for the other one."""
        return bool(self._held)

    def join(self, deltas: Iterable[Delta]) -> list[Delta]:
        """What is whole by now. Nothing waits past a finish."""
        joined: list[Delta] = []
        for delta in deltas:
            match delta:
                case TextChunk(text=text):
                    joined.append(TextChunk(self._whole((TextChunk, None), text)))
                case ReasoningChunk(text=text):
                    joined.append(ReasoningChunk(self._whole((ReasoningChunk, None), text)))
                case RefusalChunk(text=text):
                    joined.append(RefusalChunk(self._whole((RefusalChunk, None), text)))
                case ToolCallChunk(index, call_id, name, text):
                    whole = None if text is None else self._whole((ToolCallChunk, index), text)
                    joined.append(ToolCallChunk(index, _alone(call_id), _alone(name), whole))
                case FinishChunk(reason):
                    joined += [*self.rest(), FinishChunk(_alone(reason))]
                case MetaChunk(model, response_id):
                    joined.append(MetaChunk(_alone(model), _alone(response_id)))
                case _:
                    joined.append(delta)
        return joined

    def rest(self) -> list[Delta]:
        """The halves whose others never came."""
        if not self._held:
            return []
        held, self._held = self._held, {}
        rest: list[Delta] = []
        for (kind, index), half in held.items():
            text = whole_characters(half)
            if kind is ToolCallChunk:
                rest.append(ToolCallChunk(index, arguments=text))
            elif kind is ReasoningChunk:
                rest.append(ReasoningChunk(text))
            else:
                rest.append(RefusalChunk(text) if kind is RefusalChunk else TextChunk(text))
        return rest

    def _whole(self, key: _Key, text: str) -> str:
        text = self._held.pop(key, "") + text if text else text
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._held[key] = text[-1]
            text = text[:-1]
        return whole_characters(text)
