"""The command line: `hermes-batch run|resume|merge|stats|distributions`.

Exit codes: 0 all rows are good; 1 something failed (finished rows are kept); 2 the call can not work and
nothing was started; 130 stopped by a signal.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from hermes_batch.distributions import DISTRIBUTIONS
from hermes_batch.progress import NoProgress, progress_for
from hermes_batch.run_files import RunFiles
from hermes_batch.runner import BatchRunner
from hermes_batch.statistics import BatchStatistics
from hermes_messages import ConfigurationError, HermesError
from hermes_messages.argument_text import JsonValue

__all__ = ["main"]

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _parser() -> argparse.ArgumentParser:
    # An abbreviation could turn a mistyped --api-key into another flag that shows its value.
    parser = argparse.ArgumentParser(
        prog="hermes-batch",
        allow_abbrev=False,
        description="Run a file of prompts through agents and keep training trajectories.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name, help=text, allow_abbrev=False, formatter_class=argparse.ArgumentDefaultsHelpFormatter
        )

    run = add("run", "run a dataset")
    resume = add("resume", "go on with a run")
    for command in (run, resume):
        add_run_arguments(command)
    run.add_argument("--resume", action="store_true", help="go on with the run if it has results")
    merge = add("merge", "write trajectories.jsonl and statistics.json anew")
    add_dataset_arguments(merge)
    stats = add("stats", "show the statistics of a run")
    stats.add_argument("--run-name", required=True)
    stats.add_argument("--output-dir", default="data")
    add("distributions", "list the toolset distributions")
    return parser


def add_dataset_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments that say which run is meant."""
    parser.add_argument("--dataset-file", required=True, metavar="FILE", help='JSONL, {"prompt": ...} a line')
    parser.add_argument(
        "--run-name", required=True, metavar="NAME", help="the run's directory in --output-dir"
    )
    parser.add_argument("--output-dir", default="data", metavar="DIR")
    parser.add_argument("--max-samples", type=int, metavar="N", help="only the first N rows")


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of a run."""
    add_dataset_arguments(parser)
    parser.add_argument("--batch-size", type=int, default=100, metavar="N", help="rows in a shard")
    tools = parser.add_mutually_exclusive_group()
    tools.add_argument("--distribution", default="default", metavar="NAME", help="of toolsets")
    tools.add_argument("--toolsets", type=_names, metavar="A,B", help="the same toolsets for every row")
    model = parser.add_argument_group(
        "the model (with none of these: a key in the environment, else the local model)"
    )
    model.add_argument("--provider", metavar="NAME")
    model.add_argument("--base-url", metavar="URL", help="of an OpenAI-compatible host")
    model.add_argument("--model", metavar="NAME")
    key = model.add_mutually_exclusive_group()
    key.add_argument("--api-key-env", metavar="NAME", help="the environment variable that holds the key")
    key.add_argument("--api-key", metavar="KEY", help="the key itself; other users of the machine can see it")
    model.add_argument("--model-path", metavar="GGUF", help="weights for the local model server")
    model.add_argument(
        "--provider-setting",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the provider's own (local: threads=2, port=8080); may be repeated",
    )
    model.add_argument("--max-tokens", type=int, metavar="N", help="of one response")
    model.add_argument("--temperature", type=float, metavar="T")
    model.add_argument("--reasoning-effort", choices=("none", "minimal", "low", "medium", "high"))
    model.add_argument("--ephemeral-system-prompt", metavar="TEXT", help="sent, never saved")
    model.add_argument("--prefill-messages-file", metavar="FILE", help="JSON list of messages, sent first")
    model.add_argument("--providers-allowed", type=_names, default=(), metavar="A,B", help="OpenRouter")
    model.add_argument("--providers-ignored", type=_names, default=(), metavar="A,B", help="OpenRouter")
    model.add_argument("--providers-order", type=_names, default=(), metavar="A,B", help="OpenRouter")
    model.add_argument("--provider-sort", metavar="KEY", help="OpenRouter: price, throughput or latency")
    rows = parser.add_argument_group("rows")
    rows.add_argument("--max-iterations", type=int, default=10, metavar="N", help="model calls for a row")
    rows.add_argument("--num-workers", type=int, default=4, metavar="N", help="rows at once")
    rows.add_argument("--row-timeout", type=float, metavar="SECONDS")
    rows.add_argument("--seed", type=int, default=0, metavar="N", help="of the toolset distribution")
    rows.add_argument(
        "--keep-without-reasoning", action="store_true", help="keep rows in which the model gave no reasoning"
    )
    rows.add_argument("--retry-failed", action="store_true", help="on resume, run failed rows again")
    rows.add_argument("--retry-discarded", action="store_true", help="on resume, run discarded rows again")
    rows.add_argument("--quiet", action="store_true", help="no progress")


def _runner(arguments: argparse.Namespace) -> BatchRunner:
    settings = read_settings(arguments.provider_setting)
    if arguments.model_path is not None:
        settings["model_path"] = arguments.model_path
    effort = arguments.reasoning_effort
    return BatchRunner(
        arguments.dataset_file,
        batch_size=arguments.batch_size,
        run_name=arguments.run_name,
        distribution=arguments.distribution,
        max_iterations=arguments.max_iterations,
        base_url=arguments.base_url,
        api_key=arguments.api_key or _api_key(arguments.api_key_env),
        model=arguments.model,
        num_workers=arguments.num_workers,
        ephemeral_system_prompt=arguments.ephemeral_system_prompt,
        providers_allowed=arguments.providers_allowed,
        providers_ignored=arguments.providers_ignored,
        providers_order=arguments.providers_order,
        provider_sort=arguments.provider_sort,
        reasoning_config=None if effort is None else {"effort": effort},
        provider=arguments.provider,
        provider_settings=settings,
        toolsets=arguments.toolsets,
        output_dir=arguments.output_dir,
        max_samples=arguments.max_samples,
        max_tokens=arguments.max_tokens,
        temperature=arguments.temperature,
        prefill_messages=_prefill(arguments.prefill_messages_file),
        require_reasoning=not arguments.keep_without_reasoning,
        retry_failed=arguments.retry_failed,
        retry_discarded=arguments.retry_discarded,
        row_timeout_s=arguments.row_timeout,
        seed=arguments.seed,
        progress=NoProgress() if arguments.quiet else progress_for(),
    )


def read_settings(pairs: Sequence[str]) -> dict[str, JsonValue]:
    """`NAME=VALUE` pairs; a value that is JSON is read as such, any other is text."""
    settings: dict[str, JsonValue] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ConfigurationError(f"--provider-setting {pair!r}: it is written NAME=VALUE")
        try:
            settings[name] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            settings[name] = value
    return settings


def _api_key(variable: str | None) -> str | None:
    if variable is None:
        return None
    if not variable.isidentifier():
        raise ConfigurationError(
            "--api-key-env takes the name of an environment variable, not the key itself"
        )
    key = os.environ.get(variable, "")
    if not key:
        raise ConfigurationError(f"the environment variable {variable} is not set")
    return key


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


async def run_until_signal(runner: BatchRunner, *, resume: bool) -> BatchStatistics:
    """Run; the first SIGINT or SIGTERM lets running rows end, the second cancels them, the third the run."""
    loop = asyncio.get_running_loop()
    run = asyncio.current_task()
    signals = 0

    def on_signal() -> None:
        nonlocal signals
        signals += 1
        match signals:
            case 1:
                _tell("\nstopping: running rows may end; once more to stop at once\n")
                runner.request_stop()
            case 2:
                _tell("\nstopping now; once more to leave the results unmerged\n")
                runner.request_stop(now=True)
            case _:
                if run is not None:
                    run.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    try:
        return await runner.run(resume=resume)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _tell(text: str) -> None:
    """Write to the terminal, if it is still there."""
    with suppress(OSError):
        sys.stderr.write(text)


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
        f"  in {runner_directory}: trajectories.jsonl, statistics.json, state.db",
    ]
    if statistics.errors_by_kind:
        kinds = ", ".join(f"{kind} x{count}" for kind, count in statistics.errors_by_kind.items())
        lines.insert(3, f"  not good: {kinds}")
    if "no_reasoning" in statistics.errors_by_kind:
        lines.insert(4, "  rows without reasoning are discarded; --keep-without-reasoning keeps them")
    return "\n".join(lines) + "\n"


def _exit_code(statistics: BatchStatistics) -> int:
    if statistics.interrupted and statistics.pending:
        return INTERRUPTED
    return FAILED if statistics.error or statistics.pending else OK


def _show_statistics(arguments: argparse.Namespace) -> int:
    files = RunFiles(Path(arguments.output_dir), arguments.run_name)
    try:
        statistics = msgspec.json.decode(files.statistics.read_bytes(), type=BatchStatistics)
    except OSError as error:
        raise ConfigurationError(f"no statistics at {files.statistics}: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{files.statistics} is damaged ({error}); hermes-batch merge writes it anew"
        ) from error
    sys.stdout.write(summary(statistics, files.directory))
    return OK


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
            statistics = asyncio.run(run_until_signal(runner, resume=resume))
        case "merge":
            runner = BatchRunner(
                arguments.dataset_file,
                run_name=arguments.run_name,
                output_dir=arguments.output_dir,
                max_samples=arguments.max_samples,
            )
            statistics = asyncio.run(runner.merge())
        case "stats":
            return _show_statistics(arguments)
        case _:
            for name, chances in DISTRIBUTIONS.items():
                chosen = ", ".join(f"{toolset} {chance:.0%}" for toolset, chance in chances.items())
                sys.stdout.write(f"{name}: {chosen or 'no tools'}\n")
            return OK
    sys.stdout.write(summary(statistics, runner.files.directory))
    return _exit_code(statistics)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
    except ConfigurationError as error:
        _tell(f"hermes-batch: {error}\n")
        return USAGE
    except HermesError as error:
        _tell(f"hermes-batch: {error}\n")
        return FAILED
    except BrokenPipeError:
        # Whoever read our output has gone. Python's own flush at the end would complain once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED
    return code
