"""What the command line of `hermes-batch` understands. Pure, but for what argparse prints on --help."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Final, Never, get_args

import msgspec

from hermes_batch.compression_plan import CompressionSettings
from hermes_batch.export_formats import EXPORT_FORMATS
from hermes_messages import ConfigurationError, ReasoningEffort
from hermes_messages.argument_text import JsonValue

__all__ = ["in_flags", "parse", "read_settings"]

_FLAG = re.compile(r"--[a-z][a-z_-]*")
_OTHER_NAMES: Final = {
    "row_timeout_s": "--row-timeout",
    "sync_every_s": "--sync-every",
    "grace_s": "--grace",
    "resume=True": "--resume",
    "prefill_messages": "--prefill-messages-file",
    "reasoning_config": "--reasoning-effort",
    "require_reasoning": "--keep-without-reasoning",
    "provider_settings": "--provider-setting",
    "fallback_models": "--fallback-model",
    "hooks": "--hook",
    "container_settings": "--container-setting",
    "require_reasoning=False": "--keep-without-reasoning",
    "engine_settings": "--engine-setting",
}
_SAME_NAMES: Final = (
    "attempts", "base_url", "batch_size", "drop_unknown_tools", "fail_fast", "dataset_file", "agent_factory",
    "ephemeral_system_prompt", "max_iterations", "max_samples", "max_tokens", "num_workers", "output_dir",
    "provider_sort", "providers_allowed", "providers_ignored", "providers_order", "retry_discarded",
    "retry_failed", "run_name", "model_path", "input_tokens", "keep_first", "keep_last",
    "summary_tokens", "target_tokens", "failure_limit",
)  # fmt: skip
_NAMES: Final = {name: "--" + name.replace("_", "-") for name in _SAME_NAMES} | _OTHER_NAMES
_NAME = re.compile(rf"(?<![\w/.-])(?<!\d )({'|'.join(_NAMES)})(?![\w=/.])")  # "after 4 attempts" is no name


_GIVEN = re.compile(
    rf"(?<![\w/.(-])(api_key|model|provider|{'|'.join(_SAME_NAMES)})=(?:\.\.\.|'([^']*)')?(?![\w=])"
)


def in_flags(message: str) -> str:
    """An error message of the Python interface in the words of the command line."""
    message = _GIVEN.sub(lambda found: _flag_of(found[1]) + (f" {found[2]}" if found[2] else ""), message)
    return _NAME.sub(lambda found: _NAMES[found[0]], message)


def _flag_of(name: str) -> str:
    return _NAMES.get(name) or "--" + name.replace("_", "-")


class _HelpFormatter(argparse.HelpFormatter):
    """Says what holds when an option is not given, where that is a value."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        if action.default in (None, False, (), [], argparse.SUPPRESS):
            return text
        return f"{text} (default: %(default)s)".strip()


class _Parser(argparse.ArgumentParser):
    """Raises instead of leaving the program."""

    def error(self, message: str) -> Never:
        """Raise `ConfigurationError`. Values that stand nowhere are not repeated: one may be a key."""
        told = message.partition("unrecognized arguments: ")[0] or "there are values that belong to no option"
        raise ConfigurationError(f"{told}; see {self.prog} --help")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line, read. Raises `ConfigurationError`; an unknown option is named before a missing one,
    since the one may be the other mistyped."""
    parser = make_parser()
    known = sorted(_flags(parser))
    told: list[str] = []
    for argument in argv:
        found = _FLAG.match(argument)
        if found is not None and found[0] not in known:
            near = difflib.get_close_matches(found[0], known, n=1)
            told.append(f"there is no option {found[0]}" + (f"; is {near[0]} meant?" if near else ""))
    if told:
        raise ConfigurationError(f"{'; '.join(told)}; see {parser.prog} --help")
    return parser.parse_args(argv)


def _flags(parser: argparse.ArgumentParser) -> set[str]:
    """Every option of `parser` and its commands; argparse tells them in no public way."""
    flags = set(parser._option_string_actions)  # noqa: SLF001
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for command in action.choices.values():
                flags |= _flags(command)
    return flags


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    # An abbreviation could turn a mistyped --api-key into another flag that shows its value.
    parser = _Parser(
        prog="hermes-batch",
        allow_abbrev=False,
        description="Run a file of prompts through agents and keep training trajectories.",
    )
    parser.add_argument("--version", action="version", version=f"hermes-batch {version('hermes-batch')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, allow_abbrev=False, formatter_class=_HelpFormatter)

    run = add("run", "run a dataset")
    resume = add("resume", "go on with a run")
    for command in (run, resume):
        add_run_arguments(command)
    run.add_argument("--resume", action="store_true", help="go on with the run if it has results")
    merge = add("merge", "write trajectories.jsonl and statistics.json anew")
    add_run_argument(merge)
    merge.add_argument("--dataset-file", metavar="FILE", help="if it is not where it was when the run began")
    merge.add_argument("--max-samples", type=int, metavar="N", help="only the first N rows")
    add_run_argument(add("stats", "show the statistics of a run"))
    export = add("export", "write the good rows for a trainer")
    add_run_argument(export)
    export.add_argument("--format", choices=EXPORT_FORMATS, default="sharegpt", help="of the rows")
    export.add_argument(
        "--output", required=True, metavar="FILE", help="JSONL, or Parquet when it ends in .parquet"
    )
    export.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help="shorten tool results in longer rows; leave out what is longer all the same",
    )
    export.add_argument("--compressed", action="store_true", help="the rows that hermes-batch compress wrote")
    export.add_argument(
        "--rows-per",
        choices=("conversation", "turn"),
        default="conversation",
        help="one row for each of these",
    )
    add_compress_arguments(add("compress", "bring long rows to a token target with summaries by a model"))
    view = add("view", "write a page to look at the rows in a browser")
    add_run_argument(view)
    view.add_argument("--output", metavar="FILE", help="the page (view.html in the run's directory)")
    add("distributions", "list the toolset distributions")
    return parser


def add_dataset_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments that say which run is meant."""
    parser.add_argument(
        "--dataset-file",
        required=True,
        metavar="FILE",
        help='JSONL, {"prompt": ...} a line, also in gzip or zstd; or Parquet; - is standard input',
    )
    add_place_arguments(parser)
    parser.add_argument("--max-samples", type=int, metavar="N", help="only the first N rows")


def add_run_argument(parser: argparse.ArgumentParser) -> None:
    """The arguments that name a run which is there, one way or the other."""
    parser.add_argument("run", nargs="?", metavar="RUN", help="its name in --output-dir, or its directory")
    add_place_arguments(parser, required=False)


def add_place_arguments(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """The arguments that say where a run lies."""
    parser.add_argument("--run-name", required=required, metavar="NAME", help="its directory in --output-dir")
    parser.add_argument("--output-dir", default="data", metavar="DIR", help="the directory of all runs")


def add_model_arguments(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """The arguments that say which model answers."""
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
    model.add_argument(
        "--fallback-model",
        action="append",
        default=[],
        metavar="PROVIDER/MODEL",
        help="asked where the model fails; may be repeated",
    )
    model.add_argument("--max-tokens", type=int, metavar="N", help="of one response")
    model.add_argument("--temperature", type=float, metavar="T")
    return model


def add_compress_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of a compression."""
    add_run_argument(parser)
    parser.add_argument("--output", metavar="FILE", help="JSONL (compressed.jsonl in the run's directory)")
    what = parser.add_argument_group("what is compressed")
    what.add_argument("--target-tokens", type=int, default=15_250, metavar="N", help="of a trajectory")
    what.add_argument("--summary-tokens", type=int, default=750, metavar="N", help="of a summary, about")
    what.add_argument(
        "--input-tokens", type=int, default=24_000, metavar="N", help="of steps that the summariser is shown"
    )
    what.add_argument(
        "--keep-first",
        type=_names,
        default="human,gpt,tool",
        metavar="A,B",
        help="of whom the first step stays: human, gpt, tool",
    )
    what.add_argument("--keep-last", type=int, default=4, metavar="N", help="steps that stay")
    what.add_argument(
        "--request",
        default=CompressionSettings().request,
        metavar="TEXT",
        help="what the summariser is asked after the steps",
    )
    what.add_argument("--system-notice", default="", metavar="TEXT", help="appended to the system step")
    what.add_argument(
        "--on-failed-summary",
        choices=("keep", "notice", "drop"),
        default="keep",
        help="the trajectory; or a notice in place of the steps",
    )
    what.add_argument(
        "--over-limit",
        choices=("keep", "shorten", "drop"),
        default="keep",
        help="what is too long all the same; shorten cuts older tool results",
    )
    add_model_arguments(parser)
    summaries = parser.add_argument_group("summaries")
    summaries.add_argument("--num-workers", type=int, default=4, metavar="N", help="summaries at once")
    summaries.add_argument("--attempts", type=int, default=2, metavar="N", help="where host or time fails")
    summaries.add_argument(
        "--row-timeout", type=float, default=300.0, metavar="SECONDS", help="of an attempt"
    )
    summaries.add_argument("--retry-failed", action="store_true", help="ask again for those that failed")
    summaries.add_argument("--quiet", action="store_true", help="no progress")


def add_ending_arguments(rows: argparse._ArgumentGroup) -> None:
    """The arguments that say what ends a run early."""
    rows.add_argument("--fail-fast", action="store_true", help="the first row that fails ends the run")
    rows.add_argument(
        "--failure-limit", type=int, metavar="N",
        help="end after so many rows in a row whose host can not be reached (as many as workers, at least 3)",
    )  # fmt: skip
    rows.add_argument(
        "--grace", type=float, default=30.0, metavar="SECONDS",
        help="how long running rows may go on after the first Ctrl-C",
    )  # fmt: skip


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of a run."""
    add_dataset_arguments(parser)
    parser.add_argument("--batch-size", type=int, default=100, metavar="N", help="rows in a shard")
    tools = parser.add_mutually_exclusive_group()
    tools.add_argument(
        "--distribution",
        default="default",
        metavar="NAME",
        help="of toolsets; or a .toml or .json file",
    )
    tools.add_argument("--toolsets", type=_names, metavar="A,B", help="the same toolsets for every row")
    model = add_model_arguments(parser)
    model.add_argument("--reasoning-effort", choices=get_args(ReasoningEffort))
    model.add_argument("--ephemeral-system-prompt", metavar="TEXT", help="sent, never saved")
    model.add_argument("--prefill-messages-file", metavar="FILE", help="JSON list of messages, sent first")
    model.add_argument("--providers-allowed", type=_names, default=(), metavar="A,B", help="OpenRouter")
    model.add_argument("--providers-ignored", type=_names, default=(), metavar="A,B", help="OpenRouter")
    model.add_argument("--providers-order", type=_names, default=(), metavar="A,B", help="OpenRouter")
    model.add_argument("--provider-sort", metavar="KEY", help="OpenRouter: price, throughput or latency")
    model.add_argument(
        "--agent-factory", metavar="MODULE:NAME", help="agents of your own: a callable that makes the factory"
    )
    add_engine_arguments(parser)
    rows = parser.add_argument_group("rows")
    rows.add_argument("--max-iterations", type=int, default=10, metavar="N", help="model calls for a row")
    rows.add_argument("--num-workers", type=int, default=4, metavar="N", help="rows at once")
    rows.add_argument("--row-timeout", type=float, metavar="SECONDS")
    rows.add_argument("--seed", type=int, default=0, metavar="N", help="of the toolset distribution")
    rows.add_argument(
        "--keep-without-reasoning", action="store_true", help="keep rows in which the model gave no reasoning"
    )
    rows.add_argument(
        "--attempts",
        type=int,
        default=1,
        metavar="N",
        help="for a row whose host or time fails",
    )
    tools_run = parser.add_argument_group("where commands run")
    tools_run.add_argument(
        "--image", metavar="IMAGE", help="a container of this image for each row that names none itself"
    )
    tools_run.add_argument(
        "--container-setting", action="append", default=[], metavar="NAME=VALUE",
        help="of those containers (network=bridge, memory=4g, cli=podman); may be repeated",
    )  # fmt: skip
    tools_run.add_argument(
        "--approvals", choices=("deny", "allow-in-container", "allow"), default="deny",
        help="of dangerous commands, since nobody can be asked",
    )  # fmt: skip
    add_ending_arguments(rows)
    rows.add_argument(
        "--order", choices=("file", "longest", "shortest"), default="file",
        help="in which rows are begun; by length in windows of 1,000",
    )  # fmt: skip
    rows.add_argument(
        "--sync-every",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="least time between disk syncs",
    )
    rows.add_argument(
        "--drop-unknown-tools", action="store_true", help="discard rows in which the model invented a tool"
    )
    rows.add_argument(
        "--hook",
        action="append",
        default=[],
        metavar="NAME",
        help="of every agent: otel reports to OpenTelemetry; may be repeated",
    )
    rows.add_argument("--retry-failed", action="store_true", help="on resume, run failed rows again")
    rows.add_argument("--retry-discarded", action="store_true", help="on resume, run discarded rows again")
    rows.add_argument("--quiet", action="store_true", help="no progress")


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments that say where rows run."""
    where = parser.add_argument_group("where rows run")
    where.add_argument(
        "--engine", default="local", metavar="NAME", help="local, ray, or one that is installed"
    )
    where.add_argument(
        "--engine-setting", action="append", default=[], metavar="NAME=VALUE",
        help="a setting of the engine (ray: address=HOST:PORT, actors=4); may be repeated",
    )  # fmt: skip


def read_settings(pairs: Sequence[str]) -> dict[str, JsonValue]:
    """`NAME=VALUE` pairs; a value that is JSON is read as such, any other is text."""
    settings: dict[str, JsonValue] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ConfigurationError(f"the setting {pair!r} is not written NAME=VALUE")
        try:
            settings[name] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            settings[name] = value
    return settings
