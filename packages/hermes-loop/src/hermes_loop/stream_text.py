"""The text that a plain stream callback gets when an attempt fails after some of it was shown. Pure.

A callback that can only append can not take text back. So a new attempt is held until it has passed what
was shown, if it begins the same; otherwise a newline and the new attempt whole are shown.
"""

from __future__ import annotations

__all__ = ["ShownText"]


class ShownText:
    """What was shown of one model call, over all of its attempts.

    While nothing is held, what comes is kept in pieces: a long answer comes in thousands of them.
    """

    __slots__ = ("_attempt", "_holding", "_pieces", "_shown")

    def __init__(self) -> None:
        self._shown = ""
        self._pieces: list[str] = []
        self._attempt = ""
        self._holding = False

    @property
    def is_holding(self) -> bool:
        """Whether what comes next takes the place of what was shown."""
        return self._holding

    def begin_attempt(self) -> None:
        """A new attempt starts from nothing."""
        if not self._holding:
            self._shown = "".join((self._shown, *self._pieces))
            self._pieces.clear()
        self._attempt = ""
        self._holding = bool(self._shown)

    def feed(self, text: str) -> str:
        """More text of this attempt; what to show of it now."""
        if not self._holding:
            self._pieces.append(text)
            return text
        self._attempt += text
        if len(self._attempt) <= len(self._shown):
            return "" if self._shown.startswith(self._attempt) else self._show_whole()
        if self._attempt.startswith(self._shown):
            more = self._attempt[len(self._shown) :]
            self._shown = self._attempt
            self._holding = False
            return more
        return self._show_whole()

    def finish(self) -> str:
        """The attempt succeeded; what is left to show of it."""
        if self._holding and self._attempt and self._attempt != self._shown:
            return self._show_whole()
        self._holding = False
        return ""

    def _show_whole(self) -> str:
        self._holding = False
        self._shown = self._attempt
        return "\n" + self._attempt
