"""`python -m batch_runner`: Hermes' flags in terms of `hermes-batch`.

`--dataset_file=F --batch_size=N --run_name=NAME` and the others may be written with underscores or dashes,
with `=` or a space; the first four may stand without their names. `--max_turns` is `--max-iterations`,
`--resume` and `--list_distributions` are switches, and a flag whose value is `None` is not given.
Source of the flags: the parameters of `main` in Hermes' batch_runner.py, which its `fire` turns into flags.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from hermes_batch.cli import main as cli_main
from hermes_batch.cli_shared import USAGE

__all__ = ["main", "translate"]

_IN_ORDER = ("--dataset-file", "--batch-size", "--run-name", "--distribution")
_RENAMED = {"--max-turns": "--max-iterations"}
_WITHOUT_EFFECT = {"--log-prefix-chars"}
_TRUE, _FALSE = frozenset({"", "true", "1", "yes"}), frozenset({"false", "0", "no", "none"})
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
_STRONGEST_EFFORT = "max"
_STRONGER_EFFORTS = frozenset({"ultra"})


def translate(argv: Sequence[str]) -> list[str]:
    """The arguments for `hermes-batch`. Raises `ValueError` for a switch with a value that is no truth."""
    switches: set[str] = set()
    arguments: list[str] = []
    for flag, value in _pairs(argv):
        if flag in _SWITCHES:
            if value.lower() not in _TRUE | _FALSE:
                raise ValueError(f"{flag} takes true or false, not {value!r}")
            (switches.discard if value.lower() in _FALSE else switches.add)(flag)
        elif flag == "--reasoning-effort" and value in _STRONGER_EFFORTS:
            arguments.append(f"{flag}={_STRONGEST_EFFORT}")
        elif flag not in _WITHOUT_EFFECT and value != "None":
            arguments.append(f"{flag}={value}" if flag.startswith("--") else flag)
    if "--list-distributions" in switches:
        return ["distributions"]
    if "--reasoning-disabled" in switches:
        arguments = [argument for argument in arguments if not argument.startswith("--reasoning-effort=")]
        arguments.append("--reasoning-effort=none")
    return ["run", *arguments, *sorted(switches - {"--verbose", "--reasoning-disabled"})]


def _pairs(argv: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Flags with their values, "" for none; what is no flag comes as itself."""
    unnamed = list(_IN_ORDER)
    rest = list(argv)
    while rest:
        argument = rest.pop(0)
        if not argument.startswith("--"):
            yield (unnamed.pop(0), argument) if unnamed else (argument, "")
            continue
        flag, equals, value = argument.partition("=")
        flag = flag.replace("_", "-")
        flag = _RENAMED.get(flag, flag)
        if flag.startswith("--no") and "--" + flag[4:] in _SWITCHES:
            flag, equals, value = "--" + flag[4:], "=", "false"
        if not equals and rest and not rest[0].startswith("--"):
            wanted = rest[0].lower() in _TRUE | _FALSE if flag in _SWITCHES else flag != "--help"
            value = rest.pop(0) if wanted else ""
        yield flag, value


def main(argv: Sequence[str] | None = None) -> int:
    """Run with Hermes' flags; the exit code."""
    given = sys.argv[1:] if argv is None else argv
    if "--help" in given or "-h" in given:
        return cli_main(["run", "--help"])
    try:
        arguments = translate(given)
    except ValueError as error:
        sys.stderr.write(f"batch_runner: {error}\n")
        return USAGE
    return cli_main(arguments)
