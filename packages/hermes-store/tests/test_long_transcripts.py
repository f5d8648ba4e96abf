"""A long transcript is decoded in slices, between which the event loop serves others."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes_messages import UserMessage
from hermes_messages.protocols import NewMessage
from hermes_store import SessionDB
from hermes_store.backend import Row
from hermes_store.methods import decoding
from hermes_store.methods.decoding import SLICE_CHARACTERS, SLICE_ROWS, slices
from hermes_store.rows import stored_message_from_row


def row(characters: int) -> Row:
    return (1, "u", 1, "x" * characters, "", 0.0)


def test_slices_keep_order_and_bounds() -> None:
    rows = [row(n) for n in [1] * 450 + [SLICE_CHARACTERS // 2] * 5 + [3 * SLICE_CHARACTERS, 1]]
    parts = [list(part) for part in slices(rows)]
    assert [item for part in parts for item in part] == rows
    assert [len(part) for part in parts] == [200, 200, 51, 2, 2, 1, 1]
    assert all(len(part) <= SLICE_ROWS for part in parts)
    assert list(slices([])) == []


def test_others_run_while_a_long_transcript_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded_in: dict[int, int] = {}
    """How many characters were decoded in which turn of the loop."""
    turn = 0

    def noting(row: Row) -> object:
        decoded_in[turn] = decoded_in.get(turn, 0) + len(row[3])
        return stored_message_from_row(row)

    monkeypatch.setattr(decoding, "stored_message_from_row", noting)

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            rows = [NewMessage(str(n), UserMessage("x" * 50_000)) for n in range(100)]
            await db.append_messages_batch("s", rows)

            async def tick() -> None:
                nonlocal turn
                while True:
                    turn += 1
                    await asyncio.sleep(0)

            ticking = asyncio.create_task(tick())
            await db.get_messages("s")
            await db.get_messages_as_conversation("s")
            await db.get_resume_conversations("s")
            await db.export_session("s")
            ticking.cancel()

    asyncio.run(main())
    assert sum(decoded_in.values()) == 5 * 5_000_000  # the third reads two
    assert max(decoded_in.values()) <= SLICE_CHARACTERS
