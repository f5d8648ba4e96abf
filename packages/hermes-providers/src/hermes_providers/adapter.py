"""Profile + wire + transport = `Provider`. One attempt for each request, no hidden retry.

Two things are sent again within one call, and neither is a retry. Where keys come from a function or a pool,
a key that is refused or out of credit is replaced by another; nothing was told by then. And a host that
pauses in the middle of an answer is asked to go on, as its document wants.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

import msgspec
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
    ToolSpec,
    Usage,
    estimate_tokens,
)
from hermes_messages.addresses import shown_url
from hermes_messages.assembler import StreamAssembler
from hermes_messages.parts import Origin
from hermes_messages.transcript_rules import is_blank
from hermes_providers.classify import classify, overflowed_silently
from hermes_providers.credentials import Secret, mask_error
from hermes_providers.incoming import Incoming
from hermes_providers.limiter import Permit, RateLimiter
from hermes_providers.prices import cost_usd
from hermes_providers.profiles import ToolNameRule
from hermes_providers.refusals import Refusals, without_refused
from hermes_providers.route import Route
from hermes_providers.timeouts import StreamClock, Timeouts
from hermes_providers.transport import Reply, Transport
from hermes_providers.wire.base import CountRequest, ErrorReader, WireFormat
from hermes_providers.wire.tool_names import original_names

if TYPE_CHECKING:
    from hermes_messages.protocols import Provider, SupportsSecrets, SupportsTokenCount

__all__ = ["HttpProvider", "Route", "WireFormat"]

logger: logging.Logger = logging.getLogger(__name__)

_MAX_ERROR_BYTES = 64 * 1024
_MAX_COUNT_BYTES = 64 * 1024 * 1024
_ERROR_BODY_S = 5.0
_WINDOW_FULL = "model_context_window_exceeded"  # Anthropic and Z.AI: no room was left for the answer
_OF_THE_KEY = (ErrorKind.AUTH, ErrorKind.BILLING)
_AT_ONCE = nullcontext()
_MAX_SETTLED = 64
_Headers = tuple[Secret | None, WireFormat, Mapping[str, str], Mapping[str, str]]


class _Settled(Struct, frozen=True, eq=False):
    """What is the same for all requests for one model with one effort."""

    wire: WireFormat
    timeouts: Timeouts
    origin: Origin


class HttpProvider:
    """A host that answers a POST with a stream. Satisfies `hermes_messages.protocols.Provider`.

    `limiter` may be shared with other providers of the same route. `refusals` is the memory that `wire` was
    made with. `of_models` are other wires of the host, for models in whose names the expression is found.
    """

    def __init__(
        self,
        route: Route,
        wire: WireFormat,
        transport: Transport,
        *,
        limiter: RateLimiter | None = None,
        refusals: Refusals | None = None,
        of_models: Sequence[tuple[re.Pattern[str], WireFormat]] = (),
    ) -> None:
        self._route = route
        self._wire = wire
        self._of_models = of_models
        self._transport = transport
        self._limiter = limiter
        self._refusals = refusals or Refusals()
        self._last_headers: _Headers | None = None
        self._last_names: tuple[tuple[ToolSpec, ...], ToolNameRule, Mapping[str, str]] = (
            (),
            wire.tool_names,
            {},
        )
        self._settled: dict[tuple[str, str | None], _Settled] = {}
        self._host = route.host

    def __repr__(self) -> str:
        return f"HttpProvider({self._route.provider!r}, {shown_url(self._route.base_url)!r})"

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
        return Origin(self._route.provider, self._host, model)

    def model_info(self, model: str) -> ModelInfo:
        """What the options say, else what the table of models knows; the network is not asked."""
        return self._route.model_info(model)

    def refused_parameters(self, model: str) -> frozenset[str]:
        """The parameters that `model` refused so far and that are left out of its requests since."""
        return self._refusals.of(model)

    def left_out_parameters(self, model: str) -> frozenset[str]:
        """All parameters of a `ChatRequest` that are not sent to `model`: those that it refused, and those
        that the host does not have (a seed on Anthropic's wire, for example)."""
        return self._refusals.of(model) | self._wire_of(model).absent

    def secret_values(self) -> tuple[str, ...]:
        """The keys and the header values: what must never be shown."""
        return self._route.secrets()

    async def open(self) -> None:
        """Make the client. Sends nothing. Raises `ConfigurationError` for a proxy that can not be used."""
        await self._transport.open()

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        await self._transport.close()

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        """Send `request` and yield its events; the connection is released before the last one.

        Raises `ProviderError` for every failure. Cancelling, or closing the generator, closes the connection.
        Waiting for the rate limit counts against no timeout.
        """
        request, settled = self._settle(request)
        wire = settled.wire
        url, body = wire.builder.url(request), wire.builder.build(request)
        incoming: Incoming | None = None  # nothing is made for an answer while it is waited for
        async with _AT_ONCE if self._limiter is None else self._admission(request, self._limiter) as permit:
            key, may_renew = await self._route.keys.get(), True
            clock_of_loop = asyncio.get_running_loop().time
            began = now = clock_of_loop()
            while True:
                clock = StreamClock(settled.timeouts, now, began)
                try:
                    async with self._transport.post(url, self._headers(key, wire), body, clock) as reply:
                        read_error = partial(self._error_of, reply)
                        if 200 <= reply.status < 300:
                            if incoming is None:
                                incoming = self._incoming(request, settled, reply, clock, read_error)
                            else:
                                incoming = incoming.resumed(reply, clock, read_error)
                            try:
                                while (events := await incoming.next()) is not None:
                                    for event in events:
                                        yield event
                            except ProviderError as error:
                                self._learn(request, key, error)
                                raise
                            rest = incoming.reader.paused(body)
                            if rest is None:
                                break
                            body, now = rest, clock_of_loop()
                            continue
                        failure = read_error(await _error_body(settled.timeouts, reply, began))
                except ProviderError as error:
                    mask_error(error, self._route.secrets())
                    raise
                self._learn(request, key, failure)
                key, may_renew = await self._other_key(key, failure, may_renew=may_renew), False
                now = clock_of_loop()
            for event in incoming.assembler.flush():
                yield event
            response = self._answer(request, incoming)
            if permit is not None:
                _correct(permit, response.usage)
        if is_blank(response.message) and not response.unfinished_calls:
            window = self.model_info(request.model).context_window
            raise _empty(response, self._host, overflowed=overflowed_silently(response.usage, window))
        yield ResponseDone(response)

    async def count_tokens(self, request: ChatRequest) -> int | None:
        """How many input tokens the host counts for `request`; None when it does not offer that.

        Costs no tokens; a host may limit it apart. Raises `ProviderError` as `stream` does.
        """
        request, settled = self._settle(request)
        wire, counter = settled.wire, settled.wire.counter
        if counter is None:
            return None
        step: CountRequest | int | None = counter.first(request)
        key, may_renew = await self._route.keys.get(), True
        while isinstance(step, CountRequest):
            clock = StreamClock(settled.timeouts, asyncio.get_running_loop().time())
            try:
                async with self._transport.post(
                    step.url, self._headers(key, wire), step.body, clock
                ) as reply:
                    if 200 <= reply.status < 300:
                        step = counter.read(await _whole_body(reply, clock))
                        continue
                    failure = self._error_of(reply, await _error_body(settled.timeouts, reply))
            except ProviderError as error:
                mask_error(error, self._route.secrets())
                raise
            if failure.kind in _OF_THE_KEY:  # all else may be limited apart from answering
                self._route.keys.report(key, failure)
            key, may_renew = await self._other_key(key, failure, may_renew=may_renew), False
        return step

    async def _other_key(self, refused: Secret | None, failure: ProviderError, *, may_renew: bool) -> Secret:
        """Another key where that one was the reason of the failure. Raises the failure if there is none."""
        asks = may_renew and failure.kind in _OF_THE_KEY
        key = await self._route.keys.renew(refused) if asks else None
        if key is None:
            raise failure
        return key

    def _admission(
        self, request: ChatRequest, limiter: RateLimiter
    ) -> AbstractAsyncContextManager[Permit | None]:
        return limiter.admit(estimate_tokens(request.history, request.tools) + (request.max_tokens or 0))

    def _settle(self, request: ChatRequest) -> tuple[ChatRequest, _Settled]:
        """The request without what its model refused, and what is settled for such requests."""
        refused = self._refusals.of(request.model)
        if refused:
            request = without_refused(request, refused)
        kind = (request.model, request.reasoning_effort)
        settled = self._settled.get(kind)
        if settled is None:
            if len(self._settled) >= _MAX_SETTLED:
                self._settled.clear()
            model = request.model
            settled = _Settled(self._wire_of(model), self._route.timeouts_for(request), self.origin(model))
            self._settled[kind] = settled
        return request, settled

    def _incoming(
        self,
        request: ChatRequest,
        settled: _Settled,
        reply: Reply,
        clock: StreamClock,
        read_error: ErrorReader,
    ) -> Incoming:
        wire = settled.wire
        assembler = StreamAssembler(
            settled.origin, wire.name, think_tags=wire.think_tags, starts_inside=wire.starts_inside
        )
        tools, rule, names = self._last_names
        if rule != wire.tool_names or request.tools != tools:  # the wires of a host may take other names
            names = original_names(request.tools, wire.tool_names)
            self._last_names = (request.tools, wire.tool_names, names)
        return Incoming(reply, wire.make_reader(read_error), assembler, clock, read_error, names)

    def _wire_of(self, model: str) -> WireFormat:
        for pattern, wire in self._of_models:
            if pattern.search(model):
                return wire
        return self._wire

    def _headers(self, key: Secret | None, wire: WireFormat) -> Mapping[str, str]:
        """Those of a request with `key`; one mapping as long as key, wire and the route's are the same."""
        last, own = self._last_headers, self._route.headers
        if last is None or last[0] is not key or last[1] is not wire or last[2] != own:
            # Whose route it is may change its headers.
            last = (key, wire, dict(own), self._route.request_headers(key, wire.headers))
            self._last_headers = last
        return last[3]

    def _error_of(self, reply: Reply, payload: bytes | str) -> ProviderError:
        """The typed error of an error payload that came in `reply`."""
        secrets = self._route.secrets()
        return classify(
            reply.status, reply.headers, payload, now=time.time(), secrets=secrets, host=self._host
        )

    def _learn(self, request: ChatRequest, key: Secret | None, error: ProviderError) -> None:
        """Remember what a failure says about a parameter, a key or the pace of this route."""
        if error.kind is ErrorKind.UNSUPPORTED_PARAMETER:
            error.left_out = self._refusals.note(request.model, error.parameter)
        if self._route.keys.report(key, error):
            error.retry_after_s = 0.0  # another key is ready: the wait was for this one
        elif error.kind is ErrorKind.RATE_LIMIT and error.retry_after_s and self._limiter is not None:
            self._limiter.hold(error.retry_after_s)

    def _answer(self, request: ChatRequest, incoming: Incoming) -> ChatResponse:
        """All that came, with its price."""
        response = incoming.assembler.finish(complete=incoming.reader.done)
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("%s: %s finished with %s", self.name, request.model, response.finish)
        usage = response.usage
        if usage is None or usage.cost_usd is not None:
            return response
        price = self._route.price(request.model)
        cost = None if price is None else cost_usd(usage, price)
        if cost is None:
            return response
        return msgspec.structs.replace(response, usage=msgspec.structs.replace(usage, cost_usd=cost))


def _correct(permit: Permit, usage: Usage | None) -> None:
    if usage is not None and usage.input_tokens is not None:
        permit.settle(usage.input_tokens + (usage.output_tokens or 0))


def _empty(response: ChatResponse, host: str, *, overflowed: bool) -> ProviderError:
    """What a response is that has nothing in it that a conversation could hold. `overflowed` says that its
    prompt was larger than the model's window, which the host let pass."""
    what = "only reasoning" if response.message.reasoning else "neither text nor calls"
    match response.finish:
        case _ if overflowed or response.message.finish_reason == _WINDOW_FULL:
            kind, why = ErrorKind.CONTEXT_OVERFLOW, "the prompt is larger than the model's window"
        case FinishReason.CONTENT_FILTER:
            kind, why = ErrorKind.CONTENT_POLICY, "its content filter held the answer back"
        case FinishReason.LENGTH:
            kind, why = ErrorKind.OUTPUT_CAP, "the output limit was reached before it; raise max_tokens"
        case _:
            kind, why = ErrorKind.SERVER, f"it finished with {response.message.finish_reason!r}"
    return ProviderError(f"{host} sent an empty answer ({what}): {why}", kind=kind, status=200)


async def _error_body(given: Timeouts, reply: Reply, began: float | None = None) -> bytes:
    """The start of an error's body; what came of it when the rest is late or lost."""
    limits = Timeouts(
        first_event_s=min(_ERROR_BODY_S, given.first_event_s or _ERROR_BODY_S), total_s=given.total_s
    )
    clock = StreamClock(limits, asyncio.get_running_loop().time(), began)
    body = bytearray()
    try:
        while len(body) < _MAX_ERROR_BYTES and (chunk := await reply.read(clock)):
            body += chunk
    except ProviderError as error:
        logger.debug("the body of an error answer broke off: %s", error)
    return bytes(body[:_MAX_ERROR_BYTES])


async def _whole_body(reply: Reply, clock: StreamClock) -> bytes:
    body = bytearray()
    while chunk := await reply.read(clock):
        body += chunk
        if len(body) > _MAX_COUNT_BYTES:
            raise ProviderError(f"the answer is larger than {_MAX_COUNT_BYTES} bytes", kind=ErrorKind.SERVER)
    return bytes(body)


if TYPE_CHECKING:

    def _fits(provider: HttpProvider) -> tuple[Provider, SupportsSecrets, SupportsTokenCount]:
        return provider, provider, provider
