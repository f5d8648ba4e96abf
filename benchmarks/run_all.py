"""All benchmarks, one after the other; what they print is kept with versions in `.cache/bench/NAME.txt`.

    python benchmarks/run_all.py [--quick] [NAME ...]

NAMEs are those of the programs without `bench_`; all without. `--quick` leaves out what takes long: the peers
and the thousand agents of the contest, and Ray. One that fails is told at the end, and the others still run.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import distributions
from pathlib import Path

HERE = Path(__file__).resolve().parent
KEPT = HERE.parent / ".cache" / "bench"
SLOW = frozenset({"ray"})
QUICK = {"contest": ("--quick",)}


def run(name: str, options: tuple[str, ...]) -> bool:
    """Show and keep what one prints; whether it ended well."""
    print(f"== {name}", flush=True)
    started = time.monotonic()
    command = [sys.executable, str(HERE / f"bench_{name}.py"), *options]
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    took = time.monotonic() - started
    print(f"== {name}: {took:.0f} s", flush=True)
    kept = "" if process.returncode == 0 else f"ended with {process.returncode}\n"
    (KEPT / f"{name}.txt").write_text("".join([heading(took), *lines, kept]), "utf-8")
    return process.returncode == 0


def heading(took: float) -> str:
    """When, where and with what."""
    versions = sorted(f"{one.name} {one.version}" for one in distributions())
    now = dt.datetime.now(dt.UTC).isoformat(timespec="minutes")
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    return f"{now}, {took:.0f} s on {machine}\n{', '.join(versions)}\n\n"


def main() -> None:
    """Run them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="without peers, a thousand agents, Ray")
    parser.add_argument("names", nargs="*", metavar="NAME")
    asked = parser.parse_args()
    every = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    if unknown := set(asked.names) - set(every):
        parser.error(f"{min(unknown)!r} is none of {', '.join(every)}")
    names = asked.names or [name for name in every if not (asked.quick and name in SLOW)]
    KEPT.mkdir(parents=True, exist_ok=True)
    failed = [name for name in names if not run(name, QUICK.get(name, ()) if asked.quick else ())]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
