"""A file whose opening outlasts its caller is closed when it is open in the end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hard_times import cancel_while_opening

from hermes_batch import files, supervision


@pytest.mark.parametrize("patience_s", [0.0, supervision.PATIENCE_S])
def test_a_file_that_is_open_after_its_caller_went_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience_s: float
) -> None:
    monkeypatch.setattr(supervision, "PATIENCE_S", patience_s)
    asyncio.run(cancel_while_opening(tmp_path / "pipe", files.ReadFile.open))
