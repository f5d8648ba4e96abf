"""Random operations, cancellations and reopenings: the file answers as a store in memory does.

A cancelled call has happened whole or not at all. The test looks which, and has the model follow.
"""

import asyncio
import logging
import os
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from hermes_messages import (
    AssistantMessage,
    HermesError,
    JsonValue,
    Message,
    StoreBusyError,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from hermes_messages.protocols import LeaseToken, NewMessage, SessionInfo, ToolRound
from hermes_messages.testing import MemoryStore
from hermes_store import SessionDB, StoreConnectionError
from hermes_store.operations.messages import UNKNOWN_OUTCOME

T = TypeVar("T")
_log = logging.getLogger(__name__)
NIGHTLY = os.environ.get("HERMES_TEST_PROFILE") == "nightly"

sessions = st.sampled_from(["s", "t", "u"])
uids = st.sampled_from([f"u{number}" for number in range(8)])
holders = st.sampled_from(["ann", "bob"])
texts = st.text(st.characters(exclude_categories=()) | st.sampled_from("\x00\ud800"), max_size=12)
which = st.integers(0, 7)
steps = st.none() | st.integers(0, 9)
"""After how many resumptions of the loop the call is cancelled, if it is."""


class Outcome:
    """What a call came to: a result, or its error, of which the kind is compared."""

    def __init__(self, value: object = None, raised: BaseException | None = None) -> None:
        self.value = value
        self.raised = raised
        self.error = None if raised is None else type(raised)

    def __repr__(self) -> str:
        return repr(self.raised) if self.raised is not None else repr(self.value)[:80]

    @property
    def cancelled(self) -> bool:
        return self.error is asyncio.CancelledError


class Model(MemoryStore):
    """The store in memory, and what `SessionDB` does besides the Protocols."""

    async def close_open_rounds(self, session_id: str, *, lease: LeaseToken | None = None) -> int:
        session = self._writable(session_id, lease)
        closed = 0
        for round_ in session.rounds.values():
            asked = session.places[round_.assistant_seq - 1].message
            assert isinstance(asked, AssistantMessage)
            if round_.assistant_seq in session.suspended:
                continue
            for call, seq in zip(asked.tool_calls, round_.result_seqs, strict=True):
                if session.places[seq - 1].message is None:
                    result = ToolMessage(call.id, UNKNOWN_OUTCOME, name=call.name, status="unknown")
                    session.put(session.places[seq - 1], result, self._clock())
                    closed += 1
        return closed

    async def delete_session(self, session_id: str, *, lease: LeaseToken | None = None) -> bool:
        if session_id not in self._sessions:
            return False
        self._writable(session_id, lease)
        del self._sessions[session_id]
        return True


class StoreMachine(RuleBasedStateMachine):
    """Every rule asks both stores the same and compares the answers. What is drawn never depends on what a
    cancelled call came to, which two runs of the same steps may see differently."""

    resumptions = 1
    """Of the loop, for one step of `cancel_at`."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "s.db"
        self.runner = asyncio.Runner()
        self.db = self.open_store()
        self.model = Model()
        self.begun: set[tuple[str, str]] = set()
        self.rounds: list[tuple[ToolRound, ToolRound]] = []
        self.leases: dict[str, tuple[LeaseToken, LeaseToken]] = {}
        self.told: list[str] = []

    def open_store(self) -> SessionDB:
        return SessionDB(self.path)

    def teardown(self) -> None:
        self.runner.run(self.db.close())
        self.runner.close()
        self.folder.cleanup()

    def ask(self, call: Callable[[], Awaitable[object]], cancel_at: int | None = None) -> Outcome:
        async def asked() -> Outcome:
            task = asyncio.ensure_future(call())
            if cancel_at is not None:
                for _ in range(cancel_at * self.resumptions):
                    await asyncio.sleep(0)
                task.cancel()
            try:
                return Outcome(await task)
            except (HermesError, asyncio.CancelledError) as error:
                return Outcome(raised=error)

        outcome = self.runner.run(asked())
        # Nobody else is there: not an answer to compare, or to take for "there is no such session".
        if isinstance(outcome.raised, StoreBusyError | StoreConnectionError):
            self.fail("the store can not be used", outcome)
        return outcome

    def tell(self, what: str, *outcomes: Outcome) -> None:
        self.told.append("  ".join([what, *map(repr, outcomes)]))
        note(self.told[-1])

    def fail(self, what: str, *outcomes: Outcome) -> NoReturn:
        """Also into the log: of a failure that does not come again Hypothesis shows no error and no notes."""
        self.tell(what, *outcomes)
        _log.error("%s", "\n".join(self.told))
        raise AssertionError(self.told[-1]) from outcomes[0].raised

    def same(self, what: str, mine: Outcome, other: Outcome, seen: Callable[[Outcome], object]) -> None:
        if mine.error != other.error or seen(mine) != seen(other):
            self.fail(f"{what} differs", mine, other)

    def both(
        self,
        ours: Callable[[], Awaitable[object]],
        model: Callable[[], Awaitable[object]],
        cancel_at: int | None,
        happened: Callable[[], bool],
    ) -> tuple[Outcome, Outcome] | None:
        """The outcomes of both; of a call that was cancelled before it happened, None."""
        rule_ = f"{ours.__qualname__.split('.')[1]} cancelled at {cancel_at}"
        self.tell(rule_)
        mine = self.ask(ours, cancel_at)
        if mine.cancelled:
            if happened():
                # The model catches up: the same call, made again, tells what it came to.
                again, other = self.ask(ours), self.ask(model)
                self.tell("- was cancelled and happened", again, other)
                return again, other
            self.tell("- was cancelled")
            return None
        other = self.ask(model)
        self.tell("-", mine, other)
        self.same(rule_, mine, other, lambda _: None)
        return mine, other

    def stored_uids(self, session: str) -> set[str]:
        found = self.ask(lambda: self.db.get_messages(session))
        return {item.uid for item in found.value} if isinstance(found.value, list) else set()

    def token(self, session: str, holder: str | None) -> tuple[LeaseToken | None, LeaseToken | None]:
        if holder is None:
            return None, None
        return self.leases.get(f"{session}/{holder}", (None, None))

    @rule(session=sessions, title=texts, cancel_at=steps)
    def ensure(self, session: str, title: str, cancel_at: int | None) -> None:
        info = SessionInfo(title=title, metadata={"title": title})
        self.both(
            lambda: self.db.ensure_session(session, info),
            lambda: self.model.ensure_session(session, info),
            cancel_at,
            lambda: self.ask(lambda: self.db.get_session(session)).value is not None,
        )

    @rule(
        session=sessions,
        new=st.lists(st.tuples(uids, texts), min_size=1, max_size=4, unique_by=lambda item: item[0]),
        holder=st.none() | holders,
        cancel_at=steps,
    )
    def append(
        self, session: str, new: list[tuple[str, str]], holder: str | None, cancel_at: int | None
    ) -> None:
        rows = [NewMessage(uid, UserMessage(text)) for uid, text in new]
        mine, other = self.token(session, holder)
        before = self.stored_uids(session)
        self.both(
            lambda: self.db.append_messages_batch(session, rows, lease=mine),
            lambda: self.model.append_messages_batch(session, rows, lease=other),
            cancel_at,
            lambda: self.stored_uids(session) != before,
        )

    @rule(session=sessions, uid=uids, calls=st.integers(1, 3), holder=st.none() | holders, cancel_at=steps)
    def begin_round(
        self, session: str, uid: str, calls: int, holder: str | None, cancel_at: int | None
    ) -> None:
        message = AssistantMessage(
            tool_calls=tuple(ToolCall(f"{uid}-{number}", "f", "{}") for number in range(calls))
        )
        if (session, uid) in self.begun:
            return  # asked for again with other calls it is an error in one and not in the other
        self.begun.add((session, uid))
        mine, other = self.token(session, holder)
        outcomes = self.both(
            lambda: self.db.begin_tool_round(session, f"round {uid}", message, lease=mine),
            lambda: self.model.begin_tool_round(session, f"round {uid}", message, lease=other),
            cancel_at,
            lambda: f"round {uid}" in self.stored_uids(session),
        )
        if outcomes is not None and isinstance(outcomes[0].value, ToolRound):
            assert isinstance(outcomes[1].value, ToolRound)
            self.rounds.append((outcomes[0].value, outcomes[1].value))

    @rule(which=which, position=st.integers(0, 2), text=texts, holder=st.none() | holders, cancel_at=steps)
    def set_result(
        self, which: int, position: int, text: str, holder: str | None, cancel_at: int | None
    ) -> None:
        if not self.rounds:
            return
        ours, theirs = self.rounds[which % len(self.rounds)]
        position %= len(ours.result_seqs)
        result = ToolMessage("id", text)
        mine, other = self.token(ours.session_id, holder)
        before = self.stored_uids(ours.session_id)
        self.both(
            lambda: self.db.set_tool_result(ours, position, result, lease=mine),
            lambda: self.model.set_tool_result(theirs, position, result, lease=other),
            cancel_at,
            lambda: self.stored_uids(ours.session_id) != before,
        )

    @rule(which=which, pending=texts, holder=st.none() | holders)
    def suspend(self, which: int, pending: str, holder: str | None) -> None:
        if self.rounds:
            ours, theirs = self.rounds[which % len(self.rounds)]
            mine, other = self.token(ours.session_id, holder)
            self.both(
                lambda: self.db.suspend_round(ours, pending, lease=mine),
                lambda: self.model.suspend_round(theirs, pending, lease=other),
                None,
                lambda: True,
            )

    @rule(session=sessions, holder=st.none() | holders, cancel_at=steps)
    def close_rounds(self, session: str, holder: str | None, cancel_at: int | None) -> None:
        mine, other = self.token(session, holder)
        before = self.stored_uids(session)
        outcomes = self.both(
            lambda: self.db.close_open_rounds(session, lease=mine),
            lambda: self.model.close_open_rounds(session, lease=other),
            cancel_at,
            lambda: self.stored_uids(session) != before,
        )
        assert outcomes is None or cancel_at is not None or outcomes[0].value == outcomes[1].value

    @rule(
        session=sessions,
        new=st.lists(st.tuples(uids, texts), max_size=3, unique_by=lambda item: item[0]),
        holder=st.none() | holders,
        cancel_at=steps,
    )
    def replace(
        self, session: str, new: list[tuple[str, str]], holder: str | None, cancel_at: int | None
    ) -> None:
        rows = [NewMessage(uid, UserMessage(text)) for uid, text in new]
        mine, other = self.token(session, holder)
        wanted = [(item.uid, item.message) for item in rows]
        self.both(
            lambda: self.db.replace_messages(session, rows, lease=mine),
            lambda: self.model.archive_and_compact(session, rows, lease=other),
            cancel_at,
            lambda: content(self.ask(lambda: self.db.get_messages(session))) == wanted,
        )

    @rule(session=sessions, name=uids, value=st.none() | texts | st.lists(st.integers(), max_size=2))
    def set_state(self, session: str, name: str, value: JsonValue) -> None:
        self.both(
            lambda: self.db.set_session_state(session, name, value),
            lambda: self.model.set_session_state(session, name, value),
            None,
            lambda: True,
        )
        mine, other = (self.ask(partial(store.get_session_state, session, name)) for store in self.stores())
        self.same(f"state {name} of {session}", mine, other, lambda outcome: outcome.value)

    @rule(session=sessions, holder=st.none() | holders, cancel_at=steps)
    def delete(self, session: str, holder: str | None, cancel_at: int | None) -> None:
        if session not in self.model.session_ids:
            return
        mine, other = self.token(session, holder)
        self.both(
            lambda: self.db.delete_session(session, lease=mine),
            lambda: self.model.delete_session(session, lease=other),
            cancel_at,
            lambda: self.ask(lambda: self.db.get_session(session)).value is None,
        )
        if session not in self.model.session_ids:
            self.rounds = [item for item in self.rounds if item[0].session_id != session]
            self.begun = {item for item in self.begun if item[0] != session}

    @rule(session=sessions, tokens=st.none() | st.integers(0, 9), holder=holders)
    def add_usage(self, session: str, tokens: int | None, holder: str) -> None:
        usage = Usage(input_tokens=tokens)
        self.both(
            lambda: self.db.update_token_counts(session, usage, api_calls=1),
            lambda: self.model.update_token_counts(session, usage, api_calls=1),
            None,
            lambda: True,
        )

    @rule(session=sessions, key=uids, value=texts, prompt=st.none() | texts, cancel_at=steps)
    def describe(self, session: str, key: str, value: str, prompt: str | None, cancel_at: int | None) -> None:
        def same() -> bool:
            record = self.ask(lambda: self.db.get_session(session)).value
            return record is not None and record.metadata.get(key) == value  # type: ignore[attr-defined]

        self.both(
            lambda: self.db.update_session_meta(session, system_prompt=prompt, metadata={key: value}),
            lambda: self.model.update_session_meta(session, system_prompt=prompt, metadata={key: value}),
            None if same() else cancel_at,
            same,
        )

    @rule(session=sessions, reason=texts)
    def end(self, session: str, reason: str) -> None:
        self.both(
            lambda: self.db.end_session(session, reason),
            lambda: self.model.end_session(session, reason),
            None,
            lambda: True,
        )

    @rule(session=sessions, holder=holders)
    def acquire(self, session: str, holder: str) -> None:
        outcomes = self.both(
            lambda: self.db.try_acquire_session_turn_lease(session, holder, 3600),
            lambda: self.model.try_acquire_session_turn_lease(session, holder, 3600),
            None,
            lambda: True,
        )
        assert outcomes is not None
        mine, other = (outcome.value for outcome in outcomes)
        assert (mine is None) == (other is None)
        if isinstance(mine, LeaseToken) and isinstance(other, LeaseToken):
            self.leases[f"{session}/{holder}"] = (mine, other)

    @rule(session=sessions, holder=holders)
    def release(self, session: str, holder: str) -> None:
        held = self.leases.get(f"{session}/{holder}")
        if held is not None:
            self.both(
                lambda: self.db.release_session_turn_lease(held[0]),
                lambda: self.model.release_session_turn_lease(held[1]),
                None,
                lambda: True,
            )

    @rule()
    def reopen(self) -> None:
        self.runner.run(self.db.close())
        self.db = self.open_store()
        self.tell("reopened")

    def stores(self) -> tuple[SessionDB, Model]:
        return self.db, self.model

    @invariant()
    def the_same_sessions_and_messages(self) -> None:
        for session in ("s", "t", "u"):
            mine, other = (self.ask(partial(store.get_messages, session)) for store in self.stores())
            self.same(f"get_messages({session})", mine, other, content)
            mine, other = (self.ask(partial(store.get_session, session)) for store in self.stores())
            self.same(f"get_session({session})", mine, other, described)
            mine, other = (self.ask(partial(store.suspended_rounds, session)) for store in self.stores())
            self.same(f"suspended_rounds({session})", mine, other, pending)


def content(outcome: Outcome) -> list[tuple[str, Message]]:
    return [(item.uid, item.message) for item in outcome.value] if isinstance(outcome.value, list) else []


def pending(outcome: Outcome) -> list[JsonValue]:
    return [item.pending for item in outcome.value] if isinstance(outcome.value, list) else []


def described(outcome: Outcome) -> tuple[object, ...]:
    record = outcome.value
    if record is None:
        return ()
    names = ("id", "title", "system_prompt", "metadata", "end_reason", "message_count", "api_calls", "usage")
    return tuple(record.__getattribute__(name) for name in names)


SETTINGS = settings(
    max_examples=300 if NIGHTLY else 12,
    stateful_step_count=50 if NIGHTLY else 25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.timeout(1200)
def test_the_file_answers_as_the_model() -> None:
    run_state_machine_as_test(StoreMachine, settings=SETTINGS)
