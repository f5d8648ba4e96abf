"""Where a turn sends its requests: one provider and model at a time, from the agent's list of routes."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_messages import ModelInfo
from hermes_messages.protocols import Provider

__all__ = ["Route", "Routes"]


@dataclass(frozen=True, slots=True)
class Route:
    """One model on one host. What it costs, its provider says with each answer."""

    provider: Provider
    model: str

    @property
    def label(self) -> str:
        """Provider and model, for logs and results."""
        return f"{self.provider.name}/{self.model}"

    @property
    def info(self) -> ModelInfo:
        """What is known of the model: its window, what it supports."""
        return self.provider.model_info(self.model)


class Routes:
    """The routes of one agent in the order in which they are tried."""

    def __init__(self, primary: Route) -> None:
        self.primary = primary
