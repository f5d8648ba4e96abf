"""A `ChatRequest` to the body of a Gemini `generateContent` request.

"Generating content" (ai.google.dev/api/generate-content). The body is `{"systemInstruction": ...,
"generationConfig": {...}, "toolConfig": ..., "contents": [` + joined segments + `], "tools": [...]}`. Closed
segments are encoded once for each log, so consecutive bodies of one conversation share their bytes up to the
last closed segment; what changes at a new turn is the dummy signature of calls that another host made.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Literal
from urllib.parse import quote

import msgspec
from msgspec import Raw

from hermes_messages import (
    ChatRequest,
    ConfigurationError,
    ToolChoice,
    ToolSpec,
)
from hermes_messages.parts import Origin
from hermes_messages.stable_bytes import HistoryJoiner
from hermes_providers.credentials import join_url
from hermes_providers.streaming.json_bytes import dump
from hermes_providers.wire.base import WireSettings
from hermes_providers.wire.body_builder import BodyBuilder
from hermes_providers.wire.extra_body import read_extra_body
from hermes_providers.wire.gemini_contents import ModelRules, encode_segment, joint, signatures
from hermes_providers.wire.gemini_quirks import (
    GeminiQuirks,
    answer_way,
    is_tool_image_model,
    sends_ids,
    thinking_config,
    wants_signatures,
)
from hermes_providers.wire.gemini_schema import in_gemini_dialect
from hermes_providers.wire.output_tool import answer_tool
from hermes_providers.wire.schema_dialect import object_at_top
from hermes_providers.wire.sent_history import leading_text, unsendable
from hermes_providers.wire.tool_names import wire_tool_name

__all__ = ["GeminiRequestBuilder"]

_MODES: dict[ToolChoice, str] = {"none": "NONE", "required": "ANY"}
_OURS = ("messages", "contents")
_DOTS = re.compile(r"\.{1,2}")


class GeminiRequestBuilder(BodyBuilder):
    """Builds the bodies for one host."""

    def __init__(self, settings: WireSettings, quirks: GeminiQuirks) -> None:
        """Raises `ConfigurationError` for an extra body that can not be sent."""
        super().__init__(settings.base_url, read_extra_body(settings.extra_body, _OURS))
        self._settings = settings
        self._quirks = quirks

    def url(self, request: ChatRequest) -> str:
        """Where the request goes: the model's name is in the path, escaped.

        Raises `ProviderError` (format) for a name that would lead elsewhere.
        """
        url = join_url(self._settings.base_url, f"/{model_path(request.model)}:streamGenerateContent")
        return url + ("&" if "?" in url else "?") + "alt=sse"

    def build(self, request: ChatRequest) -> bytes:
        """The body as UTF-8 JSON. Raises `ProviderError` (format) when the history can not be sent."""
        return self._body(request, {})

    def count_url(self, request: ChatRequest) -> str:
        """Where tokens are counted. Raises as `url` does."""
        return join_url(self._settings.base_url, f"/{model_path(request.model)}:countTokens")

    def count_body(self, request: ChatRequest) -> bytes:
        """The body that asks for the number of tokens ("Counting tokens"). Raises as `build` does."""
        named: dict[str, object] = {"model": model_path(request.model)}
        return b'{"generateContentRequest":' + self._body(request, named) + b"}"

    def _body(self, request: ChatRequest, named: dict[str, object]) -> bytes:
        joined = self._joiners.of(request.model).join(request.history)
        head = named | self._fields(request, leading_text(request.history, joined))
        schema = self._schema_for(request, "tool")
        tools = self._tools_field(request.tools, schema) if "tools" not in head else b""
        start = dump(head)[:-1] + b"," if head else b"{"
        return joined.within((start, b'"contents":['), (b"]}", b"]", tools, b"}"), signatures(joined))

    def _joiner(self, model: str) -> HistoryJoiner:
        """The joiner for a model: ids, signatures and the parts that go back depend on it."""
        origin = Origin(self._settings.provider, self._settings.host, model)
        rules = ModelRules(
            ids=sends_ids(self._quirks, model),
            tool_images=is_tool_image_model(self._quirks, model),
            signatures=wants_signatures(self._quirks, model),
            tool_names=self._quirks.tool_names,
        )
        return HistoryJoiner(partial(encode_segment, rules=rules, origin=origin), joint)

    def _fields(self, request: ChatRequest, system: str) -> dict[str, object]:
        fields: dict[str, object] = {}
        if system:
            fields["systemInstruction"] = {"parts": [{"text": system}]}
        config = self._generation_config(request)
        if config:
            fields["generationConfig"] = config
        if request.tools and request.tool_choice in _MODES:  # without tools, a mode is refused
            fields["toolConfig"] = {"functionCallingConfig": {"mode": _MODES[request.tool_choice]}}
        elif not request.tools and (schema := self._schema_for(request, "tool")) is not None:
            only = {"mode": "ANY", "allowedFunctionNames": [answer_tool(schema).name]}
            fields["toolConfig"] = {"functionCallingConfig": only}
        for extra in (self._extra_body, read_extra_body(request.extra_body, _OURS)):
            fields.update(_with_config(extra, fields.get("generationConfig")))
        return fields

    def _generation_config(self, request: ChatRequest) -> dict[str, object]:
        config: dict[str, object] = {
            "maxOutputTokens": request.max_tokens,
            "temperature": request.temperature,
            "seed": request.seed,
            "stopSequences": list(request.stop) or None,
            "thinkingConfig": thinking_config(
                self._quirks, request.model, request.reasoning_effort, request.max_tokens
            )
            or None,
        }
        schema = self._schema_for(request, "schema")
        if schema is not None:
            config["responseMimeType"] = "application/json"
            config.update(self._answer_schema(schema))
        return {name: value for name, value in config.items() if value is not None}

    def _schema_for(self, request: ChatRequest, way: Literal["schema", "tool"]) -> Raw | None:
        """The schema of the answer, if it is asked for in this way."""
        chosen = answer_way(self._quirks, request.model, has_tools=bool(request.tools))
        return request.response_schema if chosen == way else None

    def _answer_schema(self, schema: Raw) -> dict[str, object]:
        if self._quirks.schema_dialect == "json_schema":
            return {"responseJsonSchema": schema}
        return {"responseSchema": in_gemini_dialect(schema)}

    def _encode_tools(self, tools: Sequence[ToolSpec]) -> bytes:
        declarations = [self._declaration(tool) for tool in tools]
        return b',"tools":' + dump([{"functionDeclarations": declarations}])

    def _declaration(self, tool: ToolSpec) -> dict[str, object]:
        """A tool. Parameters in its own dialect and in JSON schema have fields of their own ("Tool",
        ai.google.dev/api/caching#FunctionDeclaration); a tool without any has neither."""
        name = wire_tool_name(tool.name, self._quirks.tool_names)
        declared: dict[str, object] = {"name": name, "description": tool.description}
        whole = object_at_top(tool.parameters)  # "parameters schema should be of type OBJECT"
        parameters = in_gemini_dialect(whole)
        if parameters is None:
            return declared
        if self._quirks.schema_dialect == "json_schema":
            return declared | {"parametersJsonSchema": whole}
        return declared | {"parameters": parameters}


def model_path(model: str) -> str:
    """The model as a path: `models/NAME`, or the name itself when it has its collection in front."""
    segments = model.split("/")
    if any(not segment or _DOTS.fullmatch(segment) for segment in segments):
        raise unsendable(f"the model's name {model!r} can not stand in an address")
    path = "/".join(quote(segment, safe="") for segment in segments)
    return path if len(segments) > 1 else f"models/{path}"


def _with_config(extra: dict[str, Raw], ours: object) -> dict[str, object]:
    """`extra` with its generation config laid over ours, field by field."""
    given = extra.get("generationConfig")
    if given is None or not isinstance(ours, dict):
        return dict(extra)
    try:
        return extra | {"generationConfig": ours | msgspec.json.decode(given, type=dict[str, Raw])}
    except msgspec.MsgspecError as error:
        raise ConfigurationError(f"extra_body: generationConfig is no JSON object: {error}") from None
