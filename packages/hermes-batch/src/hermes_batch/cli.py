"""The command line: `hermes-batch run|resume|merge|stats|compress|export|view|distributions`.

Exit codes: 0 all rows are good; 1 something failed (finished rows are kept); 2 the call can not work and
nothing was started; 130 stopped by a signal.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from hermes_batch.checkpoint import read_checkpoint
from hermes_batch.cli_compression import compress
from hermes_batch.cli_parser import in_flags, parse, read_settings
from hermes_batch.cli_shared import (
    FAILED,
    INTERRUPTED,
    OK,
    USAGE,
    api_key,
    provider_settings,
    run_until_signal,
    tell,
)
from hermes_batch.distributions import DISTRIBUTIONS, read_distribution
from hermes_batch.export import export_run
from hermes_batch.progress import NoProgress, progress_for
from hermes_batch.run_files import RunFiles
from hermes_batch.runner import BatchRunner
from hermes_batch.standard_input import kept_standard_input
from hermes_batch.statistics import BatchStatistics
from hermes_batch.view import view_run
from hermes_messages import ConfigurationError, HermesError
from hermes_messages.argument_text import JsonValue

__all__ = ["main"]

_LEFT: Final = ("trajectories.jsonl", "statistics.json", "state.db")
"""What a run leaves for people; agents of a factory of one's own may keep no sessions."""


def _runner(arguments: argparse.Namespace) -> BatchRunner:
    effort = arguments.reasoning_effort
    if arguments.agent_factory is not None and (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)  # as `python -m` would look there
    return BatchRunner(
        dataset_file(arguments),
        batch_size=arguments.batch_size,
        run_name=arguments.run_name,
        distribution=_distribution(arguments.distribution),
        max_iterations=arguments.max_iterations,
        base_url=arguments.base_url,
        api_key=api_key(arguments),
        model=arguments.model,
        num_workers=arguments.num_workers,
        ephemeral_system_prompt=arguments.ephemeral_system_prompt,
        providers_allowed=arguments.providers_allowed,
        providers_ignored=arguments.providers_ignored,
        providers_order=arguments.providers_order,
        provider_sort=arguments.provider_sort,
        reasoning_config=None if effort is None else {"effort": effort},
        provider=arguments.provider,
        provider_settings=provider_settings(arguments),
        fallback_models=arguments.fallback_model,
        hooks=arguments.hook,
        toolsets=arguments.toolsets,
        output_dir=arguments.output_dir,
        max_samples=arguments.max_samples,
        max_tokens=arguments.max_tokens,
        temperature=arguments.temperature,
        prefill_messages=_prefill(arguments.prefill_messages_file),
        require_reasoning=not arguments.keep_without_reasoning,
        drop_unknown_tools=arguments.drop_unknown_tools,
        attempts=arguments.attempts,
        fail_fast=arguments.fail_fast,
        failure_limit=arguments.failure_limit,
        grace_s=arguments.grace,
        order=arguments.order,
        sync_every_s=arguments.sync_every,
        retry_failed=arguments.retry_failed,
        retry_discarded=arguments.retry_discarded,
        row_timeout_s=arguments.row_timeout,
        image=arguments.image,
        container_settings=read_settings(arguments.container_setting),
        approvals=arguments.approvals,
        seed=arguments.seed,
        agent_factory=arguments.agent_factory,
        engine=arguments.engine,
        engine_settings=read_settings(arguments.engine_setting),
        progress=NoProgress() if arguments.quiet else progress_for(),
    )


def _distribution(given: str) -> str | Mapping[str, float]:
    if not given.endswith((".toml", ".json")):
        return given
    try:
        return read_distribution(Path(given).read_bytes(), given)
    except OSError as error:
        raise ConfigurationError(f"the distribution {given} can not be read: {error.strerror}") from error


def dataset_file(arguments: argparse.Namespace) -> Path:
    """The dataset; `-` is standard input, kept as a file of the run."""
    if arguments.dataset_file != "-":
        return Path(arguments.dataset_file)
    return kept_standard_input(RunFiles(Path(arguments.output_dir), arguments.run_name).directory)


def _prefill(file: str | None) -> list[Mapping[str, JsonValue]] | None:
    if file is None:
        return None
    try:
        data = Path(file).read_bytes()
        messages: list[Mapping[str, JsonValue]] = msgspec.json.decode(data, type=list[dict[str, object]])
    except OSError as error:
        raise ConfigurationError(f"the prefill file {file} can not be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise ConfigurationError(f"the prefill file {file} is no JSON list of messages: {error}") from error
    return messages


def summary(statistics: BatchStatistics, runner_directory: Path) -> str:
    """The statistics as a few lines for a person."""
    tools = ", ".join(
        f"{name} {stats.success}/{stats.count}"
        for name, stats in statistics.tool_stats.items()
        if stats.count
    )
    counts = f"{statistics.ok} ok, {statistics.error} error, {statistics.discarded} discarded"
    calls = f"{statistics.api_calls} model calls"
    tokens = f"{statistics.input_tokens} tokens in, {statistics.output_tokens} out"
    lines = [
        f"run {statistics.run_name}: {statistics.total} rows: {counts}, {statistics.pending} pending",
        f"  {calls}, {tokens}; {statistics.duration_s_median:.1f} s a row (median)",
        f"  tool calls that went well: {tools or 'none'}",
        f"  in {runner_directory}: {', '.join(name for name in _LEFT if (runner_directory / name).exists())}",
    ]
    if statistics.errors_by_kind:
        kinds = ", ".join(f"{kind} x{count}" for kind, count in statistics.errors_by_kind.items())
        lines.insert(3, f"  not good: {kinds}")
    if "no_reasoning" in statistics.errors_by_kind:
        lines.insert(4, "  rows without reasoning are discarded; --keep-without-reasoning keeps them")
    if statistics.pending:
        lines.append(f"  rows are left: {statistics.pending}; hermes-batch resume runs them")
    return "\n".join(lines) + "\n"


def _exit_code(statistics: BatchStatistics) -> int:
    if statistics.interrupted and statistics.pending:
        return INTERRUPTED
    return FAILED if statistics.error or statistics.pending else OK


def _show_statistics(arguments: argparse.Namespace) -> int:
    files = run_files(arguments)
    try:
        statistics = msgspec.json.decode(files.statistics.read_bytes(), type=BatchStatistics)
    except OSError as error:
        raise ConfigurationError(
            f"no statistics at {files.statistics}: {error.strerror}; look at run_name, or let hermes-batch"
            " merge write them"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{files.statistics} is damaged ({error}); hermes-batch merge writes it anew"
        ) from error
    sys.stdout.write(summary(statistics, files.directory))
    return OK


def _export(arguments: argparse.Namespace) -> int:
    files = run_files(arguments)
    target = Path(arguments.output)
    try:
        counts = asyncio.run(
            export_run(
                files,
                target,
                arguments.format,
                rows_per=arguments.rows_per,
                max_tokens=arguments.max_tokens,
                compressed=arguments.compressed,
            )
        )
    except OSError as error:
        raise ConfigurationError(f"{target} can not be written: {error.strerror or error}") from error
    left_out = f"; {counts.too_long} were too long and left out" if counts.too_long else ""
    sys.stdout.write(f"{counts.written} rows in {target}{left_out}\n")
    return OK


def _view(arguments: argparse.Namespace) -> int:
    files = run_files(arguments)
    target = None if arguments.output is None else Path(arguments.output)
    _require_run(files)
    try:
        viewed = asyncio.run(view_run(files, target))
    except OSError as error:
        place = target or files.directory
        raise ConfigurationError(f"no page could be made at {place}: {error.strerror or error}") from error
    sys.stdout.write(f"{viewed.rows} rows ({viewed.pending} pending) in {viewed.target}\n")
    return OK


def name_run(arguments: argparse.Namespace) -> None:
    """Settle which run is meant: `--run-name`, or RUN, which may be the path of its directory."""
    if "run" not in arguments:
        return
    if (arguments.run is None) == (arguments.run_name is None):
        raise ConfigurationError(f"{arguments.command} takes the run: RUN or --run-name, one of them")
    if arguments.run is not None and os.sep in arguments.run:
        directory = Path(arguments.run).absolute()
        arguments.output_dir, arguments.run_name = str(directory.parent), directory.name
    elif arguments.run is not None:
        arguments.run_name = arguments.run


def run_files(arguments: argparse.Namespace) -> RunFiles:
    """Where the run's files are."""
    return RunFiles(Path(arguments.output_dir), arguments.run_name)


async def _no_rows() -> AsyncGenerator[str, None]:
    none: tuple[str, ...] = ()
    for prompt in none:
        yield prompt


def _merge(arguments: argparse.Namespace) -> BatchRunner:
    """The runner that merges. Without `--dataset-file` the run's checkpoint says which rows it has."""
    files = run_files(arguments)
    given, rows = arguments.dataset_file, arguments.max_samples
    if given is None:
        _require_run(files)
        checkpoint = asyncio.run(read_checkpoint(files.checkpoint))
        if checkpoint is None:
            raise ConfigurationError(
                f"{files.checkpoint} does not tell the dataset; name it with dataset_file"
            )
        if not checkpoint.dataset_file:  # its rows came from a program
            return BatchRunner(_no_rows(), run_name=arguments.run_name, output_dir=arguments.output_dir)
        given, rows = checkpoint.dataset_file, rows or checkpoint.total
        if given != "-" and not Path(given).exists():
            raise ConfigurationError(
                f"the dataset of the run, {given}, is not there (a relative path is that of the directory"
                " where the run was begun); name it with dataset_file"
            )
    arguments.dataset_file = given
    return BatchRunner(
        dataset_file(arguments),
        run_name=arguments.run_name,
        output_dir=arguments.output_dir,
        max_samples=rows,
    )


def _require_run(files: RunFiles) -> None:
    """A mistyped name must not begin a new run, which may cost money."""
    if not files.directory.is_dir():
        raise ConfigurationError(
            f"there is no run at {files.directory}; begin one with hermes-batch run, or look at --run-name"
        )


def _dispatch(arguments: argparse.Namespace) -> int:
    match arguments.command:
        case "run" | "resume":
            runner = _runner(arguments)
            resume = arguments.command == "resume" or arguments.resume
            if arguments.command == "resume":
                _require_run(runner.files)
            statistics = asyncio.run(run_until_signal(runner, runner.run(resume=resume)))
        case "merge":
            runner = _merge(arguments)
            statistics = asyncio.run(runner.merge())
        case "stats":
            return _show_statistics(arguments)
        case "compress":
            return asyncio.run(compress(arguments))
        case "export":
            return _export(arguments)
        case "view":
            return _view(arguments)
        case _:
            for name, chances in DISTRIBUTIONS.items():
                chosen = ", ".join(f"{toolset} {chance:.0%}" for toolset, chance in chances.items())
                sys.stdout.write(f"{name}: {chosen or 'no tools'}\n")
            return OK
    sys.stdout.write(summary(statistics, runner.files.directory))
    return _exit_code(statistics)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    try:
        arguments = parse(sys.argv[1:] if argv is None else argv)
        name_run(arguments)
        code = _dispatch(arguments)
        sys.stdout.flush()
    except ConfigurationError as error:
        tell(f"hermes-batch: {in_flags(str(error))}\n")
        return USAGE
    except HermesError as error:
        tell(f"hermes-batch: {in_flags(str(error))}\n")
        return FAILED
    except BrokenPipeError:
        # Whoever read our output has gone. Python's own flush at the end would complain once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED
    return code
