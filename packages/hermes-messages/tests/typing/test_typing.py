"""The type checker's verdict on `usage.py`; where it is not installed this module is not collected."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

USAGE = Path(__file__).with_name("usage.py")


def check_types(path: Path) -> str:
    strict = ["--strict", "--warn-unreachable", "--enable-error-code", "exhaustive-match", "--config-file="]
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--no-incremental", *strict, str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False).stdout


def test_usage_type_checks_and_misuse_does_not(tmp_path: Path) -> None:
    assert check_types(USAGE) == ""
    bare = tmp_path / "bare.py"
    lines = USAGE.read_text("utf-8").splitlines()
    bare.write_text("\n".join(line.partition("  # type: ignore")[0] for line in lines), "utf-8")
    found = {int(line.split(":")[1]) for line in check_types(bare).splitlines() if ": error:" in line}
    assert found == {number for number, line in enumerate(lines, 1) if "# type: ignore" in line}
