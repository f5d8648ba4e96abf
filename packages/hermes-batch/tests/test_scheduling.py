"""In which order rows are begun, how often they are tried, and what ends a run early."""

import asyncio
import json
import math
import os
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hermes_batch import BatchRunner, BatchStatistics, RunAbortedError, row_retries
from hermes_batch.dataset import read_dataset, sorted_in_windows
from hermes_batch.records import Record, decode_record
from hermes_batch.rows import PromptRow
from hermes_batch.testing import ScriptedAgents, conversation, failed_conversation
from hermes_messages import AssistantMessage, ConfigurationError, ErrorKind, ToolCall, ToolMessage
from hermes_messages.protocols import ConversationResult


def dataset(folder: Path, prompts: Sequence[str]) -> Path:
    path = folder / "p.jsonl"
    path.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in prompts))
    return path


def runner(folder: Path, prompts: Sequence[str], agents: ScriptedAgents, **options: Any) -> BatchRunner:
    settings: dict[str, Any] = {"require_reasoning": False, "num_workers": 1}
    return BatchRunner(
        dataset(folder, prompts),
        run_name="r",
        output_dir=folder,
        agent_factory=agents,
        **(settings | options),
    )


def records(folder: Path) -> list[Record]:
    shards = sorted((folder / "r/shards").glob("*.jsonl"))
    return [decode_record(line) for shard in shards for line in shard.read_bytes().splitlines()]


def merged(folder: Path) -> list[Record]:
    return [decode_record(line) for line in (folder / "r/trajectories.jsonl").read_bytes().splitlines()]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_retries, "_FIRST_PAUSE_S", 0.0)


@pytest.mark.parametrize(
    ("order", "expected"), [("file", "b aaaa cc"), ("longest", "aaaa cc b"), ("shortest", "b cc aaaa")]
)
def test_rows_are_begun_in_the_order_that_was_asked_for_and_merged_in_that_of_the_file(
    tmp_path: Path, order: str, expected: str
) -> None:
    begun: list[str] = []

    def behave(prompt: str) -> ConversationResult:
        begun.append(prompt)
        return conversation(prompt, answer="a")

    asyncio.run(runner(tmp_path, ["b", "aaaa", "cc"], ScriptedAgents(behave), order=order).run())
    assert begun == expected.split()
    assert [record.prompt_index for record in merged(tmp_path)] == [0, 1, 2]


def test_windows_bound_what_is_held_and_only_what_is_left_is_read(tmp_path: Path) -> None:
    prompts = ["x" * (number % 7 + 1) for number in range(2500)]
    path = dataset(tmp_path, prompts)
    todo = frozenset(range(0, 2500, 2))

    async def read() -> list[PromptRow]:
        async with aclosing(sorted_in_windows(read_dataset(path), "longest", todo)) as rows:
            return [row async for row in rows if isinstance(row, PromptRow)]

    rows = asyncio.run(read())
    assert sorted(row.index for row in rows) == sorted(todo)
    lengths = [len(str(row.turns[0])) for row in rows]
    assert lengths[:1000] == sorted(lengths[:1000], reverse=True)
    assert lengths[1000:] == sorted(lengths[1000:], reverse=True)


def failing(times: int, kind: ErrorKind = ErrorKind.OVERLOADED) -> ScriptedAgents:
    made: list[str] = []

    def behave(prompt: str) -> ConversationResult:
        made.append(prompt)
        if len(made) <= times:
            return failed_conversation(prompt, error="busy", kind=kind)
        return conversation(prompt, answer="a")

    return ScriptedAgents(behave)


def test_a_row_whose_host_fails_is_tried_again_with_a_fresh_agent_and_costs_what_all_attempts_cost(
    tmp_path: Path,
) -> None:
    agents = failing(2)
    statistics = asyncio.run(runner(tmp_path, ["a"], agents, attempts=3).run())
    assert (statistics.ok, statistics.error) == (1, 0)
    [record] = records(tmp_path)
    assert (record.api_calls, record.input_tokens, record.usage_known) == (3, 30, True)
    assert len({request.session_id for request in agents.requests}) == 3
    assert len({request.cwd for request in agents.requests}) == 3


def test_the_attempts_are_bounded_and_a_fixed_refusal_is_not_tried_again(tmp_path: Path) -> None:
    assert asyncio.run(runner(tmp_path, ["a"], failing(9), attempts=2).run()).error == 1
    refused = failing(9, ErrorKind.CONTENT_POLICY)
    folder = tmp_path / "other"
    folder.mkdir()
    assert asyncio.run(runner(folder, ["a"], refused, attempts=5).run()).error == 1
    assert len(refused.requests) == 1


def test_a_row_that_ran_out_of_time_is_tried_again(tmp_path: Path) -> None:
    calls = 0

    async def behave(prompt: str) -> ConversationResult:
        nonlocal calls
        calls += 1
        if calls == 1:
            await asyncio.Event().wait()
        return conversation(prompt, answer="a")

    for limit_s in (0.05, 1.0, 30.0):  # where the machine stands still, the second runs out of time as well
        folder = tmp_path / str(limit_s)
        folder.mkdir()
        calls = 0
        agents = ScriptedAgents(behave)
        statistics = asyncio.run(runner(folder, ["a"], agents, attempts=2, row_timeout_s=limit_s).run())
        assert len(agents.requests) == 2
        if statistics.ok:
            break
    assert (statistics.ok, statistics.usage_known) == (1, 0), "what the first attempt used nobody told"


def test_figures_are_unknown_where_an_attempt_that_was_paid_did_not_give_them(tmp_path: Path) -> None:
    asyncio.run(runner(tmp_path, ["a"], failing(0)).run())
    [known] = [replace(record, cost_usd=2.0, cost_known=True) for record in records(tmp_path)]
    unpaid = replace(known, run_again=True, usage_known=False, cost_known=False, cost_usd=0.0)
    untold = replace(unpaid, run_again=False)
    for earlier, told in (([known], True), ([unpaid], True), ([known, untold], False), ([untold], False)):
        whole = row_retries.with_earlier_costs(known, earlier)
        assert (whole.usage_known, whole.cost_known) == (told, told)
        assert whole.cost_usd == 2.0 * (1 + earlier.count(known))
    lost = row_retries.with_earlier_costs(unpaid, [known])
    assert (lost.usage_known, lost.cost_known, lost.cost_usd) == (False, False, 2.0)


def test_a_stop_ends_the_pause_before_the_next_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_retries, "_FIRST_PAUSE_S", 3600.0)
    monkeypatch.setattr(row_retries, "_LONGEST_PAUSE_S", 3600.0)
    agents = failing(9)

    async def run() -> BatchStatistics:
        batch = runner(tmp_path, ["a", "b"], agents, attempts=5, failure_limit=9)
        task = asyncio.create_task(batch.run())
        while not agents.agents or not agents.agents[-1].closed:  # noqa: ASYNC110 - agents tell in no other way
            await asyncio.sleep(0.001)
        batch.request_stop()
        return await task

    statistics = asyncio.run(run())
    assert (statistics.error, statistics.pending) == (1, 1)
    assert len(agents.requests) == 1


@given(st.integers(1, 10_000))
def test_pauses_grow_and_are_bounded(attempt: int) -> None:
    assert 0 <= row_retries.pause_s(attempt) <= row_retries.pause_s(attempt + 1) <= 60


def test_fail_fast_ends_the_run_at_the_first_row_that_fails(tmp_path: Path) -> None:
    def behave(prompt: str) -> ConversationResult:
        if prompt == "p2":
            return failed_conversation(prompt, error="no", kind=ErrorKind.CONTENT_POLICY)
        return conversation(prompt, answer="a")

    prompts = [f"p{number}" for number in range(9)]
    batch = runner(tmp_path, prompts, ScriptedAgents(behave), fail_fast=True)
    with pytest.raises(RunAbortedError, match="row 2 failed"):
        asyncio.run(batch.run())
    assert [record.prompt_index for record in records(tmp_path)] == [0, 1, 2]
    statistics = json.loads((tmp_path / "r/statistics.json").read_bytes())
    assert (statistics["ok"], statistics["error"], statistics["pending"]) == (2, 1, 6)
    assert not statistics["interrupted"]
    assert "row 2 failed" in statistics["aborted"]


def test_rows_with_invented_tools_are_discarded_at_the_merge_and_kept_in_the_shards(tmp_path: Path) -> None:
    def behave(prompt: str) -> ConversationResult:
        result = conversation(prompt, answer="a")
        if prompt == "bad":
            call = ToolCall("c", "teleport", "{}")
            round_ = (AssistantMessage(tool_calls=(call,)), ToolMessage("c", "no such tool", status="error"))
            result["transcript"] = (result["transcript"][0], *round_, result["transcript"][-1])
        return result

    agents = ScriptedAgents(behave)
    statistics = asyncio.run(runner(tmp_path, ["good", "bad"], agents, drop_unknown_tools=True).run())
    assert (statistics.ok, statistics.discarded) == (1, 1)
    assert statistics.errors_by_kind == {"unknown_tool": 1}
    assert [record.prompt_index for record in merged(tmp_path)] == [0]
    assert len(records(tmp_path)) == 2
    again = asyncio.run(runner(tmp_path, ["good", "bad"], agents).run(resume=True))
    assert again.ok == 2
    assert len(agents.requests) == 2


def test_syncs_are_spared_when_asked_for_and_no_row_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = 0
    plain = os.fsync

    def counting(fd: int) -> None:
        nonlocal syncs
        syncs += 1
        plain(fd)

    monkeypatch.setattr(os, "fsync", counting)
    prompts = [str(number) for number in range(60)]
    agents = ScriptedAgents(lambda prompt: conversation(prompt, answer="a"))

    def synced(folder: Path, every: float) -> int:
        nonlocal syncs
        folder.mkdir()
        syncs = 0
        batch = runner(folder, prompts, agents, num_workers=20, sync_every_s=every)
        assert asyncio.run(batch.run()).ok == 60
        assert len(records(folder)) == 60
        return syncs

    assert synced(tmp_path / "b", 0.2) <= synced(tmp_path / "a", 0.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"sync_every_s": -1.0},
        {"sync_every_s": math.inf},
        {"row_timeout_s": 0.0},
        {"distribution": {"file": 3}},
    ],
)
def test_values_that_can_not_work_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        runner(tmp_path, ["a"], failing(0), **wrong)


def test_a_distribution_may_be_given_as_a_mapping(tmp_path: Path) -> None:
    agents = failing(0)
    asyncio.run(runner(tmp_path, ["a"], agents, distribution={"mine": 1.0}).run())
    assert agents.requests[0].toolsets == ("mine",)
