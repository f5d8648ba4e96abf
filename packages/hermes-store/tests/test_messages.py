"""What is appended comes back: order, identity, every field, rounds whose results come one by one."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from hermes_messages import (
    AssistantMessage,
    ImagePart,
    Message,
    OpaquePart,
    Origin,
    Replay,
    SessionNotFoundError,
    StoreError,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from hermes_messages.protocols import NewMessage, SessionInfo
from hermes_store import SessionDB
from hermes_store.escaping import escape, unescape
from hermes_store.rows import message_from_columns, message_to_columns

CALLS = AssistantMessage(
    content="two calls",
    tool_calls=(ToolCall("a", "read_file", '{"path": "x"}'), ToolCall("b", "terminal", '{"cmd":"ls"}')),
)


def test_every_field_comes_back_from_the_file(tmp_path: Path) -> None:
    messages: list[Message] = [
        SystemMessage("Be brief."),
        UserMessage((TextPart("look"), ImagePart("data:image/png;base64,AAAA"))),
        AssistantMessage(
            content="",
            reasoning="",
            replay=Replay(Origin("p", "h", "m"), "w", (Raw(b'{"sig": "\xc3\xa9", "n":1.0}'),)),
            tool_calls=(ToolCall("c", "f", '{"a": 1,  "a": 2}'),),
            finish_reason="tool_calls",
            usage=Usage(input_tokens=3, cost_usd=0.25),
        ),
        ToolMessage("c", "done", status="timed_out"),
        AssistantMessage(content=None, refusal="no"),
        AssistantMessage(content="fin\n\uf8ff\U0001f600"),
    ]

    async def write() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            await db.append_messages_batch(
                "s", [NewMessage(str(number), message) for number, message in enumerate(messages)]
            )

    async def read() -> list[Message]:
        async with SessionDB(tmp_path / "s.db") as db:
            return [item.message for item in await db.get_messages("s")]

    asyncio.run(write())
    assert asyncio.run(read()) == messages


def test_nul_and_lone_surrogates_come_back_unchanged(tmp_path: Path) -> None:
    """A text column holds neither; what the model wrote must not change for that."""
    odd = "W\x00s\x00l \ud800 \uf8ff0000 \udfff"
    message = AssistantMessage(
        content=odd, reasoning=odd, tool_calls=(ToolCall(odd, odd, '{"p": "W\\u0000' + odd + '"}'),)
    )

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            session = await db.create_session(f"id {odd}", title=odd, system_prompt=odd, metadata={"k": odd})
            await db.append_message(session, message, uid=odd)
            await db.append_message(session, UserMessage("again"), uid=odd)
            [stored] = await db.get_messages(session)
            assert stored.message == message
            assert stored.uid == odd
            record = await db.get_session(session)
            assert record is not None
            assert (record.id, record.title, record.system_prompt) == (session, odd, odd)
            assert record.metadata == {"k": odd}
            assert await db.search_messages(odd)
            assert await db.delete_session(session)

    asyncio.run(main())


UNREADABLE = [
    b'{"x":"\\ud800 \\uDC00"}',  # JSON of a lone surrogate, which our decoder refuses
    b'{"x":"\xed\xa0\x80"}',
    b'{"x":"\xff\x00"}',
    b' {"x": 1} ',
    b'1,"content":"forged"',
    b"",
    b"no JSON",
    b'{"f":1e400}',
    '{"\uf8ff":"\uf8ffd800"}'.encode(),
]


def with_raw_data(raw: bytes) -> list[Message]:
    return [
        UserMessage((TextPart("a \ud800"), OpaquePart(Raw(raw))), extra=Raw(raw)),
        AssistantMessage(
            "b\x00",
            (ToolCall("c", "f", "{}", extra=Raw(raw)),),
            replay=Replay(Origin("p", "h", "m"), "w", (Raw(b'{"s":1.0}'), Raw(raw))),
        ),
    ]


def test_raw_data_that_would_not_read_back_does(tmp_path: Path) -> None:
    """One such message made the whole session unreadable."""
    messages = [message for raw in UNREADABLE for message in with_raw_data(raw)]

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db, SessionDB(tmp_path / "t.db") as other:
            await db.create_session("s")
            await db.append_messages_batch("s", [NewMessage(str(n), item) for n, item in enumerate(messages)])
            assert [item.message for item in await db.get_messages("s")] == messages
            await db.export_to_file(tmp_path / "x.jsonl")
            await other.import_sessions(tmp_path / "x.jsonl")
            assert [item.message for item in await other.get_messages("s")] == messages

    asyncio.run(main())


@given(st.text(st.characters(exclude_categories=()) | st.sampled_from("\x00\ud800\uf8ff0af")))
def test_the_escape_rule_is_reversible_and_its_text_can_be_bound(text: str) -> None:
    escaped = escape(text)
    assert unescape(escaped) == text
    assert b"\x00" not in escaped.encode("utf-8")


@given(
    st.text(st.characters(exclude_categories=())), st.text(st.characters(exclude_categories=())) | st.none()
)
def test_columns_lose_nothing(content: str, reasoning: str | None) -> None:
    for message in (AssistantMessage(content, reasoning=reasoning), UserMessage((TextPart(content),))):
        _, shape, text, body = message_to_columns(message)
        assert message_from_columns(shape, text, body) == message


def test_a_second_append_of_a_uid_adds_nothing(tmp_path: Path) -> None:
    """A retry after an unclear answer, or a second flush, must not double rows."""

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            rows = [NewMessage(f"u{number}", UserMessage(f"m{number}")) for number in range(40)]
            first = await db.append_messages_batch("s", rows)
            merged = [*rows[:10], *rows[12:], *(NewMessage(f"n{i}", UserMessage("new")) for i in range(3))]
            second = await db.append_messages_batch("s", merged)
            third = await db.append_messages_batch("s", merged)
            assert second == third
            assert second[:38] == (*first[:10], *first[12:])
            stored = await db.get_messages("s")
            assert [item.uid for item in stored] == [f"u{i}" for i in range(40)] + ["n0", "n1", "n2"]
            record = await db.get_session("s")
            assert record is not None
            assert record.message_count == 43

    asyncio.run(main())


def test_a_list_that_shrank_before_it_was_saved_again_doubles_and_skips_nothing(tmp_path: Path) -> None:
    """By its place in a list a message is another one after a repair; by its uid it is itself."""

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            await db.append_messages_batch(
                "s", [NewMessage(f"m{n}", UserMessage(f"text {n}")) for n in range(40)]
            )
            loaded = [NewMessage(item.uid, item.message) for item in await db.get_messages("s")]
            merged = NewMessage(loaded[10].uid, UserMessage("text 10\n\ntext 11"))
            shrunk = [*loaded[:10], merged, *loaded[12:]]
            added = [NewMessage(f"m{n}", UserMessage(f"text {n}")) for n in range(40, 43)]
            for _ in range(2):
                await db.append_messages_batch("s", [*shrunk, *added])
            assert [item.message for item in await db.get_messages("s")] == [
                UserMessage(f"text {n}") for n in range(43)
            ]

    asyncio.run(main())


def test_messages_appended_without_a_uid_are_all_different(tmp_path: Path) -> None:
    async def main() -> None:
        for _ in range(2):
            async with SessionDB(tmp_path / "s.db") as one, SessionDB(tmp_path / "s.db") as two:
                await one.create_session("s")
                for db in (one, two, one, two):
                    await db.append_message("s", UserMessage("the same"))
        async with SessionDB(tmp_path / "s.db") as db:
            assert len(await db.get_messages("s")) == 8

    asyncio.run(main())


def test_results_stand_in_call_order_whatever_order_they_came_in(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            await db.append_message("s", UserMessage("go"), uid="u")
            round_ = await db.begin_tool_round("s", "r", CALLS)
            await db.append_message("s", UserMessage("a note"), uid="n")
            await db.set_tool_result(round_, 1, ToolMessage("b", "second"))
            assert [item.message for item in await db.get_messages("s")] == [
                UserMessage("go"),
                CALLS,
                ToolMessage("b", "second"),
                UserMessage("a note"),
            ]
            await db.set_tool_result(round_, 0, ToolMessage("a", "first"))
            await db.set_tool_result(round_, 0, ToolMessage("a", "too late"))
            assert [item.message for item in await db.get_messages("s")][2:4] == [
                ToolMessage("a", "first"),
                ToolMessage("b", "second"),
            ]
            record = await db.get_session("s")
            assert record is not None
            assert record.message_count == 5
            assert await db.begin_tool_round("s", "r", CALLS) == round_

    asyncio.run(main())


def test_a_place_that_is_not_there_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            await db.create_session("other")
            round_ = await db.begin_tool_round("s", "r", CALLS)
            with pytest.raises(StoreError, match="2 places"):
                await db.set_tool_result(round_, 2, ToolMessage("c", "x"))
            await db.append_message("s", CALLS, uid="plain")
            with pytest.raises(StoreError, match="no such round"):
                await db.begin_tool_round("s", "plain", CALLS)
            await db.delete_session("s")
            await db.create_session("s")
            await db.begin_tool_round("s", "r", CALLS)
            with pytest.raises(StoreError, match="no place"):
                await db.set_tool_result(round_, 0, ToolMessage("a", "x"))

    asyncio.run(main())


def test_a_session_that_died_inside_a_round_is_closed_once(tmp_path: Path) -> None:
    """Its calls may have run: they get an explicit unknown result and are never run again."""

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            round_ = await db.begin_tool_round("s", "r", CALLS)
            await db.set_tool_result(round_, 0, ToolMessage("a", "first"))
        async with SessionDB(tmp_path / "s.db") as db:
            assert await db.open_rounds("s") == [round_]
            assert await db.close_open_rounds("s") == 1
            assert await db.close_open_rounds("s") == 0
            assert await db.open_rounds("s") == []
            _, first, second = [item.message for item in await db.get_messages("s")]
            assert first == ToolMessage("a", "first")
            assert isinstance(second, ToolMessage)
            assert (second.tool_call_id, second.name, second.status) == ("b", "terminal", "unknown")

    asyncio.run(main())


def test_nothing_is_kept_of_a_batch_that_fails(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            await db.append_message("s", UserMessage("taken"), uid="r/result/1")
            with pytest.raises(StoreError, match="already has"):
                await db.begin_tool_round("s", "r", CALLS)
            assert [item.uid for item in await db.get_messages("s")] == ["r/result/1"]
            with pytest.raises(SessionNotFoundError):
                await db.append_message("absent", UserMessage("x"))
            with pytest.raises(SessionNotFoundError):
                await db.get_messages("absent")

    asyncio.run(main())


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("stu"), st.sampled_from("abcdefgh"), st.booleans()), max_size=30))
def test_appends_and_reopenings_against_a_model(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, bool]]
) -> None:
    path = tmp_path_factory.mktemp("model") / "s.db"
    model: dict[str, dict[str, str]] = {name: {} for name in "stu"}

    async def some(part: list[tuple[str, str, bool]]) -> None:
        async with SessionDB(path) as db:
            for number, (session, uid, _) in enumerate(part):
                await db.ensure_session(session, SessionInfo())
                await db.append_message(session, UserMessage(f"{uid}{number}"), uid=uid)
                model[session].setdefault(uid, f"{uid}{number}")
            for name, expected in model.items():
                if await db.get_session(name) is None:
                    assert not expected
                    continue
                stored = await db.get_messages(name)
                assert [(item.uid, item.message) for item in stored] == [
                    (uid, UserMessage(text)) for uid, text in expected.items()
                ]

    part: list[tuple[str, str, bool]] = []
    for step in steps:
        part.append(step)
        if step[2]:
            asyncio.run(some(part))
            part = []
    asyncio.run(some(part))
