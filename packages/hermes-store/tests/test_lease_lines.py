"""Turns that wait for the lease of one session in two stores of a database, as in two processes.

Each store asks for one turn at a time; a model says who has the lease after every step, and who is next.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_messages import StoreBusyError
from hermes_messages.protocols import LeaseToken
from hermes_store import SessionDB, StoreClosedError
from hermes_store.backend import Operation, Row, SqlValue, Statement
from hermes_store.methods import turn_leases
from hermes_store.operations import leases

NIGHTLY = os.environ.get("HERMES_TEST_PROFILE") == "nightly"
ORDERS = 500 if NIGHTLY else 12
STORES = 2
FOREVER_S = 1e6

T = TypeVar("T")
Step: TypeAlias = "tuple[str, int, int]"
"""What happens, in which store, to which turn of those that wait there."""

STEPS = st.tuples(
    st.sampled_from(
        [
            *("arrive", "arrive", "arrive", "arrive", "release", "release", "release", "look", "cancel"),
            *("cancel all", "ask once", "try", "lease expires", "ticket expires", "close"),
        ]
    ),
    st.integers(0, STORES - 1),
    st.integers(0, 5),
)


class Model:
    """Who waits, in a few lines: a list for each store, and the order in which stores may go on."""

    def __init__(self) -> None:
        self.waiting: list[list[str]] = [[] for _ in range(STORES)]
        self.tickets: list[int] = []
        self.holder: str | None = None
        self.held_in = 0
        self.served: list[str] = []

    def arrive(self, store: int, name: str) -> None:
        self.waiting[store].append(name)
        if len(self.waiting[store]) == 1:
            self.look(store)

    def look(self, store: int) -> None:
        """The first of the store asks; once it has the lease, the next one does."""
        while self.waiting[store]:
            if self.holder is not None or self.tickets not in ([], [store, *self.tickets[1:]]):
                if store not in self.tickets:
                    self.tickets.append(store)
                return
            self.forget_ticket(store)
            self.take(store, self.waiting[store].pop(0))

    def take(self, store: int, name: str) -> None:
        self.holder, self.held_in = name, store
        self.served.append(name)

    def release(self) -> None:
        if self.holder is not None:
            self.holder = None
            self.look(self.held_in)

    def cancel(self, store: int, place: int) -> str:
        name = self.waiting[store].pop(place)
        if not self.waiting[store]:
            self.forget_ticket(store)
        elif place == 0:
            self.look(store)
        return name

    def try_to_take(self, store: int, name: str) -> bool:
        """Also what a turn does that asks once and does not wait."""
        if self.holder is None and not self.tickets and not self.waiting[store]:
            self.take(store, name)
            return True
        return False

    def forget_ticket(self, store: int) -> None:
        if store in self.tickets:
            self.tickets.remove(store)


class Turns:
    """The same on two real stores: a task for each turn."""

    def __init__(self, stores: "Stores", session: str) -> None:
        self.stores = stores
        self.session = session
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.served: list[str] = []
        self.token: LeaseToken | None = None
        self.held_in = 0

    def arrive(self, store: int, name: str) -> None:
        self.tasks[name] = asyncio.create_task(self._wait(store, name))

    async def _wait(self, store: int, name: str) -> None:
        db = self.stores.dbs[store]
        self.take(store, await db.acquire_session_turn_lease(self.session, name, FOREVER_S))

    def take(self, store: int, token: LeaseToken) -> None:
        self.token, self.held_in = token, store
        self.served.append(token.holder)

    async def release(self) -> None:
        if self.token is not None:
            token, self.token = self.token, None
            await self.stores.dbs[self.held_in].release_session_turn_lease(token)

    async def ask_once(self, store: int, name: str) -> bool:
        db = self.stores.dbs[store]
        try:
            self.take(store, await db.acquire_session_turn_lease(self.session, name, FOREVER_S, wait_s=0))
        except StoreBusyError:
            return False
        return True

    async def try_to_take(self, store: int, name: str) -> bool:
        token = await self.stores.dbs[store].try_acquire_session_turn_lease(self.session, name, FOREVER_S)
        if token is not None:
            self.take(store, token)
        return token is not None

    def look(self, store: int) -> None:
        line = self.stores.dbs[store]._lines.get(self.session)
        if line is not None:
            line.wake()

    async def end(self, *names: str, closed: bool = False) -> None:
        """See how turns end that were cancelled, or that waited in a store which was closed."""
        for name in names:
            [outcome] = await asyncio.gather(self.tasks.pop(name), return_exceptions=True)
            assert isinstance(outcome, StoreClosedError if closed else asyncio.CancelledError), repr(outcome)

    async def lease_expires(self) -> None:
        self.token = None
        await self.stores.change("UPDATE leases SET expires_at = 0 WHERE lineage = ?", self.session)

    async def ticket_expires(self, store: int) -> None:
        line = self.stores.dbs[store]._lines.get(self.session)
        if line is not None:
            await self.stores.change("UPDATE lease_tickets SET expires_at = 0 WHERE holder = ?", line.name)

    async def tickets(self) -> list[int]:
        """The stores whose tickets live, in their order."""
        rows = await self.stores.ask(
            "SELECT holder FROM lease_tickets WHERE lineage = ? AND expires_at > 1 ORDER BY number",
            self.session,
        )
        lines = [db._lines.get(self.session) for db in self.stores.dbs]
        names = [None if line is None else line.name for line in lines]
        return [names.index(holder) for (holder,) in rows]


class Stores:
    """Two stores of one database, which tell when nothing goes on in them."""

    def __init__(self, path: Path) -> None:
        self.dbs = [SessionDB(path) for _ in range(STORES)]
        self.asking = 0
        self.sessions = map("s{}".format, count())
        for db in self.dbs:
            write = db._backend.write
            db._backend.write = partial(self._counted, write)  # type: ignore[method-assign]

    async def _counted(
        self,
        write: Callable[[Callable[[], Operation[Any]]], Awaitable[Any]],
        work: Callable[[], Operation[Any]],
    ) -> Any:
        self.asking += 1
        try:
            return await write(work)
        finally:
            self.asking -= 1

    async def calm(self) -> None:
        """Wait until every turn only waits for others."""
        calm_for = 0
        while calm_for < 50:
            await asyncio.sleep(0.001 if self.asking else 0)
            calm_for = 0 if self.asking else calm_for + 1

    def examples(self) -> int:
        """Fewer on a server, where each step takes far longer."""
        return ORDERS // 4 if self.dbs[0].path.startswith("postgresql") else ORDERS

    async def ask(self, sql: str, *values: SqlValue) -> list[Row]:
        return await self.dbs[0]._backend.read(lambda: one(sql, values))

    async def change(self, sql: str, *values: SqlValue) -> None:
        await self.dbs[0]._backend.write(lambda: one(sql, values))

    async def reopen(self, store: int) -> None:
        await self.dbs[store].close()
        await self.dbs[store].__aenter__()

    async def close(self) -> None:
        for db in self.dbs:
            await db.close()


def one(sql: str, values: tuple[SqlValue, ...]) -> Operation[list[Row]]:
    return (yield Statement(sql, values))


@contextmanager
def running(path: Path) -> Iterator[tuple[asyncio.Runner, Stores]]:
    with asyncio.Runner() as runner:
        stores = Stores(path)
        try:
            yield runner, stores
        finally:
            runner.run(stores.close())


async def play(stores: Stores, steps: Sequence[Step]) -> None:
    model, turns = Model(), Turns(stores, next(stores.sessions))
    for number, (what, store, which) in enumerate(steps):
        await step(model, turns, what, store, which, f"turn {number}")
        await stores.calm()
        assert turns.served == model.served
        assert await turns.tickets() == model.tickets
        waiting = {name for names in model.waiting for name in names}
        assert {name for name, task in turns.tasks.items() if not task.done()} == waiting
    for store in range(STORES):
        await step(model, turns, "cancel all", store, 0, "")
    await turns.release()
    assert await stores.ask("SELECT * FROM lease_tickets WHERE lineage = ?", turns.session) == []
    assert await stores.ask("SELECT * FROM leases WHERE lineage = ? AND expires_at > 1", turns.session) == []
    assert all(db._lines.get(turns.session) is None for db in stores.dbs)


async def step(model: Model, turns: Turns, what: str, store: int, which: int, name: str) -> None:
    waiting = model.waiting[store]
    match what:
        case "arrive":
            turns.arrive(store, name)
            model.arrive(store, name)
        case "ask once":
            assert await turns.ask_once(store, name) == model.try_to_take(store, name)
        case "try":
            assert await turns.try_to_take(store, name) == model.try_to_take(store, name)
        case "look":
            turns.look(store)
            model.look(store)
        case "release":
            await turns.release()
            model.release()
        case "cancel" if waiting:
            name = model.cancel(store, which % len(waiting))
            turns.tasks[name].cancel()
            await turns.end(name)
        case "cancel all":
            names = list(waiting)
            waiting.clear()
            model.forget_ticket(store)
            for name in names[which % (len(names) or 1) :] + names[: which % (len(names) or 1)]:
                turns.tasks[name].cancel()
            await turns.end(*names)
        case "lease expires":
            await turns.lease_expires()
            model.holder = None
        case "ticket expires":
            await turns.ticket_expires(store)
            model.forget_ticket(store)
        case "close":
            await turns.stores.reopen(store)
            names = list(waiting)
            waiting.clear()
            model.forget_ticket(store)
            await turns.end(*names, closed=True)
        case _:
            assert what == "cancel"


def nothing_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits looks again when it is told to, and no ticket expires by itself."""
    set_times(monkeypatch, FOREVER_S)


def set_times(monkeypatch: pytest.MonkeyPatch, pause_s: float) -> None:
    monkeypatch.setattr(turn_leases, "FIRST_PAUSE_S", pause_s)
    monkeypatch.setattr(turn_leases, "LONGEST_PAUSE_S", pause_s)
    monkeypatch.setattr(leases, "TICKET_TTL_S", FOREVER_S)


def run_without_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, main: Callable[[Stores], Coroutine[Any, Any, None]]
) -> None:
    """`main` with stores of its own, in which nothing happens by time."""
    nothing_by_time(monkeypatch)
    with running(tmp_path / "s.db") as (runner, stores):
        runner.run(main(stores))


@pytest.mark.timeout(1200)
def test_a_turn_gets_the_lease_out_of_its_order_or_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing_by_time(monkeypatch)
    with running(tmp_path / "s.db") as (runner, stores):

        @settings(max_examples=stores.examples())
        @given(st.lists(STEPS, max_size=30))
        def orders(steps: list[Step]) -> None:
            runner.run(play(stores, steps))

        orders()


class Races:
    """Turns that come, are cancelled and end at any moments, without waiting for each other."""

    def __init__(self, stores: Stores) -> None:
        self.dbs = stores.dbs
        self.session = next(stores.sessions)
        self.holders = 0
        self.served: list[list[int]] = [[] for _ in range(STORES)]
        self.releases: list[asyncio.Future[None]] = []

    async def turn(self, store: int, number: int, held_for: int) -> None:
        db = self.dbs[store]
        token = await db.acquire_session_turn_lease(self.session, f"{store} {number}", FOREVER_S)
        assert self.holders == 0
        self.holders += 1
        self.served[store].append(number)
        try:
            await moments(held_for)
        finally:
            self.holders -= 1
            # A cancelled release may not have happened, and the lease would be held for ever.
            self.releases.append(asyncio.ensure_future(db.release_session_turn_lease(token)))
            await asyncio.shield(self.releases[-1])

    async def run(self, planned: Sequence[tuple[int, int, int, int | None]]) -> None:
        tasks: list[asyncio.Task[None]] = []
        cancelled: list[asyncio.Task[None]] = []
        for number, (store, held_for, pause, cancelled_one) in enumerate(planned):
            tasks.append(asyncio.create_task(self.turn(store, number, held_for)))
            await moments(pause)
            if cancelled_one is not None:
                cancelled.append(tasks[cancelled_one % len(tasks)])
                cancelled[-1].cancel()
        for outcome, task in zip(await asyncio.gather(*tasks, return_exceptions=True), tasks, strict=True):
            assert outcome is None or (isinstance(outcome, asyncio.CancelledError) and task in cancelled), (
                outcome
            )
        await asyncio.gather(*self.releases)
        for numbers in self.served:
            assert numbers == sorted(numbers)


async def moments(count: int) -> None:
    """So many resumptions of the loop."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("next_one", ["is cancelled", "is told that the store closes"])
def test_a_ticket_stays_when_the_next_leaves_before_it_could_ask(
    next_one: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first gave up, and left it the ticket."""

    async def main(stores: Stores) -> None:
        here, there = stores.dbs
        held = await there.acquire_session_turn_lease("s", "other", FOREVER_S)
        for steps in range(8):
            waiting = [
                asyncio.create_task(here.acquire_session_turn_lease("s", name, FOREVER_S)) for name in "ab"
            ]
            await stores.calm()
            assert len(await stores.ask("SELECT * FROM lease_tickets")) == 1
            waiting[0].cancel()
            await moments(steps)
            if next_one == "is cancelled":
                waiting[1].cancel()
            else:
                await stores.reopen(0)
            await asyncio.gather(*waiting, return_exceptions=True)
            assert await stores.ask("SELECT * FROM lease_tickets") == []
        await there.release_session_turn_lease(held)

    run_without_time(tmp_path, monkeypatch, main)


@pytest.mark.timeout(1200)
def test_turns_that_race_are_mixed_or_stand_still_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_times(monkeypatch, 0.002)
    turn = st.tuples(
        st.integers(0, STORES - 1), st.integers(0, 20), st.integers(0, 20), st.none() | st.integers(0, 9)
    )
    with running(tmp_path / "s.db") as (runner, stores):

        @settings(max_examples=stores.examples())
        @given(st.lists(turn, max_size=10))
        def races(planned: list[tuple[int, int, int, int | None]]) -> None:
            race = Races(stores)
            runner.run(race.run(planned))
            for table in ("lease_tickets", "leases"):
                left = stores.ask(f"SELECT holder FROM {table} WHERE lineage = ?", race.session)
                assert runner.run(left) == []
            assert all(runner.run(no_line(db, race.session)) for db in stores.dbs)

        races()


async def no_line(db: SessionDB, session: str) -> bool:
    return db._lines.get(session) is None


def test_a_turn_that_waits_behind_others_outstays_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first has no limit, and each of the others has its own."""

    async def main(stores: Stores) -> None:
        db = stores.dbs[0]
        held = await db.acquire_session_turn_lease("s", "holder", FOREVER_S)
        first, last = (
            asyncio.create_task(db.acquire_session_turn_lease("s", name, FOREVER_S)) for name in "ab"
        )
        await stores.calm()
        waits = [
            asyncio.create_task(db.acquire_session_turn_lease("s", "late", FOREVER_S, wait_s=wait_s))
            for wait_s in (0.05, 0.0, 0.01)
        ]
        for wait in waits:
            with pytest.raises(StoreBusyError, match="did not come free"):
                await wait
        assert not first.done()
        await db.release_session_turn_lease(held)
        await db.release_session_turn_lease(await first)
        await db.release_session_turn_lease(await last)

    run_without_time(tmp_path, monkeypatch, main)


def test_the_first_whose_time_is_over_takes_the_place_of_all_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next goes on with the ticket, before a store that came later."""

    async def main(stores: Stores) -> None:
        one, two = stores.dbs
        held = await one.acquire_session_turn_lease("s", "holder", FOREVER_S)
        first = asyncio.create_task(one.acquire_session_turn_lease("s", "first", FOREVER_S, wait_s=0.05))
        second = asyncio.create_task(one.acquire_session_turn_lease("s", "second", FOREVER_S))
        await stores.calm()
        tickets = await stores.ask("SELECT number FROM lease_tickets")
        other = asyncio.create_task(two.acquire_session_turn_lease("s", "other", FOREVER_S))
        with pytest.raises(StoreBusyError):
            await first
        await stores.calm()
        assert (await stores.ask("SELECT number FROM lease_tickets ORDER BY number"))[:1] == tickets
        await one.release_session_turn_lease(held)
        await one.release_session_turn_lease(await second)
        look = two._lines.get("s")
        assert look is not None
        look.wake()
        await two.release_session_turn_lease(await other)

    run_without_time(tmp_path, monkeypatch, main)


def test_a_failure_of_the_first_is_one_of_all_or_of_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told to the one that asked; the next asks for itself."""

    async def main(stores: Stores) -> None:
        db = stores.dbs[0]
        held = await db.acquire_session_turn_lease("s", "holder", FOREVER_S)
        waits = [asyncio.create_task(db.acquire_session_turn_lease("s", name, FOREVER_S)) for name in "abc"]
        await stores.calm()
        write = db._backend.write
        failed = False

        async def fail_once(work: Callable[[], Operation[T]]) -> T:
            nonlocal failed
            if not failed:
                failed = True
                raise StoreBusyError("the database is busy")
            return await write(work)

        release = partial(leases.release, held)
        await db._backend.write(release)  # nobody is told
        monkeypatch.setattr(db._backend, "write", fail_once)
        line = db._lines.get("s")
        assert line is not None
        line.wake()
        with pytest.raises(StoreBusyError, match="the database is busy"):
            await waits[0]
        for wait in waits[1:]:
            await db.release_session_turn_lease(await wait)

    run_without_time(tmp_path, monkeypatch, main)


def test_turns_of_an_event_loop_that_is_gone_are_waited_for(tmp_path: Path) -> None:
    """It was closed without cancelling them, so that none of them left."""
    db = SessionDB(tmp_path / "s.db")
    place = db._lines.place("s")

    async def wait_for_ever() -> None:
        place.__enter__()
        assert await db.try_acquire_session_turn_lease("s", "overtakes", FOREVER_S) is None

    async def go_on() -> None:
        token = await db.try_acquire_session_turn_lease("s", "new", FOREVER_S)
        assert token is not None
        await db.release_session_turn_lease(token)
        await db.release_session_turn_lease(await db.acquire_session_turn_lease("s", "new", FOREVER_S))
        await db.close()

    asyncio.run(wait_for_ever())
    asyncio.run(go_on())
    place.__exit__(None, None, None)


def test_a_store_that_is_closed_lets_its_turns_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are told, and the place in the queue of all stores is given up first."""

    async def main(stores: Stores) -> None:
        one, two = stores.dbs
        held = await two.acquire_session_turn_lease("s", "holder", FOREVER_S)
        waits = [asyncio.create_task(one.acquire_session_turn_lease("s", name, FOREVER_S)) for name in "abc"]
        await stores.calm()
        await one.close()
        for wait in waits:
            with pytest.raises(StoreClosedError, match="while a turn waited"):
                await wait
        await two.release_session_turn_lease(held)
        token = await two.try_acquire_session_turn_lease("s", "next", FOREVER_S)
        assert token is not None
        await two.release_session_turn_lease(token)

    run_without_time(tmp_path, monkeypatch, main)
