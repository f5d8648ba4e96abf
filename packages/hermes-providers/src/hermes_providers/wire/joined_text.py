"""How the text blocks of one response become one text, streamed and whole alike."""

from __future__ import annotations

__all__ = ["JoinedText"]


class JoinedText:
    """Joins pieces. Text behind another kind of block begins a paragraph; adjacent blocks are one text,
    because citations cut sentences into blocks."""

    __slots__ = ("_begun", "_ends_line", "_interrupted")

    def __init__(self) -> None:
        self._begun = False
        self._interrupted = False
        self._ends_line = False

    def interrupt(self) -> None:
        """Another kind of block came."""
        self._interrupted = self._begun

    def add(self, text: str) -> str:
        """What `text` adds to the whole: itself, perhaps behind an empty line."""
        if not text:
            return ""
        apart = self._interrupted and not self._ends_line and text[0] != "\n"
        self._begun, self._interrupted, self._ends_line = True, False, text[-1] == "\n"
        return "\n\n" + text if apart else text
