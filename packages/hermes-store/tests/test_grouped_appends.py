"""Appends that wait at the same moment share a commit, and each keeps its own outcome."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hermes_messages import LeaseLostError, SessionNotFoundError, UserMessage
from hermes_messages.protocols import LeaseToken
from hermes_store import SessionDB


async def append_all(
    db: SessionDB, wanted: list[tuple[str, str, LeaseToken | None]]
) -> list[int | BaseException]:
    """Append a message for each session and uid, all at once."""
    return await asyncio.gather(
        *(
            db.append_message(session, UserMessage(uid), uid=uid, lease=lease)
            for session, uid, lease in wanted
        ),
        return_exceptions=True,
    )


async def stored(db: SessionDB, session_id: str) -> dict[str, int]:
    return {item.uid: item.seq for item in await db.get_messages(session_id)}


def test_each_append_of_a_group_gets_the_number_of_its_own_message(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            for session in ("a", "b"):
                await db.create_session(session)
            uids = [(session, f"{session}{number}", None) for number in range(70) for session in ("a", "b")]
            seqs = await append_all(db, [*uids])
            kept = await stored(db, "a") | await stored(db, "b")
            assert [kept[uid] for _, uid, _ in uids] == seqs
            assert len(set(seqs)) == 140

    asyncio.run(main())


def test_a_known_uid_among_new_ones_adds_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            first = await db.append_message("s", UserMessage("kept"), uid="known")
            uids = ["1", "known", "2", "twice", "twice", "3"]
            seqs = await append_all(db, [("s", uid, None) for uid in uids])
            kept = await stored(db, "s")
            assert sorted(kept) == sorted({*uids})
            assert [kept[uid] for uid in uids] == seqs
            assert seqs[1] == first
            assert (await db.get_messages("s"))[0].message == UserMessage("kept")

    asyncio.run(main())


def test_a_refused_append_costs_the_others_of_its_group_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            for session in ("free", "held"):
                await db.create_session(session)
            old = await db.acquire_session_turn_lease("held", "one", 60)
            await db.release_session_turn_lease(old)
            new = await db.acquire_session_turn_lease("held", "two", 60)
            wanted = [
                ("free", "1", None),
                ("held", "without a token", None),
                ("free", "2", None),
                ("nowhere", "lost", None),
                ("held", "3", new),
                ("held", "with an old token", old),
                ("held", "4", new),
                ("free", "5", None),
            ]
            outcomes = await append_all(db, wanted)
            refused = [type(outcome) for outcome in outcomes if isinstance(outcome, BaseException)]
            assert refused == [LeaseLostError, SessionNotFoundError, LeaseLostError]
            assert list(await stored(db, "free")) == ["1", "2", "5"]
            kept = await stored(db, "held")
            assert list(kept) == ["3", "4"]
            assert [outcomes[4], outcomes[6]] == list(kept.values())

    asyncio.run(main())
