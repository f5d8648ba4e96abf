"""Identities that nobody else gets."""

from __future__ import annotations

import os
import string
import subprocess
import sys

import pytest

from hermes_loop.ids import AT_ONCE, new_id

FORKS = """
import os
from hermes_loop.ids import AT_ONCE, new_id
new_id()
child = os.fork()
made = [new_id() for _ in range(AT_ONCE)]
os.write(1, "".join(f"{one}\\n" for one in made).encode())
if child:
    os.waitpid(child, 0)
"""


def test_no_two_are_the_same_also_beyond_one_draw() -> None:
    made = [new_id() for _ in range(3 * AT_ONCE)]
    assert len(set(made)) == len(made)
    assert {len(one) for one in made} == {32}
    assert set("".join(made)) <= set(string.hexdigits.lower())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_takes_none_of_its_parents() -> None:
    done = subprocess.run([sys.executable, "-c", FORKS], check=True, capture_output=True, text=True)
    made = done.stdout.split()
    assert len(set(made)) == len(made) == 2 * AT_ONCE
