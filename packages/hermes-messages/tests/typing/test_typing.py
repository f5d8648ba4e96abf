"""The type checker's verdict on `usage.py` and `misuse.py.txt`; where it is missing this is not collected."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

USAGE = Path(__file__).with_name("usage.py")
MISUSE = Path(__file__).with_name("misuse.py.txt")


def check_types(path: Path) -> str:
    strict = ["--strict", "--warn-unreachable", "--enable-error-code", "exhaustive-match", "--config-file="]
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--no-incremental", *strict, str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False).stdout


def test_usage_type_checks() -> None:
    assert check_types(USAGE) == ""


def test_misuse_is_found_line_by_line(tmp_path: Path) -> None:
    text = MISUSE.read_text("utf-8")
    code = tmp_path / "misuse.py"  # not called so in the tree: every .py file there must type-check
    code.write_text(text, "utf-8")
    lines = text.splitlines()
    expected = {
        (n, line.rpartition("# expected: ")[2]) for n, line in enumerate(lines, 1) if "# expected: " in line
    }
    found = {(int(n), code) for n, code in re.findall(r":(\d+): error: .*\[([\w-]+)\]", check_types(code))}
    assert len(expected) > 10
    assert found == expected
