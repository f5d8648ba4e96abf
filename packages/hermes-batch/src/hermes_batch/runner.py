"""`BatchRunner`: a file of prompts in, training trajectories out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes_batch.agent_options import AgentOptions, ProviderRouting
from hermes_batch.checkpoint import Checkpoint, write_checkpoint
from hermes_batch.dataset import check_dataset_file, read_dataset
from hermes_batch.distributions import distribution_named
from hermes_batch.errors import DatasetError, RunAbortedError, RunExistsError, RunLockedError
from hermes_batch.files import FileLock, make_directory, replace_file
from hermes_batch.merge import merge_run
from hermes_batch.plan import Plan, RetryPolicy, RowKey, make_plan
from hermes_batch.progress import NoProgress, Progress, progress_for
from hermes_batch.row_runner import RowSettings, bad_row_record, run_row
from hermes_batch.rows import BadRow, PromptRow, Row
from hermes_batch.run_files import RunFiles
from hermes_batch.shards import ShardWriter, mend_torn_tails, scan_recorded, shard_names
from hermes_batch.statistics import BatchStatistics
from hermes_batch.workers import FailureStreak, StopSignal, first_cause, run_workers
from hermes_messages import ConfigurationError
from hermes_messages.argument_text import JsonValue
from hermes_messages.protocols import AgentFactory

__all__ = ["BatchRunner"]

_CHECKPOINT_EVERY_ROWS = 100


class _Dataset(Struct, frozen=True):
    """The dataset's rows by place and content; `first_problem` says what is wrong with the first bad one."""

    keys: tuple[RowKey, ...]
    bad: int
    first_problem: str


class BatchRunner:
    """Runs the prompts of a dataset through agents and keeps one record per row.

    A row is finished when its record is on the disk; a run that was stopped in any way goes on with
    `run(resume=True)` and runs no finished row again.

    `batch_size` is the number of rows in a shard. `toolsets` names the toolsets of every row; without it they
    are drawn from `distribution`. `agent_factory` replaces the default agents (those of the extra `agent`);
    the caller opens nothing and closes what it made. `failure_limit` rows in a row whose host can not be
    reached end the run. Times are in seconds.
    """

    def __init__(
        self,
        dataset_file: str | Path,
        batch_size: int = 100,
        run_name: str = "run",
        distribution: str = "default",
        max_iterations: int = 10,
        base_url: str | None = None,
        api_key: str | None = None,
        model: str | None = None,
        num_workers: int = 4,
        verbose: bool = False,
        ephemeral_system_prompt: str | None = None,
        *,
        providers_allowed: Sequence[str] = (),
        providers_ignored: Sequence[str] = (),
        providers_order: Sequence[str] = (),
        provider_sort: str | None = None,
        reasoning_config: Mapping[str, JsonValue] | None = None,
        provider: str | None = None,
        provider_settings: Mapping[str, JsonValue] | None = None,
        toolsets: Sequence[str] | None = None,
        output_dir: str | Path = "data",
        max_samples: int | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        prefill_messages: Sequence[Mapping[str, JsonValue]] | None = None,
        require_reasoning: bool = True,
        retry_failed: bool = False,
        retry_discarded: bool = False,
        row_timeout_s: float | None = None,
        grace_s: float = 30.0,
        failure_limit: int | None = None,
        seed: int = 0,
        agent_factory: AgentFactory | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Stores what is given. Raises `ConfigurationError` for a value that can not work; opens nothing."""
        for name, value in (
            ("batch_size", batch_size),
            ("num_workers", num_workers),
            ("max_iterations", max_iterations),
            ("max_samples", max_samples),
            ("failure_limit", failure_limit),
        ):
            if value is not None and value < 1:
                raise ConfigurationError(f"{name} is {value}; it must be at least 1")
        self._dataset_file = Path(dataset_file)
        self._files = RunFiles(Path(output_dir), run_name)
        self._run_name = run_name
        self._batch_size = batch_size
        self._num_workers = num_workers
        self._max_samples = max_samples
        self._model = model
        self._retry = RetryPolicy(failed=retry_failed, discarded=retry_discarded)
        self._grace_s = grace_s
        self._failure_limit = failure_limit if failure_limit is not None else max(3, num_workers)
        self._settings = RowSettings(
            run_name=run_name,
            distribution=distribution_named(distribution),
            toolsets=None if toolsets is None else tuple(toolsets),
            seed=seed,
            max_iterations=max_iterations,
            timeout_s=row_timeout_s,
            require_reasoning=require_reasoning,
        )
        self._progress = progress or (progress_for() if verbose else NoProgress())
        self._given_factory = agent_factory
        self._agent_options = AgentOptions(
            toolsets=self._settings.toolsets or tuple(self._settings.distribution),
            state_db=self._files.state_db,
            provider=provider,
            base_url=base_url,
            api_key=api_key,
            model=model,
            provider_settings=dict(provider_settings or {}),
            routing=ProviderRouting(
                allowed=tuple(providers_allowed),
                ignored=tuple(providers_ignored),
                order=tuple(providers_order),
                sort=provider_sort,
            ),
            ephemeral_system_prompt=ephemeral_system_prompt,
            prefill_messages=tuple(prefill_messages or ()),
            max_tokens=max_tokens,
            temperature=temperature,
            reasoning_config=reasoning_config,
        )
        self._stop = StopSignal()

    @property
    def files(self) -> RunFiles:
        """Where the run's files are."""
        return self._files

    def request_stop(self, *, now: bool = False) -> None:
        """Stop a running `run`: running rows may end within the grace time, with `now` they are cancelled."""
        if now:
            self._stop.request_now()
        else:
            self._stop.request()

    async def run(self, resume: bool = False) -> BatchStatistics:
        """Run what is not finished yet, merge, and return the statistics.

        Raises `DatasetError`, `RunExistsError` (results are there and `resume` is false), `RunLockedError`
        and whatever makes the agents impossible before anything is written; `RunAbortedError` after the run
        was ended early by `failure_limit`. Finished rows are kept in every case.
        """
        self._stop = StopSignal()
        await check_dataset_file(self._dataset_file)
        dataset = await self._scan_dataset()
        if not resume and await shard_names(self._files.shards):
            raise RunExistsError(self._files.directory)
        async with AsyncExitStack() as stack:
            factory = await self._open_factory(stack)
            await self._take_lock(stack)
            for shard in await mend_torn_tails(self._files.shards):
                self._progress.message(f"{shard}: the last line was cut off by a crash; its row is run again")
            plan = make_plan(dataset.keys, await scan_recorded(self._files.shards, self._retry))
            aborted = await self._work(plan, factory, len(dataset.keys))
            statistics = await self._merge(dataset, interrupted=self._stop.requested)
        if aborted is not None:
            raise aborted
        return statistics

    async def merge(self) -> BatchStatistics:
        """Write `trajectories.jsonl` and `statistics.json` anew from the shards."""
        await check_dataset_file(self._dataset_file)
        dataset = await self._scan_dataset()
        async with AsyncExitStack() as stack:
            await self._take_lock(stack)
            await mend_torn_tails(self._files.shards)
            return await self._merge(dataset)

    async def _scan_dataset(self) -> _Dataset:
        keys: list[RowKey] = []
        bad = 0
        first_problem = ""
        async with aclosing(self._rows()) as rows:
            async for row in rows:
                keys.append(RowKey(row.index, row.content_hash))
                if isinstance(row, BadRow):
                    bad += 1
                    first_problem = first_problem or f"line {row.line}: {row.reason}"
        if not keys:
            raise DatasetError(f'{self._dataset_file} has no rows; a row looks like {{"prompt": "..."}}')
        if bad == len(keys):
            raise DatasetError(f"{self._dataset_file} has no usable row; {first_problem}")
        return _Dataset(tuple(keys), bad, first_problem)

    def _rows(self) -> AsyncGenerator[Row, None]:
        return read_dataset(self._dataset_file, max_samples=self._max_samples)

    async def _open_factory(self, stack: AsyncExitStack) -> AgentFactory:
        if self._given_factory is not None:
            await self._given_factory.open()
            return self._given_factory
        from hermes_batch.default_agent import DefaultAgentFactory

        factory = DefaultAgentFactory(self._agent_options)
        stack.push_async_callback(factory.close)
        await factory.open()
        return factory

    async def _take_lock(self, stack: AsyncExitStack) -> None:
        await make_directory(self._files.directory)
        lock = FileLock(self._files.lock)
        owner = await lock.acquire()
        if owner is not None:
            raise RunLockedError(self._files.directory, owner)
        stack.push_async_callback(lock.release)

    async def _work(self, plan: Plan, factory: AgentFactory, total: int) -> RunAbortedError | None:
        """Run the rows that are left. Returns the error that ended the run early, if one did."""
        writer = ShardWriter(self._files.shards, rows_per_shard=self._batch_size)
        streak = FailureStreak(self._failure_limit)
        finished = len(plan.done)
        aborted: RunAbortedError | None = None

        async def handle(row: Row) -> None:
            nonlocal finished, aborted
            match row:
                case BadRow():
                    record = bad_row_record(row)
                case PromptRow():
                    record = await run_row(row, factory, self._settings)
            await writer.append(record)
            finished += 1
            self._progress.row(record)
            if finished % _CHECKPOINT_EVERY_ROWS == 0:
                await self._checkpoint(total, finished)
            aborted = aborted or streak.note(record)
            if aborted is not None:
                self._stop.request()

        self._progress.begin(total, finished)
        if not plan.todo:
            self._progress.message("every row is finished; for a new run choose another --run-name")
        try:
            async with asyncio.TaskGroup() as group, aclosing(self._rows()) as rows:
                group.create_task(writer.run())
                try:
                    await run_workers(
                        rows,
                        frozenset(plan.todo),
                        handle,
                        num_workers=self._num_workers,
                        stop=self._stop,
                        grace_s=self._grace_s,
                    )
                finally:
                    writer.close()
        except BaseExceptionGroup as group_error:
            raise first_cause(group_error) from group_error
        finally:
            self._progress.end()
        return aborted

    async def _merge(self, dataset: _Dataset, *, interrupted: bool = False) -> BatchStatistics:
        recorded = make_plan(dataset.keys, await scan_recorded(self._files.shards, None))
        statistics = await merge_run(
            shard_dir=self._files.shards,
            target=self._files.trajectories,
            plan=recorded,
            run_name=self._run_name,
            total=len(dataset.keys),
            interrupted=interrupted,
        )
        async with replace_file(self._files.statistics) as write:
            await write(msgspec.json.format(msgspec.json.encode(statistics)) + b"\n")
        await self._checkpoint(len(dataset.keys), len(recorded.done))
        return statistics

    async def _checkpoint(self, total: int, finished: int) -> None:
        await write_checkpoint(
            self._files.checkpoint,
            Checkpoint(
                run_name=self._run_name,
                dataset_file=str(self._dataset_file),
                total=total,
                finished=finished,
                model=self._model or "",
                updated_at=datetime.now(UTC).isoformat(timespec="seconds"),
            ),
        )
