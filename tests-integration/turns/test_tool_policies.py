"""What a host says of approvals and checkpoints when it makes an agent reaches the executor."""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path

import pytest

from hermes_loop import AIAgent
from hermes_messages import ConfigurationError, ToolCall
from hermes_messages.testing import ScriptedProvider, call, calls, text
from hermes_tools import Checkpoints

pytestmark = pytest.mark.needs("hermes-loop", "hermes-tools")


def test_a_policy_denies_asks_and_allows_commands_of_an_agent(tmp_path: Path) -> None:
    asked: list[str] = []

    async def approve(_: ToolCall, reason: str) -> bool:
        asked.append(reason)
        return False

    async def main() -> None:
        script = [
            calls(
                call("terminal", {"command": "touch allowed"}),
                call("terminal", {"command": "touch denied"}),
                call("terminal", {"command": "chmod -R a+x ."}),
            ),
            text("done"),
        ]
        agent = AIAgent(
            provider=ScriptedProvider(script),
            enabled_toolsets=["terminal"],
            cwd=str(tmp_path),
            approval_policy={"rules": [{"action": "deny", "pattern": "touch denied"}]},
            approval_callback=approve,
        )
        async with agent:
            result = await agent.run_conversation("go")
        statuses = [m["content"] for m in result["messages"] if m["role"] == "tool"]
        assert "no output" in str(statuses[0])
        assert "Denied" in str(statuses[1])
        assert "Denied" in str(statuses[2])

    asyncio.run(main())
    assert asked == ["it changes rights of a whole tree: chmod -R a+x ."]
    assert [path.name for path in tmp_path.iterdir()] == ["allowed"]


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git, which CI always has")
def test_checkpoints_of_an_agent_can_be_restored_by_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("old")

    async def main() -> None:
        script = [calls(call("write_file", {"path": "a.txt", "content": "new"})), text("done")]
        agent = AIAgent(
            provider=ScriptedProvider(script),
            enabled_toolsets=["file"],
            cwd=str(project),
            checkpoints_enabled=True,
        )
        async with agent:
            await agent.run_conversation("go")
        checkpoints = Checkpoints(str(project))
        [checkpoint] = await checkpoints.list()
        assert "-old" in await checkpoints.diff(checkpoint.id)
        await checkpoints.restore(checkpoint.id)

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert (project / "a.txt").read_text() == "old"
    assert "no checkpoint" not in caplog.text


def test_a_policy_that_can_not_work_is_told_before_the_first_request() -> None:
    async def main() -> None:
        provider = ScriptedProvider([text("never")])
        agent = AIAgent(
            provider=provider, enabled_toolsets=["file"], approval_policy={"rules": [{"action": "maybe"}]}
        )
        with pytest.raises(ConfigurationError, match="approval_policy"):
            await agent.run_conversation("go")
        await agent.close()
        assert provider.requests == []

    asyncio.run(main())
