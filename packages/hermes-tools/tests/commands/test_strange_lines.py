"""Lines that nobody writes: each is judged in bounded time, or it is said that it can not be."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_tools.commands import UnreadableCommandError, dangers_of

CPU_LIMIT_S = 60.0  # many times what it takes


@pytest.mark.parametrize(
    "line",
    [
        "rm -rf / '",
        'echo "a',
        "echo `rm -rf /",
        "echo $(rm -rf /",
        "( ls",
        "$(" * 40 + "ls" + ")" * 40,
        "a=xxxxxxxxxx;" + "a=$a$a;" * 40,
        "echo " + "{a,b}" * 20,
        "x " * 40_000,
        "true;" * 2_000,
        "find . -exec " * 14 + "ls",
        "nohup " * 20 + "ls",
    ],
)
def test_a_line_that_can_not_be_judged_says_so(line: str) -> None:
    with pytest.raises(UnreadableCommandError, match="command"):
        dangers_of(line)


@given(st.text(alphabet="ab \n;&|<>(){}$'\"`\\#=*-/!~", max_size=60))
def test_any_text_is_judged_or_refused_and_nothing_else(line: str) -> None:
    with contextlib.suppress(UnreadableCommandError):
        dangers_of(line)


@pytest.mark.parametrize(
    "line",
    [
        "chmod " + "a" * 60_000,
        "chmod a+" + "w" * 60_000 + "Z",
        "cat " + ".env" * 15_000 + "!",
        "xargs " + "rm " * 20_000,
        "find " + "-exec " * 10_000,
        "git " + "foreach " * 8_000,
        "rm -r " + "/a" * 30_000,
        "v='" + "x " * 4_000 + "'; bash $v$(" + "a;" * 900 + ")",
        "echo " + "x" * 50_000 + "|psql" * 900,
        "sed s" + "/" * 60_000,
        "{" + "." * 60_000,
        "cd /a;" * 900 + "rm -r x",
        "vim " + ":" * 60_000,
        "(" * 20_000 + "1" + ")" * 20_000,
        "((1))" * 10_000,
        "x='" + "a " * 4_500 + "';echo " + "$x " * 5_000,
        "IFS=" + "," * 9_000 + ";x=" + "a" * 9_000 + ";echo " + "$x " * 5_000,
        "python3 -c '" + "rmtree " * 8_000 + "'",
        "f(){" * 15_000,
        "psql -c 'delete from " + "a" * 60_000 + "'",
    ],
    ids=lambda line: line[:12],
)
def test_lines_made_to_be_slow_are_judged_in_bounded_time(line: str) -> None:
    began = time.process_time()
    with contextlib.suppress(UnreadableCommandError):
        dangers_of(line)
    assert time.process_time() - began < CPU_LIMIT_S


@pytest.mark.parametrize(
    "unit", ["a ", "'a' ", "$x ", '"$x" ', "{ ", "a=1 ", "<<a ", "\\a", "*?[ ", "-x ", "$'a'"]
)
def test_long_lines_are_judged_in_bounded_time(unit: str) -> None:
    line = "echo " + unit * (60_000 // len(unit))
    began = time.process_time()
    with contextlib.suppress(UnreadableCommandError):
        dangers_of(line)
    assert time.process_time() - began < CPU_LIMIT_S
