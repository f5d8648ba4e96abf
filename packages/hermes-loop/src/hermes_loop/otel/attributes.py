"""Requests, responses, tool calls and results as the attributes of spans and metrics. Pure.

Source: OpenTelemetry semantic conventions for generative AI 0.1.0, docs/gen-ai: client-inference.md,
gen-ai-agent-spans.md, execute-tool.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hermes_messages import ChatRequest, ChatResponse, ProviderError, ToolCall
from hermes_messages.protocols import ConversationResult, HookContext

__all__ = [
    "Attributes",
    "agent_attributes",
    "chat_attributes",
    "error_type",
    "metric_attributes",
    "provider_name",
    "response_attributes",
    "result_attributes",
    "tool_attributes",
]

Attributes = dict[str, str | int | float | bool | list[str]]

_PROVIDERS: Final[Mapping[str, str]] = {
    "azure-openai": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "google": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""Where the conventions have another word for a provider; every other name is kept."""


def provider_name(name: str) -> str:
    """The conventions' name of a provider."""
    return _PROVIDERS.get(name, name)


def agent_attributes(context: HookContext, agent_name: str | None) -> Attributes:
    """Of a turn, as it begins."""
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.request.model": context.model,
        "gen_ai.conversation.id": context.session_id,
        "hermes.turn.id": context.turn_id,
        "hermes.turn.provider": provider_name(context.provider),
        "hermes.task.id": context.task_id,
        **_name(agent_name),
    }


def _name(agent_name: str | None) -> Attributes:
    return {} if agent_name is None else {"gen_ai.agent.name": agent_name}


def chat_attributes(
    context: HookContext, provider: str, host: str, request: ChatRequest, attempt: int, agent_name: str | None
) -> Attributes:
    """Of one attempt of a request, as it begins."""
    attributes: Attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider_name(provider),
        "gen_ai.request.model": request.model,
        "gen_ai.request.stream": True,
        "gen_ai.conversation.id": context.session_id,
        "hermes.attempt": attempt,
        **_name(agent_name),
        **_server(host),
    }
    given: tuple[tuple[str, str | int | float | None], ...] = (
        ("gen_ai.request.reasoning.level", request.reasoning_effort),
        ("gen_ai.request.max_tokens", request.max_tokens),
        ("gen_ai.request.temperature", request.temperature),
        ("gen_ai.request.seed", request.seed),
        ("gen_ai.output.type", None if request.response_schema is None else "json"),
    )
    attributes.update({name: value for name, value in given if value is not None})
    if request.stop:
        attributes["gen_ai.request.stop_sequences"] = list(request.stop)
    return attributes


def _server(host: str) -> Attributes:
    address, colon, port = host.rpartition(":")
    if colon and port.isdigit():
        return {"server.address": address, "server.port": int(port)}
    return {"server.address": host} if host else {}


def response_attributes(response: ChatResponse) -> Attributes:
    """Of a request that was answered."""
    attributes: Attributes = {"gen_ai.response.finish_reasons": [response.finish.value]}
    if response.response_id is not None:
        attributes["gen_ai.response.id"] = response.response_id
    if response.model is not None:
        attributes["gen_ai.response.model"] = response.model
    usage = response.usage
    if usage is not None:
        known = (
            ("gen_ai.usage.input_tokens", usage.input_tokens),
            ("gen_ai.usage.output_tokens", usage.output_tokens),
            ("gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens),
            ("gen_ai.usage.cache_write.input_tokens", usage.cache_write_tokens),
            ("gen_ai.usage.reasoning.output_tokens", usage.reasoning_tokens),
        )
        attributes.update({name: value for name, value in known if value is not None})
    return attributes


def result_attributes(result: ConversationResult) -> Attributes:
    """Of a turn that ended: what it came to."""
    attributes: Attributes = {
        "hermes.turn.exit_reason": result["turn_exit_reason"],
        "hermes.turn.api_calls": result["api_calls"],
    }
    known: tuple[tuple[str, int | float | None], ...] = (
        ("gen_ai.usage.input_tokens", result["input_tokens"]),
        ("gen_ai.usage.output_tokens", result["output_tokens"]),
        ("hermes.turn.cache_read_tokens", result["cache_read_tokens"]),
        ("hermes.turn.cache_write_tokens", result["cache_write_tokens"]),
        ("hermes.turn.reasoning_tokens", result["reasoning_tokens"]),
        ("hermes.turn.cost_usd", result["cost_usd"]),
    )
    attributes.update({name: value for name, value in known if value is not None})
    return attributes


def tool_attributes(context: HookContext, call: ToolCall, agent_name: str | None) -> Attributes:
    """Of a tool call, as it begins."""
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.call.id": call.id,
        "gen_ai.tool.type": "function",
        "gen_ai.conversation.id": context.session_id,
        **_name(agent_name),
    }


def error_type(error: BaseException) -> str:
    """A word of few different ones: the kind of a provider's error, else the name of the class."""
    return error.kind.value if isinstance(error, ProviderError) else type(error).__name__


def metric_attributes(
    provider: str, host: str, request: ChatRequest, response: ChatResponse | None
) -> Attributes:
    """Of the measurements of a request: words of which there are few."""
    attributes: Attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider_name(provider),
        "gen_ai.request.model": request.model,
        **_server(host),
    }
    if response is not None and response.model is not None:
        attributes["gen_ai.response.model"] = response.model
    return attributes
