"""The HTTP host of examples as a process: real HTTP, a real database, and restarts between requests."""

from __future__ import annotations

import asyncio
import importlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from hermes_loop import AIAgent
from hermes_messages import ToolMessage, validate
from hermes_messages.testing import ScriptedProvider, text
from hermes_store import SessionDB

pytestmark = pytest.mark.needs("hermes-loop", "hermes-providers", "hermes-tools", "hermes-store")

HOSTS = Path(__file__).parents[2] / "examples"

# The model is a function of the last message, so that it can be the same after a restart.
PROGRAM = """
import asyncio, socket, sys
sys.path.insert(0, sys.argv[1])
folder = sys.argv[2]
import uvicorn
from http_host import ask_later, make_app
from hermes_loop import AIAgent
from hermes_messages import UserMessage
from hermes_messages.testing import ScriptedProvider, call, calls, hang, text

def step(request):
    last = request.history[-1]
    if not isinstance(last, UserMessage):
        return text("All done.", chunk_size=3)
    if last.content == "hang":
        open(folder + "/asked", "w").close()
        return hang(text("Let me th", chunk_size=3), after=2)
    if last.content == "work":
        lines = ["echo free >> ran.txt", "rm -rf one; echo one >> ran.txt", "rm -rf two; echo two >> ran.txt"]
        return calls(*(call("terminal", {"command": line}, id=str(i)) for i, line in enumerate(lines)))
    return text(f"You said {last.content}; {len(request.history)} messages.", chunk_size=4)

def make_agent(name, store):
    rules = [{"action": "ask", "pattern": "rm *"}]
    return AIAgent(provider=ScriptedProvider(step), enabled_toolsets=["terminal"], cwd=folder,
                   approval_policy={"rules": rules}, approval_callback=ask_later, lease_ttl_s=2.0,
                   session_db=store, session_id=name)

options = eval(sys.argv[3])
app = make_app(make_agent, database=folder + "/state.db", **options)

@app.get("/size")
async def size():
    return len(app.state.cache)

listening = socket.socket()
listening.bind(("127.0.0.1", 0))
listening.listen()
print(listening.getsockname()[1], flush=True)
server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
asyncio.run(server.serve(sockets=[listening]))
"""


@contextmanager
def host(folder: Path, end: signal.Signals = signal.SIGTERM, **options: object) -> Iterator[httpx.Client]:
    """The host as a process, ended with `end`; one that is asked to end has to do so cleanly."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-W",
            "error::ResourceWarning",
            "-c",
            PROGRAM,
            str(HOSTS),
            str(folder),
            repr(options),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port, process.communicate()[1]
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}/conversations", timeout=300, trust_env=False
        ) as client:
            yield client
            process.send_signal(end)
            process.wait(300)
        errors = process.communicate()[1]
        assert process.returncode == -end, errors
        # uvicorn logs the cancellation of what it had to cut off
        assert "Traceback" not in errors or "graceful shutdown exceeded" in errors, errors
        assert "ResourceWarning" not in errors, errors
    finally:
        if process.poll() is None:
            process.kill()
            print(process.communicate()[1])  # shown with what failed


def say(client: httpx.Client, name: str, words: str) -> dict[str, object]:
    response = client.post(f"/{name}/messages", json={"text": words})
    assert response.status_code == 200, response.text
    found: dict[str, object] = response.json()
    return found


def check_stored(folder: Path, name: str) -> list[str | None]:
    """The statuses of the tool results; the conversation is valid."""

    async def main() -> list[str | None]:
        async with SessionDB(folder / "state.db") as store:
            messages = [row.message for row in await store.get_messages(name)]
        assert validate(messages) == []
        return [m.status for m in messages if isinstance(m, ToolMessage)]

    return asyncio.run(main())


def test_conversations_are_kept_apart_and_go_on_after_a_restart(tmp_path: Path) -> None:
    with host(tmp_path) as client:
        assert say(client, "anna", "one")["text"] == "You said one; 2 messages."
        assert say(client, "bert", "two")["text"] == "You said two; 2 messages."
        assert say(client, "anna", "three")["text"] == "You said three; 4 messages."
    with host(tmp_path) as client:
        assert say(client, "anna", "four")["text"] == "You said four; 6 messages."


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_an_approval_is_given_in_a_second_request_after_a_restart(
    tmp_path: Path, end: signal.Signals
) -> None:
    with host(tmp_path, end) as client:
        asked = say(client, "anna", "work")
        assert asked["reason"] == "approval_pending"
    with host(tmp_path) as client:
        waiting = client.get("/anna/approvals").json()
        assert waiting == asked["waiting"]
        assert [item["call"]["id"] for item in waiting] == ["1", "2"]
        wrong = client.post("/anna/approvals", json={"decisions": {"7": True}})
        assert wrong.status_code == 409
        decided = client.post("/anna/approvals", json={"decisions": {"1": True, "2": False}})
        assert decided.json() == {
            "text": "All done.",
            "reason": "text_response",
            "error": None,
            "waiting": [],
        }
        again = client.post("/anna/approvals", json={"decisions": {"1": True}})
        assert again.status_code == 409
    assert (tmp_path / "ran.txt").read_text() == "free\none\n"
    assert check_stored(tmp_path, "anna") == ["ok", "ok", "denied"]


def test_text_comes_as_server_sent_events(tmp_path: Path) -> None:
    with host(tmp_path) as client, client.stream("POST", "/anna/stream", json={"text": "hello"}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = [json.loads(line.removeprefix("data: ")) for line in response.iter_lines() if line]
    pieces = [event["text"] for event in events if event["type"] == "text"]
    assert len(pieces) > 3
    assert "".join(pieces) == events[-1]["text"] == "You said hello; 2 messages."
    assert (events[-1]["type"], events[-1]["reason"]) == ("end", "text_response")


def test_a_message_that_is_refused_is_told_before_the_stream_begins(tmp_path: Path) -> None:
    with host(tmp_path) as client:
        assert client.post("/anna/stream", json={"text": " "}).status_code == 409
        assert say(client, "anna", "hello")["text"] == "You said hello; 2 messages."


def test_a_client_that_goes_away_cancels_its_turn_and_the_conversation_goes_on(tmp_path: Path) -> None:
    with host(tmp_path) as client:
        with client.stream("POST", "/anna/stream", json={"text": "hang"}) as response:
            assert json.loads(next(response.iter_lines()).removeprefix("data: "))["text"] == "Let"
        # It waits for the turn before, which would hang for ever.
        assert str(say(client, "anna", "still there?")["text"]).startswith("You said still there?")
    assert check_stored(tmp_path, "anna") == []


def test_a_turn_that_takes_too_long_is_ended_and_the_next_one_works(tmp_path: Path) -> None:
    with host(tmp_path, turn_limit_s=0.5) as client:
        response = client.post("/anna/messages", json={"text": "hang"})
        assert (response.status_code, "0.5 s" in response.text) == (504, True)
        for _ in range(60):  # where the machine stands still, this one takes too long as well
            response = client.post("/anna/messages", json={"text": "and now?"})
            if response.status_code == 200:
                break
        assert str(response.json()["text"]).startswith("You said and now?")
    assert check_stored(tmp_path, "anna") == []


def test_the_cache_has_a_limit_and_an_expiry_and_loses_nothing(tmp_path: Path) -> None:
    with host(tmp_path, limit=2, idle_s=0.2) as client:
        root = client.base_url.copy_with(path="/size")
        for name in ("anna", "bert", "carl", "anna"):
            say(client, name, "hello")
            assert client.get(root).json() <= 2
        until = time.monotonic() + 300
        while client.get(root).json() > 0:
            assert time.monotonic() < until
        assert say(client, "anna", "again")["text"] == "You said again; 6 messages."


def test_a_full_cache_says_so(tmp_path: Path) -> None:
    body = {"text": "hang"}
    with host(tmp_path, limit=1) as client, client.stream("POST", "/anna/stream", json=body) as response:
        lines = response.iter_lines()  # kept: the connection is closed with it
        next(lines)
        assert client.post("/bert/messages", json={"text": "hello"}).status_code == 503
        assert client.post("/bert/stream", json={"text": "hello"}).status_code == 503


def test_requests_that_come_while_an_agent_is_closed_do_not_pass_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(HOSTS))
    cache_module = importlib.import_module("agent_cache")

    def make_agent(name: str) -> AIAgent:
        return AIAgent(provider=ScriptedProvider(lambda _: text("Hi.")), session_id=name)

    async def main() -> None:
        async with cache_module.AgentCache(make_agent, limit=2) as cache:

            async def use(name: str) -> int:
                try:
                    async with cache.agent(name) as agent:
                        await agent.run_conversation("Hello.")
                        return len(cache)
                except cache_module.CacheFullError:
                    return 0

            for name in "ab":
                await use(name)
            sizes = await asyncio.gather(*(use(name) for name in "cdef"))
        assert max(sizes) == 2

    asyncio.run(main())


def test_a_shutdown_ends_a_turn_that_runs_and_keeps_what_there_was(tmp_path: Path) -> None:
    with ExitStack() as after, host(tmp_path) as client:
        response = after.enter_context(client.stream("POST", "/anna/stream", json={"text": "hang"}))
        lines = response.iter_lines()
        next(lines)
    assert check_stored(tmp_path, "anna") == []
    with host(tmp_path) as client:
        assert say(client, "anna", "and now?")["text"] == "You said and now?; 4 messages."
