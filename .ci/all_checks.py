"""Every check and test of the workspace, two lanes at a time, with a table at the end.

    python .ci/all_checks.py [NAME ...]

Each NAME selects the steps that are called so or begin so: `types`, `audit`, `unit`, `unit hermes-loop`,
`integration`; no NAME means all. Exits 1 if any step failed. Each package's unit tests run in an environment
that holds that package, what it declares and its group `test`, and nothing else of the workspace.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
import tomllib
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ending import run_command, run_until_stopped

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = sorted(path.parent.name for path in (ROOT / "packages").glob("*/pyproject.toml"))
REPORTS = ROOT / ".cache" / "reports"
NIGHTLY = os.environ.get("HERMES_TEST_PROFILE") == "nightly"
STEP_LIMIT_S = 8 * 3600.0 if NIGHTLY else 25 * 60.0
GRACE_S = 60.0
"""How long a step may clean up: more than the matrix gives to what it runs."""
HEAVY_EXTRAS = {"local", "ray"}
"""Not in a package's own environment; tests that need them are marked and run in the whole one."""
SITE = ("sphinx-build", "-q", "-W", "--keep-going", "-c", ".ci/docs_site")
"""The command that builds the site; a warning is an error. Without `-E` what is wrong with a page
is told once, and not again until the page changes."""
WHOLE_ENVIRONMENT_ONLY = {"local_model": "the local model", "ray_cluster": "a Ray cluster"}
SELECTED = {"ray_cluster": "ray_cluster" if NIGHTLY else "ray_cluster and not ray_nightly"}
"""Which of the tests with a marker the profile runs, if not all."""
NO_TESTS_COLLECTED = 5
LANES = min(2, os.cpu_count() or 1)
LONG = ("integration", "matrix subsets", "matrix pins")
"""These go first, so that no lane waits for one of them at the end; the others are short beside them."""
AFTER_CHECKS = {"integration"}
"""Tests that use what a check of the sources leaves: they look at the site that the step `docs` builds."""
MATRIX = "tests-integration/matrix/run_matrix.py"


@dataclass(frozen=True)
class Step:
    """Commands that run in order until one fails; `report` is where pytest leaves its counts."""

    name: str
    commands: list[list[str]]
    env: dict[str, str] = field(default_factory=dict)
    report: Path | None = None
    may_be_empty: bool = False


@dataclass(frozen=True)
class Outcome:
    """How a step ended."""

    step: Step
    code: int
    seconds: float


def static_steps() -> Iterator[Step]:
    """What reads the sources only."""
    yield Step("format", [["ruff", "format", "--check", "--quiet", "."]])
    yield Step("lint", [["ruff", "check", "--quiet", "."]])
    yield types("sources", [*Path("packages").glob("*/src"), *Path(".ci").rglob("*.py")], ".ci/checks:.ci")
    for package in PACKAGES:  # apart, since two packages may have a test module of the same name
        yield types(f"{package} tests", [Path("packages", package, "tests")], f"packages/{package}/tests:.ci")
    tests = ROOT / "tests-integration"
    folders = sorted(path.relative_to(ROOT) for path in tests.glob("*") if any(path.glob("*.py")))
    for folder in (Path("benchmarks"), *folders):
        yield types(str(folder), [folder], f"{folder}:.ci:.ci/checks")
    yield types("examples", [Path("examples")], "examples:examples/third_party/src:.ci")
    yield Step("layers", [["lint-imports", "--no-logo"]])
    for check in ("async_audit", "sibling_ranges", "house_rules", "release_state", "api_names"):
        yield Step(f"audit {check}", [[sys.executable, f".ci/checks/{check}.py"]])
    yield Step("docs", [[*SITE, "-E", "docs", ".cache/site"]])
    yield Step("api contract", [[sys.executable, ".ci/checks/api_contract.py"]])
    files = str(REPORTS.parent / "release")
    yield Step("release files", [[sys.executable, ".ci/release_check.py", "--quick", "--out", files]])
    yield Step("audit installed", [["uv", "pip", "check", "--quiet", "--python", sys.executable]])


def types(name: str, paths: list[Path], bases: str) -> Step:
    """Strict type checking of what lies at `paths`; nothing if there is no Python there yet."""
    given = sorted(str(path) for path in paths if path.suffix == ".py" or any((ROOT / path).rglob("*.py")))
    return Step(
        f"types {name}", [["mypy", "--no-error-summary", *given]] if given else [], {"MYPYPATH": bases}
    )


def unit_step(package: str) -> Step:
    """One package's own tests in an environment of its own."""
    home = ROOT / ".cache" / "envs" / package
    extras = [part for extra in light_extras(package) for part in ("--extra", extra)]
    groups = [part for group in groups_of(package) for part in ("--group", group)]
    sync = [
        "uv",
        "sync",
        "--quiet",
        "--frozen",
        "--package",
        package,
        "--no-default-groups",
        *groups,
    ]
    report = REPORTS / f"{package}.xml"
    test = pytest(str(home / "bin" / "python"), report, f"packages/{package}/tests")
    test += ["-m", " and ".join(f"not {marker}" for marker in WHOLE_ENVIRONMENT_ONLY)]
    return Step(f"unit {package}", [sync + extras, test], {"UV_PROJECT_ENVIRONMENT": str(home)}, report)


def groups_of(package: str) -> list[str]:
    """The dependency groups of `package`: its group `test`, and what some of its tests compare it with."""
    data = tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text("utf-8"))
    return list(data["dependency-groups"])


def light_extras(package: str) -> list[str]:
    """The extras of `package` that bring in neither a sibling nor hundreds of megabytes."""
    project = tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project.get("optional-dependencies", {})
    return [
        n for n in extras if n not in HEAVY_EXTRAS and not any(r.startswith("hermes-") for r in extras[n])
    ]


def whole_steps() -> Iterator[Step]:
    """What needs all packages together."""
    for marker, needed in WHOLE_ENVIRONMENT_ONLY.items():
        report = REPORTS / f"{marker.replace('_', '-')}.xml"
        marked = pytest(sys.executable, report, "packages", "-m", SELECTED.get(marker, marker))
        yield Step(f"unit with {needed}", [marked], report=report, may_be_empty=True)
    report = REPORTS / "integration.xml"
    yield Step("integration", [pytest(sys.executable, report, "tests-integration")], report=report)
    for table in ("subsets", "pins", "figures" if NIGHTLY else "bars"):
        report = REPORTS / f"matrix-{table}.xml"
        yield Step(f"matrix {table}", [[sys.executable, MATRIX, table, f"--report={report}"]], report=report)


def pytest(python: str, report: Path, *arguments: str) -> list[str]:
    """A pytest run that leaves its counts at `report`."""
    return [python, "-m", "pytest", "-q", "-p", "no_skips", f"--junitxml={report}", *arguments]


async def run(step: Step) -> Outcome:
    """Run one step. Its output is shown when it ends: all of what tests say, else only that of a failure."""
    print(f"== {step.name}", flush=True)
    started = time.monotonic()
    if step.report is not None:
        step.report.parent.mkdir(parents=True, exist_ok=True)
        step.report.unlink(missing_ok=True)
    env = os.environ | {"PYTHONPATH": str(ROOT / ".ci")} | step.env
    code = 0
    for command in step.commands:
        code, output = await outcome_of(command, env)
        if code == NO_TESTS_COLLECTED and step.may_be_empty:
            code = 0
        if output and (code or step.report is not None):
            print(f"-- {step.name}\n{output}", end="", flush=True)
        if code:
            break
    return Outcome(step, code, time.monotonic() - started)


async def outcome_of(command: list[str], env: dict[str, str]) -> tuple[int, str]:
    """Exit code and output of `command`; what it started ends with it, at the latest at the step's limit."""
    with tempfile.TemporaryFile() as output:
        code = await run_command(
            command, cwd=ROOT, env=env, output=output, limit_s=STEP_LIMIT_S, grace_s=GRACE_S
        )
        output.seek(0)
        said = output.read().decode("utf-8", "replace")
    if code is None:
        return 1, f"{said}ended after {STEP_LIMIT_S:.0f} s: {' '.join(command)}\n"
    return code, said


def next_of(waiting: list[Step], *, checked: bool) -> Step | None:
    """What a lane that is free runs next; None if there is nothing, or all of it waits for the checks."""
    free = [step for step in waiting if checked or step.name not in AFTER_CHECKS]
    return min(free, key=lambda step: LONG.index(step.name) if step.name in LONG else len(LONG), default=None)


async def run_all(steps: list[Step]) -> list[Outcome]:
    """The outcomes in the order of `steps`, in `LANES` lanes. One begins with the checks of the sources, one
    by one, since they share caches; the tests fill the others, and this one when the checks have ended."""
    checks = [step for step in steps if step.report is None]
    waiting = [step for step in steps if step.report is not None]
    outcomes: dict[str, Outcome] = {}

    async def lane(first: list[Step]) -> None:
        for check in first:
            outcomes[check.name] = await run(check)
        while step := next_of(waiting, checked=all(one.name in outcomes for one in checks)):
            waiting.remove(step)
            outcomes[step.name] = await run(step)

    async with asyncio.TaskGroup() as lanes:
        for number in range(LANES):
            lanes.create_task(lane(checks if number == 0 else []))
    return [outcomes[step.name] for step in steps]


def counts(outcomes: list[Outcome]) -> Counter[str] | None:
    """The sums of pytest's counts; None if they do not tell the whole story, as when a run broke off."""
    total: Counter[str] = Counter()
    for outcome in outcomes:
        report = outcome.step.report
        if report is None:
            continue
        if not report.is_file():
            return None
        found = Counter[str]()
        for suite in ET.parse(report).iter("testsuite"):
            for key in ("tests", "failures", "errors", "skipped"):
                found[key] += int(suite.get(key, "0"))
        if outcome.code and not found["failures"] + found["errors"]:
            return None
        total += found
    return total


def summarise(outcomes: list[Outcome]) -> None:
    """The table, then pytest's sums in one plain last line (left out where they are not known)."""
    width = max(len(outcome.step.name) for outcome in outcomes)
    print()
    for outcome in outcomes:
        print(
            f"{outcome.step.name:{width}}  {'FAILED' if outcome.code else 'ok':6}  {outcome.seconds:7.1f} s"
        )
    print(f"{'sum':{width}}  {'':6}  {sum(outcome.seconds for outcome in outcomes):7.1f} s")
    failed = [outcome.step.name for outcome in outcomes if outcome.code]
    if failed:
        print(f"failed: {', '.join(failed)}")
    total = counts(outcomes)
    if total is not None and total["tests"]:
        bad = total["failures"] + total["errors"]
        skipped = f", {total['skipped']} skipped" if total["skipped"] else ""
        print(f"{total['tests'] - bad - total['skipped']} passed, {bad} failed{skipped}")


def main() -> None:
    """Run the steps that the command line selects."""
    steps = [*static_steps(), *(unit_step(package) for package in PACKAGES), *whole_steps()]
    wanted = sys.argv[1:]
    chosen = [step for step in steps if not wanted or any(step.name.startswith(name) for name in wanted)]
    if not chosen:
        sys.exit(f"no step is called {' or '.join(wanted)}; there are: {', '.join(s.name for s in steps)}")
    outcomes = run_until_stopped(run_all([step for step in chosen if step.commands]))
    summarise(outcomes)
    sys.exit(1 if any(outcome.code for outcome in outcomes) else 0)


if __name__ == "__main__":
    main()
