"""The package keeps the promises of the Protocols, as the kit of `hermes_messages.testing` checks them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from acme_hermes import JsonLinesStore, PartsToolset, ReplayProvider
from acme_hermes.provider import make_provider
from acme_hermes.store import make_store

from hermes_messages import ConfigurationError, StoreBusyError, StoreError, ToolCall, UserMessage
from hermes_messages.protocols import NewMessage, ProviderOptions, RoundContext, SessionInfo
from hermes_messages.testing import InterruptFlag, SimpleExecutor, check_executor, check_provider, check_store


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "recording.jsonl"
    answer = {
        "text": "There are twelve.\nOf B-17.",
        "calls": [{"name": "stock", "arguments": {"part": "B-17"}}],
    }
    path.write_text(json.dumps(answer) + "\n")
    return path


def test_the_provider_passes_the_kit(recording: Path, tmp_path: Path) -> None:
    failing = tmp_path / "failing.jsonl"
    failing.write_text('{"error": "out of order"}\n')
    asyncio.run(
        check_provider(lambda: ReplayProvider(recording), make_failing=lambda: ReplayProvider(failing))
    )


def test_the_store_passes_the_kit(tmp_path: Path) -> None:
    made: list[Path] = []

    def new() -> JsonLinesStore:
        made.append(tmp_path / f"{uuid.uuid4().hex}.jsonl")
        return JsonLinesStore(made[-1])

    asyncio.run(check_store(new, reopen=lambda: JsonLinesStore(made[-1])))


def test_the_tools_pass_the_kit_of_executors() -> None:
    """`check_executor` brings tools of its own; ours stand beside them, in the executor of the kit."""
    own = PartsToolset().tools
    asyncio.run(check_executor(lambda tools: SimpleExecutor([*tools, *own])))


def test_a_tool_answers_and_says_what_is_wrong() -> None:
    async def run() -> list[tuple[str, object]]:
        async def keep(position: int, message: object) -> None:
            return None

        context = RoundContext(
            session_id="s", task_id="t", turn_id="1", cwd=".", interrupt=InterruptFlag(), on_result=keep
        )
        calls = [ToolCall("a", "stock", '{"part": "B-17"}'), ToolCall("b", "stock", '{"part": "Z"}')]
        outcome = await SimpleExecutor(PartsToolset().tools).execute(calls, context)
        return [(result.status, result.content) for result in outcome.results if result is not None]

    good, bad = asyncio.run(run())
    assert good == ("ok", "12 of B-17 in stock")
    assert bad[0] == "error"
    assert "there is no part Z" in str(bad[1])


@pytest.mark.parametrize("settings", [{}, {"recording": 3}, {"recording": "x", "speed": 2}])
def test_wrong_settings_are_refused_at_once(settings: dict[str, str | int]) -> None:
    with pytest.raises(ConfigurationError):
        make_provider(ProviderOptions(settings=settings))


@pytest.mark.parametrize("content", [None, "", "no json\n", '{"txt": "a"}\n'])
def test_what_is_no_recording_is_refused_when_it_is_opened(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigurationError):
        asyncio.run(make_provider(ProviderOptions(settings={"recording": str(path)})).open())


WRITER = """
import asyncio, sys
from acme_hermes import JsonLinesStore
from hermes_messages import UserMessage
from hermes_messages.protocols import NewMessage, SessionInfo

async def main():
    store = JsonLinesStore(sys.argv[1])
    await store.ensure_session("s", SessionInfo())
    number = len(await store.get_messages("s"))
    while True:
        await store.append_messages_batch("s", [NewMessage(f"m{number}", UserMessage("x" * 2000))])
        print(number, flush=True)
        number += 1

asyncio.run(main())
"""


async def _uids(path: Path) -> list[str]:
    store = JsonLinesStore(path)
    try:
        return [stored.uid for stored in await store.get_messages("s")]
    finally:
        await store.close()


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    path, expected = tmp_path / "s.jsonl", 0
    for round_ in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            for _ in range(3 + round_):
                expected = int(writer.stdout.readline()) + 1
            os.kill(writer.pid, signal.SIGKILL)
            rest = writer.stdout.read().split()
        expected = max([expected, *(int(number) + 1 for number in rest)])
        uids = asyncio.run(_uids(path))
        assert uids[:expected] == [f"m{number}" for number in range(expected)]
        assert len(uids) <= expected + 1
        expected = len(uids)


@pytest.mark.parametrize("tail", [b'{"type":"Appended","id":"s","mess', b"\x00" * 5])
def test_half_a_line_is_cut_off_and_damage_is_not(tail: bytes, tmp_path: Path) -> None:
    async def write() -> None:
        store = make_store(f"jsonl://{path}")
        await store.ensure_session("s", SessionInfo())
        await store.append_messages_batch("s", [NewMessage("m0", UserMessage("kept"))])
        await store.close()

    path = tmp_path / "s.jsonl"
    asyncio.run(write())
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    assert asyncio.run(_uids(path)) == ["m0"]
    assert path.read_bytes() == whole
    path.write_bytes(tail + b"\n" + whole)
    with pytest.raises(StoreError, match="damaged at byte 0"):
        asyncio.run(_uids(path))


def test_one_file_belongs_to_one_store_at_a_time(tmp_path: Path) -> None:
    async def run() -> None:
        first = JsonLinesStore(tmp_path / "s.jsonl")
        await first.ensure_session("s", SessionInfo())
        with pytest.raises(StoreBusyError):
            await _uids(tmp_path / "s.jsonl")
        await first.close()
        assert await _uids(tmp_path / "s.jsonl") == []

    asyncio.run(run())
