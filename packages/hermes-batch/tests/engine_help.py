"""Scripted agents that run on every engine, and what a run with them left behind."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from hermes_batch import BatchRunner, BatchStatistics
from hermes_batch.records import Record, decode_record

__all__ = [
    "AGENTS",
    "PATIENT",
    "Engine",
    "as_row",
    "kept",
    "merged",
    "noted",
    "on_cluster",
    "records",
    "run_and",
    "runner",
    "stop_when",
    "with_two_workers",
]


AGENTS = """
import asyncio, os, signal
from hermes_batch.testing import ScriptedAgents, conversation, failed_conversation
from hermes_messages import ErrorKind

WHERE = {where!r}

def note(file, text):
    fd = os.open(os.path.join(WHERE, file), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, (text + "\\n").encode())
    os.close(fd)

def times(prompt):
    with open(os.path.join(WHERE, "paid"), encoding="utf-8") as paid:
        return paid.read().split("\\n").count(prompt)

async def behave(prompt):
    note("paid", prompt)
    match prompt.partition(" ")[0]:
        case "slow":
            await asyncio.sleep(0.2)
        case "hang":
            await asyncio.Event().wait()
        case "gated":
            while not os.path.exists(os.path.join(WHERE, "gate")):
                await asyncio.sleep(0.01)
        case "raise":
            raise RuntimeError("a broken agent")
        case "cancel":
            raise asyncio.CancelledError
        case "nothing":
            return None
        case "refused":
            return failed_conversation(prompt, error="no, not this", kind=ErrorKind.CONTENT_POLICY)
        case "unreachable":
            return failed_conversation(prompt, error="no route", kind=ErrorKind.TRANSPORT)
        case "once" if times(prompt) == 1:
            return failed_conversation(prompt, error="no route", kind=ErrorKind.TRANSPORT)
        case "thoughtless":
            return conversation(prompt, answer="done")
        case "deadly":
            os.kill(os.getpid(), signal.SIGKILL)
    return conversation(prompt, answer="done: " + prompt, echo="x", reasoning="because")

class Agents(ScriptedAgents):
    def create_agent(self, request):
        note("directories", request.cwd)
        note("workers", str(os.getpid()))
        return super().create_agent(request)

    async def close(self):
        note("closed", str(os.getpid()))

def make():
    return Agents(behave)
"""


Engine = dict[str, Any]


PATIENT = pytest.mark.timeout(400)
"""Ray takes seconds to start a cluster or a worker, and minutes on a machine that is busy."""


def on_cluster(address: str) -> Engine:
    settings = {"address": address, "cpus_per_actor": 0.1, "start_timeout_s": 300}
    return {"engine": "ray", "engine_settings": settings}


def with_two_workers(engine: Engine) -> Engine:
    settings = engine.get("engine_settings")
    return engine if settings is None else engine | {"engine_settings": settings | {"actors": 2}}


def runner(where: Path, rows: list[Any], engine: Engine, **options: Any) -> BatchRunner:
    lines = [row if isinstance(row, str) and row.startswith("{") else as_row(row) for row in rows]
    (where / "p.jsonl").write_text("".join(line + "\n" for line in lines))
    settings: dict[str, Any] = {
        "run_name": "r",
        "output_dir": where,
        "agent_factory": f"agents_{where.name}:make",
        "num_workers": 4,
    }
    return BatchRunner(where / "p.jsonl", **(settings | engine | options))


def as_row(row: Any) -> str:
    return json.dumps(row if isinstance(row, dict) else {"prompt": row})


def noted(where: Path, file: str) -> list[str]:
    return (where / file).read_text().splitlines() if (where / file).exists() else []


def records(where: Path, run: str = "r") -> list[Record]:
    shards = sorted((where / run / "shards").glob("*.jsonl"))
    found = [decode_record(line) for shard in shards for line in shard.read_bytes().split(b"\n")[:-1]]
    return sorted(found, key=lambda record: record.prompt_index)


def merged(where: Path) -> list[int]:
    lines = (where / "r/trajectories.jsonl").read_bytes().split(b"\n")[:-1]
    return [decode_record(line).prompt_index for line in lines]


def kept(record: Record) -> dict[str, Any]:
    """What must be the same wherever a row ran."""
    varies = {"session_id", "duration_s", "finished_at"}
    return {name: value for name, value in asdict(record).items() if name not in varies}


async def stop_when(where: Path, reached: Callable[[], bool], stop: Callable[[], None]) -> None:
    while not reached():  # noqa: ASYNC110 - another process makes it come true
        await asyncio.sleep(0.005)
    stop()


async def run_and(batch: BatchRunner, watcher: Any, *, resume: bool = False) -> BatchStatistics:
    async with asyncio.TaskGroup() as group:
        running = group.create_task(batch.run(resume=resume))
        group.create_task(watcher)
    return await running
