"""What the adapter asks of a wire format. Both halves are pure: values in, values out, no awaiting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Raw, Struct, field

from hermes_messages import ChatRequest, ProviderError
from hermes_messages.deltas import Delta
from hermes_providers.profiles import ToolNameRule
from hermes_providers.refusals import Refusals
from hermes_providers.streaming.sse import ServerSentEvent

__all__ = [
    "CountRequest",
    "ErrorReader",
    "RequestBuilder",
    "ResponseReader",
    "TokenCounter",
    "WireFormat",
    "WireSettings",
]

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

    def paused(self, body: bytes) -> bytes | None:
        """The body that lets the host go on where it paused the answer to `body`; None where it did not."""
        ...

    def resume(self, read_error: ErrorReader) -> None:
        """What is fed from now on is the rest of the answer, in another reply."""
        ...


class CountRequest(Struct, frozen=True):
    """A POST that asks a host about the tokens of a request."""

    url: str
    body: bytes


class TokenCounter(Protocol):
    """How a host is asked how many tokens a request has: one question, or one after the other."""

    def first(self, request: ChatRequest) -> CountRequest:
        """The first question. Raises `ProviderError` (format) as `RequestBuilder.build` does."""
        ...

    def read(self, answer: bytes) -> CountRequest | int | None:
        """What an answer says: the number, the next question, or None when it says nothing usable."""
        ...


class WireSettings(Struct, frozen=True, kw_only=True):
    """What a wire is made from: where requests go, who the host is, and what it wants to be different.

    `quirks` is of the wire's own type, None for its defaults. `extra_body` is a JSON object that is merged
    into every body. `refusals` tells which parameters a model refused; the adapter has taken those of
    `ChatRequest` out already, so a wire looks there only for parameters that it adds by itself. `headers` are
    the user's own, which win over those of the wire.
    """

    base_url: str
    provider: str
    host: str
    quirks: Struct | None = None
    extra_body: Raw | None = None
    refusals: Refusals = field(default_factory=Refusals)
    headers: Mapping[str, str] = {}


class WireFormat(Struct, frozen=True):
    """The two halves of a wire: `builder` is kept, a reader is made for each response.

    `headers` go with every request of this wire; those of the user win. `counter` is for hosts that count.
    `tool_names` are the names that the host takes. `think_tags` and `starts_inside` as in `StreamAssembler`.
    `absent` are the parameters of a `ChatRequest` that the host does not have, and that are left out.
    """

    name: str
    builder: RequestBuilder
    make_reader: Callable[[ErrorReader], ResponseReader]
    headers: Mapping[str, str] = {}
    counter: TokenCounter | None = None
    tool_names: ToolNameRule = ToolNameRule()
    think_tags: bool = True
    starts_inside: bool = False
    absent: frozenset[str] = frozenset()
