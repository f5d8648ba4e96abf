"""Parameters that a model refused, remembered so that later requests of that model leave them out.

Pure. Nothing is sent again here: the error that made us remember says so (`ProviderError.left_out`), and
whoever retries sends the same `ChatRequest` once more.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hermes_messages import ChatRequest

__all__ = ["DROPPABLE", "Refusals", "without_refused"]

DROPPABLE: Mapping[str, Mapping[str, object]] = {
    "temperature": {"temperature": None},
    "seed": {"seed": None},
    "random_seed": {"seed": None},
    "stop": {"stop": ()},
    "stop_sequences": {"stop": ()},
    "parallel_tool_calls": {"parallel_tool_calls": None},
    "reasoning_effort": {"reasoning_effort": None},
    "reasoning": {"reasoning_effort": None},
    "thinking": {"reasoning_effort": None},
    "thinking_config": {"reasoning_effort": None},
    "output_config": {"reasoning_effort": None},
    "effort": {"reasoning_effort": None},
    "prompt_cache_key": {"session_id": None},
    "session_id": {"session_id": None},
    "max_output_tokens": {"max_tokens": None},
    "max_tokens": {},
    "max_completion_tokens": {},
    "stream_options": {},
    "cache_control": {},
    "include": {},
}
"""Names of wire parameters that a request can do without, and what becomes of its fields.

An empty row is a parameter that the wire itself adds and knows how to do without. What would change the
meaning of an answer (tools, a schema, the messages) has no row.
"""


class Refusals:
    """Which parameters each model refused. One object for each host."""

    __slots__ = ("_by_model",)

    def __init__(self) -> None:
        self._by_model: dict[str, frozenset[str]] = {}

    def note(self, model: str, parameter: str | None) -> bool:
        """Remember that `model` refused `parameter`; whether later requests differ because of it."""
        name = plain_name(parameter)
        if name not in DROPPABLE or name in self.of(model):
            return False
        self._by_model[model] = self.of(model) | {name}
        return True

    def of(self, model: str) -> frozenset[str]:
        """The parameters that `model` refused."""
        return self._by_model.get(model, frozenset())


def plain_name(parameter: str | None) -> str:
    """The top-level field of a path like `body.reasoning.effort` or `generationConfig.temperature`."""
    if not parameter:
        return ""
    parts = [part for part in parameter.replace("[", ".").split(".") if part]
    if parts and parts[0] in {"body", "generationConfig", "generation_config"}:
        parts = parts[1:]
    return _CAMEL.get(parts[0], parts[0]) if parts else ""


_CAMEL = {
    "stopSequences": "stop_sequences",
    "thinkingConfig": "thinking_config",
    "maxOutputTokens": "max_output_tokens",
    "reasoningEffort": "reasoning_effort",
}


def without_refused(request: ChatRequest, refused: frozenset[str]) -> ChatRequest:
    """`request` itself, or a copy whose fields for the `refused` parameters are left to the host."""
    if not refused:
        return request
    changes: dict[str, object] = {}
    for name in refused:
        changes.update(DROPPABLE.get(name, {}))
    return msgspec.structs.replace(request, **changes) if changes else request
