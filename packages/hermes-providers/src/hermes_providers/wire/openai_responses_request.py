"""A `ChatRequest` to the body of a Responses request that leaves nothing stored at the host.

"Create a response" (developers.openai.com/api/reference/resources/responses/methods/create). The body is
`{"model": ..., <parameters>, "instructions": ..., "input": [` + joined segments + `], "tools": [...]}`.
Closed segments are encoded once for each log, so consecutive bodies of one conversation share their bytes up
to the last closed segment. OpenAI has no seed and no stop sequences here: these are left out unless a quirk
says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from weakref import WeakKeyDictionary

from hermes_messages import (
    ChatRequest,
    Message,
    MessageLog,
    ToolSpec,
)
from hermes_messages.parts import Origin
from hermes_messages.stable_bytes import HistoryJoiner, JoinedHistory
from hermes_providers.credentials import join_url
from hermes_providers.streaming.json_bytes import dump
from hermes_providers.wire.base import WireSettings
from hermes_providers.wire.body_builder import BodyBuilder
from hermes_providers.wire.extra_body import read_extra_body
from hermes_providers.wire.log_facts import LogFacts, facts_of
from hermes_providers.wire.openai_responses_items import encode_segment, text_message
from hermes_providers.wire.openai_responses_quirks import ResponsesQuirks, effort_for
from hermes_providers.wire.output_tool import answer_tool, schema_for_tool
from hermes_providers.wire.schema_dialect import object_at_top
from hermes_providers.wire.sent_history import by_commas, leading_text
from hermes_providers.wire.tool_names import wire_tool_name

__all__ = ["ResponsesRequestBuilder"]

_OURS = ("messages", "input")
_NOT_COUNTED = ("stream", "store", "include", "max_output_tokens", "temperature", "prompt_cache_key")


class ResponsesRequestBuilder(BodyBuilder):
    """Builds the bodies for one host."""

    def __init__(self, settings: WireSettings, quirks: ResponsesQuirks) -> None:
        """Raises `ConfigurationError` for an extra body that can not be sent."""
        super().__init__(
            join_url(settings.base_url, quirks.path), read_extra_body(settings.extra_body, _OURS)
        )
        self._settings = settings
        self._quirks = quirks
        self._logs: WeakKeyDictionary[MessageLog, LogFacts] = WeakKeyDictionary()
        self._renamed: dict[int, str] = {}

    def build(self, request: ChatRequest) -> bytes:
        """The body as UTF-8 JSON. Raises `ProviderError` (format) when the history can not be sent."""
        return self._body(request)

    def count_body(self, request: ChatRequest) -> bytes:
        """The body that asks for the number of input tokens ("Get input token counts"). Raises as `build`."""
        return self._body(request, without=_NOT_COUNTED)

    def _body(self, request: ChatRequest, without: Sequence[str] = ()) -> bytes:
        joined = self._joined(request)
        system = leading_text(request.history, joined)
        head = self._parameters(request)
        for name in without:
            head.pop(name, None)
        first = b""
        if system and self._quirks.system_as == "instructions":
            head.setdefault("instructions", system)
        elif system:
            first = dump(text_message(self._quirks.system_as, system)) + b","
        schema = schema_for_tool(request, self._quirks.response_format)
        tools = self._tools_field(request.tools, schema) if "tools" not in head else b""
        return joined.within((dump(head)[:-1], b',"input":[', first), (b"]", tools, b"}"))

    def _joined(self, request: ChatRequest) -> JoinedHistory:
        self._renamed = facts_of(self._logs, request.history).renamed
        return self._joiners.of(request.model).join(request.history)

    def _joiner(self, model: str) -> HistoryJoiner:
        """The joiner for a model: only it takes the items of its earlier responses back."""
        origin = Origin(self._settings.provider, self._settings.host, model)
        return HistoryJoiner(partial(self._encode, origin), by_commas)

    def _encode(self, origin: Origin, messages: Sequence[Message]) -> bytes:
        return encode_segment(messages, self._quirks, origin, self._renamed)

    def _parameters(self, request: ChatRequest) -> dict[str, object]:
        quirks = self._quirks
        fields: dict[str, object] = {"model": request.model, "stream": True, "store": False}
        if self._asks_for_encrypted_reasoning(request.model):
            fields["include"] = ["reasoning.encrypted_content"]
        fields.update(_sampling(request, quirks))
        reasoning = _reasoning(request, quirks)
        if reasoning and "reasoning" not in self._settings.refusals.of(request.model):
            fields["reasoning"] = reasoning
        schema = request.response_schema
        by_tool = schema_for_tool(request, quirks.response_format)
        if by_tool is not None and not request.tools:
            fields["tool_choice"] = {"type": "function", "name": answer_tool(by_tool).name}
        elif request.tools:  # hosts refuse tool options in a request without tools
            if request.tool_choice != "auto":
                fields["tool_choice"] = request.tool_choice
            if request.parallel_tool_calls is not None and quirks.parallel_option:
                fields["parallel_tool_calls"] = request.parallel_tool_calls
        if schema is not None and _schema_allowed(request, quirks):
            answer = {"type": "json_schema", "name": "answer", "schema": schema}
            fields["text"] = {"format": answer}
        if quirks.cache_key and request.session_id is not None:
            fields["prompt_cache_key"] = request.session_id
        fields.update(self._extra_body)
        fields.update(read_extra_body(request.extra_body, _OURS))
        return fields

    def _asks_for_encrypted_reasoning(self, model: str) -> bool:
        quirks = self._quirks
        if not quirks.encrypted_reasoning or "include" in self._settings.refusals.of(model):
            return False
        return not model.startswith(quirks.models_without_reasoning)

    def _encode_tools(self, tools: Sequence[ToolSpec]) -> bytes:
        return b',"tools":' + dump(_tools(tools, self._quirks))


def _sampling(request: ChatRequest, quirks: ResponsesQuirks) -> dict[str, object]:
    fields: dict[str, object] = {
        "max_output_tokens": request.max_tokens,
        "temperature": request.temperature,
        "seed": request.seed if quirks.seed_option else None,
        "stop": (request.stop or None) if quirks.stop_option else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _reasoning(request: ChatRequest, quirks: ResponsesQuirks) -> dict[str, object]:
    effort = effort_for(request.model, request.reasoning_effort, quirks)
    wanted = {"effort": effort, "summary": None if effort == "none" else quirks.reasoning_summary}
    return {name: value for name, value in wanted.items() if value is not None}


def _schema_allowed(request: ChatRequest, quirks: ResponsesQuirks) -> bool:
    if quirks.response_format == "without_tools":
        return not request.tools
    return quirks.response_format == "json_schema"


def _tools(tools: Sequence[ToolSpec], quirks: ResponsesQuirks) -> list[object]:
    # Without `strict`, functions are made strict, which refuses optional parameters ("Function calling",
    # strict mode).
    return [
        {
            "type": "function",
            "name": wire_tool_name(tool.name, quirks.tool_names),
            "description": tool.description,
            "parameters": object_at_top(tool.parameters),
            "strict": False,
        }
        for tool in tools
    ]
