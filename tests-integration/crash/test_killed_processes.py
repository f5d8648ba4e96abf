"""Processes that are killed, forget to close, or share a session: what they acknowledged is there."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hermes_loop import AIAgent
from hermes_messages import AssistantMessage, Message, ToolMessage, UserMessage, validate
from hermes_messages.testing import ScriptedProvider, text
from hermes_store import SessionDB
from hermes_tools import tool

pytestmark = pytest.mark.needs("hermes-loop", "hermes-tools", "hermes-store")

PROGRAM = """
import asyncio, sys
from pathlib import Path
from hermes_loop import AIAgent
from hermes_messages.testing import ScriptedProvider, call, calls, hang, text
from hermes_store import SessionDB

folder = Path(sys.argv[1])

def agent(*script, **options):
    options = {"enabled_toolsets": ["terminal"], "session_id": "s", "session_db": str(folder / "state.db"),
               "lease_ttl_s": 1.0, "cwd": folder} | options
    return AIAgent(provider=ScriptedProvider(script), **options)
"""


def start(program: str, folder: Path) -> subprocess.Popen[bytes]:
    code = PROGRAM + program
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def wait_for(path: Path, limit_s: float = 300) -> None:
    deadline = time.monotonic() + limit_s
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not come"
        time.sleep(0.005)


async def resumed(folder: Path) -> tuple[list[Message], tuple[Message, ...]]:
    """The stored messages and the result's, after a new agent took one more turn."""
    provider = ScriptedProvider([text("I see.")])
    async with (
        SessionDB(folder / "state.db") as store,
        AIAgent(
            provider=provider,
            session_db=store,
            session_id="s",
            enabled_toolsets=["terminal"],
            cwd=folder,
            lease_ttl_s=1.0,
        ) as agent,
    ):
        result = await agent.run_conversation("What happened?")
        assert result["final_response"] == "I see.", result["error"]
        assert result["saved"]
        assert list(provider.last_request.history)[1:] == list(result["transcript"][:-1])
        return [row.message for row in await store.get_messages("s")], result["transcript"]


IN_A_ROUND = """
asyncio.run(agent(
    calls(
        call("terminal", {"command": "echo one >> ran.txt; echo done"}),
        call("terminal", {"command": "echo two >> ran.txt; touch inside; sleep 600"}),
        call("terminal", {"command": "echo three >> ran.txt"}),
    ),
    text("Done."),
).run_conversation("go"))
"""


def test_a_process_killed_inside_a_round_is_resumed_with_unknown_results_and_nothing_runs_again(
    tmp_path: Path,
) -> None:
    process = start(IN_A_ROUND, tmp_path)
    wait_for(tmp_path / "inside")
    process.kill()
    process.communicate()
    stored, transcript = asyncio.run(resumed(tmp_path))
    assert tuple(stored) == transcript
    assert validate(stored) == []
    assert [m.status for m in stored if isinstance(m, ToolMessage)] == ["ok", "unknown", "unknown"]
    assert [type(m) for m in stored[:2]] == [UserMessage, AssistantMessage]
    assert (tmp_path / "ran.txt").read_text() == "one\ntwo\n"
    stored, transcript = asyncio.run(resumed(tmp_path))
    assert [m.status for m in stored if isinstance(m, ToolMessage)] == ["ok", "unknown", "unknown"]


AMONG_READERS = """
from hermes_tools import tool

@tool(idempotent=True, scheduling="parallel")
async def look(name: str) -> str:
    \"\"\"Look at something.\"\"\"
    with (folder / "ran.txt").open("a") as file:
        file.write(name + "\\n")
    if name == "slow":
        (folder / "inside").touch()
        await asyncio.sleep(3600)
    return "saw " + name

@tool
async def change(name: str) -> str:
    \"\"\"Change something.\"\"\"
    raise AssertionError("it never came so far")

asyncio.run(agent(
    calls(call("look", {"name": "quick"}), call("look", {"name": "slow"}), call("change", {"name": "x"})),
    text("Done."),
    enabled_toolsets=[], tools=[look, change],
).run_conversation("go"))
"""


def test_after_a_kill_idempotent_calls_run_again_where_the_host_wants_it_and_no_others(
    tmp_path: Path,
) -> None:
    ran: list[str] = []

    @tool(idempotent=True, scheduling="parallel")
    async def look(name: str) -> str:
        """Look at something."""
        ran.append(name)
        return f"saw {name} again"

    @tool
    async def change(name: str) -> str:
        """Change something."""
        ran.append(f"changed {name}")
        return "changed"

    async def resume() -> list[ToolMessage]:
        async with AIAgent(
            provider=ScriptedProvider([text("I see.")]),
            session_db=str(tmp_path / "state.db"),
            session_id="s",
            tools=[look, change],
            lease_ttl_s=1.0,
            rerun_idempotent_tools=True,
        ) as agent:
            result = await agent.run_conversation("What happened?")
        assert result["final_response"] == "I see.", result["error"]
        return [message for message in result["transcript"] if isinstance(message, ToolMessage)]

    process = start(AMONG_READERS, tmp_path)
    wait_for(tmp_path / "inside")
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    results = asyncio.run(resume())
    first = (tmp_path / "ran.txt").read_text().split()
    assert [message.status for message in results] == ["ok", "ok", "unknown"]
    assert results[1].content == "saw slow again"
    # The quick one ran a second time only if its result was not stored yet when the process died.
    again = ["slow"] if results[0].content == "saw quick" else ["quick", "slow"]
    assert (sorted(first), sorted(ran)) == (["quick", "slow"], again)
    assert [message.content for message in asyncio.run(resume())] == [message.content for message in results]
    assert sorted(ran) == again


@pytest.mark.parametrize("after_ms", [0, 3, 9, 20, 45])
def test_a_process_killed_anywhere_leaves_a_session_that_goes_on(after_ms: int, tmp_path: Path) -> None:
    """Each answer whose turn returned is there; the one that was cut off is whole or absent."""
    program = """
async def main():
    endless = iter(lambda: text("yes"), None)
    async with SessionDB(folder / "state.db") as store:
        a = AIAgent(provider=ScriptedProvider(endless), session_db=store, session_id="s", lease_ttl_s=1.0)
        async with a:
            for number in range(10_000):
                await a.run_conversation(str(number))
                with open(folder / "acknowledged", "a") as file:
                    file.write(f"{number}\\n")
asyncio.run(main())
"""
    process = start(program, tmp_path)
    wait_for(tmp_path / "acknowledged")
    time.sleep(after_ms / 1000)
    process.kill()
    _, errors = process.communicate()
    assert process.returncode == -signal.SIGKILL, errors
    acknowledged = (tmp_path / "acknowledged").read_text().count("\n") - 1
    stored, transcript = asyncio.run(resumed(tmp_path))
    assert tuple(stored) == transcript
    assert validate(stored) == []
    asked = [m.content for m in stored if isinstance(m, UserMessage)]
    assert asked[: acknowledged + 1] == [str(number) for number in range(acknowledged + 1)]
    answers = sum(isinstance(m, AssistantMessage) for m in stored)
    assert acknowledged + 2 <= answers <= acknowledged + 3


def test_a_program_that_forgot_to_close_ends_and_lost_nothing(tmp_path: Path) -> None:
    program = """
async def main():
    global kept
    kept = agent(calls(call("terminal", {"command": "echo hi"})), text("Done."))
    await kept.run_conversation("go")
asyncio.run(main())
"""
    process = start(program, tmp_path)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    stored, _ = asyncio.run(resumed(tmp_path))
    assert [m.content for m in stored if isinstance(m, UserMessage)] == ["go", "What happened?"]
    assert len(stored) == 6


def test_ctrl_c_in_a_round_saves_the_turn_and_ends_the_command(tmp_path: Path) -> None:
    program = """
async def main():
    script = calls(call("terminal", {"command": "echo $$ > pid; touch inside; sleep 600"}))
    async with agent(script) as a:
        await a.run_conversation("go")
asyncio.run(main())
"""
    process = start(program, tmp_path)
    wait_for(tmp_path / "inside")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == -signal.SIGINT or b"KeyboardInterrupt" in errors
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)

    async def stored() -> list[Message]:
        async with SessionDB(tmp_path / "state.db") as store:
            assert await store.open_rounds("s") == []
            return [row.message for row in await store.get_messages("s")]

    messages = asyncio.run(stored())
    assert [m.status for m in messages if isinstance(m, ToolMessage)] == ["interrupted"]
    assert validate(messages) == []


def test_two_processes_on_one_session_take_turns(tmp_path: Path) -> None:
    program = """
async def main():
    command = "test ! -e busy && touch busy && sleep 0.01 && rm busy && echo ok"
    script = [calls(call("terminal", {"command": command})), text("ok")] * 4
    async with agent(*script, lease_ttl_s=600) as a:  # also where one stands still, the other waits
        for number in range(4):
            result = await a.run_conversation(f"{sys.argv[0]} {number}")
            assert result["saved"], result["error"]
            assert result["completed"], result["error"]
asyncio.run(main())
"""
    processes = [start(program, tmp_path) for _ in range(2)]
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors.decode()
    stored, _ = asyncio.run(resumed(tmp_path))
    assert validate(stored) == []
    assert [m.content for m in stored if isinstance(m, ToolMessage)] == ["ok"] * 8
    kinds = [type(m) for m in stored]
    assert kinds[:-2] == [UserMessage, AssistantMessage, ToolMessage, AssistantMessage] * 8


def test_a_process_that_was_stopped_past_its_lease_writes_nothing_more(tmp_path: Path) -> None:
    """It sleeps with its machine inside a round; another takes the session over; then it wakes up."""
    program = """
async def main():
    command = "touch inside; while test ! -e go; do sleep 0.02; done; echo one"
    async with agent(calls(call("terminal", {"command": command})), text("A late answer.")) as a:
        result = await a.run_conversation("go")
    print(result["turn_exit_reason"], result["saved"], len(result["transcript"]), flush=True)
asyncio.run(main())
"""
    process = start(program, tmp_path)
    wait_for(tmp_path / "inside")
    process.send_signal(signal.SIGSTOP)
    try:
        taken_over, _ = asyncio.run(resumed(tmp_path))
        (tmp_path / "go").touch()
    finally:
        process.send_signal(signal.SIGCONT)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors.decode()
    assert output.split()[:2] == [b"lease_lost", b"False"], output
    assert [m.status for m in taken_over if isinstance(m, ToolMessage)] == ["unknown"]

    async def stored() -> list[Message]:
        async with SessionDB(tmp_path / "state.db") as store:
            return [row.message for row in await store.get_messages("s")]

    assert asyncio.run(stored()) == taken_over


WAITING = """
from hermes_messages.approvals import Later, pending_from_json

async def later(call, reason):
    return Later()

def asking(*script):
    rules = [{"action": "ask", "pattern": "echo one"}, {"action": "ask", "pattern": "echo two"}]
    return agent(*script, approval_callback=later, approval_policy={"rules": rules})
"""

SUSPENDS = """
import os, signal

async def main():
    lines = ["echo zero", "echo one >> ran.txt", "echo two >> ran.txt; touch inside; sleep 20"]
    a = asking(calls(*(call("terminal", {"command": line}) for line in lines)))
    result = await a.run_conversation("go")
    waiting = pending_from_json(result["pending_approvals"])
    print(result["turn_exit_reason"], len(waiting), result["saved"], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""

DECIDES = """
async def main():
    a = asking(text("Done."))
    async with a:
        waiting = [item.call.id for item in await a.pending_approvals()]
        result = await a.resume({waiting[0]: True, waiting[1]: False})
        print(result["final_response"], result["saved"], await a.pending_approvals(), flush=True)

asyncio.run(main())
"""

DECIDES_THE_LAST = """
async def main():
    a = asking(text("Done."))
    async with a:
        *_, last = await a.pending_approvals()
        await a.resume({last.call.id: True})

asyncio.run(main())
"""


def statuses(folder: Path) -> list[str | None]:
    async def main() -> list[str | None]:
        async with SessionDB(folder / "state.db") as store:
            stored = [row.message for row in await store.get_messages("s")]
        return [m.status for m in stored if isinstance(m, ToolMessage)]

    return asyncio.run(main())


def suspended(folder: Path) -> None:
    """A process that is killed as soon as its turn waits for decisions."""
    process = start(WAITING + SUSPENDS, folder)
    out, errors = process.communicate()
    assert out == b"approval_pending 2 True\n", errors
    assert process.returncode == -signal.SIGKILL
    assert statuses(folder) == ["ok"]


def test_a_turn_that_waits_for_approval_is_finished_by_another_process(tmp_path: Path) -> None:
    suspended(tmp_path)
    out, errors = start(WAITING + DECIDES, tmp_path).communicate()
    assert out == b"Done. True ()\n", errors
    assert statuses(tmp_path) == ["ok", "ok", "denied"]
    assert (tmp_path / "ran.txt").read_text() == "one\n"
    assert not (tmp_path / "inside").exists()


def test_a_process_killed_inside_an_approved_call_leaves_it_unknown_and_the_others_waiting(
    tmp_path: Path,
) -> None:
    suspended(tmp_path)
    process = start(WAITING + DECIDES_THE_LAST, tmp_path)
    wait_for(tmp_path / "inside")
    process.kill()
    process.communicate()
    out, errors = start(WAITING + DECIDES.replace(", waiting[1]: False", ""), tmp_path).communicate()
    assert out == b"Done. True ()\n", errors
    assert statuses(tmp_path) == ["ok", "ok", "unknown"]
    assert (tmp_path / "ran.txt").read_text() == "two\none\n"


def test_a_new_message_after_the_kill_denies_what_waited(tmp_path: Path) -> None:
    suspended(tmp_path)
    stored, transcript = asyncio.run(resumed(tmp_path))
    assert tuple(stored) == transcript
    assert validate(stored) == []
    assert [m.status for m in stored if isinstance(m, ToolMessage)] == ["ok", "denied", "denied"]
    assert not (tmp_path / "ran.txt").exists()
