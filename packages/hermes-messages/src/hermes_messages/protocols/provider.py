"""The joint between the loop and a model's host."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Protocol, runtime_checkable

from msgspec import Struct

from hermes_messages.addresses import shown_url
from hermes_messages.argument_text import JsonValue
from hermes_messages.exchange import ChatRequest, ModelInfo, StreamEvent
from hermes_messages.parts import Origin

__all__ = ["Provider", "ProviderFactory", "ProviderOptions", "SupportsSecrets", "SupportsTokenCount"]


class Provider(Protocol):
    """One host, reached in one way. Used from one event loop at a time; `open` may follow `close`."""

    @property
    def name(self) -> str:
        """The provider's short name (`openrouter`), for results and logs."""
        ...

    @property
    def default_model(self) -> str | None:
        """The model used when the caller names none, or None when the caller must name one."""
        ...

    def origin(self, model: str) -> Origin:
        """Where responses of `model` come from, as replay data is stamped."""
        ...

    def model_info(self, model: str) -> ModelInfo:
        """What is known of `model` without asking the network."""
        ...

    async def open(self) -> None:
        """Make ready (start a server, open a client). Idempotent. Raises `ProviderError` or
        `ConfigurationError`; after a failure or a cancellation nothing is left open."""
        ...

    def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        """Send `request` and yield events, the last of which is exactly one `ResponseDone`.

        Makes one attempt: no hidden retry. Raises `ProviderError` for every failure, also for an error inside
        a 200, a stream that ends early and an empty answer. Closing the generator, or cancelling the task
        that runs it, releases the connection before it returns.
        """
        ...

    async def close(self) -> None:
        """Release everything. Idempotent."""
        ...


@runtime_checkable
class SupportsSecrets(Protocol):
    """A provider that says which credentials it holds, so that they can be masked in what tools return."""

    def secret_values(self) -> tuple[str, ...]:
        """Keys, secret header values and the like, as they are now: short and without waiting, because it is
        asked before every round of tools. Keys that were sent before and replaced since stay among them.
        Never logged, never stored."""
        ...


@runtime_checkable
class SupportsTokenCount(Protocol):
    """A provider whose host may count the tokens of a request without answering it."""

    async def count_tokens(self, request: ChatRequest) -> int | None:
        """How many input tokens the host counts for `request`; None when it does not offer that.

        Raises `ProviderError` as `Provider.stream` does.
        """
        ...


class ProviderOptions(Struct, frozen=True, kw_only=True):
    """What `AIAgent` hands to a provider that it resolves by name. None means the provider's own default.

    `api_key` is left out of the repr, and so are a password and the query in `base_url`. `settings` are the
    provider's own options by name; an unknown one raises `ConfigurationError`.
    """

    base_url: str | None = None
    api_key: str | None = None
    model: str | None = None
    """Asked for when a request names none."""
    settings: Mapping[str, JsonValue] = {}

    def __repr__(self) -> str:
        key = "'***'" if self.api_key else "None"
        url = None if self.base_url is None else shown_url(self.base_url)
        return f"ProviderOptions(base_url={url!r}, api_key={key}, model={self.model!r})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [
            ("base_url", None if self.base_url is None else shown_url(self.base_url)),
            ("model", self.model),
        ]


class ProviderFactory(Protocol):
    """What an entry point of the group `hermes.providers` names. It stores its options; nothing is opened."""

    def __call__(self, options: ProviderOptions) -> Provider:
        """Build the provider. Raises `ConfigurationError` (missing key, bad address, missing extra)."""
        ...
