"""A `ChatRequest` to the body of a chat-completions request.

The body is `{"model": ..., <parameters>, "messages": [` + joined segments + `], "tools": [...]}`. Closed
segments are encoded once for each log, so consecutive bodies of one conversation share their bytes up to
the last closed segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec
from msgspec import Raw

from hermes_messages import ChatRequest, ConfigurationError, ErrorKind, ProviderError, SystemMessage, ToolSpec
from hermes_messages.parts import Origin
from hermes_messages.stable_bytes import StableBytes
from hermes_providers.credentials import join_url
from hermes_providers.profiles import ChatQuirks
from hermes_providers.wire.openai_chat_messages import dump, encode_segment, encode_system

__all__ = ["ChatRequestBuilder", "read_extra_body"]

_OURS = ("messages", "stream")
_MAX_ENCODERS = 16


def read_extra_body(extra: Raw | None) -> dict[str, Raw]:
    """The top-level fields of a JSON object. Raises `ConfigurationError` for anything else, and for the
    fields that can only be ours."""
    if extra is None:
        return {}
    try:
        fields = msgspec.json.decode(extra, type=dict[str, Raw])
    except msgspec.MsgspecError as error:
        raise ConfigurationError(f"extra_body is no JSON object: {error}") from None
    for name in _OURS:
        if name in fields:
            raise ConfigurationError(f"extra_body may not set {name!r}; nothing was sent")
    return fields


class ChatRequestBuilder:
    """Builds the bodies for one host. `encode_calls` counts encoded segments, for tests."""

    def __init__(
        self, *, base_url: str, provider: str, host: str, quirks: ChatQuirks, extra_body: Raw | None = None
    ) -> None:
        self._url = join_url(base_url, quirks.path)
        self._provider = provider
        self._host = host
        self._quirks = quirks
        self._extra_body = read_extra_body(extra_body)
        self._encoders: dict[str, StableBytes] = {}
        self._tools: tuple[ToolSpec, ...] = ()
        self._tools_bytes = b""

    @property
    def encode_calls(self) -> int:
        """How many segments were encoded so far."""
        return sum(encoder.encode_calls for encoder in self._encoders.values())

    def url(self, request: ChatRequest) -> str:  # noqa: ARG002 - other wires have the model in the path
        """Where the request goes."""
        return self._url

    def build(self, request: ChatRequest) -> bytes:
        """The body as UTF-8 JSON. Raises `ProviderError` (format) when the history can not be sent."""
        head = self._parameters(request)
        tools = self._tools_field(request) if "tools" not in head else b""
        return b"".join(
            (dump(head)[:-1], b',"messages":[', b",".join(self._segments(request)), b"]", tools, b"}")
        )

    def _segments(self, request: ChatRequest) -> list[bytes]:
        encoded = self._encoder(request.model).encode(request.history)
        segments = [*encoded.closed, encoded.open_tail]
        leading = 0
        for message in request.history:
            if not isinstance(message, SystemMessage):
                break
            leading += 1
        if leading > 1:
            systems = [m.content for m in request.history[:leading] if isinstance(m, SystemMessage)]
            segments[:leading] = [encode_system(systems, self._quirks)]
        system_start = b'{"role":"%b",' % self._quirks.system_role.encode()
        if any(segment.startswith(system_start) for segment in segments[1:]):
            raise _unsendable("a system message stands behind other messages; only the first may be one")
        sent = [segment for segment in segments if segment]
        if not sent:
            raise _unsendable("the conversation holds nothing to send")
        return sent

    def _encoder(self, model: str) -> StableBytes:
        """The encoder for a model: only replayed reasoning depends on it."""
        key = model if self._quirks.replay_field is not None else ""
        encoder = self._encoders.get(key)
        if encoder is None:
            if len(self._encoders) >= _MAX_ENCODERS:
                self._encoders.pop(next(iter(self._encoders)))
            origin = Origin(self._provider, self._host, model)
            encoder = StableBytes(partial(encode_segment, quirks=self._quirks, origin=origin))
            self._encoders[key] = encoder
        return encoder

    def _parameters(self, request: ChatRequest) -> dict[str, object]:
        quirks = self._quirks
        fields: dict[str, object] = {"model": request.model, "stream": True}
        if quirks.stream_usage:
            fields["stream_options"] = {"include_usage": True}
        if request.max_tokens is not None:
            fields[quirks.max_tokens_key] = request.max_tokens
        if request.temperature is not None:
            fields["temperature"] = request.temperature
        if request.seed is not None and quirks.seed_option:
            fields["seed"] = request.seed
        if request.stop:
            fields["stop"] = request.stop
        fields.update(_reasoning_option(request, quirks))
        if request.tools:  # hosts refuse tool options in a request without tools
            if request.tool_choice != "auto":
                fields["tool_choice"] = request.tool_choice
            if request.parallel_tool_calls is not None and quirks.parallel_option:
                fields["parallel_tool_calls"] = request.parallel_tool_calls
        if request.response_schema is not None and _schema_allowed(request, quirks):
            schema = {"name": "answer", "schema": request.response_schema}
            fields["response_format"] = {"type": "json_schema", "json_schema": schema}
        if quirks.cache_key is not None and request.session_id is not None:
            fields[quirks.cache_key] = request.session_id
        fields.update(self._extra_body)
        fields.update(read_extra_body(request.extra_body))
        return fields

    def _tools_field(self, request: ChatRequest) -> bytes:
        if not request.tools:
            return b""
        if request.tools is not self._tools:
            self._tools = request.tools
            self._tools_bytes = b',"tools":' + dump(_tools(request.tools))
        return self._tools_bytes


def _reasoning_option(request: ChatRequest, quirks: ChatQuirks) -> dict[str, object]:
    effort = request.reasoning_effort
    if effort is None or quirks.reasoning_option == "none":
        return {}
    if quirks.reasoning_option == "reasoning_object":
        return {"reasoning": {"effort": effort}}
    return {"reasoning_effort": effort}


def _schema_allowed(request: ChatRequest, quirks: ChatQuirks) -> bool:
    if quirks.response_format == "without_tools":
        return not request.tools
    return quirks.response_format == "json_schema"


def _tools(tools: Sequence[ToolSpec]) -> list[object]:
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in tools
    ]


def _unsendable(reason: str) -> ProviderError:
    return ProviderError(f"{reason}; nothing was sent and nothing was changed", kind=ErrorKind.FORMAT)
