"""A `ChatRequest` to the body of a Messages request.

"Create a Message" (platform.claude.com/docs/en/api/messages/create). The body is `{"model": ...,
<parameters>, "tools": [...], "system": [...], "messages": [` + joined segments + `]}`. Closed segments are
encoded once for each log, so consecutive bodies of one conversation share their bytes up to the last closed
segment, cache markers left aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Raw

from hermes_messages import ChatRequest, Message, MessageLog, ToolSpec
from hermes_messages.parts import Origin
from hermes_messages.stable_bytes import HistoryJoiner, JoinedHistory
from hermes_providers.profiles import ToolNameRule
from hermes_providers.streaming.json_bytes import dump
from hermes_providers.wire.anthropic_blocks import HEADER_LENGTH, encode_segment
from hermes_providers.wire.anthropic_cache import (
    MAX_MARKERS,
    joint,
    marked,
    marker_bytes,
    marker_edits,
)
from hermes_providers.wire.anthropic_parameters import (
    Circumstances,
    answers_by_tool,
    parameters,
    thinks_on_budget,
)
from hermes_providers.wire.anthropic_quirks import AnthropicQuirks, address, drops_unbound, rules_for
from hermes_providers.wire.anthropic_replay import begins_with_thinking, own_blocks
from hermes_providers.wire.base import WireSettings
from hermes_providers.wire.body_builder import BodyBuilder
from hermes_providers.wire.extra_body import read_extra_body
from hermes_providers.wire.log_facts import LogFacts, facts_of, last_answer
from hermes_providers.wire.schema_dialect import object_at_top
from hermes_providers.wire.sent_history import check_sendable
from hermes_providers.wire.tool_names import wire_tool_name

__all__ = ["AnthropicRequestBuilder"]

_OURS = ("messages",)
_NOT_COUNTED = ("max_tokens", "stream", "temperature", "stop_sequences")
_ANY_INPUT = Raw(b'{"type":"object"}')


class AnthropicRequestBuilder(BodyBuilder):
    """Builds the bodies for one host."""

    def __init__(self, settings: WireSettings, quirks: AnthropicQuirks) -> None:
        super().__init__(address(settings.base_url, quirks.path), read_extra_body(settings.extra_body, _OURS))
        self._settings = settings
        self._quirks = quirks
        self._drops_unbound = drops_unbound(settings, quirks)
        self._logs: WeakKeyDictionary[MessageLog, LogFacts] = WeakKeyDictionary()
        self._renamed: dict[int, str] = {}

    def build(self, request: ChatRequest) -> bytes:
        """The body as UTF-8 JSON. Raises `ProviderError` (format) when the history can not be sent."""
        return self._body(request)

    def count_body(self, request: ChatRequest) -> bytes:
        """The body that asks for the number of tokens ("Token counting"). Raises as `build` does."""
        return self._body(request, without=_NOT_COUNTED)

    def _body(self, request: ChatRequest, without: Sequence[str] = ()) -> bytes:
        facts = facts_of(self._logs, request.history)
        sent_tools = _sent_tools(request, facts)
        if request.tools:
            facts.tools = request.tools
        circumstances = self._circumstances(request, has_tools=bool(sent_tools))
        schema = request.response_schema
        if schema is not None and not answers_by_tool(request, self._quirks, circumstances):
            schema = None
        tools = self._tools_field(sent_tools, schema)
        if schema is not None:
            circumstances = msgspec.structs.replace(circumstances, has_tools=True)
        fields = parameters(request, self._quirks, circumstances)
        fields.update(self._extra_body)
        fields.update(read_extra_body(request.extra_body, _OURS))
        for name in without:
            fields.pop(name, None)
        tools = b"" if "tools" in fields else tools
        joined = self._joined(request, facts)
        check_sendable(joined, "nothing to send but instructions")
        system = (
            b"" if "system" in fields else b",".join(part[HEADER_LENGTH:] for part in joined.leading if part)
        )
        marker = self._marker(circumstances)
        left = MAX_MARKERS - ("cache_control" in fields) - bool(tools) - bool(system) if marker else 0
        front = [dump(fields)[:-1]]
        if tools:
            front += [b',"tools":[', marked(tools, marker), b"]"]
        if system:
            front += [b',"system":[', marked(system, marker), b"]"]
        front.append(b',"messages":[')
        return joined.within(front, (b"]}", b"]}"), marker_edits(joined, left, marker))

    def _joined(self, request: ChatRequest, facts: LogFacts) -> JoinedHistory:
        self._renamed = facts.renamed
        # Which thinking blocks go back may depend on the model.
        key = request.model if self._quirks.replay == "same_model" else ""
        return self._joiners.of(key).join(request.history)

    def _joiner(self, model: str) -> HistoryJoiner:
        return HistoryJoiner(partial(self._encode, self._origin(model)), joint)

    def _encode(self, origin: Origin, messages: Sequence[Message]) -> bytes:
        return encode_segment(messages, self._quirks, origin, self._renamed)

    def _origin(self, model: str) -> Origin:
        return Origin(self._settings.provider, self._settings.host, model)

    def _circumstances(self, request: ChatRequest, *, has_tools: bool) -> Circumstances:
        rules = rules_for(request.model)
        thoughtless = False
        if thinks_on_budget(request, self._quirks, rules):
            answer = last_answer(request.history)
            if answer is not None and answer.tool_calls:
                own = own_blocks(answer.replay, self._quirks, self._origin(request.model))
                thoughtless = not begins_with_thinking(own, self._quirks)
        return Circumstances(
            rules=rules,
            refused=self._settings.refusals.of(request.model),
            has_tools=has_tools,
            thoughtless_round=thoughtless,
            drops_unbound=self._drops_unbound and rules.bound,
        )

    def _marker(self, circumstances: Circumstances) -> bytes:
        if not self._quirks.cache_markers or "cache_control" in circumstances.refused:
            return b""
        return marker_bytes(self._quirks.cache_ttl)

    def _encode_tools(self, tools: Sequence[ToolSpec]) -> bytes:
        return b",".join(dump(_tool(tool, self._quirks.tool_names)) for tool in tools)


def _sent_tools(request: ChatRequest, facts: LogFacts) -> tuple[ToolSpec, ...]:
    """The tools of the request. Without any, what old calls refer to goes along, not to be called: a request
    with `tool_use` blocks "must define tools", and the same tools keep the cached prefix."""
    if request.tools or not facts.called:
        return request.tools
    if not facts.tools:
        facts.tools = tuple(ToolSpec(name, "", _ANY_INPUT) for name in facts.called)
    return facts.tools


def _tool(tool: ToolSpec, names: ToolNameRule) -> dict[str, object]:
    described = {"description": tool.description} if tool.description.strip() else {}
    name = wire_tool_name(tool.name, names)
    return {"name": name, **described, "input_schema": object_at_top(tool.parameters)}
