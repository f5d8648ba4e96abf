"""One wording by which a host says what went wrong."""

from __future__ import annotations

import re

from msgspec import Struct

from hermes_messages import ErrorKind

__all__ = ["ErrorPattern", "row"]


class ErrorPattern(Struct, frozen=True):
    """A wording: `pattern` is searched, without regard to case, in message, type and code of an error.

    `verbatim` is a vendor's own text, `status` the HTTP status that it came with.
    """

    kind: ErrorKind
    pattern: re.Pattern[str]
    vendor: str
    status: int
    verbatim: str


def row(kind: ErrorKind, pattern: str, vendor: str, status: int, verbatim: str) -> ErrorPattern:
    """A row of the table."""
    return ErrorPattern(kind, re.compile(pattern, re.IGNORECASE), vendor, status, verbatim)
