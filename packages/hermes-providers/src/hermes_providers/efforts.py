"""Which of the efforts above "high" a model has.

A host refuses an effort that it does not know, and the model then thinks as much as it wants; so what a model
has no word for becomes the nearest one that it has, and where nothing is known that is "high".
"""

from __future__ import annotations

import re
from typing import Literal

from hermes_messages import ReasoningEffort

__all__ = [
    "MODEL_EFFORTS",
    "StrongEffort",
    "StrongEfforts",
    "check_rows",
    "is_strong",
    "taken_effort",
    "within",
]

StrongEffort = Literal["xhigh", "max"]
"""An effort above "high"; not every model that reasons has one."""

StrongEfforts = tuple[tuple[str, tuple[StrongEffort, ...]], ...]
"""Regular expressions for names of models, each with what these have above "high", rising. The first that is
found in a name counts."""

MODEL_EFFORTS: StrongEfforts = (
    # https://developers.openai.com/api/docs/guides/reasoning and the models' own pages: `max` came with
    # GPT-5.6. https://developers.openai.com/api/reference/resources/responses/methods/create: `xhigh` is for
    # all models after GPT-5.1-Codex-Max; GPT-5 Pro and the o-series end at `high`, chat models at `medium`.
    (r"(?:^|[/:])gpt-(?:5\.(?:[6-9]|\d\d)|[6-9]\b|1\d\b)(?![\d.]*-chat)", ("xhigh", "max")),
    (r"(?:^|[/:])gpt-5\.(?:[2-5](?!-chat)|1-codex-max)", ("xhigh",)),
    # https://docs.x.ai/developers/model-capabilities/text/reasoning; the host's list of models (/v1/models)
    # tells it of each, as `capabilities.reasoning_effort`. Grok 4.5 and older ones end at `high`.
    (r"(?:^|/)grok-4\.[67]", ("xhigh",)),
)
"""Of the models that their vendors offer by these names, on either of OpenAI's wires."""


def check_rows(rows: StrongEfforts) -> None:
    """Raises `ValueError` for a name of models that is no regular expression."""
    for pattern, _ in rows:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"strong_efforts: {pattern!r} is no regular expression ({error})") from None


def is_strong(effort: ReasoningEffort | None) -> bool:
    """Whether `effort` is above "high"."""
    return effort in {"xhigh", "max"}


def within(effort: ReasoningEffort, strong: tuple[StrongEffort, ...]) -> ReasoningEffort:
    """`effort`, or the nearest for a model that has only `strong` above "high".

    >>> within("max", ("xhigh",)), within("xhigh", ("max",)), within("max", ())
    ('xhigh', 'max', 'high')
    """
    if not is_strong(effort) or effort in strong:
        return effort
    return strong[-1] if strong else "high"


def taken_effort(effort: ReasoningEffort, model: str, rows: StrongEfforts) -> ReasoningEffort:
    """`effort`, or the nearest that `model` has by `rows`."""
    if not is_strong(effort):
        return effort
    return within(effort, next((strong for pattern, strong in rows if re.search(pattern, model)), ()))
