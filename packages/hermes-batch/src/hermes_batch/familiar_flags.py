"""`python -m batch_runner`: Hermes' flags in terms of `hermes-batch`.

`--dataset_file=F --batch_size=N --run_name=NAME` and the others may be written with underscores or dashes,
with `=` or a space; `--max_turns` is `--max-iterations`, `--resume` and `--list_distributions` are switches.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hermes_batch.cli import USAGE
from hermes_batch.cli import main as cli_main

__all__ = ["main", "translate"]

_RENAMED = {"--max-turns": "--max-iterations"}
_TRUE, _FALSE = frozenset({"", "true", "1", "yes"}), frozenset({"false", "0", "no"})
_SWITCHES = {
    "--resume",
    "--list-distributions",
    "--verbose",
    "--reasoning-disabled",
    "--keep-without-reasoning",
    "--retry-failed",
    "--retry-discarded",
    "--quiet",
}


def translate(argv: Sequence[str]) -> list[str]:
    """The arguments for `hermes-batch`. Raises `ValueError` for a switch with a value that is no truth."""
    command = "run"
    arguments: list[str] = []
    for argument in argv:
        if not argument.startswith("--"):
            arguments.append(argument)
            continue
        flag, equals, value = argument.partition("=")
        flag = flag.replace("_", "-")
        flag = _RENAMED.get(flag, flag)
        if flag not in _SWITCHES:
            arguments.append(f"{flag}{equals}{value}")
            continue
        if value.lower() not in _TRUE | _FALSE:
            raise ValueError(f"{flag} takes true or false, not {value!r}")
        if value.lower() in _FALSE and equals:
            continue
        match flag:
            case "--resume":
                command = "resume"
            case "--list-distributions":
                return ["distributions"]
            case "--reasoning-disabled":
                arguments.extend(["--reasoning-effort", "none"])
            case "--verbose":
                pass
            case _:
                arguments.append(flag)
    return [command, *arguments]


def main(argv: Sequence[str] | None = None) -> int:
    """Run with Hermes' flags; the exit code."""
    try:
        arguments = translate(sys.argv[1:] if argv is None else argv)
    except ValueError as error:
        sys.stderr.write(f"batch_runner: {error}\n")
        return USAGE
    return cli_main(arguments)
