"""How much of a result the model is shown: head and tail, within a share of the round. Pure."""

from __future__ import annotations

from hermes_messages.shrinking import keep_ends

__all__ = ["HeadAndTail", "RoundBudget", "cut_middle"]

_HEAD_SHARE = 0.6


def cut_middle(text: str, limit: int, note: str) -> str:
    """`text`, or where it is longer than `limit` characters its head and tail with `note` between them.

    `note` is a format string over `{left_out}`, the number of characters that are not shown; it comes on top
    of the limit. The cut is moved to a line end where one is near.
    """
    if len(text) <= limit:
        return text
    head = max(1, int(limit * _HEAD_SHARE))

    def middle(left_out: int) -> str:
        return note.format(left_out=left_out)

    return keep_ends(text, head, limit - head, middle, whole_lines=True)


class RoundBudget:
    """Divides what a round may show among its calls: each gets an equal share of what is left when it ends.

    `limit` is in characters. No share falls below `floor`, so that each result says something.
    """

    def __init__(self, limit: int, calls: int, floor: int) -> None:
        self._left = limit
        self._open = calls
        self._floor = floor

    def share(self) -> int:
        """What the next call to end may use."""
        return max(self._floor, self._left // max(1, self._open))

    def take(self, used: int) -> None:
        """A call ended and used so much."""
        self._left = max(0, self._left - used)
        self._open = max(0, self._open - 1)


class HeadAndTail:
    """Text that comes in pieces, of which only the start and the end are held: at most twice `limit`."""

    def __init__(self, limit: int) -> None:
        self._head_limit = max(1, int(limit * _HEAD_SHARE))
        self._tail_limit = max(1, limit - self._head_limit)
        self._head: list[str] = []
        self._head_length = 0
        self._tail: list[str] = []
        self._tail_length = 0
        self.total: int = 0

    def feed(self, text: str) -> None:
        """Take the next piece."""
        self.total += len(text)
        room = self._head_limit - self._head_length
        if room > 0:
            self._head.append(text[:room])
            self._head_length += min(room, len(text))
            text = text[room:]
        if text:
            self._tail.append(text[-self._tail_limit :])
            self._tail_length += len(self._tail[-1])
            if self._tail_length > 2 * self._tail_limit:
                kept = "".join(self._tail)[-self._tail_limit :]
                self._tail, self._tail_length = [kept], len(kept)

    @property
    def left_out(self) -> int:
        """How many characters are not held in what `text` gives."""
        return max(0, self.total - self._head_length - min(self._tail_length, self._tail_limit))

    def text(self, note: str) -> str:
        """All of the text where it fits, else head and tail with `note` (over `{left_out}`) between them."""
        head, tail = "".join(self._head), "".join(self._tail)
        if self.total == self._head_length + self._tail_length <= self._head_limit + self._tail_limit:
            return head + tail
        return f"{head}\n{note.format(left_out=self.left_out)}\n{tail[-self._tail_limit :]}"
