"""Export, import and upkeep: what leaves the store comes back as it was."""

import asyncio
import json
import os
from pathlib import Path
from typing import get_args

import pytest
from msgspec import Raw

from hermes_messages import (
    AssistantMessage,
    ConfigurationError,
    ImagePart,
    Message,
    OpaquePart,
    Origin,
    Replay,
    StoreError,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolStatus,
    Usage,
    UserMessage,
)
from hermes_messages.protocols import NewMessage
from hermes_store import SessionDB, StoreReadOnlyError

ODD = "W\x00s\x00l \ud800 \uf8ff0000 \udfff"
MESSAGES: list[Message] = [
    UserMessage(ODD, extra=Raw(b'{"cache": {"a":  1}}')),
    AssistantMessage(
        ODD,
        reasoning="because",
        replay=Replay(Origin("p", "h", "m"), "w", (Raw(b'{"sig": "\xc3\xa9", "n":1.0}'),)),
        tool_calls=(ToolCall("c", "f", '{"a": 1,  "a": 2}'),),
        usage=Usage(input_tokens=3, cost_usd=0.25),
    ),
    ToolMessage("c", "done", status="timed_out"),
    AssistantMessage("fin", finish_reason="stop"),
]
CALLS = AssistantMessage(tool_calls=(ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}")))


async def fill(db: SessionDB) -> None:
    await db.create_session("root", source="cli", title=ODD, system_prompt="Be brief.", metadata={"k": ODD})
    await db.append_messages_batch("root", [NewMessage(f"m{n}", item) for n, item in enumerate(MESSAGES)])
    await db.update_token_counts("root", Usage(input_tokens=5), model="m", uid="c1")
    await db.set_session_state("root", "todos", [ODD])
    await db.archive_and_compact(
        "root",
        [NewMessage("s", UserMessage("summary")), NewMessage("m3", MESSAGES[3])],
        child_session_id="tip",
    )
    round_ = await db.begin_tool_round("tip", "r", CALLS)
    await db.set_tool_result(round_, 0, ToolMessage("a", "ran"))
    await db.suspend_round(round_, {"call": "b"})
    await db.create_session("other", source="web")
    await db.append_message("other", UserMessage("a heron"))
    await db.end_session("other", "done")
    await db.archive_sessions(["other"])


HOSTILE: list[Message] = [
    SystemMessage(ODD),
    UserMessage(
        (
            TextPart(ODD, extra=Raw(b'{"cache_control":{"type":"ephemeral"},"x":"\\u0000"}')),
            ImagePart("data:image/png;base64,aGk=", extra=Raw(b'{"x": "high"}')),
            OpaquePart(Raw(b'{"type":"k", "a" :1.0,"a":2}')),
        ),
        name=ODD,
        extra=Raw(b'{"big":123456789012345678901234567890,"z":"\\u0000"}'),
    ),
    *MESSAGES,
    AssistantMessage(
        "\U0001f9a9" + ODD * 50,
        tool_calls=(ToolCall(ODD, ODD, '{"cut off: "' + ODD, extra=Raw(b'{"index":0}')),),
        reasoning=ODD,
        replay=Replay(Origin("p", "h", "m"), "w", tuple(Raw(f'{{"n":{n}}}'.encode()) for n in range(3))),
        usage=Usage(2**53 + 1, 0, None, 7, None, 1e-300),
        extra=Raw(b'{"refusal":null}'),
    ),
    *(ToolMessage(ODD, ODD, name=ODD, status=status) for status in get_args(ToolStatus)),
]


async def fill_with_all_there_is(db: SessionDB) -> None:
    """Sessions whose rows lie between each other's, with whatever a row can hold."""
    first = await db.create_session(
        ODD,
        source=ODD,
        title="",
        model=ODD,
        provider=ODD,
        cwd=ODD,
        system_prompt=ODD,
        metadata={ODD: [ODD, 1e-7]},
    )
    await db.create_session("between", system_prompt=ODD, metadata={"b": 1, "a": None})
    for number, message in enumerate(HOSTILE):
        await db.append_message(first, message, uid=f"{ODD}{number}")
        await db.append_message("between", message)
    for uid in ("call", None, None):
        await db.update_token_counts(first, Usage(2**53 + 1, 0, None, 1, None, 0.1), model=uid, uid=uid)
    await db.update_token_counts("between", None, api_calls=3, provider=ODD)
    await db.set_session_state(first, "todos", [{"text": ODD, "done": False}])
    await db.set_session_state(first, ODD, {"pending": [ODD, 2**70]})
    # Twice in place, then into a child, and that into another.
    kept = [NewMessage(f"{ODD}{n}", HOSTILE[n]) for n in (0, 3)]
    for summary in ("first", "second"):
        await db.replace_messages(first, [NewMessage(summary, UserMessage(summary)), *kept])
        await db.append_message("between", UserMessage(ODD))
    for parent, child in ((first, "child"), ("child", ODD + "2")):
        await db.archive_and_compact(
            parent, [NewMessage("s", UserMessage("s")), *kept], child_session_id=child
        )
        await db.append_message("between", UserMessage(ODD))
    await db.create_session("delegated", parent_session_id="child")
    for uid, decided in (("suspended", False), ("open", True)):
        round_ = await db.begin_tool_round(ODD + "2", uid, CALLS)
        await db.set_tool_result(round_, 1, ToolMessage("b", ODD, status="error"))
        if not decided:
            await db.suspend_round(round_, {"call": ODD, "why": [None, True, 2**70]})
    await db.end_session("delegated", ODD)
    await db.archive_sessions(["between"])


SESSIONS = (ODD, "between", "child", ODD + "2", "delegated")


async def all_there_is(db: SessionDB) -> list[object]:
    """What can be asked about these sessions, without the numbers that a database gives."""
    answers: list[object] = []
    for id_ in SESSIONS:
        answers += [
            await db.get_session(id_),
            [(item.uid, item.message, item.created_at) for item in await db.get_messages(id_)],
            await db.get_resume_conversations(id_),
            [record.id for record in await db.get_compression_lineage(id_)],
            await db.get_calls(id_),
            await db.get_usage_by_model(id_),
            await db.get_session_state(id_, "todos"),
            await db.get_session_state(id_, ODD),
            len(await db.open_rounds(id_)),
            [item.pending for item in await db.suspended_rounds(id_)],
        ]
    answers += [record.id for record in await db.list_sessions(include_archived=True)]
    return answers


async def check_round_trip(origin: SessionDB, through: SessionDB, back: SessionDB, folder: Path) -> None:
    """The same file and the same answers from each of three stores, the second and third being imports."""
    await fill_with_all_there_is(origin)
    expected = await all_there_is(origin)
    assert await origin.export_to_file(folder / "1.jsonl") == len(SESSIONS)
    first = (folder / "1.jsonl").read_bytes()
    await through.create_session("there before")
    await through.append_messages_batch("there before", [NewMessage(str(n), HOSTILE[n]) for n in range(9)])
    await through.import_sessions(folder / "1.jsonl")
    assert await through.delete_session("there before")
    await through.export_to_file(folder / "2.jsonl")
    assert (folder / "2.jsonl").read_bytes() == first
    assert await all_there_is(through) == expected
    await back.import_sessions(folder / "2.jsonl")
    await back.export_to_file(folder / "3.jsonl")
    assert (folder / "3.jsonl").read_bytes() == first
    assert await all_there_is(back) == expected
    # What was imported is alive: it can be compressed again, and its rounds go on.
    [waiting] = await back.suspended_rounds(ODD + "2")
    await back.set_tool_result(waiting.round, 0, ToolMessage("a", "allowed"))
    assert await back.close_open_rounds(ODD + "2") == 1
    for number in range(3):
        await back.replace_messages(ODD + "2", [NewMessage("s", UserMessage(str(number)))])


def test_whatever_a_database_holds_goes_through_another_and_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            SessionDB(tmp_path / "a.db") as a,
            SessionDB(tmp_path / "b.db") as b,
            SessionDB(tmp_path / "c.db") as c,
        ):
            await check_round_trip(a, b, c, tmp_path)

    asyncio.run(main())


def test_an_import_that_is_repeated_after_it_broke_off_relates_what_came_to_what_was_there(
    tmp_path: Path,
) -> None:
    """The first session arrived, its child did not: the child's copies are still copies."""

    async def main() -> None:
        path = tmp_path / "x.jsonl"
        async with SessionDB(tmp_path / "a.db") as a, SessionDB(tmp_path / "b.db") as b:
            await fill_with_all_there_is(a)
            await a.export_to_file(path)
            whole = path.read_bytes().splitlines(keepends=True)
            child = next(n for n, line in enumerate(whole) if b'"id":"child"' in line)
            path.write_bytes(b"".join(whole[: child + 2]))
            with pytest.raises(StoreError, match="ends inside"):
                await b.import_sessions(path)
            path.write_bytes(b"".join(whole))
            report = await b.import_sessions(path)
            assert report.skipped
            assert report.sessions
            for id_ in SESSIONS:
                assert await b.get_resume_conversations(id_) == await a.get_resume_conversations(id_)

    asyncio.run(main())


def test_an_export_read_into_another_store_is_the_same_byte_for_byte(tmp_path: Path) -> None:
    async def main() -> None:
        first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
        async with SessionDB(tmp_path / "a.db") as a, SessionDB(tmp_path / "b.db") as b:
            await fill(a)
            assert await a.export_to_file(first) == 3
            report = await b.import_sessions(first)
            assert (report.sessions, report.messages, report.skipped) == (3, 9, ())
            await b.export_to_file(second)
            assert second.read_bytes() == first.read_bytes()
            for id_ in ("root", "tip", "other"):
                assert await b.get_messages(id_) == await a.get_messages(id_)
                assert await b.get_session(id_) == await a.get_session(id_)
            assert await b.get_resume_conversations("root") == await a.get_resume_conversations("root")
            [waiting] = await b.suspended_rounds("tip")
            await b.set_tool_result(waiting.round, 1, ToolMessage("b", "denied", status="denied"))
            assert await b.open_rounds("tip") == []
            assert len(await b.search_messages("heron")) == 1
            again = await b.import_sessions(first)
            assert (again.sessions, again.skipped) == (0, ("root", "tip", "other"))
            assert await a.export_to_file(first, source="web") == 1

    asyncio.run(main())


def test_numbers_of_another_store_are_given_anew(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "a.db") as a, SessionDB(tmp_path / "b.db") as b:
            await b.create_session("first")
            await b.append_messages_batch("first", [NewMessage(str(n), UserMessage("x")) for n in range(9)])
            await fill(a)
            await a.export_to_file(tmp_path / "x.jsonl")
            await b.import_sessions(tmp_path / "x.jsonl")
            assert await b.get_resume_conversations("root") == await a.get_resume_conversations("root")
            [round_] = await b.open_rounds("tip")
            await b.set_tool_result(round_, 1, ToolMessage("b", "ran too"))
            stored = await b.get_messages("tip")
            assert [item.message for item in stored][-2:] == [
                ToolMessage("a", "ran"),
                ToolMessage("b", "ran too"),
            ]

    asyncio.run(main())


def test_dicts_go_out_and_in(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "a.db") as a, SessionDB(tmp_path / "b.db") as b:
            for name in ("one", "two"):
                await a.create_session(
                    name, source=name, title=ODD, system_prompt="Be brief.", metadata={"k": 1}
                )
                await a.append_messages_batch(
                    name, [NewMessage(str(n), item) for n, item in enumerate(MESSAGES[2:])]
                )
                await a.update_token_counts(name, Usage(input_tokens=5))
                await a.end_session(name, "done")
            exported = await a.export_all()
            assert [session["id"] for session in exported] == ["one", "two"]
            assert [session["id"] for session in await a.export_all(source="two")] == ["two"]
            report = await b.import_sessions(exported)
            assert (report.sessions, report.messages) == (2, 4)
            assert await b.export_all() == exported
            with pytest.raises(ConfigurationError, match="no exported session"):
                await b.import_sessions([{"id": "x"}])

    asyncio.run(main())


def test_a_file_that_is_cut_or_no_export_is_refused_after_what_is_whole(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "x.jsonl"
        async with SessionDB(tmp_path / "a.db") as a:
            await fill(a)
            await a.export_to_file(path)
        lines = path.read_bytes().splitlines(keepends=True)
        cases: list[tuple[bytes, str]] = [
            (b"", "is empty"),
            (b"my diary\n", "line 1"),
            (b'{"type":"header","format":"hermes-sessions","version":2}\n', "version 2"),
            (b"".join(lines[1:]), "line 1: a session begins"),
            (b"".join([*lines[:3], *lines[4:]]), "begins where none may"),
            (b"".join(lines[:-1]), "ends inside session 'other'"),
            (lines[0] + lines[2], "belongs to no session"),
        ]
        for number, (content, match) in enumerate(cases):
            path.write_bytes(content)
            async with SessionDB(tmp_path / f"{number}.db") as db:
                with pytest.raises(StoreError, match=match):
                    await db.import_sessions(path)
                whole = {"root", "tip"} if "ends inside" in match else set()
                assert {record.id for record in await db.list_sessions()} == whole
        async with SessionDB(tmp_path / "c.db") as db:
            with pytest.raises(StoreError, match="No such file"):
                await db.import_sessions(tmp_path / "absent.jsonl")
            with pytest.raises(StoreError, match="not written"):
                await db.export_to_file(tmp_path / "absent" / "x.jsonl")

    asyncio.run(main())


def changed(line: bytes, **values: object) -> bytes:
    return json.dumps(json.loads(line) | values).encode() + b"\n"


def test_a_session_that_could_not_be_read_again_is_not_imported(tmp_path: Path) -> None:
    """Lines that are valid JSON of the right form, whose content was damaged or edited."""

    async def main() -> None:
        path = tmp_path / "x.jsonl"
        async with SessionDB(tmp_path / "a.db") as a:
            await a.create_session("s", metadata={"k": 1})
            round_ = await a.begin_tool_round("s", "r", CALLS)
            await a.set_tool_result(round_, 0, ToolMessage("a", "ran"))
            await a.suspend_round(round_, {"call": "b"})
            await a.update_token_counts("s", Usage(input_tokens=5), model="m")
            await a.set_session_state("s", "todos", [1])
            await a.export_to_file(path)
        lines = path.read_bytes().splitlines(keepends=True)
        _, session, asked, result, place, call, state = range(7)
        damage: list[tuple[int, dict[str, object], str]] = [
            (session, {"id": "\uf8ffzz"}, "id is not written"),
            (session, {"id": ""}, "empty id"),
            (session, {"parent_id": "x" * 3000}, "more than 2,000 bytes"),
            (session, {"metadata": "[]"}, "metadata"),
            (session, {"metadata": "{"}, "metadata"),
            (session, {"input_tokens": 2**63}, "too large"),
            (session, {"title": "a\x00b"}, "title is not written"),
            (asked, {"body": "{"}, "can not be read"),
            (asked, {"role": "user"}, "can not be read"),
            (asked, {"shape": 64}, "can not be read"),
            (asked, {"pending": "{"}, "wait for a decision"),
            (result, {"pending": "1"}, "wait for a decision"),
            (result, {"text": "\uf8ff"}, "text is not written"),
            (result, {"uid": "r"}, "two messages"),
            (result, {"position": 1}, "second result"),
            (place, {"round": 99}, "of no call"),
            (place, {"position": 2}, "of no call"),
            (place, {"round": None}, "of no call"),
            (call, {"api_calls": 2**63}, "too large"),
            (state, {"value": "tomorrow"}, "no JSON"),
        ]
        async with SessionDB(tmp_path / "b.db") as db:
            for number, values, match in damage:
                path.write_bytes(
                    b"".join(changed(line, **values) if n == number else line for n, line in enumerate(lines))
                )
                with pytest.raises(StoreError, match=match):
                    await db.import_sessions(path)
                assert await db.list_sessions() == []
            path.write_bytes(b"".join(lines))
            assert (await db.import_sessions(path)).sessions == 1

    asyncio.run(main())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_file_is_neither_replaced_nor_opened(tmp_path: Path) -> None:
    """Run by root, an export to a device took the device away."""

    async def main() -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        async with SessionDB(tmp_path / "s.db") as db:
            await db.create_session("s")
            with pytest.raises(ConfigurationError, match="no ordinary file"):
                await db.export_to_file(pipe)
        with pytest.raises(StoreError, match="no ordinary file"):
            async with SessionDB(pipe):
                pass

    asyncio.run(main())
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["pipe", "s.db"]


def test_a_cancelled_export_leaves_no_file(tmp_path: Path) -> None:
    async def main() -> None:
        async with SessionDB(tmp_path / "a.db") as db:
            await fill(db)
            folder = tmp_path / "out"
            folder.mkdir()
            for steps in range(0, 40, 3):
                task = asyncio.create_task(db.export_to_file(folder / "x.jsonl"))
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                assert {entry.name for entry in folder.iterdir()} <= {"x.jsonl"}
            await db.export_to_file(folder / "x.jsonl")
            assert [entry.name for entry in folder.iterdir()] == ["x.jsonl"]

    asyncio.run(main())


def test_a_store_that_is_only_read_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def main() -> None:
        with pytest.raises(StoreError):
            await SessionDB(path, read_only=True).list_sessions()
        assert not path.exists()
        async with SessionDB(path) as db:
            await fill(db)
        before = path.read_bytes()
        async with SessionDB(path, read_only=True) as db:
            assert len(await db.get_messages("root")) == 4
            assert len(await db.search_messages("heron")) == 1
            assert await db.check_integrity() == []
            await db.backup(tmp_path / "copy.db")
            with pytest.raises(StoreReadOnlyError, match="read_only"):
                await db.append_message("root", UserMessage("x"))
            for write in (db.vacuum, db.rebuild_search_index):
                with pytest.raises(StoreReadOnlyError):
                    await write()
        assert path.read_bytes() == before
        async with SessionDB(tmp_path / "copy.db") as copy:
            assert len(await copy.get_messages("root")) == 4

    asyncio.run(main())
