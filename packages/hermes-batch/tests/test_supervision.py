"""Work that is cancelled is given the time that it may take to clean up."""

from __future__ import annotations

import asyncio

import pytest
from hard_times import outlasts_a_standstill

from hermes_batch.supervision import finish


def test_a_process_that_stood_still_gives_work_the_rest_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes_batch.supervision.PATIENCE_S", 300.0)

    assert asyncio.run(outlasts_a_standstill(lambda work: finish(work(), what="a write"), cancelled=True))
