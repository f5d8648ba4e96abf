"""Rows to messages in slices, so that a transcript of any length keeps the event loop for moments only."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from hermes_messages import JsonObject
from hermes_messages.openai_shape import to_dicts
from hermes_messages.protocols import StoredMessage
from hermes_store.backend import Row
from hermes_store.rows import stored_message_from_row

__all__ = ["as_dicts", "decoded", "slices"]

SLICE_ROWS = 200
SLICE_CHARACTERS = 500_000
"""What is decoded in one step of the loop at most: some milliseconds. One message is never taken apart."""


async def decoded(rows: Sequence[Row]) -> list[StoredMessage]:
    """The messages of rows with the columns seq, uid, shape, text, body, created_at."""
    stored: list[StoredMessage] = []
    for part in slices(rows):
        if stored:
            await asyncio.sleep(0)
        stored += [stored_message_from_row(row) for row in part]
    return stored


async def as_dicts(rows: Sequence[Row], *, full: bool = False) -> list[JsonObject]:
    """The same as OpenAI-shape dicts."""
    dicts: list[JsonObject] = []
    for part in slices(rows):
        if dicts:
            await asyncio.sleep(0)
        dicts += to_dicts([stored_message_from_row(row).message for row in part], full=full)
    return dicts


def slices(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """`rows` in order, in parts of at most `SLICE_ROWS` and `SLICE_CHARACTERS`, or of one that is longer."""
    start, size = 0, 0
    for end, row in enumerate(rows):
        length = len(row[3]) + len(row[4])
        if end > start and (end - start == SLICE_ROWS or size + length > SLICE_CHARACTERS):
            yield rows[start:end]
            start, size = end, 0
        size += length
    if start < len(rows):
        yield rows[start:]
