import asyncio
import itertools
from collections.abc import Coroutine, Generator

import pytest

from hermes_messages import (
    AssistantMessage,
    ConfigurationError,
    JsonValue,
    LeaseLostError,
    SessionNotFoundError,
    StoreBusyError,
    StoreError,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_messages.protocols import (
    LeaseToken,
    NewMessage,
    SessionInfo,
    SessionStore,
    SupportsCompression,
    SupportsLeaseQueue,
    SupportsLeases,
    SupportsSearch,
    SupportsSessionState,
    SupportsSuspension,
)
from hermes_messages.testing import MemoryStore

HI = [NewMessage("u1", UserMessage("hi"))]


def _is_store(store: MemoryStore) -> SessionStore:
    return store


def _has_leases(store: MemoryStore) -> SupportsLeases:
    return store


def _can_search(store: MemoryStore) -> SupportsSearch:
    return store


def _has_a_queue(store: MemoryStore) -> SupportsLeaseQueue:
    return store


def _suspends(store: MemoryStore) -> SupportsSuspension:
    return store


def _keeps_values(store: MemoryStore) -> SupportsSessionState:
    return store


def _compresses(store: MemoryStore) -> SupportsCompression:
    return store


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def with_session(store: MemoryStore) -> None:
    await store.ensure_session("s", SessionInfo())


def test_a_failure_before_keeps_nothing_and_comes_once() -> None:
    async def main() -> None:
        store = MemoryStore()
        await with_session(store)
        store.fail_next("append_messages_batch", StoreBusyError("locked"))
        with pytest.raises(StoreBusyError):
            await store.append_messages_batch("s", HI)
        assert store.messages("s") == []
        await store.append_messages_batch("s", HI)
        assert store.messages("s") == [UserMessage("hi")]

    asyncio.run(main())


def test_a_failure_after_has_kept_everything() -> None:
    async def main() -> None:
        store = MemoryStore()
        await with_session(store)
        store.fail_next("append_messages_batch", StoreError("no answer"), after=True, times=2)
        for _ in range(2):
            with pytest.raises(StoreError, match="no answer"):
                await store.append_messages_batch("s", HI)
        assert await store.append_messages_batch("s", HI) == (1,)
        assert store.messages("s") == [UserMessage("hi")]

    asyncio.run(main())


def test_hooks_meet_a_call_before_and_after_its_work() -> None:
    seen: list[tuple[str, str, int]] = []

    async def main() -> None:
        store = MemoryStore()

        async def before(method: str) -> None:
            await asyncio.sleep(0)
            seen.append(("before", method, len(store.messages("s"))))

        def after(method: str) -> None:
            seen.append(("after", method, len(store.messages("s"))))

        await with_session(store)
        store.before, store.after = before, after
        await store.append_messages_batch("s", HI)

    asyncio.run(main())
    assert seen == [("before", "append_messages_batch", 0), ("after", "append_messages_batch", 1)]


def test_cancelled_at_each_of_its_points() -> None:
    async def main() -> None:
        store = MemoryStore()
        await with_session(store)
        kept = []
        for number, turns in enumerate(range(1, 4)):
            uid = f"u{number}"
            task = asyncio.create_task(store.append_messages_batch("s", [NewMessage(uid, UserMessage(uid))]))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
            kept.append((task.cancelled(), UserMessage(uid) in store.messages("s")))
        assert kept == [(True, False), (True, True), (False, True)]

    asyncio.run(main())


def test_leases_expire_with_the_clock() -> None:
    async def main() -> None:
        clock = Clock()
        store = MemoryStore(clock=clock)
        await with_session(store)
        old = await store.try_acquire_session_turn_lease("s", "one", 10)
        assert old is not None
        assert store.held_lease("s") == old
        assert await store.try_acquire_session_turn_lease("s", "two", 10) is None
        clock.now += 11
        assert store.held_lease("s") is None
        await store.append_messages_batch("s", HI, lease=old)
        new = await store.try_acquire_session_turn_lease("s", "two", 10)
        assert new is not None
        assert new.number > old.number
        for lease in (old, None):
            with pytest.raises(LeaseLostError):
                await store.append_messages_batch("s", [NewMessage("u2", UserMessage("x"))], lease=lease)
        await store.release_session_turn_lease(new)
        with pytest.raises(LeaseLostError):
            await store.append_messages_batch("s", [NewMessage("u2", UserMessage("x"))], lease=new)
        await store.append_messages_batch("s", [NewMessage("u2", UserMessage("x"))])

    asyncio.run(main())


class Counted:
    """Awaits a coroutine, and counts how often it is resumed."""

    def __init__(self, coroutine: Coroutine[object, object, None], counts: list[int]) -> None:
        self._coroutine = coroutine
        self._counts = counts

    def __await__(self) -> Generator[object, object, None]:
        steps = self._coroutine.__await__()
        value: object = None
        while True:
            self._counts[0] += 1
            try:
                waits_for = steps.send(value)
            except StopIteration:
                return
            value = yield waits_for


def test_a_lease_that_comes_free_resumes_the_next_in_line_and_not_all_who_wait() -> None:
    waiting, counts, took = 100, [0], list[int]()

    async def main() -> None:
        entered, all_wait = itertools.count(1), asyncio.Event()

        def enter(method: str) -> None:
            if method == "acquire_session_turn_lease" and next(entered) == waiting:
                all_wait.set()

        store = MemoryStore(before=enter)
        await with_session(store)
        first = await store.try_acquire_session_turn_lease("s", "first", 60)
        assert first is not None

        async def turn(number: int) -> None:
            lease = await store.acquire_session_turn_lease("s", f"holder {number}", 60)
            took.append(number)
            await store.release_session_turn_lease(lease)

        async def counted(number: int) -> None:
            await Counted(turn(number), counts)

        async with asyncio.TaskGroup() as tasks:
            for number in range(waiting):
                tasks.create_task(counted(number))
            await all_wait.wait()
            await store.release_session_turn_lease(first)

    asyncio.run(main())
    assert took == list(range(waiting))
    assert counts[0] < waiting * waiting // 4  # each called by each release: half of the square and more


@pytest.mark.parametrize("point", ["before", "after"])
def test_a_waiter_that_is_cancelled_as_it_is_called_calls_the_one_behind(point: str) -> None:
    """Who is not at the head of the queue never looks by itself."""

    async def main() -> None:
        entered, both_wait = itertools.count(1), asyncio.Event()
        waiting: list[asyncio.Task[LeaseToken]] = []

        def enter(method: str) -> None:
            if method == "acquire_session_turn_lease" and next(entered) == 2:
                both_wait.set()

        def cancel_the_first_of_them(method: str) -> None:
            if method == "release_session_turn_lease":
                waiting[0].cancel()

        store = MemoryStore(before=enter)
        await with_session(store)
        lease = await store.try_acquire_session_turn_lease("s", "first", 60)
        assert lease is not None
        waiting.extend(
            asyncio.create_task(store.acquire_session_turn_lease("s", name, 60))
            for name in ("second", "third")
        )
        await both_wait.wait()
        setattr(store, point, cancel_the_first_of_them)
        await store.release_session_turn_lease(lease)
        async with asyncio.timeout(30):
            assert (await waiting[1]).holder == "third"
        assert waiting[0].cancelled()

    asyncio.run(main())


def test_a_lease_of_another_session_is_no_lease() -> None:
    async def main() -> None:
        store = MemoryStore()
        await with_session(store)
        lease = await store.try_acquire_session_turn_lease("other", "one", 10)
        with pytest.raises(LeaseLostError, match="other"):
            await store.append_messages_batch("s", HI, lease=lease)

    asyncio.run(main())


def test_what_is_not_there() -> None:
    async def main() -> None:
        store = MemoryStore()
        for attempt in (
            store.get_messages("no"),
            store.update_session_meta("no", metadata={}),
            store.update_token_counts("no", None, api_calls=1),
            store.end_session("no", "x"),
        ):
            with pytest.raises(SessionNotFoundError):
                await attempt
        assert store.messages("no") == []
        with pytest.raises(SessionNotFoundError):
            store.record("no")
        assert store.session_ids == ()

    asyncio.run(main())


def test_the_uid_of_a_plain_message_begins_no_round() -> None:
    async def main() -> None:
        store = MemoryStore()
        await with_session(store)
        await store.append_messages_batch("s", HI)
        with pytest.raises(StoreError, match="u1"):
            await store.begin_tool_round("s", "u1", AssistantMessage(tool_calls=(ToolCall("a", "f", "{}"),)))
        assert len(store.messages("s")) == 1

    asyncio.run(main())


def test_metadata_shares_nothing_with_its_caller() -> None:
    async def main() -> None:
        store = MemoryStore()
        inner: list[JsonValue] = [1]
        await store.ensure_session("s", SessionInfo(metadata={"a": inner}))
        inner.append(2)
        assert dict(store.record("s").metadata) == {"a": [1]}

    asyncio.run(main())


def test_a_closed_store_can_be_looked_at() -> None:
    async def main() -> None:
        store = MemoryStore()
        await with_session(store)
        await store.append_messages_batch("s", HI)
        await store.close()
        await store.close()
        with pytest.raises(StoreError, match="closed"):
            await store.get_messages("s")
        assert store.messages("s") == [UserMessage("hi")]
        assert store.record("s").message_count == 1
        assert store.calls[:2] == ["ensure_session", "append_messages_batch"]

    asyncio.run(main())


def test_used_in_two_event_loops() -> None:
    store = MemoryStore()
    asyncio.run(with_session(store))
    asyncio.run(store.append_messages_batch("s", HI))
    assert store.messages("s") == [UserMessage("hi")]


def test_results_come_in_any_order() -> None:
    message = AssistantMessage(tool_calls=tuple(ToolCall(name, "f", "{}") for name in "abc"))

    async def main() -> None:
        for number, order in enumerate(itertools.permutations(range(3))):
            store = MemoryStore()
            await with_session(store)
            round_ = await store.begin_tool_round("s", f"r{number}", message)
            for position in order:
                await store.set_tool_result(round_, position, ToolMessage("abc"[position], str(position)))
            assert store.messages("s") == [message, *(ToolMessage("abc"[at], str(at)) for at in range(3))]

    asyncio.run(main())


def test_the_best_hit_comes_first() -> None:
    async def main() -> None:
        store = MemoryStore()
        await with_session(store)
        texts = ("one fox", "fox fox fox", "no", "Fox and fox")
        await store.append_messages_batch("s", [NewMessage(text, UserMessage(text)) for text in texts])
        hits = await store.search_messages("fox")
        assert [hit.seq for hit in hits] == [2, 4, 1]
        assert hits[0].snippet == ">>>fox<<< fox fox"
        assert await store.search_messages("fox", limit=0) == []

    asyncio.run(main())


def test_who_waits_gets_a_lease_that_expires() -> None:
    async def main() -> None:
        clock = Clock()
        store = MemoryStore(clock=clock)
        await store.acquire_session_turn_lease("s", "gone", 10.0)
        asked = asyncio.Event()
        store.before = lambda _: asked.set()
        waiting = asyncio.ensure_future(store.acquire_session_turn_lease("s", "next", 10.0))
        await asked.wait()
        clock.now += 11.0
        lease = await asyncio.wait_for(waiting, 5)
        assert (lease.holder, lease.number) == ("next", 2)

    asyncio.run(main())


def test_a_child_takes_over_what_describes_the_session() -> None:
    async def main() -> None:
        store = MemoryStore()
        await store.ensure_session("s", SessionInfo(title="t", model="m", system_prompt="p"))
        await store.update_session_meta("s", metadata={"k": 1})
        await store.set_session_state("s", "todos", ["one"])
        assert await store.archive_and_compact("s", HI, child_session_id="child") == "child"
        child = store.record("child")
        assert (child.title, child.model, child.system_prompt, child.metadata) == ("t", "m", "p", {"k": 1})
        assert (child.parent_session_id, store.record("s").end_reason) == ("s", "compression")
        assert await store.get_session_state("child", "todos") == ["one"]

    asyncio.run(main())


def test_messages_that_were_compressed_away_are_still_found() -> None:
    async def main() -> None:
        store = MemoryStore()
        await with_session(store)
        await store.append_messages_batch("s", [NewMessage("a", UserMessage("a needle"))])
        await store.archive_and_compact("s", HI)
        assert store.messages("s") == [UserMessage("hi")]
        assert [hit.seq for hit in await store.search_messages("needle")] == [1]

    asyncio.run(main())


def test_a_uid_given_twice_is_refused_before_anything_is_archived() -> None:
    async def main() -> None:
        store = MemoryStore()
        await with_session(store)
        await store.append_messages_batch("s", HI)
        with pytest.raises(ConfigurationError):
            await store.archive_and_compact("s", [*HI, *HI])
        assert store.messages("s") == [UserMessage("hi")]

    asyncio.run(main())
