"""The state file of Hermes Agent comes in, whatever its rows hold."""

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest

from hermes_messages import AssistantMessage, StoreError, StoreSchemaError, ToolCall, ToolMessage
from hermes_store import SessionDB

HERMES = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, model TEXT,
    model_config TEXT, system_prompt TEXT, parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL,
    end_reason TEXT, message_count INTEGER, input_tokens INTEGER, output_tokens INTEGER,
    billing_provider TEXT, estimated_cost_usd REAL, title TEXT, api_call_count INTEGER);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL,
    content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL,
    finish_reason TEXT, reasoning TEXT, reasoning_details TEXT, active INTEGER);
INSERT INTO sessions VALUES ('child', 'cli', 'ann', 'm', NULL, 'Be brief.', 'root', 200.0, NULL, NULL, 2,
    7, 3, 'openrouter', 0.5, 'Storks #2', 4);
INSERT INTO sessions VALUES ('root', 'cli', 'ann', 'm', '{"t": 1}', 'Be brief.', NULL, 100.0, 200.0,
    'compression', 3, 1, 1, NULL, NULL, 'Storks', 1);
INSERT INTO messages (session_id, role, content, timestamp, active) VALUES
    ('root', 'user', 'Where do storks go?', 101.0, 1), ('root', 'session_meta', '{}', 101.5, 1);
INSERT INTO messages (session_id, role, content, tool_calls, reasoning, reasoning_details, finish_reason,
    timestamp, active) VALUES ('root', 'assistant', NULL,
    '[{"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": "{\\"q\\":  1}"}}]',
    'hm', '[{"type": "reasoning.text", "text": "hm"}]', 'tool_calls', 102.0, 1);
INSERT INTO messages (session_id, role, content, tool_call_id, tool_name, timestamp, active) VALUES
    ('root', 'tool', 'south', 'c1', 'look_up', 103.0, 1);
INSERT INTO messages (session_id, role, content, timestamp, active) VALUES
    ('child', 'user', 'taken back', 201.0, 0), ('child', 'assistant', 'South.', 202.0, 1);
"""


def make_hermes_state(path: Path) -> None:
    """A `state.db` as Hermes Agent makes it."""
    connection = sqlite3.connect(path)
    connection.executescript(HERMES)
    parts = "\x00json:" + json.dumps([{"type": "text", "text": "look"}])
    connection.execute(
        "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('child', 'user', ?, 203)",
        (parts,),
    )
    connection.commit()
    connection.close()


def test_the_state_file_of_hermes_agent_comes_in(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    make_hermes_state(path)
    before = path.read_bytes()

    async def main() -> None:
        async with SessionDB(tmp_path / "s.db") as db:
            report = await db.import_hermes_state(path)
            assert (report.sessions, report.messages, report.unreadable_rows) == (2, 6, 1)
            _, asked, result = [item.message for item in await db.get_messages("root")]
            assert isinstance(asked, AssistantMessage)
            assert asked.tool_calls == (ToolCall("c1", "look_up", '{"q":  1}'),)
            assert asked.reasoning == "hm"
            exported = (await db.get_messages_as_conversation("root"))[1]
            assert exported["reasoning_details"] == [{"type": "reasoning.text", "text": "hm"}]
            assert result == ToolMessage("c1", "south", name="look_up")
            assert [item["content"] for item in await db.get_messages_as_conversation("child")] == [
                "South.",
                "look",
            ]
            assert await db.resolve_resume_session_id("root") == "child"
            assert len((await db.get_resume_conversations("root")).display) == 6
            child = await db.get_session("child")
            assert child is not None
            assert (child.provider, child.usage.cost_usd, child.api_calls) == ("openrouter", 0.5, 4)
            assert child.metadata == {"hermes": {"user_id": "ann", "estimated_cost_usd": 0.5}}
            assert child.created_at == 200.0
            again = await db.import_hermes_state(path)
            assert again.skipped == ("root", "child")
            with pytest.raises(StoreSchemaError, match=r"no state\.db"):
                await db.import_hermes_state(tmp_path / "s.db")
            with pytest.raises(StoreError):
                await db.import_hermes_state(tmp_path / "absent.db")

    asyncio.run(main())
    assert path.read_bytes() == before


ODD_VALUES = (
    None,
    -1,
    2**62,
    1.5,
    float("inf"),
    "",
    "x",
    "a\x00b",
    b"\xff\xfe",
    "\x00json:{",
    "9" * 400,
    "[" * 9000,
)


def test_odd_rows_of_a_hermes_state_file_stop_nothing(tmp_path: Path) -> None:
    """SQLite keeps any type in any column; whatever comes in can be read, and goes out and in again."""

    async def main() -> None:
        for number, value in enumerate(ODD_VALUES):
            path = tmp_path / f"state{number}.db"
            make_hermes_state(path)
            loosen(path)
            connection = sqlite3.connect(path)
            for table in ("sessions", "messages"):
                names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
                for name in names:
                    which = "WHERE rowid = (SELECT min(rowid) + ? FROM " + table + ")"
                    connection.execute(
                        f'UPDATE {table} SET "{name}" = ? {which}', (value, len(name) % 2 + number % 2)
                    )
            connection.commit()
            connection.close()
            async with SessionDB(tmp_path / f"{number}.db") as db, SessionDB(tmp_path / "copy.db") as copy:
                report = await db.import_hermes_state(path)
                assert report.sessions + report.unreadable_rows > 0
                for record in await db.list_sessions():
                    await db.export_session(record.id)
                await db.export_to_file(tmp_path / "x.jsonl")
                await copy.import_sessions(tmp_path / "x.jsonl")

    asyncio.run(main())


def loosen(path: Path) -> None:
    """Take the types and rules off the columns."""
    connection = sqlite3.connect(path)
    for table in ("sessions", "messages"):
        names = ", ".join(f'"{row[1]}"' for row in connection.execute(f"PRAGMA table_info({table})"))
        connection.executescript(
            f"CREATE TABLE loose ({names}); INSERT INTO loose SELECT {names} FROM {table}; "
            f"DROP TABLE {table}; ALTER TABLE loose RENAME TO {table};"
        )
    connection.close()
