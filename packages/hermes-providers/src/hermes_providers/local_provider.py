"""The provider `local`: the embedded llama.cpp server behind the same adapter as every other host.

All providers of one event loop with equal options share one server: the first `open` starts it, the last
`close` stops it. A server that died is replaced at the next `open` or request; the request under which it
died fails with the end of its log. No request is sent twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from hermes_messages import (
    ChatRequest,
    ConfigurationError,
    ErrorKind,
    ModelInfo,
    ProviderError,
    StreamEvent,
    UnknownNameError,
)
from hermes_messages.parts import Origin
from hermes_messages.protocols import ProviderOptions
from hermes_providers.adapter import HttpProvider
from hermes_providers.chat_provider import wire_provider
from hermes_providers.local import LocalServer, LocalServerOptions, running_loop_pool
from hermes_providers.local.weights import check_weights, find_default_weights, require_llama_cpp
from hermes_providers.profiles import get_profile
from hermes_providers.route import Route
from hermes_providers.settings import LocalSettings, read_settings
from hermes_providers.timeouts import Timeouts
from hermes_providers.transport import HttpOptions
from hermes_providers.wire.llamacpp_tokens import LlamaCppTokenCounter

if TYPE_CHECKING:
    from hermes_messages.protocols import Provider

__all__ = ["DEFAULT_LOCAL_MODEL", "LocalProvider"]

DEFAULT_LOCAL_MODEL = "smollm2-135m-instruct"
_NAME = "local"


class LocalProvider:
    """A model on this machine. Satisfies `hermes_messages.protocols.Provider`."""

    def __init__(self, options: ProviderOptions) -> None:
        """Checks that the server's wheel and the weights are there; starts nothing.

        Raises `MissingDependencyError` with the line that installs what is missing, and
        `ConfigurationError` for a setting or a model that can not work.
        """
        if options.base_url is not None:
            raise ConfigurationError(
                f"provider 'local' starts its own server and takes no base_url; for the one at "
                f"{options.base_url!r} use provider='custom'"
            )
        settings = read_settings(options.settings, LocalSettings)
        require_llama_cpp()
        self._server_options = _server_options(options.model, settings)
        self._extra_body = Raw(msgspec.json.encode(settings.extra_body)) if settings.extra_body else None
        self._timeouts = Timeouts(
            first_event_s=settings.first_event_s,
            between_events_s=settings.between_events_s,
            total_s=settings.total_s,
        )
        self._open: _Open | None = None
        self._opening = asyncio.Lock()

    def __repr__(self) -> str:
        return f"LocalProvider({self.default_model!r})"

    @property
    def name(self) -> str:
        """`local`."""
        return _NAME

    @property
    def default_model(self) -> str:
        """The name under which the server knows its one model."""
        return self._server_options.alias

    def origin(self, model: str) -> Origin:
        """Where responses come from; the port is left out, because it changes from start to start."""
        return Origin(_NAME, "127.0.0.1", model)

    def model_info(self, model: str) -> ModelInfo:  # noqa: ARG002 - part of the Protocol
        """The context that each request has."""
        window = self._server_options.context_per_slot
        return ModelInfo(context_window=window, supports_images=False, strong_efforts=True)

    async def open(self) -> None:
        """Start the server, or join the one that runs already. Idempotent.

        Raises `ProviderError` (port in use, not ready in time, died) or `ConfigurationError` (no such model
        file); nothing is left running then.
        """
        await self._ready()

    async def close(self) -> None:
        """Leave the server; the last one to leave stops it and waits for that. Idempotent."""
        current, self._open = self._open, None
        if current is not None and current.loop is asyncio.get_running_loop():
            try:
                await current.provider.close()
            finally:
                await running_loop_pool().release(current.server)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        """As `HttpProvider.stream`; starts the server first when it does not run.

        When the server dies under the request, the `ProviderError` (server) says so and ends with its log.
        """
        current = await self._ready()
        async with aclosing(current.provider.stream(request)) as events:
            try:
                async for event in events:
                    yield event
            except ProviderError as error:
                death = await current.server.explain_failure() if error.kind is ErrorKind.TRANSPORT else None
                if death is None:
                    raise
                raise ProviderError(
                    f"the request was lost: {death}\nThe next request starts a new server.",
                    kind=ErrorKind.SERVER,
                ) from error

    async def count_tokens(self, request: ChatRequest) -> int | None:
        """How many tokens the server counts for `request`; starts it first when it does not run."""
        return await (await self._ready()).provider.count_tokens(request)

    async def _ready(self) -> _Open:
        loop = asyncio.get_running_loop()
        current = self._open
        if current is not None and current.loop is loop and not current.server.dead():
            return current
        if current is not None and current.loop is not loop:
            self._open = None  # it went with its event loop
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._open is not None and not self._open.server.dead():
                return self._open
            await self.close()
            server = await running_loop_pool().acquire(self._server_options)
            self._open = _Open(loop, server, self._provider_on(server))
            return self._open

    def _provider_on(self, server: LocalServer) -> HttpProvider:
        route = Route(
            provider=_NAME,
            base_url=server.base_url,
            timeouts=self._timeouts,
            reasoning_timeouts=self._timeouts,
            default_model=self.default_model,
        )
        quirks = get_profile("llamacpp").quirks
        return wire_provider(
            route,
            "openai_chat",
            quirks,
            self._extra_body,
            HttpOptions(direct=True),  # a proxy of the environment is not for this machine's own address
            counter=LlamaCppTokenCounter(route.base_url, route.provider, route.host, quirks),
        )


class _Open:
    """What exists between `open` and `close`."""

    __slots__ = ("loop", "provider", "server")

    def __init__(self, loop: asyncio.AbstractEventLoop, server: LocalServer, provider: HttpProvider) -> None:
        self.loop = loop
        self.server = server
        self.provider = provider


def _server_options(model: str | None, settings: LocalSettings) -> LocalServerOptions:
    path = settings.model_path
    if path is None and model is not None and model.lower().endswith(".gguf"):
        path = model
    if path is None:
        if model not in (None, DEFAULT_LOCAL_MODEL):
            raise UnknownNameError(
                "local model", model, [DEFAULT_LOCAL_MODEL], "or name a GGUF file in model_path"
            )
        find_default_weights()
        alias = DEFAULT_LOCAL_MODEL
    else:
        path = str(check_weights(path))
        alias = model if model is not None else Path(path).stem
    return LocalServerOptions(
        model=path,
        alias=alias,
        port=settings.port,
        chat_template=settings.chat_template,
        threads=settings.threads,
        slots=settings.parallel,
        context_per_slot=settings.context_size,
        start_timeout_s=settings.start_timeout_s,
    )


if TYPE_CHECKING:

    def _fits(provider: LocalProvider) -> Provider:
        return provider
