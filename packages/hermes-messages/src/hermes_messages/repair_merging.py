"""Merging of neighbours that may not stand beside each other: contents, and two answers in a row."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from hermes_messages.messages import AssistantMessage
from hermes_messages.parts import Content, Replay, TextPart
from hermes_messages.usage import add_usage

__all__ = ["merge_answers", "merge_content"]

_BETWEEN = "\n\n"


def merge_content(left: Content | None, right: Content | None) -> Content | None:
    """Both contents, in order, a blank line between two texts."""
    if not left:
        return left if right is None else right
    if not right:
        return left
    if isinstance(left, str) and isinstance(right, str):
        return left + _BETWEEN + right
    gap = (TextPart(_BETWEEN),)
    return (
        *((TextPart(left),) if isinstance(left, str) else left),
        *gap,
        *((TextPart(right),) if isinstance(right, str) else right),
    )


def merge_answers(first: AssistantMessage, second: AssistantMessage) -> AssistantMessage:
    """One message that says what both say; `first` is a plain answer, `second` may have calls.

    Replay data is kept only when both have it from one origin: blocks of one half would drop the other.
    """
    return AssistantMessage(
        content=merge_content(first.content, second.content),
        tool_calls=second.tool_calls,
        reasoning=_merge_text(first.reasoning, second.reasoning),
        replay=_merge_replay(first.replay, second.replay),
        refusal=_merge_text(first.refusal, second.refusal),
        name=first.name if second.name is None else second.name,
        finish_reason=first.finish_reason if second.finish_reason is None else second.finish_reason,
        usage=add_usage(first.usage, second.usage),
        extra=_merge_extra(first.extra, second.extra),
    )


def _merge_text(left: str | None, right: str | None) -> str | None:
    if not left:
        return left if right is None else right
    return left + _BETWEEN + right if right else left


def _merge_replay(left: Replay | None, right: Replay | None) -> Replay | None:
    if left is None or right is None or left.origin != right.origin or left.wire != right.wire:
        return None
    return Replay(left.origin, left.wire, left.blocks + right.blocks)


def _merge_extra(left: Raw | None, right: Raw | None) -> Raw | None:
    """Both objects' keys; those of `right` win."""
    if left is None or right is None:
        return left if right is None else right
    try:
        return Raw(
            msgspec.json.encode(
                msgspec.json.decode(left, type=dict[str, Raw])
                | msgspec.json.decode(right, type=dict[str, Raw])
            )
        )
    except msgspec.DecodeError:
        return right
