"""A package of somebody else (examples/third_party) needs hermes-messages only; an agent finds it by name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from built import ROOT, uv

pytestmark = pytest.mark.needs("workspace")

EXAMPLE = ROOT / "examples" / "third_party"
RECORDING = """
{"calls": [{"name": "stock", "arguments": {"part": "B-17"}}]}
{"text": "There are 12 of B-17."}
"""
TURN = """
import asyncio, json, sys
from hermes_loop import AIAgent

async def main(recording, store):
    async with AIAgent(
        provider="acme-replay",
        provider_settings={"recording": recording},
        enabled_toolsets=["acme-parts"],
        session_db=f"jsonl://{store}",
        session_id="parts",
    ) as agent:
        result = await agent.run_conversation("How many B-17 are there?")
    print(json.dumps({key: result[key] for key in (
        "final_response", "turn_exit_reason", "api_calls", "saved", "messages", "provider", "cleanup_errors"
    )}))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture(scope="session")
def example_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("example")
    uv("build", "--quiet", "--wheel", EXAMPLE, "--out-dir", folder)
    return next(folder.glob("*.whl"))


def environment(home: Path, dist: Path, locked_versions: Path, *wanted: str | Path) -> Path:
    """The interpreter of a new environment with `wanted` and what that asks for."""
    python = home / "bin" / "python"
    uv("venv", "--quiet", "--python", sys.executable, home)
    options = ("--no-sources", "--find-links", dist, "--constraints", locked_versions, "--python", python)
    uv("pip", "install", "--quiet", *options, *wanted)
    return python


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_it_passes_the_kit_with_nothing_but_the_messages(
    example_wheel: Path, dist: Path, locked_versions: Path, tmp_path: Path
) -> None:
    python = environment(tmp_path / "env", dist, locked_versions, example_wheel, "pytest")
    installed = {row["name"] for row in json.loads(uv("pip", "list", "--format", "json", "--python", python))}
    assert {name for name in installed if "hermes" in name} == {"acme-hermes", "hermes-messages"}
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_conformance.py").write_bytes((EXAMPLE / "tests/test_conformance.py").read_bytes())
    done = run(python, "-I", "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", tests)
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout


def test_an_agent_finds_provider_toolset_and_store_by_name(
    example_wheel: Path, dist: Path, locked_versions: Path, tmp_path: Path
) -> None:
    wheels = ("hermes-loop", "hermes-tools")  # no provider and no store of ours is there
    python = environment(tmp_path / "env", dist, locked_versions, example_wheel, *wheels)
    recording, store = tmp_path / "recording.jsonl", tmp_path / "sessions.jsonl"
    recording.write_text(RECORDING)
    program = tmp_path / "turn.py"
    program.write_text(TURN)
    done = run(python, "-I", program, recording, store)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["final_response"], result["turn_exit_reason"]) == (
        "There are 12 of B-17.",
        "text_response",
    )
    assert (result["api_calls"], result["saved"], result["provider"]) == (2, True, "acme-replay")
    assert [message["role"] for message in result["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert result["messages"][2]["content"] == "12 of B-17 in stock"
    assert result["cleanup_errors"] == []
    kinds = [json.loads(line)["type"] for line in store.read_text().splitlines()]
    assert kinds[0] == "Made"
    assert kinds.index("RoundBegun") < kinds.index("ResultSet")
    assert "There are 12 of B-17." in store.read_text()


def test_names_that_are_not_installed_are_said(
    example_wheel: Path, dist: Path, locked_versions: Path, tmp_path: Path
) -> None:
    python = environment(
        tmp_path / "env", dist, locked_versions, example_wheel, "hermes-loop", "hermes-tools"
    )
    program = tmp_path / "turn.py"
    program.write_text(TURN.replace('"acme-replay"', '"acme-reply"'))
    done = run(python, "-I", program, tmp_path / "r", tmp_path / "s")
    assert done.returncode == 1
    assert "acme-replay" in done.stderr
    assert "UnknownNameError" in done.stderr
