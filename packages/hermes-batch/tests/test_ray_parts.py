"""What the engine `ray` decides and sends, without Ray: placing, dividing, encoding, refusing."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_batch import BatchRunner
from hermes_batch.agent_options import AgentOptions
from hermes_batch.ray_engine import engine as engine_module
from hermes_batch.ray_engine.engine import RayEngine
from hermes_batch.ray_engine.own_cluster.holding import PORTS, command_of_cluster, free_ports
from hermes_batch.ray_engine.pool import (
    MOST_LOSSES_AT_A_STRETCH,
    Broken,
    Replace,
    WorkerPool,
    share_of_limits,
    share_of_options,
    slots_of_each,
)
from hermes_batch.ray_engine.settings import RaySettings, address_of, cpus_of_own_cluster, read_settings
from hermes_batch.ray_engine.wire import (
    HEADER_BYTES,
    RunRow,
    Secrets,
    body_bytes,
    decode_job,
    decode_row,
    decode_to_gateway,
    encode_job,
    encode_row,
    frame,
)
from hermes_batch.row_settings import RowSettings
from hermes_batch.rows import PromptRow, read_row
from hermes_batch.testing import ScriptedAgents, conversation
from hermes_messages import ConfigurationError, MissingDependencyError

KEY = "sk-do-not-tell"
SETTINGS = RowSettings(run_name="r", distribution={"a": 0.5}, timeout_s=1.5)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def pool_of(workers: int, slots: int) -> WorkerPool:
    pool = WorkerPool(workers, slots)
    for number in pool.numbers:
        pool.is_ready(number)
    return pool


def test_rows_go_to_the_worker_with_the_fewest_and_none_is_given_more_than_its_slots() -> None:
    pool = pool_of(2, 2)
    assert [pool.place(row) for row in range(5)] == [0, 1, 0, 1, None]
    pool.leave(1, 3, finished=True)
    assert pool.place(5) == 1


def test_a_worker_that_is_not_ready_gets_no_row() -> None:
    pool = WorkerPool(2, 1)
    assert pool.place(0) is None
    pool.is_ready(1)
    assert pool.ready == 1
    assert pool.place(0) == 1


def test_rows_whose_worker_was_lost_are_kept_apart_from_each_other_but_not_from_others() -> None:
    pool = pool_of(1, 3)
    assert [pool.place(row) for row in (0, 1)] == [0, 0]
    assert pool.lost(0) == Replace(1)
    for row in (0, 1):
        pool.leave(0, row, finished=False)
    pool.is_ready(1)
    assert pool.place(0) == 1
    assert pool.place(1) is None
    assert pool.place(2) == 1
    pool.leave(1, 0, finished=True)
    assert pool.place(1) == 1


def test_a_loss_is_counted_once_and_losses_without_a_finished_row_end_the_run() -> None:
    pool = pool_of(1, 1)
    assert pool.lost(0) == Replace(1)
    assert pool.lost(0) is None
    for number in range(1, MOST_LOSSES_AT_A_STRETCH - 1):
        assert pool.lost(number) == Replace(number + 1)
    assert pool.lost(MOST_LOSSES_AT_A_STRETCH - 1) == Broken(MOST_LOSSES_AT_A_STRETCH)


def test_a_finished_row_ends_the_count_of_losses() -> None:
    pool = pool_of(1, 1)
    for number in range(3 * MOST_LOSSES_AT_A_STRETCH):
        pool.is_ready(number)
        assert pool.place(number) == number
        pool.leave(number, number, finished=True)
        assert pool.lost(number) == Replace(number + 1)


@given(st.lists(st.tuples(st.sampled_from(["place", "finish", "lose"]), st.integers(0, 9)), max_size=60))
def test_no_worker_ever_has_too_many_rows_or_two_suspects(steps: list[tuple[str, int]]) -> None:
    pool = pool_of(3, 2)
    on: dict[int, int] = {}
    suspects: set[int] = set()
    for step, number in steps:
        match step:
            case "place" if number not in on:
                worker = pool.place(number)
                if worker is not None:
                    on[number] = worker
            case "finish" if number in on:
                pool.leave(on.pop(number), number, finished=True)
                suspects.discard(number)
            case "lose":
                worker = pool.numbers[number % 3]
                rows = {row for row, place in on.items() if place == worker}
                suspects |= rows
                if isinstance(verdict := pool.lost(worker), Broken):
                    return
                for row in rows:
                    pool.leave(on.pop(row), row, finished=False)
                assert isinstance(verdict, Replace)
                pool.is_ready(verdict.worker)
            case _:
                continue
        for worker in pool.numbers:
            rows = {row for row, place in on.items() if place == worker}
            assert len(rows) <= 2
            assert len(rows & suspects) <= 1


def test_together_the_workers_run_as_many_rows_as_were_asked_for() -> None:
    for rows in range(1, 40):
        for workers in range(1, rows + 1):
            assert (
                slots_of_each(rows, workers) * workers >= rows > (slots_of_each(rows, workers) - 1) * workers
            )


def test_limits_are_divided_and_never_exceeded_together() -> None:
    limits = {"requests_per_minute": 60, "tokens_per_minute": 1000.0, "max_concurrent": 7, "port": 1}
    assert share_of_limits(limits, 3) == {
        "requests_per_minute": 20.0,
        "tokens_per_minute": 1000.0 / 3,
        "max_concurrent": 2,
        "port": 1,
    }
    with pytest.raises(ConfigurationError, match="max_concurrent is 2, which can not be divided among 3"):
        share_of_limits({"max_concurrent": 2}, 3)
    options = AgentOptions(
        toolsets=(),
        state_db=None,
        provider_settings={"requests_per_minute": 10},
        fallback_models=("a/b", {"model": "c", "settings": {"requests_per_minute": 30}}, {"model": "d"}),
    )
    shared = share_of_options(options, 2)
    assert shared.provider_settings == {"requests_per_minute": 5.0}
    assert shared.fallback_models[1] == {"model": "c", "settings": {"requests_per_minute": 15.0}}
    assert (shared.fallback_models[0], shared.fallback_models[2]) == ("a/b", {"model": "d"})


@given(
    st.dictionaries(st.text(), json_values, max_size=3),
    st.sampled_from(
        [
            "a text \u2028 \U0001f600",
            ["one", "two"],
            [{"role": "user", "content": [{"type": "text", "text": "x"}], "extra": {"n": 10**40}}],
            [
                {"role": "user", "content": "x"},
                {"role": "assistant", "content": "y", "more": [10**40, 1e300]},
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,A"}}],
                },
            ],
        ]
    ),
)  # fmt: skip
def test_a_row_arrives_as_it_was_sent(metadata: dict[str, Any], prompt: object) -> None:
    line = msgspec.json.encode(
        {
            "prompt": prompt,
            "metadata": metadata,
            "id": 7,
            "cwd": "/x",
            "toolsets": ["a"],
            "max_iterations": 3,
            "image": "debian:12",
        }
    )
    row = read_row(line, index=3, line_number=4)
    assert isinstance(row, PromptRow)
    assert decode_row(encode_row(row)) == row


def test_the_options_arrive_whole_and_what_may_be_secret_travels_apart() -> None:
    options = AgentOptions(
        toolsets=("file",),
        state_db=Path("state.db"),
        provider="custom",
        base_url=f"http://user:{KEY}@host",
        api_key=KEY,
        provider_settings={"headers": {"X-Key": KEY}},
        fallback_models=({"model": "m", "api_key": KEY},),
        container_settings={"env": {"TOKEN": KEY}},
        prefill_messages=({"role": "user", "content": "x"},),
        model="m",
    )
    job, secrets = encode_job(SETTINGS, options, ["/modules"])
    assert KEY.encode() not in job
    known = msgspec.json.decode(secrets, type=Secrets)
    assert KEY not in repr(known) + repr(dict(known.__rich_repr__()))
    given_job = decode_job(job, secrets)
    assert given_job.settings == SETTINGS
    assert given_job.paths == ("/modules",)
    assert given_job.options == msgspec.structs.replace(options, state_db=None)


def test_options_that_are_no_plain_values_are_refused() -> None:
    for bad in (object(), "x" * 70_000):
        options = AgentOptions(toolsets=(), state_db=None, provider_settings={"a": bad})  # type: ignore[dict-item]
        with pytest.raises(ConfigurationError, match=r"can not go to another machine|64 KB"):
            encode_job(SETTINGS, options, [])


def test_a_frame_is_read_back() -> None:
    data = frame(RunRow(1, 2, b"{}"))
    assert body_bytes(data[:HEADER_BYTES]) == len(data) - HEADER_BYTES
    assert decode_to_gateway(data[HEADER_BYTES:]) == RunRow(1, 2, b"{}")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"actor": 2}, "unknown field `actor`"),
        ({"actors": "two"}, "Expected `int | null`"),
        ({"actors": 0}, "actors is 0"),
        ({"cpus_per_actor": -1}, "cpus_per_actor is -1"),
        ({"start_timeout_s": 0}, "start_timeout_s is 0"),
        ({"address": "ray://head:10001"}, "Ray Client"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        read_settings(settings)


def test_which_cluster_is_meant() -> None:
    assert address_of(RaySettings(), {}) == "local"
    assert address_of(RaySettings(), {"RAY_ADDRESS": "head:6379"}) == "head:6379"
    assert address_of(RaySettings(address="auto"), {"RAY_ADDRESS": "head:6379"}) == "auto"
    assert cpus_of_own_cluster(RaySettings(actors=5, cpus_per_actor=1.5), 2) == 8
    assert cpus_of_own_cluster(RaySettings(), 2) == 2


def test_a_cluster_of_our_own_is_given_every_port_that_ray_would_else_share_or_wait_for() -> None:
    ports = free_ports(len(PORTS))
    assert len(set(ports)) == len(PORTS)
    command = command_of_cluster(3, ports, Path("/d"), ["--more"])
    assert {f"--{name}={port}" for name, port in zip(PORTS, ports, strict=True)} < set(command)
    assert {"--num-cpus=3", "--temp-dir=/d", "--min-worker-port=0", "--max-worker-port=0"} < set(command)
    assert command[-1] == "--more"
    assert not any("ray-client" in word for word in command_of_cluster(3, ports[:-1], Path("/d"), []))


def runner(folder: Path, **options: Any) -> BatchRunner:
    (folder / "p.jsonl").write_text('{"prompt": "x"}\n')
    return BatchRunner(folder / "p.jsonl", run_name="r", output_dir=folder, **options)


def test_without_ray_the_extra_is_named_before_anything_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'hermes-batch\[ray\]'"):
        runner(tmp_path, engine="ray")
    assert not (tmp_path / "r").exists()


def test_hooks_that_are_objects_of_this_process_are_refused_before_anything_is_started(
    tmp_path: Path,
) -> None:
    class Hook(msgspec.Struct):  # it could be written as JSON, and would arrive as something else
        name: str = "x"

    batch = runner(tmp_path, engine=RayEngine(RaySettings()), hooks=["otel", Hook()])
    with pytest.raises(ConfigurationError, match=r"among the hooks is a Hook, .* the name of an entry point"):
        asyncio.run(batch.run())
    assert not (tmp_path / "r").exists()


def test_agents_that_are_objects_of_this_process_are_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    agents = ScriptedAgents(lambda prompt: conversation(prompt, answer="x"))
    with pytest.raises(ConfigurationError, match="give the name of a callable"):
        asyncio.run(runner(tmp_path, engine=RayEngine(RaySettings()), agent_factory=agents).run())
    assert not (tmp_path / "r").exists()
