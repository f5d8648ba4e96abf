"""`TrajectoryCompressor`: the trajectories of a run, brought to a token target with summaries by a model.

The summaries are a run of their own: a dataset of the spans that are wanted, each one row, through agents
without tools into shards. So they are made by many at once within one rate limit, tried again and fallen back
from like any other row, durable one by one, and found again by their content: what was summed up once is not
paid for again, whichever trajectory asks for it and however this was stopped.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aiofiles.os
import msgspec

from hermes_batch.agent_options import AgentOptions, FallbackModel
from hermes_batch.compression_plan import CompressionSettings, CountTokens, step_tokens, summary_task
from hermes_batch.compression_report import CompressionReport, CompressionTotals, encode_compressed
from hermes_batch.compression_step import Trajectory, compressed, look_at, summary_in
from hermes_batch.errors import GO_ON, RunAbortedError, RunLockedError
from hermes_batch.files import FileLock, file_line_batches, make_directory, path_exists, replace_file
from hermes_batch.packed import Finished, FinishedRows, pack_hash
from hermes_batch.progress import NoProgress, Progress
from hermes_batch.records import Record, decode_record
from hermes_batch.rows import read_row
from hermes_batch.run_files import RunFiles
from hermes_batch.runner import BatchRunner
from hermes_batch.shards import RecordReader, scan_recorded
from hermes_batch.statistics import BatchStatistics
from hermes_batch.summary_engine import SummaryEngine
from hermes_batch.workers import file_trouble
from hermes_messages import ConfigurationError
from hermes_messages.argument_text import JsonValue
from hermes_messages.protocols import AgentFactory

__all__ = ["TrajectoryCompressor"]

_SUMMARIES_IN_A_SHARD: Final = 1_000
_CALLS: Final = 3
"""Model calls for a summary: a host may end an answer early, and the agent then asks it to go on."""


class TrajectoryCompressor:
    """Writes `compressed.jsonl` and `compression.json` of a run from its `trajectories.jsonl`.

    `settings` say what is compressed and how far; `count_tokens` takes the place of the estimate, and is
    called on the event loop. The model of the summaries is chosen as that of `BatchRunner`
    (`fallback_models`, rate limits in `provider_settings`), or `agent_factory` makes the agents. A summary
    takes at most `max_tokens` (twice `summary_tokens` if None) and `timeout_s` seconds for each of its
    `attempts`; `num_workers` are made at once. One that failed is not asked for again unless its host could
    not be reached, or with `retry_failed`.
    """

    def __init__(
        self,
        run_name: str,
        *,
        output_dir: str | Path = "data",
        settings: CompressionSettings | None = None,
        target: str | Path | None = None,
        provider: str | None = None,
        provider_settings: Mapping[str, JsonValue] | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        model: str | None = None,
        fallback_models: Sequence[FallbackModel] = (),
        max_tokens: int | None = None,
        temperature: float | None = None,
        num_workers: int = 4,
        attempts: int = 2,
        timeout_s: float | None = 300.0,
        failure_limit: int | None = None,
        retry_failed: bool = False,
        agent_factory: AgentFactory | str | None = None,
        count_tokens: CountTokens = step_tokens,
        progress: Progress | None = None,
    ) -> None:
        """Stores what is given. Raises `ConfigurationError` for a value that can not work; opens nothing."""
        self._files = RunFiles(Path(output_dir), run_name)
        self._run_name = run_name
        self._settings = settings or CompressionSettings()
        self._target = self._files.compressed if target is None else Path(target)
        self._count = count_tokens
        self._rooms: dict[bytes, int] = {}
        self._options = AgentOptions(
            toolsets=(),
            state_db=None,
            provider=provider,
            base_url=base_url,
            api_key=api_key,
            model=model,
            fallback_models=tuple(fallback_models),
            provider_settings=dict(provider_settings or {}),
            max_tokens=2 * self._settings.summary_tokens if max_tokens is None else max_tokens,
            temperature=temperature,
        )
        self._summaries = RunFiles(self._files.directory, f"summaries-{self._model_mark()}")
        self._dataset = self._summaries.directory / "spans.jsonl"
        self._runner = BatchRunner(
            self._dataset,
            batch_size=_SUMMARIES_IN_A_SHARD,
            run_name=self._summaries.directory.name,
            output_dir=self._files.directory,
            max_iterations=_CALLS,
            num_workers=num_workers,
            attempts=attempts,
            row_timeout_s=timeout_s,
            failure_limit=failure_limit,
            retry_failed=retry_failed,
            toolsets=(),
            require_reasoning=False,
            agent_factory=agent_factory or self._options,
            engine=SummaryEngine(self._rooms, count_tokens),
            progress=progress or NoProgress(),
        )

    @property
    def target(self) -> Path:
        """The file that is written."""
        return self._target

    @property
    def summaries(self) -> RunFiles:
        """Where the run of the summaries lies."""
        return self._summaries

    def request_stop(self, *, now: bool = False) -> None:
        """Stop making summaries, as `BatchRunner.request_stop`; then nothing is written."""
        self._runner.request_stop(now=now)

    async def run(self) -> CompressionReport:
        """Make the summaries that are missing, then write the compressed trajectories, whole or not at all.

        Raises `ConfigurationError` (no trajectories, a damaged one, no directory for the target),
        `RunLockedError`, whatever makes the agents impossible, and `RunAbortedError` where row after row
        failed, or the trajectories were merged anew meanwhile. Summaries that were made are kept in every
        case: the same call goes on.
        """
        if not await path_exists(self._files.trajectories):
            raise ConfigurationError(
                f"no {self._files.trajectories}; look at run_name, or let hermes-batch merge write it"
            )
        if not await path_exists(self._target.parent):
            raise ConfigurationError(f"there is no directory {self._target.parent}")
        try:
            async with AsyncExitStack() as stack:
                await self._take_lock(stack)
                merged = await self._trajectories_are()
                statistics = await self._make_summaries()
                if statistics is not None and statistics.interrupted and statistics.pending:
                    return self._totals().build(statistics, interrupted=True)
                return await self._write(statistics, merged)
        except OSError as error:
            raise _resumable(file_trouble(error)) from error

    async def _take_lock(self, stack: AsyncExitStack) -> None:
        lock = FileLock(self._files.compression_lock)
        owner = await lock.acquire()
        if owner is not None:
            raise RunLockedError(self._files.directory, owner)
        stack.push_async_callback(lock.release)

    def _totals(self) -> CompressionTotals:
        return CompressionTotals(self._run_name, self._settings.target_tokens)

    def _model_mark(self) -> str:
        """Summaries of one model are not taken for those of another, nor for those of a model that has the
        same name on another host."""
        named = (self._options.provider, self._options.model, _host_of(self._options.base_url))
        return hashlib.sha256(msgspec.json.encode(named)).hexdigest()[:8]

    async def _make_summaries(self) -> BatchStatistics | None:
        if not await self._write_spans():
            return None
        try:
            return await self._runner.run(resume=True)
        except RunAbortedError as error:
            raise _resumable(error) from error

    async def _write_spans(self) -> int:
        """The dataset of the summaries' run, each span once; how many there are."""
        await make_directory(self._summaries.directory)
        rooms = self._rooms
        rooms.clear()
        async with replace_file(self._dataset) as write, aclosing(self._trajectories()) as batches:
            async for batch in batches:
                new: list[bytes] = []
                for _, looked in batch:
                    if looked.span is None:
                        continue
                    packed, line = self._span_row(looked)
                    room = looked.room(self._settings, self._count)
                    if packed not in rooms:
                        new.append(line)
                    rooms[packed] = max(room, rooms.get(packed, room))
                await write(b"".join(new))
        return len(rooms)

    def _span_row(self, looked: Trajectory) -> tuple[bytes, bytes]:
        """The row that asks for a summary of the span, and the hash by which its record is found."""
        prompt = looked.prompt(self._settings, self._count)
        line = msgspec.json.encode({"prompt": prompt, "system": summary_task(self._settings)})
        row = read_row(line, index=0, line_number=1)
        return pack_hash(row.content_hash), line + b"\n"

    async def _trajectories(self) -> AsyncGenerator[list[tuple[Record, Trajectory]], None]:
        async with aclosing(file_line_batches(self._files.trajectories)) as batches:
            async for batch in batches:
                looked = []
                for offset, line in batch:
                    record = self._record(offset, line)
                    looked.append((record, look_at(record.conversations, self._settings, self._count)))
                yield looked

    def _record(self, offset: int, line: bytes) -> Record:
        try:
            return decode_record(line)
        except msgspec.DecodeError as error:
            raise ConfigurationError(
                f"{self._files.trajectories} is damaged at byte {offset} ({error});"
                " hermes-batch merge mends it"
            ) from error

    async def _trajectories_are(self) -> tuple[int, int, int]:
        """What tells one merge of the trajectories from the next."""
        found = await aiofiles.os.stat(self._files.trajectories)
        return found.st_ino, found.st_size, found.st_mtime_ns

    async def _write(
        self, statistics: BatchStatistics | None, merged: tuple[int, int, int]
    ) -> CompressionReport:
        totals = self._totals()
        recorded = (await scan_recorded(self._summaries.shards)).records
        places = _best_by_content(recorded)
        async with (
            RecordReader(self._summaries.shards) as read,
            replace_file(self._target) as write,
            aclosing(self._trajectories()) as batches,
        ):
            async for batch in batches:
                for part in _parts(batch):
                    found = await self._summaries_of(part, read, recorded, places)
                    await write(self._lines(part, found, totals))
            if await self._trajectories_are() != merged:
                raise _resumable(
                    RunAbortedError(f"{self._files.trajectories} was merged anew while it was compressed")
                )
        report = totals.build(statistics)
        async with replace_file(self._files.compression) as write:
            await write(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
        return report

    async def _summaries_of(
        self,
        part: Sequence[tuple[Record, Trajectory]],
        read: RecordReader,
        recorded: FinishedRows,
        places: Mapping[bytes, int],
    ) -> list[str | None]:
        """The summary for each trajectory of `part`, None for those that have none."""
        wanted: list[Finished | None] = []
        for _, looked in part:
            number = None if looked.span is None else places.get(self._span_row(looked)[0])
            wanted.append(None if number is None else recorded[number])
        records = iter(await read([place for place in wanted if place is not None]))
        return [None if place is None else summary_in(next(records)) for place in wanted]

    def _lines(
        self,
        part: Sequence[tuple[Record, Trajectory]],
        summaries: Sequence[str | None],
        totals: CompressionTotals,
    ) -> bytes:
        lines = []
        for (record, looked), summary in zip(part, summaries, strict=True):
            made = compressed(looked, summary, self._settings, self._count)
            totals.add(made.metrics, dropped=made.steps is None)
            if made.steps is not None:
                shorter = msgspec.structs.replace(record, conversations=made.steps)
                lines.append(encode_compressed(shorter, made.metrics))
        return b"".join(lines)


def _host_of(base_url: str | None) -> str | None:
    """Host and path of an address, which is the same however it is written, and holds no credentials."""
    if base_url is None:
        return None
    try:
        address = urlsplit(base_url.strip())
    except ValueError as error:
        raise ConfigurationError(f"base_url is no address: {error}") from None
    return address.netloc.rpartition("@")[2].lower() + address.path.rstrip("/")


def _resumable(error: RunAbortedError) -> RunAbortedError:
    """The error of a run as one of compression."""
    trouble = str(error).removesuffix(GO_ON)
    return RunAbortedError(f"{trouble}; the summaries that were made are kept, and the same call goes on")


def _best_by_content(recorded: FinishedRows) -> dict[bytes, int]:
    """For each content the number of the best record; of equally good ones the last."""
    best: dict[bytes, int] = {}
    for number in range(len(recorded)):
        packed = recorded.row(number)[1]
        if packed not in best or recorded.worth(number) <= recorded.worth(best[packed]):
            best[packed] = number
    return best


_PART: Final = 200


def _parts(
    batch: Sequence[tuple[Record, Trajectory]],
) -> list[Sequence[tuple[Record, Trajectory]]]:
    """So few at a time that their summaries are not all in memory."""
    return [batch[begin : begin + _PART] for begin in range(0, len(batch), _PART)]
