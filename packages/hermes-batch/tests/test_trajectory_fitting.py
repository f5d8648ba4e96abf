"""Samples that are brought within a trainer's window, and those that can not be."""

import asyncio
import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hermes_batch import BatchRunner
from hermes_batch.export import ExportCounts, export_run
from hermes_batch.run_files import RunFiles
from hermes_batch.testing import ScriptedAgents, conversation
from hermes_batch.trajectory_fitting import fit_messages, sample_tokens
from hermes_messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage, validate


def sample(*sizes: int) -> list[Message]:
    messages: list[Message] = [UserMessage("look")]
    for number, size in enumerate(sizes):
        call = ToolCall(f"c{number}", "read", "{}")
        messages += [AssistantMessage(tool_calls=(call,), reasoning="hm"), ToolMessage(call.id, "x" * size)]
    return [*messages, AssistantMessage("done")]


@given(st.lists(st.integers(0, 20_000), max_size=8), st.integers(1, 20_000))
def test_only_older_results_change_and_what_is_given_back_fits(sizes: list[int], target: int) -> None:
    messages = sample(*sizes)
    fitted = fit_messages(messages, (), target)
    if fitted is None:
        assert sample_tokens(messages) > target
        return
    assert sample_tokens(fitted) <= target
    assert validate(fitted) == []
    for old, new in zip(messages, fitted, strict=True):
        assert old == new or (isinstance(old, ToolMessage) and len(str(new.content)) < len(str(old.content)))
    assert list(fitted[-3:]) == messages[-3:]


def test_no_more_is_cut_than_it_takes() -> None:
    messages = sample(8_000, 8_000, 100)
    fitted = fit_messages(messages, (), sample_tokens(messages) - 100)
    assert fitted is not None
    assert fitted[2] != messages[2]
    assert fitted[4] == messages[4]
    assert "characters left out" in str(fitted[2].content)


def test_a_sample_that_fits_is_the_same_object() -> None:
    messages = sample(10)
    assert fit_messages(messages, (), 10_000) is messages


def test_what_is_too_long_all_the_same_is_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text("".join(json.dumps({"prompt": p}) + "\n" for p in ("a", "b" * 9_000)))
    agents = ScriptedAgents(lambda prompt: conversation(prompt, answer="a", reasoning="r"))
    asyncio.run(
        BatchRunner(tmp_path / "p.jsonl", run_name="r", output_dir=tmp_path, agent_factory=agents).run()
    )
    files, target = RunFiles(tmp_path, "r"), tmp_path / "o.jsonl"
    assert asyncio.run(export_run(files, target, max_tokens=1000)) == ExportCounts(1, 1)
    assert asyncio.run(export_run(files, target)) == ExportCounts(2)
