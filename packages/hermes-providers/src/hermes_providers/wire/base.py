"""What the adapter asks of a wire format. Both halves are pure: values in, values out, no awaiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from hermes_messages import ChatRequest, ProviderError
from hermes_messages.deltas import Delta
from hermes_providers.streaming.sse import ServerSentEvent

__all__ = ["ErrorReader", "RequestBuilder", "ResponseReader"]

ErrorReader = Callable[[bytes | str], ProviderError]
"""Makes the typed error of an error payload that came inside a successful HTTP answer."""


class RequestBuilder(Protocol):
    """Builds request bodies for one host. Keeps the bytes of what it encoded before."""

    def url(self, request: ChatRequest) -> str:
        """Where the request goes."""
        ...

    def build(self, request: ChatRequest) -> bytes:
        """The body. Raises `ProviderError` (format) for a request that this wire can not carry."""
        ...


class ResponseReader(Protocol):
    """Reads one response. Every method raises `ProviderError` for an error inside the response."""

    @property
    def finished(self) -> bool:
        """Whether the host has said why the response ended: nothing that follows is needed."""
        ...

    @property
    def done(self) -> bool:
        """Whether the host has said that nothing follows."""
        ...

    def feed(self, event: ServerSentEvent) -> list[Delta]:
        """What one event of a stream says."""
        ...

    def read_plain(self, body: bytes) -> list[Delta]:
        """What a whole answer that is no stream says."""
        ...

    def close(self) -> list[Delta]:
        """What could only be said at the end."""
        ...
