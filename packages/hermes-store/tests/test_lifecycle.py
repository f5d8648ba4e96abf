"""Opening, closing, forgetting to close, and a second event loop."""

import asyncio
import gc
import inspect
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import hermes_state
from hermes_messages import ConfigurationError, MissingDependencyError, StoreError, UserMessage
from hermes_store import SessionDB, StoreClosedError
from hermes_store.entry_points import sqlite


def store_threads(folder: Path) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if str(folder) in thread.name]


def test_construction_opens_nothing(tmp_path: Path) -> None:
    SessionDB(tmp_path / "absent" / "s.db")
    SessionDB(tmp_path / "s.db")
    assert list(tmp_path.iterdir()) == []
    assert store_threads(tmp_path) == []


def test_the_drop_in_name_and_the_entry_point(tmp_path: Path) -> None:
    assert hermes_state.SessionDB is SessionDB
    assert isinstance(sqlite(str(tmp_path / "s.db")), SessionDB)


def test_a_missing_extra_is_told_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hermes_store.postgres", None)  # its import fails, as without psycopg
    with pytest.raises(MissingDependencyError, match=r"pip install 'hermes-store\[postgres\]'") as told:
        SessionDB("postgresql://user:secret@host/database")
    assert "secret" not in str(told.value)


FAMILIAR = """
create_session ensure_session get_session reopen_session end_session delete_session append_message
append_messages_batch replace_messages get_messages get_messages_as_conversation get_resume_conversations
resolve_resume_session_id get_compression_lineage archive_and_compact search_messages search_sessions
list_sessions set_session_title update_session_meta update_token_counts export_session export_all
import_sessions prune_sessions archive_sessions vacuum try_acquire_session_turn_lease
refresh_session_turn_lease release_session_turn_lease close
"""


@pytest.mark.parametrize("name", FAMILIAR.split())
def test_a_name_that_users_of_hermes_know_is_an_awaitable_method_that_says_what_it_does(name: str) -> None:
    method = inspect.getattr_static(SessionDB, name)
    assert inspect.iscoroutinefunction(method)
    assert inspect.getdoc(method)
    hints = get_type_hints(method)
    assert set(inspect.signature(method).parameters) - {"self"} <= set(hints)
    assert Any not in hints.values()


def test_settings_that_can_not_work_are_refused_before_anything_is_opened(tmp_path: Path) -> None:
    for path in ("", "a\x00b"):
        with pytest.raises(ConfigurationError):
            SessionDB(path)
    with pytest.raises(ConfigurationError, match="synchronous"):
        SessionDB(tmp_path / "s.db", synchronous="OFF")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="journal"):
        SessionDB(tmp_path / "s.db", journal="memory")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="seconds"):
        SessionDB(tmp_path / "s.db", busy_timeout_s=float("nan"))
    assert list(tmp_path.iterdir()) == []


def test_first_calls_at_the_same_time_open_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await asyncio.gather(*(db.create_session(str(number)) for number in range(20)))
            assert len(store_threads(tmp_path)) == 1
            assert len(await db.list_sessions()) == 20

    asyncio.run(main())
    assert [path.name for path in tmp_path.iterdir()] == ["s.db"]


def test_close_is_idempotent_and_a_closed_store_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        db = SessionDB(tmp_path / "s.db")
        await db.close()
        async with db:
            await db.create_session("s")
        await asyncio.gather(db.close(), db.close())
        with pytest.raises(StoreClosedError):
            await db.get_session("s")
        async with db:
            assert await db.get_session("s") is not None

    asyncio.run(main())


def test_close_waits_for_what_was_begun(tmp_path: Path) -> None:
    async def main() -> None:
        db = SessionDB(tmp_path / "s.db")
        await db.create_session("s")
        writes = [asyncio.create_task(db.append_message("s", UserMessage(str(n)))) for n in range(50)]
        await asyncio.sleep(0)
        await db.close()
        assert all(isinstance(result, int) for result in await asyncio.gather(*writes))

    asyncio.run(main())


def test_calls_that_meet_a_close_end(tmp_path: Path) -> None:
    """Whoever waits for the opening while another task closes must not wait for ever."""

    async def main() -> None:
        for turns in range(6):
            db = SessionDB(tmp_path / f"{turns}.db")
            calls = [asyncio.create_task(db.create_session(str(n))) for n in range(3)]
            for _ in range(turns):
                await asyncio.sleep(0)
            await db.close()
            async with asyncio.timeout(120):
                results = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(result, str | StoreClosedError) for result in results)

    asyncio.run(main())


def test_a_close_that_meets_an_opening_that_fails_ends(tmp_path: Path) -> None:
    async def main() -> None:
        for turns in range(4):
            db = SessionDB(tmp_path / "absent" / "s.db")
            call = asyncio.create_task(db.create_session("s"))
            for _ in range(turns):
                await asyncio.sleep(0)
            async with asyncio.timeout(120):
                await db.close()
                with pytest.raises(StoreError):
                    await call

    asyncio.run(main())


def test_a_close_cancelled_during_the_opening_still_closes(tmp_path: Path) -> None:
    async def main() -> None:
        db = SessionDB(tmp_path / "s.db")
        call = asyncio.create_task(db.create_session("s"))
        await asyncio.sleep(0)
        close = asyncio.create_task(db.close())
        await asyncio.sleep(0)
        close.cancel()
        await asyncio.gather(call, close, return_exceptions=True)
        assert close.cancelled()

    asyncio.run(main())
    for thread in store_threads(tmp_path):
        thread.join(120)
    assert store_threads(tmp_path) == []


def test_a_second_event_loop_starts_afresh(tmp_path: Path) -> None:
    db = SessionDB(tmp_path / "s.db")

    async def use(number: int) -> None:
        await db.create_session(str(number))

    for number in range(3):
        asyncio.run(use(number))

    async def end() -> None:
        assert len(await db.list_sessions()) == 3
        await db.close()

    asyncio.run(end())
    for thread in store_threads(tmp_path):
        thread.join(120)
    assert store_threads(tmp_path) == []


def test_a_loop_that_ends_during_a_write_does_not_hang_the_next(tmp_path: Path) -> None:
    """The database's thread answers to a loop that is closed by then."""
    db = SessionDB(tmp_path / "s.db")

    async def leave_in_the_middle() -> None:
        await db.create_session("s")
        for number in range(20):
            task = asyncio.create_task(db.append_message("s", UserMessage(str(number))))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.sleep(0)

    async def end() -> None:
        async with asyncio.timeout(120):
            before = len(await db.get_messages("s"))
            await db.append_message("s", UserMessage("new"))
            assert len(await db.get_messages("s")) == before + 1
            await db.close()

    asyncio.run(leave_in_the_middle())
    asyncio.run(end())


def test_two_loops_at_once_are_refused(tmp_path: Path) -> None:
    db = SessionDB(tmp_path / "s.db")

    async def other() -> None:
        with pytest.raises(StoreError, match="another event loop"):
            await db.list_sessions()

    async def main() -> None:
        await db.create_session("s")
        answer: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

        def run_other() -> None:
            failure: BaseException | None = None
            try:
                asyncio.run(other())
            except BaseException as error:  # noqa: BLE001 - handed to the test
                failure = error
            answer.get_loop().call_soon_threadsafe(answer.set_result, failure)

        thread = threading.Thread(target=run_other)
        thread.start()
        assert await answer is None
        thread.join()
        await db.close()

    asyncio.run(main())


def test_a_store_left_unclosed_warns(tmp_path: Path) -> None:
    async def main() -> None:
        await SessionDB(tmp_path / "s.db").create_session("s")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(main())
        gc.collect()
    told = [str(warning.message) for warning in caught if warning.category is ResourceWarning]
    assert len(told) == 1
    assert "was not closed" in told[0]
    for thread in store_threads(tmp_path):
        thread.join(120)
    assert store_threads(tmp_path) == []


FORGETFUL = """
import asyncio, sys
from hermes_messages import UserMessage
from hermes_store import SessionDB

db = SessionDB(sys.argv[1])

async def main():
    await db.create_session("s")
    await db.append_message("s", UserMessage("kept"))

asyncio.run(main())
print("end of the program", flush=True)
"""


def test_a_program_that_forgets_to_close_ends_and_loses_nothing(tmp_path: Path) -> None:
    """A thread that is no daemon would be joined at exit, for ever."""
    path = tmp_path / "s.db"
    run = subprocess.run(
        [sys.executable, "-W", "always::ResourceWarning", "-c", FORGETFUL, str(path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert run.stdout == "end of the program\n"
    assert "was not closed" in run.stderr

    async def main() -> None:
        async with SessionDB(path) as db:
            assert [item.message for item in await db.get_messages("s")] == [UserMessage("kept")]

    asyncio.run(main())


@pytest.mark.parametrize("wrong", [{"role": "user", "content": "hi"}, None, "hi"])
def test_what_is_no_message_is_refused_in_words_before_anything_is_stored(tmp_path: Path, wrong: Any) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            with pytest.raises(ConfigurationError, match="messages_from_dicts reads dicts"):
                await db.append_message("s", wrong)
            assert await db.get_messages("s") == []

    asyncio.run(main())
