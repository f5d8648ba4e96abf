"""Child agents: apart from each other, within their share, and ended with the call that made them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hermes_messages import ConfigurationError
from hermes_messages.protocols import Agent, AgentRequest, ConversationResult, ExecutorOptions
from hermes_tools import Executor, build_executor
from hermes_tools.builtin.delegate_task import DelegationSettings, DelegationToolset

Work = Callable[["Child", str], Awaitable[dict[str, Any]]]


class Child:
    """An agent that does what the test says."""

    def __init__(self, factory: Factory, request: AgentRequest) -> None:
        self.factory = factory
        self.request = request
        self.closed = False

    async def run_conversation(self, user_message: Any, *_: Any, **options: Any) -> ConversationResult:
        self.message = str(user_message)
        self.options = options
        self.factory.running += 1
        self.factory.most = max(self.factory.most, self.factory.running)
        try:
            changes = await self.factory.work(self, self.message)
        finally:
            self.factory.running -= 1
        result: dict[str, Any] = {
            "final_response": f"answer to {self.message.splitlines()[0]}", "completed": True, "failed": False,
            "api_calls": 2, "session_id": self.request.session_id, "error": None,
            "turn_exit_reason": "text_response",
        }  # fmt: skip
        return result | changes  # type: ignore[return-value]

    async def close(self) -> None:
        self.closed = True


class Factory:
    def __init__(self, work: Work | None = None) -> None:
        self.work: Work = work or nothing
        self.children: list[Child] = []
        self.opened = self.running = self.most = 0

    async def open(self) -> None:
        self.opened += 1

    def create_agent(self, request: AgentRequest) -> Agent:
        if request.toolsets == ("nonsense",):
            raise ConfigurationError("unknown toolset 'nonsense'")
        child = Child(self, request)
        self.children.append(child)
        return child

    async def close(self) -> None:
        raise AssertionError("the factory is not ours to close")


async def nothing(child: Child, message: str) -> dict[str, Any]:
    return {}


def delegate(bench: Any, run_async: Any, factory: Factory | None, *tasks: Any, **settings: Any) -> Any:
    async def main() -> Any:
        executor = Executor([DelegationToolset(DelegationSettings(**settings))])
        given = [{"goal": task} if isinstance(task, str) else task for task in tasks]
        context = bench.context(
            agent_factory=factory, tool_progress=lambda call, text: bench.events.append(text)
        )
        outcome = await executor.execute([bench.call("delegate_task", {"tasks": given})], context)
        await executor.close()
        return outcome.results[0]

    result = run_async(main())
    assert factory is None or all(child.closed for child in factory.children)
    return result


def test_each_child_has_a_session_a_task_and_a_share_of_its_own(bench: Any, run_async: Any) -> None:
    factory = Factory()
    task = {"goal": "find b", "context": "b is blue", "toolsets": ["file"]}
    result = delegate(bench, run_async, factory, "find a", task, iterations=9)
    first, second = factory.children
    assert result.status == "ok"
    assert result.content == (
        f"## Task 1: done (2 model calls, session {first.request.session_id})\nanswer to find a\n\n"
        f"## Task 2: done (2 model calls, session {second.request.session_id})\nanswer to find b"
    )
    assert first.request.session_id != second.request.session_id
    assert len({"task", first.request.task_id, second.request.task_id}) == 3
    assert first.options == {"task_id": first.request.task_id}
    assert {child.request.max_iterations for child in factory.children} == {4}
    assert (first.request.toolsets, second.request.toolsets) == (None, ("file",))
    assert first.request.source == "delegation"
    assert first.request.metadata == {"parent_session_id": "session", "parent_task_id": "task", "depth": 1}
    assert "find b\n\nb is blue\n\nYou do this for another agent" in second.message
    assert bench.events == ["1 of 2 tasks ended", "2 of 2 tasks ended"]


def test_a_child_that_fails_is_a_result_and_the_others_go_on(bench: Any, run_async: Any) -> None:
    async def work(child: Child, message: str) -> dict[str, Any]:
        if message.startswith("raise"):
            raise OSError("the network is gone")
        if message.startswith("fail"):
            return {"failed": True, "error": "the host refused", "final_response": None}
        if message.startswith("stop"):
            return {"completed": False, "turn_exit_reason": "max_iterations"}
        return {}

    tasks = ["raise", "fail", "stop", "good", {"goal": "never made", "toolsets": ["nonsense"]}]
    result = delegate(bench, run_async, Factory(work), *tasks)
    assert result.status == "ok"
    for part in (
        "## Task 1: failed: OSError: the network is gone",
        "## Task 2: failed (2 model calls, session",
        "the host refused",
        "## Task 3: not complete, max_iterations (2 model calls",
        "## Task 4: done (2 model calls",
        "## Task 5: failed: unknown toolset 'nonsense'",
    ):
        assert part in result.content
    assert delegate(bench, run_async, Factory(work), "raise", "fail").status == "error"


def test_a_child_whose_own_time_is_over_is_not_told_as_ours(bench: Any, run_async: Any) -> None:
    async def work(child: Child, message: str) -> dict[str, Any]:
        raise TimeoutError("the host is slow")

    result = delegate(bench, run_async, Factory(work), "wait")
    assert "## Task 1: failed: TimeoutError: the host is slow" in result.content


def test_no_more_children_run_at_once_than_allowed(bench: Any, run_async: Any) -> None:
    async def work(child: Child, message: str) -> dict[str, Any]:
        for _ in range(5):
            await asyncio.sleep(0)
        return {}

    factory = Factory(work)
    delegate(bench, run_async, factory, *"abcdefgh", max_parallel=3)
    assert factory.most == 3
    assert len(factory.children) == 8


def test_children_delegate_as_deep_as_allowed_and_no_deeper(bench: Any, run_async: Any) -> None:
    deepest: list[int] = []

    async def work(child: Child, message: str) -> dict[str, Any]:
        depth = child.request.metadata["depth"]
        assert isinstance(depth, int)
        deepest.append(depth)
        executor = Executor([DelegationToolset(DelegationSettings(max_depth=2))])
        snapshot = await executor.refresh(bench.turn(agent_factory=child.factory))
        assert bool(snapshot.tools) == (depth < 2)
        call = bench.call("delegate_task", {"tasks": [{"goal": "deeper"}]})
        outcome = await executor.execute([call], bench.context(agent_factory=child.factory))
        await executor.close()
        [result] = outcome.results
        assert result is not None
        assert not snapshot.unavailable or "may not delegate further" in snapshot.unavailable[0].reason
        return {"final_response": str(result.content)}

    result = delegate(bench, run_async, Factory(work), "begin", max_depth=2)
    assert deepest == [1, 2]
    assert "there is no tool 'delegate_task'" in result.content


def test_a_child_that_takes_too_long_is_ended_and_said_so(
    bench: Any, run_async: Any, growing_limits: tuple[float, ...]
) -> None:
    async def work(child: Child, message: str) -> dict[str, Any]:
        if message.startswith("slow"):
            await asyncio.Event().wait()
        return {}

    for limit_s in growing_limits:
        result = delegate(bench, run_async, Factory(work), "slow", "fast", timeout=limit_s)
        assert f"## Task 1: failed: it took longer than {limit_s:g} s" in result.content
        if "## Task 2: failed" not in result.content:
            break
    assert "## Task 2: done" in result.content


@pytest.mark.parametrize("manner", ["cancel", "interrupt"])
def test_stopping_the_call_ends_and_closes_every_child(
    bench: Any, run_async: Any, wait_until: Any, manner: str
) -> None:
    ended: list[str] = []

    async def work(child: Child, message: str) -> dict[str, Any]:
        if message.startswith("fast"):
            return {}
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(message[:4])
        return {}

    async def main() -> Any:
        factory = Factory(work)
        executor = Executor([DelegationToolset()])
        call = bench.call("delegate_task", {"tasks": [{"goal": goal} for goal in ("fast", "slow", "slow")]})
        running = asyncio.create_task(executor.execute([call], bench.context(agent_factory=factory)))
        await wait_until(lambda: any(child.closed for child in factory.children) and factory.running == 2)
        if manner == "cancel":
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        else:
            bench.interrupt.request()
            [result] = (await running).results
            assert result is not None
            assert result.status == "interrupted"
            assert "answer to fast" in result.content
            assert "## Task 2: not finished" in result.content
        assert len(factory.children) == 3
        assert all(child.closed for child in factory.children)
        await executor.close()

    run_async(main())
    assert ended == ["slow", "slow"]


def test_a_long_answer_comes_back_cut(bench: Any, run_async: Any) -> None:
    async def work(child: Child, message: str) -> dict[str, Any]:
        return {"final_response": "x" * 5_000}

    result = delegate(bench, run_async, Factory(work), "a", result_limit=100)
    assert "4,9" not in result.content
    assert "[... 4900 characters left out ...]" in result.content


@pytest.mark.parametrize(
    ("tasks", "complaint"),
    [([], "give 1 to 8 tasks"), (["a"] * 9, "give 1 to 8 tasks"), (["a", " "], "task 2 has no goal")],
)
def test_tasks_that_can_not_be_begun_begin_no_child(
    bench: Any, run_async: Any, tasks: list[str], complaint: str
) -> None:
    factory = Factory()
    result = delegate(bench, run_async, factory, *tasks)
    assert complaint in result.content
    assert not factory.children
    assert not factory.opened


def test_without_a_factory_the_tool_is_absent_and_says_why(bench: Any, run_async: Any) -> None:
    async def main() -> Any:
        executor = build_executor(
            ["delegation"], ExecutorOptions(cwd=".", settings={"delegation": {"max_depth": 2}})
        )
        snapshot = await executor.refresh(bench.turn())
        await executor.close()
        return snapshot

    snapshot = run_async(main())
    assert not snapshot.tools
    assert "no factory for child agents" in snapshot.unavailable[0].reason
    assert "no factory" in delegate(bench, run_async, None, "a").content


def test_settings_of_delegation_are_checked() -> None:
    wrong: Any
    for wrong in ({"max_tasks": 0}, {"timeout": -1}, {"nonsense": 1}, 5):
        with pytest.raises(ConfigurationError):
            build_executor(["delegation"], ExecutorOptions(cwd=".", settings={"delegation": wrong}))
