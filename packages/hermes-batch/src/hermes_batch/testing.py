"""Agents with scripted behaviour, for testing a batch without a model.

agents = ScriptedAgents(lambda prompt: conversation(prompt, answer="four"))
await BatchRunner("prompts.jsonl", agent_factory=agents).run()
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence

from hermes_messages import AssistantMessage, ErrorKind, Message, ToolCall, ToolMessage, UserMessage
from hermes_messages.argument_text import JsonObject, JsonValue
from hermes_messages.openai_shape import to_dicts
from hermes_messages.protocols import AgentRequest, ConversationResult, StreamCallback, TurnExitReason

__all__ = [
    "Behaviour",
    "ScriptedAgent",
    "ScriptedAgents",
    "conversation",
    "failed_conversation",
]

Behaviour = Callable[[str], ConversationResult | Awaitable[ConversationResult]]
"""What a scripted agent answers to a prompt, now or when it is awaited."""

_ECHO_TOOL: JsonObject = {
    "type": "function",
    "function": {"name": "echo", "description": "Say it back.", "parameters": {"type": "object"}},
}


def _result(
    transcript: Sequence[Message],
    *,
    final_response: str | None,
    exit_reason: TurnExitReason,
    api_calls: int,
    error: str | None = None,
    error_kind: ErrorKind | None = None,
) -> ConversationResult:
    return ConversationResult(
        final_response=final_response,
        structured_output=None,
        messages=to_dicts(transcript),
        transcript=tuple(transcript),
        completed=error is None,
        api_calls=api_calls,
        partial=error is not None,
        interrupted=False,
        failed=error is not None,
        error=error,
        turn_exit_reason=exit_reason,
        session_id="session",
        task_id="task",
        turn_id="turn",
        model="scripted-model",
        provider="scripted",
        input_tokens=10,
        output_tokens=5,
        cache_read_tokens=None,
        cache_write_tokens=None,
        reasoning_tokens=None,
        cost_usd=None,
        usage_by_route=[],
        error_kind=error_kind,
        tools=[_ECHO_TOOL],
        pending_approvals=[],
        saved=True,
        cleanup_errors=[],
    )


def conversation(
    prompt: str, *, answer: str, echo: str | None = None, reasoning: str | None = None
) -> ConversationResult:
    """A turn that went well: with `echo`, after one call of a tool named `echo`."""
    transcript: list[Message] = [UserMessage(prompt)]
    if echo is not None:
        call = ToolCall(id="call_1", name="echo", arguments='{"text": "' + echo + '"}')
        transcript += [AssistantMessage(tool_calls=(call,), reasoning=reasoning), ToolMessage("call_1", echo)]
    transcript.append(AssistantMessage(answer, reasoning=reasoning))
    return _result(
        transcript, final_response=answer, exit_reason="text_response", api_calls=1 if echo is None else 2
    )


def failed_conversation(prompt: str, *, error: str, kind: ErrorKind) -> ConversationResult:
    """A turn whose first model call failed."""
    return _result(
        [UserMessage(prompt)],
        final_response=None,
        exit_reason="provider_error",
        api_calls=1,
        error=error,
        error_kind=kind,
    )


class ScriptedAgent:
    """An agent that answers by calling a function with the prompt."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self.closed: bool = False
        """Whether `close` was called."""

    async def run_conversation(
        self,
        user_message: str | UserMessage,
        system_message: str | None = None,  # noqa: ARG002 - the Protocol's
        conversation_history: Sequence[Mapping[str, JsonValue]] | None = None,  # noqa: ARG002 - the Protocol's
        task_id: str | None = None,  # noqa: ARG002 - the Protocol's
        stream_callback: StreamCallback | None = None,  # noqa: ARG002 - the Protocol's
    ) -> ConversationResult:
        """Whatever the behaviour says; it may be a coroutine function, and it may raise."""
        prompt = user_message if isinstance(user_message, str) else str(user_message.content)
        result = self._behaviour(prompt)
        return await result if inspect.isawaitable(result) else result

    async def close(self) -> None:
        """Note that it was closed."""
        self.closed = True


class ScriptedAgents:
    """An `AgentFactory` of scripted agents that remembers what was asked of it."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self.requests: list[AgentRequest] = []
        """What was asked for, in order."""
        self.agents: list[ScriptedAgent] = []
        """Those that were made, in order."""
        self.opened: int = 0
        """How often the factory itself was opened."""

    async def open(self) -> None:
        """Note that it was opened."""
        self.opened += 1

    def create_agent(self, request: AgentRequest) -> ScriptedAgent:
        """A new agent."""
        self.requests.append(request)
        agent = ScriptedAgent(self._behaviour)
        self.agents.append(agent)
        return agent

    async def close(self) -> None:
        """Nothing to release."""
