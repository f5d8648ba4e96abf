"""Ten programs as users of Hermes write them, with `await` added and nothing else, on a loopback host."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from counting_host import running_host

from run_agent import AIAgent

pytestmark = pytest.mark.needs(
    "hermes-loop", "hermes-providers", "hermes-tools", "hermes-store", "hermes-batch"
)

LIMIT_S = 600.0

START = """
import asyncio, json, os
from pathlib import Path

HOST = {"base_url": os.environ["HOST_URL"], "api_key": "none", "model": "m"}
"""

PROGRAMS = {
    "one_answer": """
from run_agent import AIAgent

async def main():
    async with AIAgent(**HOST) as agent:
        print(await agent.chat("hello"))
""",
    "the_whole_result": """
from run_agent import AIAgent

async def main():
    agent = AIAgent(**HOST, max_iterations=5, ephemeral_system_prompt="Be brief.", max_tokens=100)
    try:
        result = await agent.run_conversation("hello", system_message="You are kind.", task_id="t1")
        print(result["final_response"], result["completed"], result["api_calls"], len(result["messages"]))
    finally:
        await agent.close()
""",
    "a_history_of_ones_own": """
from run_agent import AIAgent

async def main():
    history = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    async with AIAgent(**HOST) as agent:
        result = await agent.run_conversation("again", conversation_history=history)
        assert result["messages"][:2] == history
        print(len(result["messages"]))
""",
    "streaming": """
from run_agent import AIAgent

async def main():
    pieces = []
    async with AIAgent(**HOST) as agent:
        await agent.run_conversation("hello", stream_callback=pieces.append)
    print("".join(pieces))
""",
    "tools_and_callbacks": """
from run_agent import AIAgent

async def main():
    seen = []
    async with AIAgent(
        **HOST,
        enabled_toolsets=["file", "terminal", "todo"],
        disabled_toolsets=["terminal"],
        tool_start_callback=lambda call: seen.append(call.name),
        tool_complete_callback=lambda call, result: seen.append(result.status),
        step_callback=lambda number: seen.append(number),
        status_callback=lambda kind, text: None,
    ) as agent:
        result = await agent.run_conversation("plan")
    print(seen, result["api_calls"])
""",
    "a_session_that_goes_on": """
from hermes_state import SessionDB
from run_agent import AIAgent

async def main():
    db = SessionDB("state.db")
    async with AIAgent(**HOST, session_db=db, session_id="s1") as agent:
        await agent.chat("first")
    async with AIAgent(**HOST, session_db=db, session_id="s1") as agent:
        result = await agent.run_conversation("second")
    print(len(result["messages"]), len(await db.get_messages("s1")))
    await db.close()
""",
    "searching_sessions": """
from hermes_state import SessionDB
from run_agent import AIAgent

async def main():
    db = SessionDB("state.db")
    async with AIAgent(**HOST, session_db=db, session_id="s1") as agent:
        await agent.chat("elephants")
    await db.set_session_title("s1", "On animals")
    hits = await db.search_messages("elephants")
    sessions = await db.list_sessions()
    exported = await db.export_session("s1")
    print(len(hits) > 0, [session.title for session in sessions], exported is not None)
    await db.close()
""",
    "trajectories": """
from run_agent import AIAgent

async def main():
    async with AIAgent(
        **HOST, save_trajectories=True, reasoning_config={"enabled": True, "effort": "low"},
        prefill_messages=[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
    ) as agent:
        await agent.chat("hello")
    [line] = Path("trajectory_samples.jsonl").read_text().splitlines()
    print(sorted(json.loads(line)))
""",
    "a_batch": """
from batch_runner import BatchRunner

async def main():
    Path("prompts.jsonl").write_text("".join(json.dumps({"prompt": f"p{n}"}) + "\\n" for n in range(6)))
    runner = BatchRunner(
        dataset_file="prompts.jsonl", batch_size=2, run_name="first", distribution="default", **HOST,
        max_iterations=5, num_workers=2, verbose=False,
    )
    await runner.run(resume=False)
    print(len(Path("data/first/trajectories.jsonl").read_text().splitlines()))
""",
    "a_batch_from_the_command_line": """
import sys

async def main():
    Path("prompts.jsonl").write_text('{"prompt": "p"}\\n')
    run = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "batch_runner", "--dataset_file=prompts.jsonl", "--batch_size=1",
        "--run_name=cli", "--base_url=" + HOST["base_url"], "--api_key=none", "--model=m", "--num_workers=1",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )
    print(await run.wait(), Path("data/cli/trajectories.jsonl").exists())
""",
}
EXPECTED = {
    "one_answer": "Row hello is done.",
    "the_whole_result": "Row hello is done. True 1 2",
    "a_history_of_ones_own": "4",
    "streaming": "Row hello is done.",
    "tools_and_callbacks": "[1, 'todo', 'ok', 2] 2",
    "a_session_that_goes_on": "4 4",
    "searching_sessions": "True ['On animals'] True",
    "trajectories": "['completed', 'conversations', 'model', 'timestamp']",
    "a_batch": "6",
    "a_batch_from_the_command_line": "0 True",
}


@pytest.fixture(scope="module")
def host_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_host(tmp_path_factory.mktemp("host")) as host:
        yield host.url


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_written_for_hermes_runs_with_await_added(name: str, host_url: str, tmp_path: Path) -> None:
    program = tmp_path / f"{name}.py"
    program.write_text(f"{START}{PROGRAMS[name]}\n\nasyncio.run(main())\n")
    done = subprocess.run(
        [sys.executable, "-W", "error", program],
        cwd=tmp_path, env=os.environ | {"HOST_URL": host_url}, capture_output=True, text=True,
        timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == EXPECTED[name]


def test_an_unknown_parameter_names_the_near_one() -> None:
    with pytest.raises(TypeError, match="did you mean 'max_iterations'"):
        AIAgent(max_iteration=3)
