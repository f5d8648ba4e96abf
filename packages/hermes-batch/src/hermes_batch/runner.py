"""`BatchRunner`: a file of prompts in, training trajectories out."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from hermes_batch.agent_options import AgentOptions, Approvals, FallbackModel, ProviderRouting
from hermes_batch.checkpoint import Checkpoint, write_checkpoint
from hermes_batch.dataset import RowOrder, ScannedDataset
from hermes_batch.distributions import check_distribution, distribution_named
from hermes_batch.engines import RowEngine, RowJob, engine_named
from hermes_batch.errors import RunAbortedError, RunExistsError, RunLockedError
from hermes_batch.execution import Execution
from hermes_batch.files import FileLock, make_directory, path_exists, remove_leftovers, replace_file
from hermes_batch.merge import merge_run
from hermes_batch.packed import FinishedRows
from hermes_batch.plan import RetryPolicy, make_plan
from hermes_batch.progress import NoProgress, Progress, SteadyProgress, progress_for
from hermes_batch.row_settings import RowSettings
from hermes_batch.row_sources import RowLike, row_source
from hermes_batch.run_files import RunFiles
from hermes_batch.shards import ShardWriter, mend_torn_tails, scan_recorded, shard_names
from hermes_batch.statistics import BatchStatistics
from hermes_batch.supervision import StoppedError, supervised
from hermes_batch.workers import FailureStreak, StopSignal, file_trouble
from hermes_messages import ConfigurationError
from hermes_messages.argument_text import JsonValue
from hermes_messages.protocols import AgentFactory

__all__ = ["BatchRunner"]

_LONGEST_SYNC_S = 60.0
"""At the end of a run its last rows wait that long, too."""


class BatchRunner:
    """Runs the prompts of a dataset through agents and keeps one record per row.

    A row is finished when its record is on the disk; a run that was stopped in any way goes on with
    `run(resume=True)` and runs no finished row again.

    `dataset_file` is a file, or an async iterable of rows: of mappings with the keys that a line of the file
    would have, or of prompts. That is read once, as workers become free; `run(resume=True)` needs one that
    gives the rows again, in any order, and passes over those whose content is finished.

    `batch_size` is the number of rows in a shard. `toolsets` names the toolsets of every row; without it they
    are drawn from `distribution`, a name or a mapping of toolsets to probabilities. `agent_factory` replaces
    the default agents (those of the extra `agent`); the caller opens nothing and closes what it made. It may
    be the name of a callable that makes one, `package.module:name`; what that makes is closed here, and so
    are the default agents with other `AgentOptions`. `engine` says where rows run: `local` is this process;
    other names are entry points of the group `hermes.row_engines`; a `RowEngine` may be given itself.
    `engine_settings` are that engine's own.

    `hooks` are those of every default agent, as `AIAgent` takes them: on another engine by their names.

    A row whose host fails or whose time runs out has `attempts` attempts; before that, each of its requests
    goes to the `fallback_models` in their order where the model itself fails. `failure_limit` rows in a row
    whose host can not be reached end the run; with `fail_fast` the first row that fails does. `order` is that
    in which rows are begun: by length, a thousand rows are read before the first of them is begun;
    `sync_every_s` spares syncs of the disk. `drop_unknown_tools` discards, when merging, rows in which the
    model invented a tool. Times are in seconds. `log_prefix_chars` has no effect: texts are not shown.
    """

    def __init__(
        self,
        dataset_file: str | Path | AsyncIterable[RowLike],
        batch_size: int = 100,
        run_name: str = "run",
        distribution: str | Mapping[str, float] = "default",
        max_iterations: int = 10,
        base_url: str | None = None,
        api_key: str | None = None,
        model: str | None = None,
        num_workers: int = 4,
        verbose: bool = False,
        ephemeral_system_prompt: str | None = None,
        log_prefix_chars: int | None = None,  # noqa: ARG002 - programs written for Hermes give it
        *,
        providers_allowed: Sequence[str] = (),
        providers_ignored: Sequence[str] = (),
        providers_order: Sequence[str] = (),
        provider_sort: str | None = None,
        reasoning_config: Mapping[str, JsonValue] | None = None,
        provider: str | None = None,
        provider_settings: Mapping[str, JsonValue] | None = None,
        fallback_models: Sequence[FallbackModel] = (),
        toolsets: Sequence[str] | None = None,
        output_dir: str | Path = "data",
        max_samples: int | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        prefill_messages: Sequence[Mapping[str, JsonValue]] | None = None,
        require_reasoning: bool = True,
        retry_failed: bool = False,
        retry_discarded: bool = False,
        drop_unknown_tools: bool = False,
        attempts: int = 1,
        fail_fast: bool = False,
        order: RowOrder = "file",
        sync_every_s: float = 0.0,
        row_timeout_s: float | None = None,
        grace_s: float = 30.0,
        failure_limit: int | None = None,
        seed: int = 0,
        image: str | None = None,
        container_settings: Mapping[str, JsonValue] | None = None,
        approvals: Approvals = "deny",
        agent_factory: AgentFactory | AgentOptions | str | None = None,
        hooks: Sequence[object] = (),
        engine: RowEngine | str = "local",
        engine_settings: Mapping[str, JsonValue] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Stores what is given. Raises `ConfigurationError` for a value that can not work; opens nothing."""
        _require_counts(
            batch_size=batch_size,
            num_workers=num_workers,
            max_iterations=max_iterations,
            max_samples=max_samples,
            failure_limit=failure_limit,
            attempts=attempts,
        )
        _require_seconds(row_timeout_s=row_timeout_s, grace_s=grace_s, sync_every_s=sync_every_s)
        _require_lists(
            providers_allowed=providers_allowed,
            providers_ignored=providers_ignored,
            providers_order=providers_order,
            toolsets=toolsets,
            fallback_models=fallback_models,
            hooks=hooks,
        )
        self._source = row_source(dataset_file, max_samples)
        self._files = RunFiles(Path(output_dir), run_name)
        self._run_name = run_name
        self._batch_size = batch_size
        self._num_workers = num_workers
        self._retry = RetryPolicy(failed=retry_failed, discarded=retry_discarded)
        self._grace_s = grace_s
        self._failure_limit = failure_limit if failure_limit is not None else max(3, num_workers)
        self._settings = RowSettings(
            run_name=run_name,
            distribution=(
                distribution_named(distribution)
                if isinstance(distribution, str)
                else check_distribution(distribution)
            ),
            toolsets=None if toolsets is None else tuple(toolsets),
            seed=seed,
            max_iterations=max_iterations,
            timeout_s=row_timeout_s,
            require_reasoning=require_reasoning,
            attempts=attempts,
            image=image,
        )
        self._fail_fast = fail_fast
        self._order: RowOrder = order
        self._sync_every_s = sync_every_s
        self._drop_unknown_tools = drop_unknown_tools
        self._progress = SteadyProgress(progress or (progress_for() if verbose else NoProgress()))
        self._agents = agent_factory
        if not isinstance(engine, str) and engine_settings:
            raise ConfigurationError("engine_settings are for an engine that is given by its name")
        self._engine = engine_named(engine, engine_settings or {}) if isinstance(engine, str) else engine
        self._agent_options = AgentOptions(
            toolsets=self._settings.toolsets or tuple(self._settings.distribution),
            state_db=self._files.state_db,
            provider=provider,
            base_url=base_url,
            api_key=api_key,
            model=model,
            fallback_models=tuple(fallback_models),
            hooks=tuple(hooks),
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
            image=image,
            container_settings=dict(container_settings or {}),
            approvals=approvals,
        )
        self._stop = StopSignal()
        self._running = False

    @property
    def files(self) -> RunFiles:
        """Where the run's files are."""
        return self._files

    def request_stop(self, *, now: bool = False) -> None:
        """Stop the run: running rows may end within the grace time, with `now` they are cancelled.

        Before `run`, or while it prepares, it means that no row is begun. It is forgotten when `run` ends.
        """
        if now:
            self._stop.request_now()
        else:
            self._stop.request()

    async def run(self, resume: bool = False) -> BatchStatistics:
        """Run what is not finished yet, merge, and return the statistics.

        Raises `DatasetError`, `RunExistsError` (results are there and `resume` is false), `RunLockedError`
        and whatever makes the agents impossible before anything is written; `RunAbortedError` after the run
        was ended early by `failure_limit`, a dataset that changed, or files that could not be written.
        Finished rows are kept in every case. One runner runs once at a time.
        """
        with self._one_at_a_time():
            dataset = await self._source.scan()
            await self._refuse_earlier_results(resume)
            async with AsyncExitStack() as stack:
                # Agents may be expensive to open: whoever finds the run taken does not open any.
                locked = await path_exists(self._files.lock)
                if locked:
                    await self._take_lock(stack)
                await self._open_engine(stack, dataset)
                if not locked:
                    await self._take_lock(stack)
                await self._refuse_earlier_results(resume)
                for remark in (*dataset.remarks, *self._remarks()):
                    self._progress.message(remark)
                recorded = await self._recorded()
                aborted = None
                if not self._stop.requested:
                    self._source.plan(recorded, self._retry)
                    aborted = await self._execute(recorded)
                statistics = await self._merge(recorded, aborted)
            if aborted is not None:
                raise aborted
            return statistics

    async def merge(self) -> BatchStatistics:
        """Write `trajectories.jsonl` and `statistics.json` anew from the shards.

        Raises `DatasetError`, `ConfigurationError` when there is no such run, and `RunLockedError`.
        """
        with self._one_at_a_time():
            await self._source.scan()
            if not await shard_names(self._files.shards):
                raise ConfigurationError(f"{self._files.directory} holds no run")
            async with AsyncExitStack() as stack:
                await self._take_lock(stack)
                return await self._merge(await self._recorded())

    @contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        if self._running:
            raise ConfigurationError("this runner is at work already; make another for another run")
        self._running = True
        try:
            yield
        except OSError as error:
            raise file_trouble(error) from error
        finally:
            self._running = False
            self._stop = StopSignal()

    def _remarks(self) -> tuple[str, ...]:
        remark = self._agent_options.remark() if self._agents is None else None
        return () if remark is None else (remark,)

    async def _refuse_earlier_results(self, resume: bool) -> None:
        try:
            names = await shard_names(self._files.shards)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigurationError(f"{self._files.shards} can not be read: {reason}") from error
        if names and not resume:
            raise RunExistsError(self._files.directory)

    async def _open_engine(self, stack: AsyncExitStack, dataset: ScannedDataset) -> None:
        options = msgspec.structs.replace(self._agent_options, row_images=dataset.images)
        job = RowJob(
            settings=self._settings,
            agents=options if self._agents is None else self._agents,
            num_workers=self._num_workers,
        )
        stack.push_async_callback(self._engine.close)
        with suppress(StoppedError):
            await supervised(self._engine.open(job), what="opening the engine", until=self._stop.asked)

    async def _take_lock(self, stack: AsyncExitStack) -> None:
        try:
            await make_directory(self._files.directory)
            lock = FileLock(self._files.lock)
            owner = await lock.acquire()
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigurationError(f"{self._files.directory} can not be written: {reason}") from error
        if owner is not None:
            raise RunLockedError(self._files.directory, owner)
        stack.push_async_callback(lock.release)
        await remove_leftovers(self._files.directory)

    async def _recorded(self) -> FinishedRows:
        """The records on the disk, torn tails mended first."""
        for shard in await mend_torn_tails(self._files.shards):
            self._progress.message(f"{shard}: the last line was cut off by a crash; its row is run again")
        recorded = await scan_recorded(self._files.shards)
        if recorded.damaged:
            self._progress.message(
                f"{recorded.damaged} lines in {self._files.shards} are no records; their rows are run again"
            )
        return recorded.records

    async def _execute(self, recorded: FinishedRows) -> RunAbortedError | None:
        """Run the rows that are left; their records are added to `recorded`. Returns the error that ended the
        run early, if one did."""
        execution = Execution(
            source=self._source,
            engine=self._engine,
            settings=self._settings,
            writer=ShardWriter(
                self._files.shards,
                rows_per_shard=self._batch_size,
                sync_every_s=self._sync_every_s,
                recorded=recorded,
            ),
            order=self._order,
            fail_fast=self._fail_fast,
            streak=FailureStreak(self._failure_limit),
            stop=self._stop,
            progress=self._progress,
            checkpoint=lambda finished: self._checkpoint(self._source.total, finished),
        )
        return await execution.run(num_workers=self._num_workers, grace_s=self._grace_s)

    async def _merge(self, recorded: FinishedRows, aborted: RunAbortedError | None = None) -> BatchStatistics:
        hashes = self._source.settled(recorded)
        plan = make_plan(hashes, recorded)
        counted = await merge_run(
            shard_dir=self._files.shards,
            target=self._files.trajectories,
            plan=plan,
            run_name=self._run_name,
            total=len(hashes),
            drop_unknown_tools=self._drop_unknown_tools,
        )
        statistics = msgspec.structs.replace(
            counted,
            interrupted=self._stop.requested and aborted is None,
            aborted="" if aborted is None else str(aborted),
        )
        async with replace_file(self._files.statistics) as write:
            await write(msgspec.json.format(msgspec.json.encode(statistics)) + b"\n")
        await self._checkpoint(len(hashes), plan.finished)
        return statistics

    async def _checkpoint(self, total: int, finished: int) -> None:
        await write_checkpoint(
            self._files.checkpoint,
            Checkpoint(
                run_name=self._run_name,
                dataset_file=self._source.label,
                total=total,
                finished=finished,
                updated_at=datetime.now(UTC).isoformat(timespec="seconds"),
            ),
        )


def _require_counts(**counts: int | None) -> None:
    for name, value in counts.items():
        if value is not None and value < 1:
            raise ConfigurationError(f"{name} is {value}; it must be at least 1")


def _require_seconds(**times: float | None) -> None:
    for name, seconds in times.items():
        if seconds is not None and not seconds >= 0:
            raise ConfigurationError(f"{name} is {seconds}; it must be a number of seconds")
    if times.get("row_timeout_s") == 0:
        raise ConfigurationError("row_timeout_s is 0; no row could end in that time")
    if (wait := times.get("sync_every_s") or 0) > _LONGEST_SYNC_S:
        raise ConfigurationError(f"sync_every_s is {wait}; it must be at most {_LONGEST_SYNC_S}")


def _require_lists(**given: object) -> None:
    for name, names in given.items():
        if isinstance(names, str):
            raise ConfigurationError(f"{name} is the text {names!r}; it must be a list of names")
