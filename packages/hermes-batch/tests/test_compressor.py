"""Compressed runs: summaries made once, files whole or not there, and counts that add up."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hermes_batch import BatchRunner, RunAbortedError, RunLockedError
from hermes_batch.cli_compression import compression_summary
from hermes_batch.cli_shared import run_until_signal
from hermes_batch.compression_plan import CompressionSettings
from hermes_batch.compression_report import CompressionReport
from hermes_batch.compression_step import compressed, look_at
from hermes_batch.compressor import TrajectoryCompressor
from hermes_batch.export import export_run
from hermes_batch.files import FileLock
from hermes_batch.records import Turn
from hermes_batch.run_files import RunFiles
from hermes_batch.testing import ScriptedAgents, conversation, failed_conversation
from hermes_messages import (
    AssistantMessage,
    ConfigurationError,
    ErrorKind,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_messages.protocols import ConversationResult

SETTINGS = CompressionSettings(target_tokens=1_500, summary_tokens=60)


def worked(prompt: str) -> ConversationResult:
    """As many rounds as the prompt says."""
    result = conversation(prompt, answer="done", reasoning="hm")
    messages: list[Message] = [UserMessage(prompt)]
    for number in range(int(prompt.split()[0])):
        call = ToolCall(f"c{number}", "echo", "{}")
        messages += [
            AssistantMessage(tool_calls=(call,), reasoning="hm"),
            ToolMessage(call.id, f"{prompt} {number} " + "word " * 300),
        ]
    result["transcript"] = (*messages, AssistantMessage("done", reasoning="hm"))
    return result


def finished_run(directory: Path, prompts: list[str]) -> RunFiles:
    path = directory / "p.jsonl"
    path.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))
    runner = BatchRunner(path, run_name="r", output_dir=directory, agent_factory=ScriptedAgents(worked))
    asyncio.run(runner.run())
    return runner.files


def summing_up(text: str = "They read files.") -> ScriptedAgents:
    return ScriptedAgents(lambda prompt: conversation(prompt, answer=text))


def compress(
    directory: Path, agents: ScriptedAgents, settings: CompressionSettings = SETTINGS, **options: Any
) -> CompressionReport:
    compressor = TrajectoryCompressor(
        "r", output_dir=directory, settings=settings, agent_factory=agents, **options
    )
    return asyncio.run(compressor.run())


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def test_long_trajectories_get_a_summary_and_short_ones_stay(tmp_path: Path) -> None:
    files = finished_run(tmp_path, ["1 short", "9 long", "12 longer"])
    agents = summing_up()
    report = compress(tmp_path, agents)
    before, after = rows_of(files.trajectories), rows_of(files.compressed)
    assert after[0]["conversations"] == before[0]["conversations"]
    assert [row["compression"]["outcome"] for row in after] == ["under_target", "summarised", "summarised"]
    for old, new in zip(before[1:], after[1:], strict=True):
        metrics = new["compression"]
        begin, end = metrics["span_begin"], metrics["span_end"]
        assert new["conversations"][begin] == {
            "from": "human",
            "value": "[CONTEXT SUMMARY]: They read files.",
        }
        assert new["conversations"][:begin] == old["conversations"][:begin]
        assert new["conversations"][begin + 1 :] == old["conversations"][end:]
        assert metrics["compressed_tokens"] <= 1_500 < metrics["original_tokens"]
        assert {key: value for key, value in new.items() if key not in ("conversations", "compression")} == {
            key: value for key, value in old.items() if key != "conversations"
        }
    assert (report.trajectories, report.under_target, report.summarised) == (3, 1, 2)
    assert report.tokens_after == sum(row["compression"]["compressed_tokens"] for row in after)
    assert report.turns_removed == report.turns_before - report.turns_after > 0
    assert (report.summaries, report.summaries_failed, report.still_over_limit) == (2, 0, 0)
    assert (report.summary_api_calls, report.summary_input_tokens, report.summary_output_tokens) == (
        2,
        20,
        10,
    )
    assert json.loads(files.compression.read_bytes())["ratio"] == report.ratio < 1
    assert [request.toolsets for request in agents.requests] == [(), ()]
    assert all("in the language of the steps" in str(request.system_prompt) for request in agents.requests)


def test_no_summary_is_paid_for_twice(tmp_path: Path) -> None:
    finished_run(tmp_path, ["9 a", "9 a", "9 b"])
    first = summing_up()
    report = compress(tmp_path, first)
    assert report.summaries == len(first.requests) == 2
    again = summing_up("Another answer.")
    assert compress(tmp_path, again) == report
    assert not again.requests
    other_bounds = summing_up()
    wider = CompressionSettings(target_tokens=1_500, summary_tokens=60, over_limit="drop")
    compress(tmp_path, other_bounds, wider)
    assert not other_bounds.requests
    other_model = summing_up("By another model.")
    assert compress(tmp_path, other_model, model="other").summaries == len(other_model.requests) == 2


def test_failed_summaries_are_counted_and_asked_for_again_only_on_request(tmp_path: Path) -> None:
    files = finished_run(tmp_path, ["9 good", "9 bad", "9 empty", "9 cut", "9 long"])

    def answer(prompt: str) -> ConversationResult:
        if " bad" in prompt:
            return failed_conversation(prompt, error="refused", kind=ErrorKind.CONTENT_POLICY)
        words = "" if " empty" in prompt else "as long as before " * 2_000 if " long" in prompt else "fine"
        result = conversation(prompt, answer=words)
        result["completed"] = " cut" not in prompt
        return result

    report = compress(tmp_path, ScriptedAgents(answer))
    assert (report.summarised, report.kept, report.summaries_failed, report.still_over_limit) == (1, 4, 4, 4)
    failed = [row["compression"]["summary_failed"] for row in rows_of(files.compressed)]
    assert failed == [False, True, True, True, True]
    patient = summing_up()
    assert compress(tmp_path, patient).summaries_failed == 4
    assert not patient.requests
    compressor = TrajectoryCompressor("r", output_dir=tmp_path, agent_factory=patient)
    look = f"hermes-batch view {compressor.summaries.directory}"
    assert look in compression_summary(report, compressor)
    assert look not in compression_summary(replace(report, summaries_failed=0), compressor)
    dropping = CompressionSettings(target_tokens=1_500, summary_tokens=60, on_failed_summary="drop")
    report = compress(tmp_path, patient, dropping)
    assert (report.summarised, report.dropped, len(rows_of(files.compressed))) == (1, 4, 1)
    assert report.trajectories == 5
    report = compress(tmp_path, patient, retry_failed=True)
    assert (len(patient.requests), report.summarised, report.summaries_failed) == (4, 5, 0)


def test_a_summary_is_refused_exactly_where_it_saves_nothing(tmp_path: Path) -> None:
    files = finished_run(tmp_path, ["9 a"])
    settings = CompressionSettings(target_tokens=1_500, summary_tokens=60, system_notice="Shortened.")
    [row] = rows_of(files.trajectories)
    steps = tuple(Turn(step["from"], step["value"]) for step in row["conversations"])
    looked = look_at(steps, settings, len)
    room = looked.room(settings, len)
    for length, outcome in ((room, "summarised"), (room + 1, "kept")):
        summary = "x" * (length - len("[CONTEXT SUMMARY]: "))
        metrics = compressed(looked, summary, settings, len).metrics
        assert (metrics.outcome, metrics.compressed_tokens < metrics.original_tokens) == (
            outcome,
            outcome == "summarised",
        )
        options = {"count_tokens": len, "retry_failed": True, "model": outcome}
        report = compress(tmp_path, summing_up(summary), settings, **options)
        assert report.summaries_failed == (outcome == "kept")
        again = summing_up("x")
        assert compress(tmp_path, again, settings, **options).summaries_failed == 0
        assert len(again.requests) == (outcome == "kept")


def test_a_dead_host_ends_the_call_with_nothing_written_and_the_next_one_goes_on(tmp_path: Path) -> None:
    files = finished_run(tmp_path, ["9 a", "9 b", "9 c", "9 d"])
    asked: list[str] = []

    def answer(prompt: str) -> ConversationResult:
        asked.append(prompt)
        if len(asked) > 2:
            return failed_conversation(prompt, error="no route", kind=ErrorKind.TRANSPORT)
        return conversation(prompt, answer="fine")

    options: dict[str, Any] = {"num_workers": 1, "failure_limit": 2, "attempts": 1}
    with pytest.raises(RunAbortedError, match="the same call goes on") as caught:
        compress(tmp_path, ScriptedAgents(answer), **options)
    assert "resume" not in str(caught.value)
    assert not files.compressed.exists()
    alive = summing_up("fine")
    report = compress(tmp_path, alive, **options)
    assert (len(alive.requests), report.summarised) == (2, 4)


def test_a_stop_leaves_the_earlier_file_and_what_was_summed_up(tmp_path: Path) -> None:
    files = finished_run(tmp_path, ["9 a", "9 b", "9 c"])
    files.compressed.write_text("earlier")
    compressor: list[TrajectoryCompressor] = []

    def answer(prompt: str) -> ConversationResult:
        compressor[0].request_stop()
        return conversation(prompt, answer="fine")

    compressor.append(
        TrajectoryCompressor(
            "r", output_dir=tmp_path, settings=SETTINGS, agent_factory=ScriptedAgents(answer), num_workers=1
        )
    )
    report = asyncio.run(compressor[0].run())
    assert report.interrupted
    assert files.compressed.read_text() == "earlier"
    rest = summing_up("fine")
    assert compress(tmp_path, rest).summarised == 3
    assert len(rest.requests) == 2


def test_a_signal_stops_it_in_order(tmp_path: Path) -> None:
    files = finished_run(tmp_path, ["9 a", "9 b", "9 c"])

    def answer(prompt: str) -> ConversationResult:
        os.kill(os.getpid(), signal.SIGTERM)
        return conversation(prompt, answer="fine")

    compressor = TrajectoryCompressor(
        "r", output_dir=tmp_path, settings=SETTINGS, agent_factory=ScriptedAgents(answer), num_workers=1
    )

    async def main() -> CompressionReport:
        return await run_until_signal(compressor, compressor.run())

    assert asyncio.run(main()).interrupted
    assert not files.compressed.exists()
    rest = summing_up("fine")
    assert compress(tmp_path, rest).summarised == 3
    assert len(rest.requests) == 2


def test_two_compressions_of_one_run_do_not_meet(tmp_path: Path) -> None:
    files = finished_run(tmp_path, ["9 a"])

    async def locked() -> None:
        lock = FileLock(files.compression_lock)
        assert await lock.acquire() is None
        try:
            with pytest.raises(RunLockedError):
                await TrajectoryCompressor("r", output_dir=tmp_path, agent_factory=summing_up()).run()
        finally:
            await lock.release()

    asyncio.run(locked())


def test_a_run_without_rows_and_a_damaged_one_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="merge write it"):
        compress(tmp_path, summing_up())
    files = finished_run(tmp_path, ["9 a"])
    with pytest.raises(ConfigurationError, match="no directory"):
        compress(tmp_path, summing_up(), target=tmp_path / "no" / "x.jsonl")
    with files.trajectories.open("ab") as file:
        file.write(b"{}\n")
    agents = summing_up()
    with pytest.raises(ConfigurationError, match="hermes-batch merge mends it"):
        compress(tmp_path, agents)
    assert not agents.requests
    assert not list(tmp_path.rglob("*.tmp"))


def test_compressed_rows_export_and_load_like_the_others(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="the library `datasets` is not installed")
    files = finished_run(tmp_path, ["1 short", "9 long"])
    compress(tmp_path, summing_up())
    target = tmp_path / "o.jsonl"
    assert asyncio.run(export_run(files, target, "openai", compressed=True)).written == 2
    messages = rows_of(target)[1]["messages"]
    assert any(str(message["content"]).startswith("[CONTEXT SUMMARY]:") for message in messages)
    loaded = datasets.load_dataset(
        "json", data_files=str(files.compressed), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert [row["compression"]["outcome"] for row in loaded] == ["under_target", "summarised"]


PROGRAM = """
import asyncio, os, sys
from hermes_batch.cli_shared import run_until_signal
from hermes_batch.compression_plan import CompressionSettings
from hermes_batch.compressor import TrajectoryCompressor
from hermes_batch.testing import ScriptedAgents, conversation

async def answer(prompt):
    with open(sys.argv[2], "a") as paid:
        paid.write("x")
    await asyncio.sleep(0.01)
    while os.path.getsize(sys.argv[2]) > int(sys.argv[3]):  # to be killed, however late
        await asyncio.sleep(0.01)
    return conversation(prompt, answer="fine")

settings = CompressionSettings(target_tokens=1_500, summary_tokens=60)
compressor = TrajectoryCompressor(
    "r", output_dir=sys.argv[1], settings=settings, agent_factory=ScriptedAgents(answer), num_workers=2
)
print(asyncio.run(compressor.run()).summarised)
"""


@pytest.mark.timeout(1200)
def test_killed_at_any_moment_it_goes_on_and_pays_again_only_for_what_was_under_way(tmp_path: Path) -> None:
    rows, kills = 30, 4
    files = finished_run(tmp_path, [f"9 row {number}" for number in range(rows)])
    paid = tmp_path / "paid"
    paid.touch()
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), str(paid)]
    for kill in range(1, kills + 1):
        with subprocess.Popen([*command, str(kill * 5 + 3)], stdout=subprocess.PIPE) as process:
            while paid.stat().st_size < kill * 5:
                assert process.poll() is None
            os.kill(process.pid, signal.SIGKILL)
        assert not files.compressed.exists()
    done = subprocess.run([*command, "1000000"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{rows}\n"
    assert len(rows_of(files.compressed)) == rows
    assert rows <= paid.stat().st_size <= rows + kills * 2


def test_models_of_one_name_on_two_hosts_do_not_share_summaries(tmp_path: Path) -> None:
    def place(base_url: str | None, model: str = "m") -> str:
        compressor = TrajectoryCompressor(
            "r", output_dir=tmp_path, provider="custom", model=model, base_url=base_url
        )
        return compressor.summaries.directory.name

    here = place("http://here:8000/v1")
    assert here == place("http://user:secret@HERE:8000/v1/")
    others = ("http://here:8001/v1", "http://there:8000/v1", "http://here:8000/other/v1", None)
    assert len({here, *(place(other) for other in others), place("http://here:8000/v1", "n")}) == 6
    with pytest.raises(ConfigurationError, match="base_url is no address"):
        place("http://[::1/v1")


def test_a_run_that_is_merged_meanwhile_is_compressed_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    files = finished_run(tmp_path, ["9 a"])

    def merged_meanwhile(prompt: str) -> ConversationResult:
        line = files.trajectories.read_bytes()
        other = files.trajectories.with_suffix(".new")
        other.write_bytes(line + line.replace(b"9 a", b"9 b"))
        other.replace(files.trajectories)
        return conversation(prompt, answer="fine")

    with pytest.raises(RunAbortedError, match="was merged anew while it was compressed; the summaries"):
        compress(tmp_path, ScriptedAgents(merged_meanwhile))
    assert not files.compressed.exists()
    assert not list(tmp_path.rglob("*.tmp"))
    rest = summing_up("fine")
    assert compress(tmp_path, rest).summarised == 2
    assert len(rest.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "   \n",
        "huge " * 40_000,
        "<tool_call>\n{}\n</tool_call>",
        "\N{SNOWMAN}\x00\u2028\U0001f600",
        "<think>",
    ],
)
def test_whatever_a_summariser_says_every_row_stays_whole_and_is_counted(tmp_path: Path, answer: str) -> None:
    files = finished_run(tmp_path, ["9 \u4f60\u597d\u2028 a", "1 short"])
    report = compress(tmp_path, summing_up(answer))
    assert report.trajectories == report.under_target + report.summarised + report.kept == 2
    assert report.summarised + report.summaries_failed == 1
    long, short = rows_of(files.compressed)
    assert short["compression"]["outcome"] == "under_target"
    assert long["compression"]["compressed_tokens"] <= long["compression"]["original_tokens"]
    target = tmp_path / "o.jsonl"
    assert asyncio.run(export_run(files, target, "openai", compressed=True)).written == 2
