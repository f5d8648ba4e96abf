"""Agents that raise, hang, ignore cancellation or return nonsense cost their own row and nothing else."""

import asyncio
import gc
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from hermes_batch import BatchRunner, BatchStatistics, Record
from hermes_batch.records import decode_record
from hermes_batch.testing import ScriptedAgent, ScriptedAgents, conversation
from hermes_messages import AssistantMessage, ErrorKind, ProviderError, ToolCall, ToolMessage, UserMessage
from hermes_messages.protocols import AgentRequest, ConversationResult


def batch(tmp_path: Path, prompts: Sequence[str], agents: ScriptedAgents, **options: Any) -> BatchRunner:
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(f'{{"prompt": "{prompt}"}}\n' for prompt in prompts))
    settings: dict[str, Any] = {
        "run_name": "run",
        "output_dir": tmp_path / "data",
        "require_reasoning": False,
    }
    return BatchRunner(path, agent_factory=agents, **(settings | options))


def records(tmp_path: Path) -> dict[int, Record]:
    found = {}
    for shard in sorted((tmp_path / "data/run/shards").glob("*.jsonl")):
        for line in shard.read_bytes().splitlines():
            record = decode_record(line)
            found[record.prompt_index] = record
    return found


def good(prompt: str) -> ConversationResult:
    return conversation(prompt, answer="fine", echo="x")


def spoilt(**changes: object) -> ScriptedAgents:
    """Agents whose result for the prompt "bad" has other values, or lacks the keys whose value is None."""

    def behave(prompt: str) -> ConversationResult:
        result: Any = dict(good(prompt))
        if prompt == "bad":
            for key, value in changes.items():
                if value is None:
                    del result[key]
                else:
                    result[key] = value
        return cast("ConversationResult", result)

    return ScriptedAgents(behave)


@pytest.mark.parametrize(
    "changes",
    [
        {"failed": None},
        {"transcript": None},
        {"tools": None},
        {"cost_usd": "a lot"},
        {"input_tokens": 1.5},
        {"api_calls": "two"},
        {"tools": [7]},
        {"transcript": 7},
        {"model": "\udcff", "provider": "\ud800"},
    ],
    ids=str,
)
def test_a_result_that_is_broken_costs_one_row(tmp_path: Path, changes: dict[str, object]) -> None:
    agents = spoilt(**changes)
    statistics = asyncio.run(batch(tmp_path, ["a", "bad", "b"], agents).run())
    assert (statistics.ok, statistics.error, statistics.pending) == (2, 1, 0)
    assert statistics.errors_by_kind == {"broken_result": 1}
    asyncio.run(batch(tmp_path, ["a", "bad", "b"], agents).run(resume=True))
    assert len(agents.requests) == 3


def test_a_result_that_is_no_result_costs_one_row(tmp_path: Path) -> None:
    agents = ScriptedAgents(lambda prompt: good(prompt) if prompt != "bad" else 5)  # type: ignore[arg-type,return-value]
    statistics = asyncio.run(batch(tmp_path, ["a", "bad"], agents).run())
    assert (statistics.ok, statistics.errors_by_kind) == (1, {"broken_result": 1})


@pytest.mark.parametrize("cost", [float("nan"), float("inf")])
def test_a_cost_that_is_no_number_is_an_unknown_cost(tmp_path: Path, cost: float) -> None:
    statistics = asyncio.run(batch(tmp_path, ["bad", "a"], spoilt(cost_usd=cost)).run())
    assert (statistics.ok, statistics.cost_known, statistics.cost_usd) == (2, 0, 0.0)


def test_half_characters_in_texts_and_errors_are_replaced(tmp_path: Path) -> None:
    def behave(prompt: str) -> ConversationResult:
        if prompt == "raises":
            raise RuntimeError("half \ud83d of a character")
        return conversation(prompt, answer="half \ud83d")

    statistics = asyncio.run(batch(tmp_path, ["raises", "a"], ScriptedAgents(behave)).run())
    assert (statistics.ok, statistics.error) == (1, 1)
    found = records(tmp_path)
    assert found[0].error == "RuntimeError: half \ufffd of a character"
    assert found[1].conversations[-1].value.endswith("half \ufffd")


def test_an_error_of_any_length_is_kept_short(tmp_path: Path) -> None:
    def behave(prompt: str) -> ConversationResult:
        raise RuntimeError("x" * 1_000_000)

    asyncio.run(batch(tmp_path, ["a"], ScriptedAgents(behave)).run())
    assert len(records(tmp_path)[0].error) < 10_000


def test_a_transcript_that_breaks_the_rules_is_no_sample(tmp_path: Path) -> None:
    broken = (UserMessage("bad"), ToolMessage("call_9", "nobody asked"), AssistantMessage("done"))
    statistics = asyncio.run(batch(tmp_path, ["a", "bad"], spoilt(transcript=broken)).run())
    assert (statistics.ok, statistics.discarded) == (1, 1)
    assert statistics.errors_by_kind == {"invalid_transcript": 1}
    assert records(tmp_path)[1].error != ""


def test_an_agent_with_a_timeout_error_of_its_own_is_no_row_timeout(tmp_path: Path) -> None:
    def behave(prompt: str) -> ConversationResult:
        raise TimeoutError("the agent's own")

    for options in ({}, {"row_timeout_s": 60.0}):
        run = {"run_name": f"run{len(options)}"}
        statistics = asyncio.run(batch(tmp_path, ["a"], ScriptedAgents(behave), **options, **run).run())
        assert statistics.errors_by_kind == {"internal_error": 1}


def test_an_agent_that_cancels_itself_costs_its_row_and_not_a_worker(tmp_path: Path) -> None:
    def behave(prompt: str) -> ConversationResult:
        if prompt in ("p0", "p1"):
            raise asyncio.CancelledError
        return good(prompt)

    prompts = [f"p{number}" for number in range(10)]
    statistics = asyncio.run(batch(tmp_path, prompts, ScriptedAgents(behave), num_workers=2).run())
    assert (statistics.ok, statistics.error, statistics.pending) == (8, 2, 0)


class Closing(ScriptedAgents):
    """Agents whose `close` does what it is told."""

    def __init__(self, close: Any) -> None:
        super().__init__(good)
        self._close = close

    def create_agent(self, request: AgentRequest) -> ScriptedAgent:
        agent = super().create_agent(request)
        agent.close = self._close  # type: ignore[method-assign]
        return agent


def test_a_paid_row_is_kept_when_its_agent_can_not_be_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def close() -> None:
        raise OSError("the socket is gone")

    statistics = asyncio.run(batch(tmp_path, ["a", "b"], Closing(close)).run())
    assert statistics.ok == 2
    assert "could not be closed" in caplog.text


def test_a_close_that_hangs_is_given_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def close() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("hermes_batch.row_runner._CLOSE_LIMIT_S", 0.05)
    statistics = asyncio.run(batch(tmp_path, ["a"], Closing(close)).run())
    assert statistics.ok == 1
    assert "could not be closed" in caplog.text


@pytest.mark.parametrize("way", ["timeout", "stop", "cancel"])
def test_an_agent_that_ignores_cancellation_holds_up_nobody(
    tmp_path: Path, way: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes_batch.supervision.PATIENCE_S", 0.05)
    caplog.set_level(logging.WARNING)
    let_go = asyncio.Event()
    running = asyncio.Event()

    async def stubborn(prompt: str) -> ConversationResult:
        running.set()
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        return good(prompt)

    async def run() -> BatchStatistics | None:
        timeout = 0.05 if way == "timeout" else None
        runner = batch(tmp_path, ["a"], ScriptedAgents(stubborn), row_timeout_s=timeout)
        task = asyncio.create_task(runner.run())
        await running.wait()
        try:
            if way == "cancel":
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                return None
            if way == "stop":
                runner.request_stop(now=True)
            return await task
        finally:
            let_go.set()
            await asyncio.sleep(0)

    statistics = asyncio.run(run())
    gc.collect()
    assert "it is left to itself" in caplog.text
    if statistics is not None:
        assert (statistics.error, statistics.pending) == ((1, 0) if way == "timeout" else (0, 1))


def test_a_provider_error_that_is_raised_is_run_again_when_the_host_could_not_be_reached(
    tmp_path: Path,
) -> None:
    def behave(prompt: str) -> ConversationResult:
        kind = ErrorKind.TRANSPORT if prompt == "dead" else ErrorKind.FORMAT
        raise ProviderError("no", kind=kind)

    asyncio.run(batch(tmp_path, ["dead", "refused"], ScriptedAgents(behave)).run())
    again = ScriptedAgents(good)
    statistics = asyncio.run(batch(tmp_path, ["dead", "refused"], again).run(resume=True))
    assert len(again.requests) == 1
    assert (statistics.ok, statistics.error) == (1, 1)


def test_a_thousand_invented_tool_names_are_one_column(tmp_path: Path) -> None:
    def behave(prompt: str) -> ConversationResult:
        result: Any = dict(good(prompt))
        call = ToolCall(id="c", name=f"invented_{prompt}", arguments="{}")
        result["transcript"] = (
            UserMessage(prompt),
            AssistantMessage(tool_calls=(call,)),
            ToolMessage("c", "no such tool", status="error"),
            AssistantMessage("done"),
        )
        return cast("ConversationResult", result)

    prompts = [f"p{number}" for number in range(30)]
    statistics = asyncio.run(batch(tmp_path, prompts, ScriptedAgents(behave)).run())
    assert {name: stats.count for name, stats in statistics.tool_stats.items()} == {
        "echo": 0,
        "unknown_tool": 30,
    }
