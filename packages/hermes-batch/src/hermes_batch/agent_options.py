"""What the default agents of a run are made of. Kept apart from them, to need no import of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from hermes_messages import ConfigurationError, JsonValue

__all__ = ["AgentOptions", "Approvals", "FallbackModel", "ProviderRouting"]

FallbackModel = str | Mapping[str, JsonValue]
"""`"provider/model"`, or a mapping with `model` and, as needed, `provider`, `base_url`, `api_key`,
`settings`."""


Approvals = Literal["deny", "allow-in-container", "allow"]
"""What becomes of commands that hermes-tools would ask a person about: in a batch nobody can be asked."""

_WITH_COMMANDS = frozenset({"terminal", "coding", "all"})


class ProviderRouting(Struct, frozen=True, kw_only=True):
    """Which hosts behind OpenRouter may serve the run (its `provider` request field)."""

    allowed: tuple[str, ...] = ()
    """OpenRouter's names of the only hosts that may serve; empty: all may."""
    ignored: tuple[str, ...] = ()
    """Hosts that may not."""
    order: tuple[str, ...] = ()
    """Hosts to try first, in this order."""
    sort: str | None = None
    """`price`, `throughput` or `latency`: which host comes first; None: OpenRouter balances."""

    def request_field(self) -> dict[str, JsonValue]:
        """The value of the request's `provider` field; {} when nothing is asked for.

        Source: OpenRouter's documentation, "Provider Routing".
        """
        field: dict[str, JsonValue] = {}
        if self.allowed:
            field["only"] = list(self.allowed)
        if self.ignored:
            field["ignore"] = list(self.ignored)
        if self.order:
            field["order"] = list(self.order)
        if self.sort is not None:
            field["sort"] = self.sort
        return field


class AgentOptions(Struct, frozen=True, kw_only=True):
    """The options that all agents of a run share. None means the default of the layer concerned.

    `provider` None chooses: `base_url` given, the host there; else the first of OpenRouter and OpenAI whose
    key is in the environment; else the embedded local model. `fallback_models` are tried where that fails, as
    `AIAgent` takes them. `image` is that of rows that name none, `row_images` are those that rows are known
    to name; `container_settings` are those of hermes-tools. `hooks` are those of every agent: names and
    objects. Without a `state_db` no session is kept. `api_key` is left out of the repr.
    """

    toolsets: tuple[str, ...]
    """What agents get whose row and run name none."""
    state_db: Path | None
    provider: str | None = None
    base_url: str | None = None
    api_key: str | None = None
    model: str | None = None
    fallback_models: tuple[FallbackModel, ...] = ()
    provider_settings: Mapping[str, JsonValue] = {}
    """The provider's own options by name."""
    routing: ProviderRouting = ProviderRouting()
    """Only taken with OpenRouter."""
    ephemeral_system_prompt: str | None = None
    """Sent behind the system message and never stored."""
    prefill_messages: tuple[Mapping[str, JsonValue], ...] = ()
    """In OpenAI shape; sent before the conversation and never stored."""
    max_tokens: int | None = None
    """The most that one answer may hold."""
    temperature: float | None = None
    """None: the host's own."""
    reasoning_config: Mapping[str, JsonValue] | None = None
    """`{"effort": "low"}` and the like, as `AIAgent` takes it."""
    image: str | None = None
    row_images: tuple[str, ...] = ()
    container_settings: Mapping[str, JsonValue] = {}
    approvals: Approvals = "deny"
    """What becomes of calls that the policy asks about: there is nobody to ask."""
    hooks: tuple[object, ...] = ()

    def __repr__(self) -> str:
        return f"AgentOptions(provider={self.provider!r}, base_url={self.base_url!r}, model={self.model!r})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [("provider", self.provider), ("base_url", self.base_url), ("model", self.model)]

    def request_overrides(self, provider: str) -> dict[str, JsonValue]:
        """The host-specific request fields. Raises `ConfigurationError` for routing on another host."""
        field = self.routing.request_field()
        if field and provider != "openrouter":
            raise ConfigurationError(
                "providers_allowed, providers_ignored, providers_order and provider_sort are OpenRouter's;"
                f" the provider is {provider!r}"
            )
        return {"provider": field} if field else {}

    def tool_settings(self, image: str | None) -> dict[str, JsonValue]:
        """What an executor is told: where commands run."""
        return {} if image is None else {"container": {**self.container_settings, "image": image}}

    def approval_policy(self, image: str | None) -> dict[str, JsonValue]:
        """What an executor is told about dangerous commands; {}: they are denied, since nobody is there."""
        allowed = self.approvals == "allow" or (self.approvals == "allow-in-container" and image is not None)
        return {"dangerous": "allow"} if allowed else {}

    def remark(self) -> str | None:
        """What a person should know before the run."""
        if not _WITH_COMMANDS.intersection(self.toolsets):
            return None
        what = {
            "deny": "are denied, since nobody can be asked",
            "allow-in-container": "are run in containers, and denied elsewhere",
            "allow": "are run unasked",
        }[self.approvals]
        return f"dangerous commands (rm -rf, git push -f, curl | sh ...) {what} (approvals: {self.approvals})"
