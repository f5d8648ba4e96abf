"""Sessions, messages and tool rounds."""

# ruff: noqa: D102 - each check is named after the promise that it checks

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from uuid import uuid4

from hermes_messages.abilities import supports
from hermes_messages.argument_text import JsonObject, JsonValue
from hermes_messages.errors import HermesError, StoreError
from hermes_messages.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from hermes_messages.parts import content_text
from hermes_messages.protocols.store import (
    NewMessage,
    SessionInfo,
    SessionStore,
    SupportsSessionState,
    SupportsSuspension,
    SuspendedRound,
)
from hermes_messages.testing.conformance.report import (
    CANCEL_POINTS,
    UnmetError,
    cancel_after,
    expect,
    made,
)
from hermes_messages.testing.conformance.store_samples import (
    ALL_KINDS,
    ODD_TEXTS,
    MakeStore,
    Opened,
    new_messages,
    raises_not_found,
    round_of,
    stored,
    with_session,
)
from hermes_messages.usage import Usage

__all__ = ["DurabilityChecks", "MessageChecks"]


class MessageChecks:
    """The promises of `SessionStore`."""

    def __init__(self, make_store: MakeStore, limit_s: float) -> None:
        self._make = make_store
        self._limit_s = limit_s

    async def ensure_session_makes_it_once(self) -> None:
        items: list[JsonValue] = [1, None]
        info = SessionInfo(
            source="check",
            title="t",
            model="m",
            provider="p",
            cwd="/c",
            system_prompt="s",
            metadata={"a": items},
        )
        async with Opened(self._make) as store:
            session_id = f"check-{uuid4().hex}"
            first = await store.ensure_session(session_id, info)
            items.append("later")
            again = await store.ensure_session(session_id, SessionInfo(source="other", title="u"))
            found = await store.get_session(session_id)
        expect(
            (first.id, first.source, first.title) == (session_id, "check", "t"), "id, source or title lost"
        )
        given = (first.model, first.provider, first.cwd, first.system_prompt)
        expect(given == ("m", "p", "/c", "s"), f"model, provider, cwd and system prompt are {given!r}")
        expect((again.source, again.title) == ("check", "t"), "a second ensure_session changed the session")
        if found is None:
            raise UnmetError("get_session does not find the session")
        expect(found.title == "t", "get_session finds another title")
        expect(dict(found.metadata) == {"a": [1, None]}, f"metadata is {found.metadata!r}")
        expect(found.updated_at >= found.created_at > 0, "created_at and updated_at are not in order")

    async def unknown_sessions_are_not_written(self) -> None:
        async with Opened(self._make) as store:
            unknown = f"check-{uuid4().hex}"
            expect(await store.get_session(unknown) is None, "get_session of an unknown session is not None")
            await raises_not_found(store.append_messages_batch(unknown, new_messages("a")), "append")
            await raises_not_found(store.begin_tool_round(unknown, "u", round_of("c")), "begin_tool_round")
            await raises_not_found(store.get_messages(unknown), "get_messages")
            await raises_not_found(store.update_session_meta(unknown, metadata={"a": 1}), "meta")
            await raises_not_found(store.update_token_counts(unknown, None, api_calls=1), "token counts")
            await raises_not_found(store.end_session(unknown, "done"), "end_session")
            expect(await store.get_session(unknown) is None, "a refused write made a session")

    async def messages_come_back_as_they_were(self) -> None:
        async with Opened(self._make) as store:
            session_id = await with_session(store)
            new = [NewMessage(f"u{number}", message) for number, message in enumerate(ALL_KINDS)]
            await store.append_messages_batch(session_id, new)
            back = await stored(store, session_id)
        expect(len(back) == len(ALL_KINDS), f"{len(ALL_KINDS)} messages were stored, {len(back)} came back")
        for wanted, found in zip(ALL_KINDS, back, strict=True):
            expect(found == wanted, f"{wanted!r} came back as {found!r}")

    async def text_survives(self) -> None:
        async with Opened(self._make) as store:
            session_id = await with_session(store)
            wanted: list[Message] = []
            for number, text in enumerate(ODD_TEXTS):
                call = ToolCall(f"c{number}", "say", text)
                wanted += [UserMessage(text), AssistantMessage(text, (call,), reasoning=text)]
                wanted.append(ToolMessage(call.id, text))
            new = [NewMessage(f"u{number}", message) for number, message in enumerate(wanted)]
            await store.append_messages_batch(session_id, new)
            back = await stored(store, session_id)
        for before, after in zip(wanted, back, strict=True):
            expect(before == after, f"text changed: {before!r:.200} came back as {after!r:.200}")

    async def a_lone_surrogate_does_no_harm(self) -> None:
        async with Opened(self._make) as store:
            session_id = await with_session(store)
            try:
                await store.append_messages_batch(session_id, [NewMessage("odd", UserMessage("a\ud800b"))])
            except HermesError:
                expect(await stored(store, session_id) == [], "refused text left something behind")
            else:
                [back] = await stored(store, session_id)
                kept = content_text(back.content)
                expect(kept in ("a\ud800b", "a\ufffdb"), f"a lone surrogate came back as {kept!r}")
            await store.append_messages_batch(session_id, new_messages("next"))

    async def order_is_kept(self) -> None:
        async with Opened(self._make) as store:
            session_id = await with_session(store)
            first = await store.append_messages_batch(session_id, new_messages("a", "b"))
            second = await store.append_messages_batch(session_id, new_messages("c"))
            found = await store.get_messages(session_id)
            await store.append_messages_batch(session_id, new_messages("d"))
            expect(len(found) == 3, "a list that get_messages gave grew by itself")
        expect([item.uid for item in found] == ["a", "b", "c"], f"order is {[item.uid for item in found]}")
        seqs = [item.seq for item in found]
        expect(seqs == [*first, *second], f"append said {[*first, *second]}, get_messages says {seqs}")
        expect(seqs == sorted(set(seqs)), f"sequence numbers do not grow: {seqs}")

    async def an_empty_batch_is_nothing(self) -> None:
        async with Opened(self._make) as store:
            session_id = await with_session(store)
            expect(await store.append_messages_batch(session_id, []) == (), "an empty batch has numbers")
            expect(await stored(store, session_id) == [], "an empty batch stored something")

    async def a_known_uid_adds_nothing(self) -> None:
        async with Opened(self._make) as store:
            session_id = await with_session(store)
            first = await store.append_messages_batch(session_id, new_messages("a", "b"))
            again = await store.append_messages_batch(session_id, new_messages("a", "b"))
            mixed = await store.append_messages_batch(
                session_id, [NewMessage("b", UserMessage("changed")), *new_messages("c", "c")]
            )
            back = await stored(store, session_id)
        expect(again == first, "appending the same again gave other sequence numbers")
        expect(mixed[0] == first[1] and mixed[1] == mixed[2], "known uids gave other sequence numbers")
        expect(back == [UserMessage("a"), UserMessage("b"), UserMessage("c")], f"stored: {back!r:.300}")

    async def uids_belong_to_their_session(self) -> None:
        async with Opened(self._make) as store:
            one, two = await with_session(store), await with_session(store)
            await store.append_messages_batch(one, new_messages("a"))
            await store.append_messages_batch(two, new_messages("a"))
            expect(len(await stored(store, two)) == 1, "the uid of another session counted as known")

    async def results_stand_in_call_order(self) -> None:
        async with Opened(self._make) as store:
            session_id = await with_session(store)
            await store.append_messages_batch(session_id, new_messages("ask"))
            message = round_of("a", "b", "c")
            round_ = await store.begin_tool_round(session_id, "round", message)
            expect(len(round_.result_seqs) == 3, "the round keeps not one place for each call")
            await store.append_messages_batch(session_id, new_messages("note"))
            await store.set_tool_result(round_, 2, ToolMessage("c", "3"))
            await store.set_tool_result(round_, 0, ToolMessage("a", "1"))
            back = await store.get_messages(session_id)
            record = await store.get_session(session_id)
        wanted = [
            UserMessage("ask"), message, ToolMessage("a", "1"), ToolMessage("c", "3"), UserMessage("note")
        ]  # fmt: skip
        expect([item.message for item in back] == wanted, f"stored: {[item.message for item in back]!r:.400}")
        expect([item.seq for item in back] == sorted(item.seq for item in back), "numbers do not grow")
        expect(back[1].seq == round_.assistant_seq, "assistant_seq is not that of the stored message")
        expect([back[2].seq, back[3].seq] == [round_.result_seqs[0], round_.result_seqs[2]], "places moved")
        expect(len({item.uid for item in back}) == len(back), "two messages have one uid")
        expect(record is not None and record.message_count == 5, "message_count counts empty places")

    async def a_known_round_is_returned(self) -> None:
        async with Opened(self._make) as store:
            session_id = await with_session(store)
            first = await store.begin_tool_round(session_id, "round", round_of("a", "b"))
            await store.set_tool_result(first, 0, ToolMessage("a", "1"))
            again = await store.begin_tool_round(session_id, "round", round_of("a", "b"))
            expect(again == first, f"a known uid made the round {again!r} instead of {first!r}")
            expect(
                len(await stored(store, session_id)) == 2, "beginning a round again changed what is stored"
            )

    async def a_second_result_changes_nothing(self) -> None:
        async with Opened(self._make) as store:
            session_id = await with_session(store)
            round_ = await store.begin_tool_round(session_id, "round", round_of("a"))
            await store.set_tool_result(round_, 0, ToolMessage("a", "real"))
            await store.set_tool_result(round_, 0, ToolMessage("a", "late", status="unknown"))
            back = await stored(store, session_id)
        expect(back[1:] == [ToolMessage("a", "real")], f"the second result won: {back[1:]!r:.300}")

    async def totals_and_metadata_add_up(self) -> None:
        async with Opened(self._make) as store:
            session_id = await with_session(store)
            await store.update_token_counts(session_id, Usage(input_tokens=3, output_tokens=1), api_calls=1)
            await store.update_token_counts(session_id, None, api_calls=1)
            cached = Usage(input_tokens=4, cache_write_tokens=2, reasoning_tokens=1, cost_usd=0.5)
            await store.update_token_counts(session_id, cached, api_calls=2)
            await store.update_session_meta(session_id, system_prompt="s\x00", metadata={"a": 1, "b": 1})
            inner: JsonObject = {"c": 2}
            await store.update_session_meta(session_id, metadata={"b": inner})
            inner["d"] = "later"
            await store.end_session(session_id, "done")
            record = await store.get_session(session_id)
        if record is None:
            raise UnmetError("the session is gone")
        expect(record.api_calls == 4, f"api_calls is {record.api_calls} instead of 4")
        usage = record.usage
        expect((usage.input_tokens, usage.output_tokens) == (7, 1), f"usage is {usage!r}")
        rest = (usage.cache_write_tokens, usage.reasoning_tokens)
        expect(rest == (2, 1), f"tokens written to the cache and of reasoning are {rest}")
        expect(usage.cost_usd == 0.5, f"cost is {usage.cost_usd} instead of 0.5")
        expect(usage.cache_read_tokens is None, "a figure that nobody gave is not None")
        expect(record.system_prompt == "s\x00", f"system_prompt is {record.system_prompt!r}")
        expect(dict(record.metadata) == {"a": 1, "b": {"c": 2}}, f"metadata is {record.metadata!r}")
        expect(record.end_reason == "done" and record.ended_at is not None, "the session has not ended")

    async def concurrent_appends_are_all_kept(self) -> None:
        async with Opened(self._make) as store:
            session_id = await with_session(store)
            batches = [new_messages(*(f"{batch}/{number}" for number in range(3))) for batch in range(20)]
            await asyncio.gather(*(store.append_messages_batch(session_id, batch) for batch in batches))
            uids = [item.uid for item in await store.get_messages(session_id)]
        expect(len(uids) == 60, f"60 messages were appended at once, {len(uids)} were kept")
        for batch in range(20):
            own = [uid for uid in uids if uid.startswith(f"{batch}/")]
            expect(own == sorted(own), f"a batch lost its order: {own}")

    async def a_cancelled_append_happens_whole_or_not_at_all(self) -> None:
        async with Opened(self._make) as store:
            session_id = await with_session(store)
            kept = 0
            for turns in CANCEL_POINTS:
                batch = new_messages(*(f"{turns}/{number}" for number in range(3)))
                for times in (1, 2):
                    work = store.append_messages_batch(session_id, batch)
                    await cancel_after(work, turns, self._limit_s / 4, times=times)
                    count = len(await stored(store, session_id)) - kept
                    expect(
                        count in (0, 3), f"cancelled after {turns} turns, {count} of 3 messages are stored"
                    )
                await store.append_messages_batch(session_id, batch)
                kept += 3
                count = len(await stored(store, session_id))
                expect(count == kept, f"append after a cancelled one: {count} messages instead of {kept}")

    async def a_cancelled_round_happens_whole_or_not_at_all(self) -> None:
        async with Opened(self._make) as store:
            for turns in CANCEL_POINTS:
                session_id = await with_session(store)
                message = round_of("a", "b")
                await cancel_after(
                    store.begin_tool_round(session_id, "round", message), turns, self._limit_s / 4
                )
                count = len(await stored(store, session_id))
                expect(count in (0, 1), f"{count} messages after a cancelled begin_tool_round")
                round_ = await store.begin_tool_round(session_id, "round", message)
                expect(len(round_.result_seqs) == 2, "a cancelled begin_tool_round left half a round")
                result = store.set_tool_result(round_, 1, ToolMessage("b", "2"))
                await cancel_after(result, turns, self._limit_s / 4)
                await store.set_tool_result(round_, 1, ToolMessage("b", "2"))
                await store.set_tool_result(round_, 0, ToolMessage("a", "1"))
                wanted = [message, ToolMessage("a", "1"), ToolMessage("b", "2")]
                expect(await stored(store, session_id) == wanted, f"wrong round after {turns} turns")

    async def a_wrong_position_is_refused(self) -> None:
        async with Opened(self._make) as store:
            session_id = await with_session(store)
            round_ = await store.begin_tool_round(session_id, "round", round_of("a"))
            for position in (5, 1, -1):
                try:
                    await store.set_tool_result(round_, position, ToolMessage("z", "?"))
                except (HermesError, IndexError):
                    continue
                raise UnmetError(f"a result for call {position} of a round of one call was accepted")
            expect(len(await stored(store, session_id)) == 1, "a refused result was stored")

    async def close_is_idempotent(self) -> None:
        store = await made(self._make())
        await with_session(store)
        await store.close()
        await store.close()

    async def a_closed_store_raises_store_errors(self) -> None:
        store: SessionStore = await made(self._make())
        session_id = await with_session(store)
        await store.close()
        try:
            await store.append_messages_batch(session_id, new_messages("a"))
        except StoreError:
            pass
        except Exception as error:  # any other is just what is looked for
            raise UnmetError(
                f"a closed store raised {type(error).__name__}, which is no StoreError"
            ) from error
        finally:
            await store.close()


class DurabilityChecks:
    """What must survive closing and opening again."""

    def __init__(
        self, make_store: MakeStore, reopen: Callable[[], SessionStore | Awaitable[SessionStore]]
    ) -> None:
        self._make = make_store
        self._reopen = reopen

    async def everything_survives_reopening(self) -> None:
        message = round_of("a", "b")
        async with Opened(self._make) as store:
            session_id = await with_session(store)
            await store.append_messages_batch(session_id, new_messages("ask"))
            round_ = await store.begin_tool_round(session_id, "round", message)
            await store.set_tool_result(round_, 1, ToolMessage("b", "2"))
            await store.update_session_meta(session_id, system_prompt="prompt")
            if supports(store, SupportsSuspension):
                await store.suspend_round(round_, "pending")
            if supports(store, SupportsSessionState):
                await store.set_session_state(session_id, "todos", ["one"])
        async with Opened(self._reopen) as store:
            if supports(store, SupportsSuspension):
                found = await store.suspended_rounds(session_id)
                expect(found == [SuspendedRound(round_, "pending")], f"suspended rounds came back: {found!r}")
            if supports(store, SupportsSessionState):
                expect(await store.get_session_state(session_id, "todos") == ["one"], "a value is gone")
            back = await stored(store, session_id)
            expect(back == [UserMessage("ask"), message, ToolMessage("b", "2")], f"came back: {back!r:.300}")
            record = await store.get_session(session_id)
            expect(record is not None and record.system_prompt == "prompt", "the system prompt is gone")
            again = await store.begin_tool_round(session_id, "round", message)
            expect(again == round_, "the open round is another one after reopening")
            await store.set_tool_result(again, 0, ToolMessage("a", "1"))
            back = await stored(store, session_id)
            expect(
                back[2:] == [ToolMessage("a", "1"), ToolMessage("b", "2")], "the round can not be finished"
            )
