"""Profile + wire + transport = `Provider`. One attempt for each request, no hidden retry."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

from hermes_messages import (
    ChatRequest,
    ChatResponse,
    ErrorKind,
    FinishReason,
    ModelInfo,
    ProviderError,
    ResponseDone,
    StreamEvent,
)
from hermes_messages.assembler import StreamAssembler
from hermes_messages.parts import Origin
from hermes_messages.transcript_rules import is_blank
from hermes_providers.classify import classify
from hermes_providers.credentials import Secret
from hermes_providers.incoming import Incoming
from hermes_providers.profiles import AuthHeader
from hermes_providers.timeouts import StreamClock, Timeouts
from hermes_providers.transport import Reply, Transport
from hermes_providers.wire.base import ErrorReader, WireFormat

if TYPE_CHECKING:
    from hermes_messages.protocols import Provider

__all__ = ["HttpProvider", "Route", "WireFormat"]

_log = logging.getLogger(__name__)

_MAX_ERROR_BYTES = 64 * 1024
_ERROR_BODY_S = 5.0


class Route(Struct, frozen=True, kw_only=True):
    """One way to one host: who, where, with which key and headers, and how long to wait.

    Header values may be secret; neither they nor the key are in the repr.
    """

    provider: str
    base_url: str
    auth: AuthHeader = AuthHeader()
    key: Secret | None = None
    headers: Mapping[str, str] = {}
    timeouts: Timeouts = Timeouts()
    default_model: str | None = None
    info: ModelInfo = ModelInfo()

    @property
    def host(self) -> str:
        """The host's name and port."""
        return urlsplit(self.base_url).netloc

    def secrets(self) -> tuple[str, ...]:
        """All values that must not be shown."""
        key = () if self.key is None else (self.key.reveal(),)
        return (*key, *self.headers.values())

    def request_headers(self) -> dict[str, str]:
        """The headers of a request. The route's own come last and so win."""
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream, application/json",
            "accept-encoding": "identity",  # compression makes proxies hold events back
            "user-agent": "hermes-providers",
        }
        if self.key is not None:
            headers[self.auth.name.lower()] = self.auth.prefix + self.key.reveal()
        return headers | {name.lower(): value for name, value in self.headers.items()}

    def __repr__(self) -> str:
        return f"Route({self.provider!r}, {self.base_url!r}, headers={list(self.headers)!r})"


class HttpProvider:
    """A host that answers a POST with a stream. Satisfies `hermes_messages.protocols.Provider`."""

    def __init__(self, route: Route, wire: WireFormat, transport: Transport) -> None:
        self._route = route
        self._wire = wire
        self._transport = transport

    def __repr__(self) -> str:
        return f"HttpProvider({self._route.provider!r}, {self._route.base_url!r})"

    @property
    def name(self) -> str:
        """The provider's short name."""
        return self._route.provider

    @property
    def default_model(self) -> str | None:
        """The model used when the caller names none."""
        return self._route.default_model

    def origin(self, model: str) -> Origin:
        """Where responses of `model` come from."""
        return Origin(self._route.provider, self._route.host, model)

    def model_info(self, model: str) -> ModelInfo:  # noqa: ARG002 - part of the Protocol
        """What the options say; the network is not asked."""
        return self._route.info

    def secret_values(self) -> tuple[str, ...]:
        """The key and the header values: what must never be shown."""
        return self._route.secrets()

    async def open(self) -> None:
        """Make the client. Sends nothing. Raises `ConfigurationError` for a proxy that can not be used."""
        await self._transport.open()

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        await self._transport.close()

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        """Send `request` once and yield its events; the connection is released before the last one.

        Raises `ProviderError` for every failure. Cancelling, or closing the generator, closes the connection.
        """
        body = self._wire.builder.build(request)
        url = self._wire.builder.url(request)
        assembler = StreamAssembler(self.origin(request.model), self._wire.name)
        clock = StreamClock(self._route.timeouts, asyncio.get_running_loop().time())
        async with self._transport.post(url, self._route.request_headers(), body, clock) as reply:
            read_error = self._error_reader(reply)
            if not 200 <= reply.status < 300:
                raise read_error(await _error_body(reply))
            incoming = Incoming(reply, self._wire.make_reader(read_error), assembler, clock, read_error)
            while (events := await incoming.next()) is not None:
                for event in events:
                    yield event
        for event in assembler.flush():
            yield event
        response = assembler.finish(complete=incoming.complete)
        _log.debug("%s: %s finished with %s", self.name, request.model, response.finish)
        _refuse_empty(response, self._route.host)
        yield ResponseDone(response)

    def _error_reader(self, reply: Reply) -> ErrorReader:
        secrets, host = self._route.secrets(), self._route.host

        def read_error(payload: bytes | str) -> ProviderError:
            return classify(reply.status, reply.headers, payload, now=time.time(), secrets=secrets, host=host)

        return read_error


def _refuse_empty(response: ChatResponse, host: str) -> None:
    """Raises `ProviderError` for a response with nothing in it that a conversation could hold."""
    if response.unfinished_calls or not is_blank(response.message):
        return
    what = "only reasoning" if response.message.reasoning else "neither text nor calls"
    match response.finish:
        case FinishReason.CONTENT_FILTER:
            kind, why = ErrorKind.CONTENT_POLICY, "its content filter held the answer back"
        case FinishReason.LENGTH:
            kind, why = ErrorKind.OUTPUT_CAP, "the output limit was reached before it; raise max_tokens"
        case _:
            kind, why = ErrorKind.SERVER, f"it finished with {response.message.finish_reason!r}"
    raise ProviderError(f"{host} sent an empty answer ({what}): {why}", kind=kind, status=200)


async def _error_body(reply: Reply) -> bytes:
    """The start of an error's body; what came of it when the rest is late or lost."""
    clock = StreamClock(Timeouts(first_event_s=_ERROR_BODY_S), asyncio.get_running_loop().time())
    body = bytearray()
    try:
        while len(body) < _MAX_ERROR_BYTES and (chunk := await reply.read(clock)):
            body += chunk
    except ProviderError as error:
        _log.debug("the body of an error answer broke off: %s", error)
    return bytes(body[:_MAX_ERROR_BYTES])


if TYPE_CHECKING:

    def _fits(provider: HttpProvider) -> Provider:
        return provider
