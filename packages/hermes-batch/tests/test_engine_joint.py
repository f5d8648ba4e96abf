"""The driver over any engine: lost workers, an engine that has gone, and names instead of objects."""

import asyncio
import json
import logging
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_batch import BatchRunner, EngineLostError, Record, RowJob, RunAbortedError, WorkerLostError
from hermes_batch.cli import main
from hermes_batch.local_engine import LocalEngine
from hermes_batch.records import decode_record
from hermes_batch.redelivery import MOST_HAND_OUTS, GiveUpRow, HandOutAgain, LeaveForResume, after_loss
from hermes_batch.rows import PromptRow
from hermes_batch.testing import ScriptedAgents, conversation
from hermes_messages import ConfigurationError


def good_agents() -> ScriptedAgents:
    return ScriptedAgents(lambda prompt: conversation(prompt, answer="done"))


class ClosedAgents(ScriptedAgents):
    closed = 0

    async def close(self) -> None:
        ClosedAgents.closed += 1


def made_agents() -> ClosedAgents:
    return ClosedAgents(lambda prompt: conversation(prompt, answer="done"))


class TroubledEngine:
    """The local engine, but `trouble` may raise when a row is handed out."""

    def __init__(self, trouble: Callable[[PromptRow, int], None]) -> None:
        self._trouble = trouble
        self._inner = LocalEngine()
        self.handed_out = Counter[int]()
        self.open_now = False

    async def open(self, job: RowJob) -> None:
        self.open_now = True
        await self._inner.open(job)

    async def run_row(self, row: PromptRow) -> Record:
        self.handed_out[row.index] += 1
        self._trouble(row, self.handed_out[row.index])
        return await self._inner.run_row(row)

    async def close(self) -> None:
        self.open_now = False
        await self._inner.close()


def runner(folder: Path, rows: int = 6, **options: Any) -> BatchRunner:
    path = folder / "p.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"p{number}"}) + "\n" for number in range(rows)))
    settings: dict[str, Any] = {
        "run_name": "r",
        "output_dir": folder,
        "require_reasoning": False,
        "num_workers": 2,
        "agent_factory": good_agents(),
    }
    return BatchRunner(path, **(settings | options))


def records(folder: Path) -> list[Record]:
    shards = sorted((folder / "r/shards").glob("*.jsonl"))
    return [decode_record(line) for shard in shards for line in shard.read_bytes().splitlines()]


def test_rows_of_a_lost_worker_are_handed_out_again(tmp_path: Path) -> None:
    def trouble(row: PromptRow, time: int) -> None:
        if row.index in {1, 4} and time < MOST_HAND_OUTS:
            raise WorkerLostError("its machine went away")

    engine = TroubledEngine(trouble)
    statistics = asyncio.run(runner(tmp_path, engine=engine).run())
    assert (statistics.ok, statistics.error) == (6, 0)
    assert engine.handed_out == {0: 1, 1: MOST_HAND_OUTS, 2: 1, 3: 1, 4: MOST_HAND_OUTS, 5: 1}
    assert not engine.open_now


def test_a_row_that_kills_its_workers_ends_as_an_error_row_and_is_not_run_for_ever(tmp_path: Path) -> None:
    def trouble(row: PromptRow, _time: int) -> None:
        if row.index == 3:
            raise WorkerLostError("it ran out of memory")

    engine = TroubledEngine(trouble)
    statistics = asyncio.run(runner(tmp_path, engine=engine, attempts=4).run())
    assert (statistics.ok, statistics.error) == (5, 1)
    assert engine.handed_out[3] == MOST_HAND_OUTS
    [lost] = [record for record in records(tmp_path) if record.prompt_index == 3]
    assert lost.reason == "worker_lost"
    assert lost.error == "3 workers died while they ran this row; the last: it ran out of memory"
    asyncio.run(runner(tmp_path, engine=engine).run(resume=True))
    assert engine.handed_out[3] == MOST_HAND_OUTS


def test_a_row_that_is_lost_while_the_run_stops_is_left_for_resume(tmp_path: Path) -> None:
    def trouble(row: PromptRow, time: int) -> None:
        if row.index == 2 and time == 1:
            batch.request_stop()
            raise WorkerLostError("gone")

    engine = TroubledEngine(trouble)
    batch = runner(tmp_path, engine=engine, num_workers=1)
    stopped = asyncio.run(batch.run())
    assert (stopped.ok, stopped.error, stopped.pending) == (2, 0, 4)
    assert asyncio.run(batch.run(resume=True)).ok == 6
    assert engine.handed_out == {0: 1, 1: 1, 2: 2, 3: 1, 4: 1, 5: 1}


def test_an_engine_that_has_gone_ends_the_run_with_what_is_finished(tmp_path: Path) -> None:
    def trouble(row: PromptRow, _time: int) -> None:
        if row.index >= 3:
            raise EngineLostError("the cluster does not answer")

    with pytest.raises(RunAbortedError, match="the cluster does not answer; finished rows are kept"):
        asyncio.run(runner(tmp_path, engine=TroubledEngine(trouble), num_workers=1).run())
    assert [record.prompt_index for record in records(tmp_path)] == [0, 1, 2]
    assert len((tmp_path / "r/trajectories.jsonl").read_bytes().splitlines()) == 3
    assert asyncio.run(runner(tmp_path).run(resume=True)).ok == 6


def test_what_becomes_of_a_lost_row_is_decided_by_how_often_and_whether_the_run_stops() -> None:
    assert after_loss(1, last="x", stopping=False) == HandOutAgain()
    assert after_loss(1, last="x", stopping=True) == LeaveForResume()
    assert isinstance(after_loss(MOST_HAND_OUTS, last="x", stopping=False), GiveUpRow)
    assert isinstance(after_loss(MOST_HAND_OUTS, last="x", stopping=True), GiveUpRow)


def test_an_unknown_engine_or_setting_is_refused_before_anything_happens(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="unknown row engine 'locale'; did you mean 'local'"):
        runner(tmp_path, engine="locale")
    with pytest.raises(ConfigurationError, match="the local engine has no setting 'actors'"):
        runner(tmp_path, engine="local", engine_settings={"actors": 2})
    with pytest.raises(ConfigurationError, match="by its name"):
        runner(tmp_path, engine=LocalEngine(), engine_settings={"actors": 2})
    assert not (tmp_path / "r").exists()


OF_ANOTHER_PACKAGE = """
from hermes_batch.local_engine import LocalEngine

class Engine(LocalEngine):
    def __init__(self, settings):
        super().__init__()
        self.settings, self.rows = settings, 0

    async def run_row(self, row):
        self.rows += 1
        return await super().run_row(row)

made = []

def make(settings):
    made.append(Engine(settings))
    return made[-1]
"""


def test_an_engine_of_another_package_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "engine_for_tests.py").write_text(OF_ANOTHER_PACKAGE)
    info = tmp_path / "engine_for_tests-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: engine-for-tests\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[hermes.row_engines]\nfarm = engine_for_tests:make\nlocal = engine_for_tests:make\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert asyncio.run(runner(tmp_path, engine="farm", engine_settings={"beds": 3}).run()).ok == 6
    assert asyncio.run(runner(tmp_path, engine="local", run_name="ours").run()).ok == 6
    [engine] = sys.modules.pop("engine_for_tests").made  # the name `local` stays ours
    assert (engine.settings, engine.rows) == ({"beds": 3}, 6)
    with pytest.raises(ConfigurationError, match="unknown row engine 'frm'; did you mean 'farm'"):
        runner(tmp_path, engine="frm")
    (tmp_path / "agents_for_tests.py").write_text(
        f"import sys\nmake = sys.modules[{made_agents.__module__!r}].made_agents\n"
    )
    command = ["run", "--dataset-file", str(tmp_path / "p.jsonl"), "--run-name", "by-command"]
    options = ["--output-dir", str(tmp_path), "--engine", "farm", "--engine-setting", "beds=4"]
    options += ["--agent-factory", "agents_for_tests:make", "--keep-without-reasoning", "--quiet"]
    assert main([*command, *options]) == 0
    [engine] = sys.modules.pop("engine_for_tests").made
    assert (engine.settings, engine.rows) == ({"beds": 4}, 6)
    told = capsys.readouterr().out
    assert f"in {tmp_path / 'by-command'}: trajectories.jsonl, statistics.json\n" in told  # and no state.db


def test_agents_can_be_named_and_what_the_name_makes_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agents_that_are_named.py").write_text(
        f"import sys\nmake = sys.modules[{made_agents.__module__!r}].made_agents\nnothing = 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    before = ClosedAgents.closed
    assert asyncio.run(runner(tmp_path, agent_factory="agents_that_are_named:make").run()).ok == 6
    assert ClosedAgents.closed == before + 1


@pytest.mark.parametrize("name", ["no_colon", "__main__:make", "os:nothing", "no_such_module:make", "os:sep"])
def test_a_wrong_name_of_agents_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="the agent factory"):
        asyncio.run(runner(tmp_path, agent_factory=name).run())
    assert not (tmp_path / "r").exists()


def test_a_callable_that_makes_no_factory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="which is no agent factory"):
        asyncio.run(runner(tmp_path, agent_factory="os:getpid").run())


def test_losses_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def trouble(row: PromptRow, time: int) -> None:
        if row.index == 1 and time == 1:
            raise WorkerLostError("its machine went away")

    with caplog.at_level(logging.WARNING):
        asyncio.run(runner(tmp_path, engine=TroubledEngine(trouble)).run())
    assert "row 1: its worker was lost (its machine went away)" in caplog.text
