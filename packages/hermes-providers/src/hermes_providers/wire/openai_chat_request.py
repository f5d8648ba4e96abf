"""A `ChatRequest` to the body of a chat-completions request.

The body is `{"model": ..., <parameters>, "messages": [` + joined segments + `], "tools": [...]}`. Closed
segments are encoded once for each log, so consecutive bodies of one conversation share their bytes up to
the last closed segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec
from msgspec import Raw, Struct

from hermes_messages import ChatRequest, SystemMessage, ToolSpec
from hermes_messages.parts import Origin
from hermes_messages.stable_bytes import HistoryJoiner, JoinedHistory
from hermes_providers.credentials import join_url
from hermes_providers.efforts import is_strong, taken_effort
from hermes_providers.profiles import ChatQuirks
from hermes_providers.refusals import Refusals
from hermes_providers.streaming.json_bytes import dump
from hermes_providers.wire.body_builder import BodyBuilder
from hermes_providers.wire.cache_markers import marked, turn_markers
from hermes_providers.wire.extra_body import read_extra_body
from hermes_providers.wire.openai_chat_messages import encode_segment, encode_system
from hermes_providers.wire.output_tool import answer_tool, schema_for_tool
from hermes_providers.wire.schema_dialect import object_at_top, without_refs
from hermes_providers.wire.sent_history import by_commas, check_sendable
from hermes_providers.wire.tool_names import wire_tool_name

__all__ = ["ChatRequestBuilder"]

_OURS = ("messages",)


class _Settled(Struct, frozen=True, eq=False):
    """What is settled for a kind of request: all that stands before the messages, whether its tools go along,
    the schema for which a tool asks, whether there are cache markers, and whose joiner it is."""

    head: bytes
    takes_tools: bool
    schema: Raw | None
    is_marked: bool
    joiner_key: str


class ChatRequestBuilder(BodyBuilder):
    """Builds the bodies for one host."""

    def __init__(
        self,
        *,
        base_url: str,
        provider: str,
        host: str,
        quirks: ChatQuirks,
        extra_body: Raw | None = None,
        refusals: Refusals | None = None,
    ) -> None:
        super().__init__(join_url(base_url, quirks.path), read_extra_body(extra_body, _OURS))
        self._provider = provider
        self._host = host
        self._quirks = quirks
        self._refusals = refusals or Refusals()
        self._last_kind: tuple[object, ...] = ()
        self._last_settled = _Settled(b"", takes_tools=True, schema=None, is_marked=False, joiner_key="")

    def build(self, request: ChatRequest) -> bytes:
        """The body as UTF-8 JSON. Raises `ProviderError` (format) when the history can not be sent."""
        settled = self._settled(request)
        offered = request.tools if settled.takes_tools else ()
        tools = self._tools_field(offered, settled.schema) if offered or settled.schema is not None else b""
        joined = self._joiners.of(settled.joiner_key).join(request.history)
        system = self._system(request, joined) if joined.leading else b""
        if joined.misplaced or not (system or joined.size):
            check_sendable(joined)
        if settled.is_marked:
            system = marked(system) if system else b""
        edits = turn_markers(joined) if settled.is_marked else ()
        front = (settled.head, system, b"," if system and joined.size else b"")
        return joined.within(front, (b"]", tools, b"}"), edits)

    def _system(self, request: ChatRequest, joined: JoinedHistory) -> bytes:
        """The system message; hosts take one only."""
        system = b"".join(joined.leading)
        if len(joined.leading) > 1:
            leading = request.history[: len(joined.leading)]
            contents = [message.content for message in leading if isinstance(message, SystemMessage)]
            system = encode_system(contents, self._quirks)
        return system

    def _is_marked(self, model: str) -> bool:
        return model.startswith(self._quirks.cache_markers) and "cache_control" not in self._refusals.of(
            model
        )

    def _joiner(self, model: str) -> HistoryJoiner:
        origin, quirks = Origin(self._provider, self._host, model), self._quirks
        if quirks.blind_models and model.startswith(quirks.blind_models):
            seen = tuple(part for part in quirks.user_parts if part != "image")
            quirks = msgspec.structs.replace(quirks, user_parts=seen)
        return HistoryJoiner(partial(encode_segment, quirks=quirks, origin=origin), by_commas)

    def _settled(self, request: ChatRequest) -> _Settled:
        """What is the same for requests of one kind; made anew only for another kind."""
        kind = (
            request.model,
            request.max_tokens,
            request.temperature,
            request.seed,
            request.stop,
            request.reasoning_effort,
            request.tool_choice,
            request.parallel_tool_calls,
            request.response_schema,
            request.extra_body,
            request.session_id if self._quirks.cache_key is not None else None,
            bool(request.tools),
            self._refusals.of(request.model),
        )
        if kind != self._last_kind:
            quirks, parameters = self._quirks, self._parameters(request)
            has_room = "tools" not in parameters  # a user may have put some there
            settled = _Settled(
                head=dump(parameters)[:-1] + b',"messages":[',
                takes_tools=has_room and _offers_tools(request, quirks),
                schema=schema_for_tool(request, quirks.response_format) if has_room else None,
                is_marked=self._is_marked(request.model),
                # Only replayed reasoning, and whether it sees, depend on the model.
                joiner_key=request.model if quirks.replay_field is not None or quirks.blind_models else "",
            )
            self._last_kind, self._last_settled = kind, settled
        return self._last_settled

    def _parameters(self, request: ChatRequest) -> dict[str, object]:
        quirks = self._quirks
        refused = self._refusals.of(request.model)
        fields: dict[str, object] = {"model": request.model, "stream": True}
        if quirks.stream_usage and "stream_options" not in refused:
            fields["stream_options"] = {"include_usage": True}
        limit_key = _limit_key(quirks, refused)
        if request.max_tokens is not None and limit_key is not None:
            fields[limit_key] = request.max_tokens
        if request.temperature is not None:
            fields["temperature"] = request.temperature
        if request.seed is not None and quirks.seed_option:
            fields[quirks.seed_key] = request.seed
        if request.stop:
            fields["stop"] = request.stop
        fields.update(_reasoning_option(request, quirks))
        schema = schema_for_tool(request, quirks.response_format)
        if schema is not None and not request.tools and quirks.tool_choice_option:
            fields["tool_choice"] = {"type": "function", "function": {"name": answer_tool(schema).name}}
        elif _offers_tools(request, quirks):  # hosts refuse tool options in a request without tools
            if request.tool_choice != "auto" and quirks.tool_choice_option:
                fields["tool_choice"] = request.tool_choice
            if request.parallel_tool_calls is not None and quirks.parallel_option:
                fields["parallel_tool_calls"] = request.parallel_tool_calls
        if request.response_schema is not None:
            fields.update(_response_format(request, request.response_schema, quirks))
        if quirks.cache_key is not None and request.session_id is not None:
            fields[quirks.cache_key] = request.session_id
        fields.update(self._extra_body)
        fields.update(read_extra_body(request.extra_body, _OURS))
        return fields

    def _encode_tools(self, tools: Sequence[ToolSpec]) -> bytes:
        return b',"tools":' + dump(_tools(tools, self._quirks))


def _limit_key(quirks: ChatQuirks, refused: frozenset[str]) -> str | None:
    """The name of the output limit: a model that refused one name may take the other."""
    other = "max_tokens" if quirks.max_tokens_key == "max_completion_tokens" else "max_completion_tokens"
    return next((key for key in (quirks.max_tokens_key, other) if key not in refused), None)


def _offers_tools(request: ChatRequest, quirks: ChatQuirks) -> bool:
    """Whether tools go along: where "none" can not be said, they stay at home."""
    return bool(request.tools) and (quirks.tool_choice_option or request.tool_choice != "none")


def _reasoning_option(request: ChatRequest, quirks: ChatQuirks) -> dict[str, object]:
    if request.reasoning_effort is None:
        return {}
    effort = taken_effort(request.reasoning_effort, request.model, quirks.strong_efforts)
    if quirks.effort_models and request.model.startswith(quirks.effort_models):
        if is_strong(effort):
            return {"reasoning_effort": effort}
        return {"reasoning_effort": "high" if effort in {"medium", "high"} else "low"}
    switch: dict[str, object] = {"thinking": {"type": "disabled" if effort == "none" else "enabled"}}
    match quirks.reasoning_option:
        case "none":
            return {}
        case "reasoning_object":
            return {"reasoning": {"effort": effort}}
        case "thinking":
            return switch
        case "thinking_and_effort":
            return switch if effort == "none" else {**switch, "reasoning_effort": effort}
        case "reasoning_effort":
            return {"reasoning_effort": effort}


def _response_format(request: ChatRequest, schema: Raw, quirks: ChatQuirks) -> dict[str, object]:
    match quirks.response_format:
        case "none" | "output_tool":
            return {}
        case "json_object":
            return {} if request.tools else {"response_format": {"type": "json_object"}}
        case "without_tools" if request.tools:
            return {}
        case "without_tools" | "json_schema":
            named = {"name": "answer", "schema": _in_dialect(schema, quirks)}
            return {"response_format": {"type": "json_schema", "json_schema": named}}


def _in_dialect(schema: Raw, quirks: ChatQuirks) -> Raw:
    return without_refs(schema) if quirks.schema_dialect == "no_refs" else schema


def _tools(tools: Sequence[ToolSpec], quirks: ChatQuirks) -> list[object]:
    return [
        {
            "type": "function",
            "function": {
                "name": wire_tool_name(tool.name, quirks.tool_names),
                "description": tool.description,
                "parameters": _in_dialect(object_at_top(tool.parameters), quirks),
            },
        }
        for tool in tools
    ]
