"""What all rows of a run share, and which toolsets a row gets by it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hermes_batch.distributions import sample_toolsets
from hermes_batch.rows import PromptRow

__all__ = ["RowSettings", "toolsets_for"]


class RowSettings(Struct, frozen=True, kw_only=True):
    """What all rows of a run share. `toolsets` given wins over `distribution`; `timeout_s` is for one attempt
    of a row, of which there are `attempts` when the host fails. `image` is for rows that name none."""

    run_name: str
    """Stands at the beginning of the ids of sessions."""
    distribution: Mapping[str, float]
    toolsets: tuple[str, ...] | None = None
    seed: int = 0
    """Decides, with the row itself, which toolsets are drawn: the same in every run."""
    max_iterations: int = 10
    """The most requests to the model in a turn, for rows that set none."""
    timeout_s: float | None = None
    require_reasoning: bool = True
    """Rows without any reasoning are discarded."""
    attempts: int = 1
    image: str | None = None


def toolsets_for(row: PromptRow, settings: RowSettings) -> tuple[str, ...]:
    """The toolsets of a row: its own, the run's, or a sample of the distribution."""
    if row.toolsets is not None:
        return row.toolsets
    if settings.toolsets is not None:
        return settings.toolsets
    seed = f"{settings.seed}:{row.index}:{row.content_hash}"
    return sample_toolsets(settings.distribution, seed=seed)
