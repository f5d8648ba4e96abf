"""A pytest plugin (`-p no_skips`): where CI=true a skipped test is a failed one.

A skip in CI means that .ci/run did not install something, and nobody would see it. Only a skip whose reason
begins with `platform:` stays one: no install step can make this machine another.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest


def is_missing_part(report: pytest.TestReport | pytest.CollectReport) -> bool:
    """Whether `report` is a skip that CI must not accept; an expected failure is none."""
    if os.environ.get("CI") != "true" or not report.skipped or hasattr(report, "wasxfail"):
        return False
    return not reason(report).startswith("platform:")


def reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why the test was skipped, in its author's words."""
    words = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return words.removeprefix("Skipped: ")


def make_failure(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn the skip into a failure that says why."""
    report.longrepr = f"skipped where CI=true, so something is not installed: {reason(report)}"
    report.outcome = "failed"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skips while a test runs or is set up."""
    report = yield
    if is_missing_part(report):
        make_failure(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skips of whole modules."""
    report = yield
    if is_missing_part(report):
        make_failure(report)
    return report
