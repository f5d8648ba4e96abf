"""What is compressed and what stays. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from msgspec.structs import replace

from hermes_loop.compression.protocol import CompressionPlan
from hermes_loop.compression.settings import CompressionSettings
from hermes_messages import AssistantMessage, Message, ToolMessage, UserMessage, estimate_tokens
from hermes_messages.shrinking import boundary_near, keep_ends, last_boundary, retire_images

__all__ = [
    "NOTHING_BEFORE",
    "Kept",
    "joined",
    "kept_rounds",
    "plan_compression",
    "shortened_tail",
    "shortened_text",
    "worth_a_summary",
]

Kept = tuple[Message, int | None]
"""A message of the new conversation, and its place in the old one if it was there."""

NOTHING_BEFORE: Final = "[The conversation before this was left out.]"
_HEADROOM: Final = 0.1


def plan_compression(
    messages: Sequence[Message], window: int, settings: CompressionSettings
) -> CompressionPlan:
    """The plan: everything older than the newest rounds that fit into `settings.keep_recent` of `window`.

    What is being worked on stays whatever its size; with nothing older the plan is empty (`end` 0).
    """
    room = int(window * settings.keep_recent)
    target = max(256, room // 4)
    latest = _latest_cut(messages, room)
    cut = latest
    spent = estimate_tokens(messages[cut:])
    while cut and (spent := spent + estimate_tokens([messages[cut - 1]])) <= room:
        cut -= 1
    end = latest if cut == latest else boundary_near(messages, cut)
    taken = estimate_tokens(messages[end:]) + target
    words = int(window * (settings.threshold - _HEADROOM)) - taken
    return CompressionPlan(begin=0, end=end, target_tokens=target, words_tokens=max(target, words))


def _latest_cut(messages: Sequence[Message], room: int) -> int:
    """Before what is being worked on. Of several words of the user that nobody answered (turns failed on
    them) the older may be cut off too where all of them are too long: they are quoted then."""
    cut = last_boundary(messages)
    if not isinstance(messages[-1], UserMessage):
        return cut
    while cut < len(messages) - 1 and estimate_tokens(messages[cut:]) > room:
        cut += 1
    return cut


def worth_a_summary(messages: Sequence[Message], plan: CompressionPlan, saved: int, least: int) -> bool:
    """Whether a summary of the planned messages may save `least` tokens with the `saved` ones."""
    spared = estimate_tokens(messages[plan.begin : plan.end]) - plan.target_tokens
    return spared > 0 and spared + saved >= least


def kept_rounds(
    messages: Sequence[Message], plan: CompressionPlan, keep_tools: Collection[str], limit: int
) -> list[Kept]:
    """The last round before the plan's end in which each of `keep_tools` answered well, whole and in order,
    unless the tool answered again in what stays. The results of its other tools are cut as those of the
    tail."""
    rounds = _rounds(messages)
    waiting = set(keep_tools)
    kept: list[Kept] = []
    for begin, end in reversed(rounds):
        found = _answered(messages[begin:end]) & waiting
        waiting -= found
        if found and end <= plan.end:
            kept[:0] = [(_kept(messages[place], keep_tools, limit), place) for place in range(begin, end)]
    return kept


def _kept(message: Message, keep_tools: Collection[str], limit: int) -> Message:
    return message if message.name in keep_tools else _shortened(message, limit)


def _rounds(messages: Sequence[Message]) -> list[tuple[int, int]]:
    """Where each round of calls and results begins and ends."""
    rounds: list[tuple[int, int]] = []
    for place, message in enumerate(messages):
        if isinstance(message, AssistantMessage) and message.tool_calls:
            rounds.append((place, place + 1))
        elif isinstance(message, ToolMessage) and rounds and rounds[-1][1] == place:
            rounds[-1] = (rounds[-1][0], place + 1)
    return rounds


def _answered(round_: Sequence[Message]) -> set[str]:
    """The tools of a round that gave a good result."""
    asking = round_[0]
    assert isinstance(asking, AssistantMessage)
    good = {
        message.tool_call_id
        for message in round_[1:]
        if isinstance(message, ToolMessage) and message.status == "ok"
    }
    return {call.name for call in asking.tool_calls if call.id in good}


def shortened_tail(messages: Sequence[Message], begin: int, limit: int) -> list[Kept]:
    """The messages from `begin` on, tool results of more than `limit` characters cut to their ends, save
    those of the round that is being worked on."""
    fresh = last_boundary(messages)
    return [
        (_shortened(message, limit) if place < fresh else message, place)
        for place, message in enumerate(messages[begin:], begin)
    ]


def _shortened(message: Message, limit: int) -> Message:
    if isinstance(message, ToolMessage) and isinstance(message.content, str) and len(message.content) > limit:
        what = f"of the result of call {message.tool_call_id}"
        text = shortened_text(message.content, limit, what, ", and the call can be made again")
        return replace(message, content=text)
    return message


def shortened_text(text: str, limit: int, what: str = "", hint: str = "") -> str:
    """The beginning and the end of `text`, about `limit` characters, and where the rest is."""
    of = f" {what}" if what else ""

    def note(left_out: int) -> str:
        return f"[... {left_out} characters{of} are left out; the session's history has them{hint} ...]"

    head = limit * 2 // 3
    return keep_ends(text, head, limit - head, note)


def joined(
    replacement: Sequence[Message],
    rounds: Sequence[Kept],
    tail: Sequence[Kept],
    old: Sequence[Message],
    keep_images: int,
) -> list[Kept]:
    """The new conversation. It always begins with a user message: some hosts refuse one without."""
    known = {id(message): place for place, message in enumerate(old)}
    new: list[Kept] = [(message, known.get(id(message))) for message in replacement]
    new += [*rounds, *tail]
    if not new or not isinstance(new[0][0], UserMessage):
        new.insert(0, (UserMessage(NOTHING_BEFORE), None))
    without_images = retire_images([message for message, _ in new], keep_images)
    return [(message, place) for message, (_, place) in zip(without_images, new, strict=True)]
