"""What trainers read: the export formats, their columns, and files that are whole or not there."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest

from hermes_batch import BatchRunner
from hermes_batch.cli import main
from hermes_batch.export import export_run
from hermes_batch.export_formats import EXPORT_FORMATS, ExportFormat
from hermes_batch.run_files import RunFiles
from hermes_batch.testing import ScriptedAgents, conversation
from hermes_messages import AssistantMessage, ConfigurationError, ToolMessage, UserMessage, validate
from hermes_messages.openai_row import OpenAIRow, from_openai_row
from hermes_messages.trajectory import from_trajectory

PROMPTS = ["plain", "tags <tool_call> and <|im_end|> in it", "a\u2028b", "大别山项目"]


ANSWER = "<think> is a tag"


def finished_run(tmp_path: Path, prompts: list[str] | None = None) -> RunFiles:
    prompts = PROMPTS if prompts is None else prompts
    path = tmp_path / "p.jsonl"
    path.write_text("".join(json.dumps({"prompt": text, "id": f"id {text[:3]}"}) + "\n" for text in prompts))
    agents = ScriptedAgents(lambda prompt: conversation(prompt, answer=ANSWER, echo="x", reasoning="r"))
    asyncio.run(BatchRunner(path, run_name="r", output_dir=tmp_path, agent_factory=agents).run())
    return RunFiles(tmp_path, "r")


def exported(files: RunFiles, form: ExportFormat, **options: Any) -> list[dict[str, Any]]:
    target = files.directory / "out.jsonl"
    count = asyncio.run(export_run(files, target, form, **options)).written
    rows = [json.loads(line) for line in target.read_bytes().split(b"\n")[:-1]]
    assert len(rows) == count
    return rows


def test_sharegpt_rows_are_the_conversations(tmp_path: Path) -> None:
    rows = exported(finished_run(tmp_path), "sharegpt")
    assert [set(row) for row in rows] == [{"id", "conversations"}] * len(PROMPTS)
    assert [row["conversations"][1] for row in rows] == [{"from": "human", "value": text} for text in PROMPTS]


def test_openai_rows_read_back_as_the_messages_that_were_exchanged(tmp_path: Path) -> None:
    files = finished_run(tmp_path)
    for row, plain in zip(exported(files, "openai"), exported(files, "sharegpt"), strict=True):
        messages = from_openai_row(cast("OpenAIRow", row))
        assert not validate(messages)
        assert [type(message) for message in messages] == [
            UserMessage,
            AssistantMessage,
            ToolMessage,
            AssistantMessage,
        ]
        assert json.loads(row["tools"])[0]["function"]["name"] == "echo"
        assert messages[-1].content == from_trajectory(plain["conversations"])[-1].content == ANSWER


def test_a_mark_inside_a_text_ends_no_chatml_block(tmp_path: Path) -> None:
    rows = exported(finished_run(tmp_path), "chatml")
    for row in rows:
        assert row["text"].startswith("<|im_start|>system\n")
        assert row["text"].count("<|im_start|>") == row["text"].count("<|im_end|>") == 5
        assert "<|im_start|>assistant\n<think>" in row["text"]


def test_a_row_for_each_turn_ends_with_its_answer(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"prompt": "one"}\n')
    said = conversation("one", answer="1")
    more = conversation("two", answer="2")
    said["transcript"] = (*said["transcript"], *more["transcript"])
    agents = ScriptedAgents(lambda prompt: said)
    runner = BatchRunner(
        path, run_name="r", output_dir=tmp_path, agent_factory=agents, require_reasoning=False
    )
    asyncio.run(runner.run())
    rows = exported(RunFiles(tmp_path, "r"), "sharegpt", rows_per="turn")
    assert [[step["from"] for step in row["conversations"]] for row in rows] == [
        ["system", "human", "gpt"],
        ["system", "human", "gpt", "human", "gpt"],
    ]


@pytest.mark.parametrize("form", EXPORT_FORMATS)
def test_parquet_holds_the_same_rows(tmp_path: Path, form: ExportFormat) -> None:
    files = finished_run(tmp_path, [f"{number}" for number in range(600)])
    rows = exported(files, form)
    target = files.directory / "out.parquet"
    assert asyncio.run(export_run(files, target, form)).written == 600
    assert pq.read_table(target).to_pylist() == rows
    assert not list(files.directory.glob(".*.tmp"))


def test_an_export_that_fails_leaves_the_earlier_one(tmp_path: Path) -> None:
    files = finished_run(tmp_path)
    with files.trajectories.open("ab") as file:
        file.write(b"{}\n")
    for name in ("old.jsonl", "old.parquet"):
        target = tmp_path / name
        target.write_text("old")
        with pytest.raises(ConfigurationError, match="hermes-batch merge mends it"):
            asyncio.run(export_run(files, target, "sharegpt"))
        assert target.read_text() == "old"
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_run_without_results_and_a_place_that_is_none_are_usage_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["export", "--run-name", "r", "--output-dir", str(tmp_path)]
    assert main([*call, "--output", str(tmp_path / "o.jsonl")]) == 2
    finished_run(tmp_path)
    assert main([*call, "--output", str(tmp_path / "no/o.jsonl")]) == 2
    assert main([*call, "--output", str(tmp_path / "o.jsonl"), "--format", "openai"]) == 0
    told = capsys.readouterr()
    assert "merge write it" in told.err
    assert "there is no directory" in told.err
    assert told.out == f"4 rows in {tmp_path / 'o.jsonl'}\n"


def test_ctrl_c_during_an_export_leaves_no_file_and_no_process(tmp_path: Path) -> None:
    files = finished_run(tmp_path, ["x"])
    line = files.trajectories.read_bytes()
    with files.trajectories.open("wb") as file:
        for _ in range(200_000):
            file.write(line)
    program = "import sys; from hermes_batch.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "export", "--run-name", "r", "--output-dir", str(tmp_path)]
    with subprocess.Popen([*command, "--output", str(tmp_path / "o.parquet")]) as process:
        while not list(tmp_path.glob(".o.parquet.*.tmp")):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert not list(tmp_path.glob("*o.parquet*"))
    assert not list(tmp_path.glob(".o.parquet*"))
