"""A process that is killed at any moment loses no finished row and pays for none twice."""

import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from hermes_batch.records import decode_record

ROWS = 60
WORKERS = 4
KILLS = 8
LINE = len("p10\n")

PROGRAM = """
import asyncio, json, os, pathlib, random, sys
from hermes_batch import BatchRunner
from hermes_batch.testing import ScriptedAgents, conversation

paid = os.open(sys.argv[3], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

async def behave(prompt):
    os.write(paid, (prompt + "\\n").encode())
    await asyncio.sleep(0.01)
    while os.fstat(paid).st_size > int(sys.argv[5]):  # to be killed, however late
        await asyncio.sleep(0.01)
    return conversation(prompt, answer="done " + prompt)

async def in_another_order():
    lines = pathlib.Path(sys.argv[1]).read_text().splitlines()
    random.shuffle(lines)
    for line in lines:
        await asyncio.sleep(0)
        yield json.loads(line)

batch = BatchRunner(
    in_another_order() if sys.argv[4] == "iterable" else sys.argv[1],
    run_name="run", output_dir=sys.argv[2], batch_size=7, num_workers=4,
    require_reasoning=False, agent_factory=ScriptedAgents(behave),
)
print(asyncio.run(batch.run(resume=True)).ok, flush=True)
"""


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("source", ["file", "iterable"])
def test_killed_and_resumed_at_random_moments(tmp_path: Path, source: str) -> None:
    dataset, data, paid = tmp_path / "prompts.jsonl", tmp_path / "data", tmp_path / "paid"
    dataset.write_text("".join(json.dumps({"prompt": f"p{number:02}"}) + "\n" for number in range(ROWS)))
    command = [sys.executable, "-c", PROGRAM, str(dataset), str(data), str(paid), source]
    moments = random.Random(7)
    paid.touch()
    for _ in range(KILLS):
        wanted = paid.stat().st_size + moments.randint(1, 6) * LINE
        with subprocess.Popen([*command, str(wanted + 2 * LINE)], stdout=subprocess.DEVNULL) as process:
            deadline = time.monotonic() + 600
            while paid.stat().st_size < wanted:
                assert process.poll() is None
                assert time.monotonic() < deadline
            process.kill()
        assert process.returncode == -9
    done = subprocess.run([*command, "1000000"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{ROWS}\n"
    merged = [decode_record(line) for line in (data / "run/trajectories.jsonl").read_bytes().splitlines()]
    assert [record.prompt_index for record in merged] == list(range(ROWS))
    prompts = {turn.value for record in merged for turn in record.conversations if turn.from_ == "human"}
    assert len(prompts) == ROWS
    payments = Counter(paid.read_text().split())
    assert set(payments) == {f"p{number:02}" for number in range(ROWS)}
    assert sum(payments.values()) - ROWS <= KILLS * WORKERS
