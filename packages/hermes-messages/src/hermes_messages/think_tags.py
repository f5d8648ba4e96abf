"""Take the reasoning out of a stream of text in which a model wraps it in tags.

>>> splitter = ThinkTagSplitter()
>>> [(piece.text, piece.reasoning) for piece in splitter.feed("<think>plan</thi")]
[('', True), ('plan', True)]
>>> [(piece.text, piece.reasoning) for piece in splitter.feed("nk>Done")]
[('Done', False)]

The rules, none of which depends on where the text was cut:

- A tag opens only at the start of the stream or of a line, whitespace before it allowed, and not inside a
  fenced code block. Text that mentions `<think>` in the middle of a line is text.
- Tags nest. Inside reasoning they count anywhere and stay in the reasoning text.
- Reasoning that is never closed is reasoning, with one exception: where closing tags came but fewer than
  opening ones, the reasoning had merely mentioned a tag, and what follows the last closing tag is text.
- Blank text around reasoning at the start of the stream is dropped; a stream without tags is unchanged.

Some hosts' chat templates open the tag themselves, so that the response begins inside the reasoning and only
its `</think>` is seen. `starts_inside` is for these. A model that opens the tag once more is forgiven, and
without a closing tag all of the text is reasoning, as above.

>>> splitter = ThinkTagSplitter(starts_inside=True)
>>> [(piece.text, piece.reasoning) for piece in splitter.feed("plan</think>Done")]
[('', True), ('plan', True), ('Done', False)]
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

__all__ = ["NOTHING_HELD", "Piece", "Remainder", "ThinkTagSplitter"]

_NAMES = ("think", "thinking", "reasoning_scratchpad")
_FENCES = ("```", "~~~")
_OPEN = re.compile(rf"<(?:{'|'.join(_NAMES)})>", re.IGNORECASE | re.ASCII)
_TAG = re.compile(rf"<(/?)(?:{'|'.join(_NAMES)})>", re.IGNORECASE | re.ASCII)
_TAGS = tuple(f"<{slash}{name}>" for slash in ("", "/") for name in _NAMES)
_TAG_STARTS = frozenset(tag[:length] for tag in _TAGS for length in range(1, len(tag)))
_LONGEST_START = max(map(len, _TAG_STARTS))
_NOT_BLANK = re.compile(r"\S")


class Piece(Struct, frozen=True, gc=False):
    """A run of text of one kind. An empty reasoning piece says that a reasoning block was opened."""

    text: str
    reasoning: bool


class Remainder(Struct, frozen=True):
    """What was held back. `reclaimed` was given out as reasoning before, and turned out to be text."""

    pieces: tuple[Piece, ...] = ()
    reclaimed: str = ""


NOTHING_HELD: Final = Remainder()


class ThinkTagSplitter:
    """Text chunks in, visible and reasoning pieces out. One splitter serves one response."""

    __slots__ = (
        "_at_line_start",
        "_blank",
        "_depth",
        "_fence",
        "_held",
        "_out",
        "_seen_block",
        "_since_close",
        "_tag_may_repeat",
        "_visible_begun",
    )

    def __init__(self, *, starts_inside: bool = False) -> None:
        """`starts_inside`: the host's template has opened the tag already."""
        self._depth = 1 if starts_inside else 0
        self._tag_may_repeat = starts_inside
        self._held = ""
        self._blank: list[str] = []
        self._at_line_start = True
        self._visible_begun = False
        self._seen_block = False
        self._fence: str | None = None
        self._since_close: list[str] | None = None
        self._out: list[Piece] = []

    def feed(self, text: str) -> list[Piece]:
        """The pieces that are certain by now. A possible start of a tag is held back, nothing else."""
        if not self._depth and not self._at_line_start and "\n" not in text:
            return [Piece(text, reasoning=False)] if text else []
        text = self._held + text
        self._held = ""
        position = 0
        if text and self._depth and not self._seen_block:
            self._out.append(Piece("", reasoning=True))
            self._seen_block = True
        while position < len(text):
            step = self._reasoning_step if self._depth else self._visible_step
            position = step(text, position)
        return self._take()

    def finish(self, *, cut_off: bool = False) -> Remainder:
        """The held-back rest. `cut_off` says that the response was not complete: then nothing is reclaimed.

        The splitter can be fed on afterwards; it goes on as in the middle of a line.
        """
        if not (self._depth or self._held or self._blank):
            self._at_line_start = False
            return NOTHING_HELD
        held, self._held = self._held, ""
        reclaimed = ""
        if self._depth:
            self._add_reasoning(held)
            if self._since_close is not None and not cut_off:
                reclaimed = "".join(self._since_close)
                self._close_block()
                self._visible_begun = bool(reclaimed.strip())
        elif held or (self._blank and not self._seen_block):
            self._add_visible(held)
        self._at_line_start = False
        return Remainder(tuple(self._take()), reclaimed)

    def _take(self) -> list[Piece]:
        pieces, self._out = self._out, []
        return pieces

    def _visible_step(self, text: str, position: int) -> int:
        """Handle the text up to the next line start, or the start of a line; the position reached."""
        if self._at_line_start:
            return self._line_start(text, position)
        line_end = text.find("\n", position)
        end = len(text) if line_end < 0 else line_end + 1
        self._at_line_start = line_end >= 0
        self._add_visible(text[position:end])
        return end

    def _line_start(self, text: str, position: int) -> int:
        found = _NOT_BLANK.search(text, position)
        begin = found.start() if found else len(text)
        if begin > position:
            self._add_blank(text[position:begin])
            return begin
        if text[begin] == "<" and self._fence is None:
            opening = _OPEN.match(text, begin)
            if opening:
                self._open_block()
                return opening.end()
            if _may_become_tag(text, begin):
                self._held = text[begin:]
                return len(text)
        if text[begin] in "`~":
            mark = text[begin : begin + 3]
            if len(mark) < 3 and mark == mark[0] * len(mark):
                self._held = mark
                return len(text)
            self._meet_fence(mark)
        self._at_line_start = False
        return begin

    def _meet_fence(self, mark: str) -> None:
        if mark in _FENCES and self._fence in (None, mark):
            self._fence = mark if self._fence is None else None

    def _reasoning_step(self, text: str, position: int) -> int:
        tag = _TAG.search(text, position)
        if tag is None:
            end = _start_of_possible_tag(text, position)
            self._add_reasoning(text[position:end])
            self._held = text[end:]
            return len(text)
        closing = bool(tag.group(1))
        if not closing and self._tag_may_repeat and not text[position : tag.start()].strip():
            self._add_reasoning(text[position : tag.start()])
            self._tag_may_repeat = False
            return tag.end()
        if closing and self._depth == 1:
            self._add_reasoning(text[position : tag.start()])
            self._close_block()
            return tag.end()
        self._add_reasoning(text[position : tag.end()])
        self._depth += -1 if closing else 1
        if closing:
            self._since_close = []
        return tag.end()

    def _open_block(self) -> None:
        self._blank.clear()
        self._out.append(Piece("\n" if self._seen_block else "", reasoning=True))
        self._seen_block = True
        self._depth = 1

    def _close_block(self) -> None:
        self._depth = 0
        self._since_close = None
        self._at_line_start = True

    def _add_blank(self, blank: str) -> None:
        """Blank text at a line start: held at the start of the stream, where a block may yet follow."""
        if self._visible_begun:
            self._out.append(Piece(blank, reasoning=False))
        else:
            self._blank.append(blank)

    def _add_visible(self, text: str) -> None:
        if not self._visible_begun:
            self._visible_begun = True
            if not self._seen_block:
                text = "".join(self._blank) + text
            self._blank.clear()
        if text:
            self._out.append(Piece(text, reasoning=False))

    def _add_reasoning(self, text: str) -> None:
        if text:
            self._tag_may_repeat = self._tag_may_repeat and text.isspace()
            self._out.append(Piece(text, reasoning=True))
            if self._since_close is not None:
                self._since_close.append(text)


def _may_become_tag(text: str, begin: int) -> bool:
    return len(text) - begin <= _LONGEST_START and text[begin:].lower() in _TAG_STARTS


def _start_of_possible_tag(text: str, position: int) -> int:
    """Where the tail of `text` begins that may be the start of a tag; its length when there is none."""
    begin = text.rfind("<", max(position, len(text) - _LONGEST_START))
    return begin if begin >= 0 and _may_become_tag(text, begin) else len(text)
