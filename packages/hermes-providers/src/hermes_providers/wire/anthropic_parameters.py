"""The parameters of a Messages request: everything but tools, system and messages.

Sources, on platform.claude.com/docs/en: "Create a Message" (api/messages/create), "Thinking" and "Extended
thinking" and "Effort" (build-with-claude), "Thinking in tool and multi-turn workflows", "Define tools"
(agents-and-tools/tool-use), "Structured outputs".
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from msgspec import Struct

from hermes_messages import ChatRequest, ReasoningEffort
from hermes_providers.efforts import is_strong, within
from hermes_providers.wire.anthropic_quirks import AnthropicQuirks, ModelRules
from hermes_providers.wire.anthropic_schema import answer_schema
from hermes_providers.wire.output_tool import answer_tool

__all__ = ["Circumstances", "answers_by_tool", "parameters", "thinks_on_budget"]

JsonDict = dict[str, object]

_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 6144, "high": 12_288, "xhigh": 24_576, "max": 32_000}
_MIN_BUDGET = 1024
_ROOM_TO_THINK = 64_000
"""What `max_tokens` is at least, where the caller names none, for an effort above "high": all models that
have one may answer with as much, and thoughts count."""


class Circumstances(Struct, frozen=True, kw_only=True):
    """What decides beside the request: the model's rules, the parameters that it refused, whether any tools
    go with the request, whether the open tool round began without a thinking block of this model, and whether
    thinking blocks whose conversation has changed are to be left out by the host."""

    rules: ModelRules
    refused: AbstractSet[str]
    has_tools: bool
    thoughtless_round: bool = False
    drops_unbound: bool = False


class _Thinking(Struct, frozen=True):
    field: JsonDict | None = None
    effort: ReasoningEffort | None = None
    budget: int = 0

    @property
    def fixes_temperature(self) -> bool:
        """ "Extended thinking": it takes no other temperature than the default."""
        return self.field is not None and self.field["type"] in {"enabled", "adaptive"}


def parameters(request: ChatRequest, quirks: AnthropicQuirks, facts: Circumstances) -> JsonDict:
    """The fields by name, in a fixed order."""
    thinking = _thinking(request, quirks, facts)
    fields: JsonDict = {"model": request.model, "max_tokens": _max_tokens(request, quirks, thinking)}
    fields["stream"] = True
    if request.temperature is not None and facts.rules.sampling and not thinking.fixes_temperature:
        fields["temperature"] = request.temperature
    stop = [text for text in request.stop if text.strip()]  # "each stop sequence must contain non-whitespace"
    if stop:
        fields["stop_sequences"] = stop
    field = _bound(thinking.field) if facts.drops_unbound else thinking.field
    if field is not None:
        fields["thinking"] = field
    output: JsonDict = {} if thinking.effort is None else {"effort": thinking.effort}
    if request.response_schema is not None and _answers_natively(quirks, facts):
        output["format"] = {"type": "json_schema", "schema": answer_schema(request.response_schema)}
    if output:
        fields["output_config"] = output
    choice = _tool_choice(request, quirks, facts, thinking)
    if choice is not None:
        fields["tool_choice"] = choice
    return fields


def answers_by_tool(request: ChatRequest, quirks: AnthropicQuirks, facts: Circumstances) -> bool:
    """Whether the answer is asked for as the arguments of a tool."""
    if request.response_schema is None or quirks.response_format == "none":
        return False
    return not _answers_natively(quirks, facts)


def thinks_on_budget(request: ChatRequest, quirks: AnthropicQuirks, rules: ModelRules) -> bool:
    """Whether thinking would be asked for in the older form, which has rules for the open tool round."""
    return request.reasoning_effort not in {None, "none"} and _form(quirks, rules) == "budget"


def _answers_natively(quirks: AnthropicQuirks, facts: Circumstances) -> bool:
    if quirks.response_format == "by_model":
        return facts.rules.native_schema and "output_config" not in facts.refused
    return quirks.response_format == "native"


def _form(quirks: AnthropicQuirks, rules: ModelRules) -> str:
    return rules.thinking if quirks.thinking == "by_model" else quirks.thinking


def _thinking(request: ChatRequest, quirks: AnthropicQuirks, facts: Circumstances) -> _Thinking:
    effort = request.reasoning_effort
    match effort, _form(quirks, facts.rules):
        case (None, _) | (_, "none"):
            return _Thinking()
        case "none", _:
            return _not_thinking(facts.rules)
        case _, "adaptive":
            field: JsonDict = {"type": "adaptive"}
            if quirks.thinking_display is not None:
                field["display"] = quirks.thinking_display
            return _Thinking(field, "low" if effort == "minimal" else within(effort, facts.rules.strong))
        case _:
            return _on_budget(request, _BUDGETS[effort], facts)


def _bound(field: JsonDict | None) -> JsonDict:
    """ "Preserved thinking": a block in front of which anything was changed is refused, unless the request
    says otherwise. Models of which that holds think adaptively when nothing is said; the forms that keep them
    from thinking can not say it."""
    if field is not None and field["type"] not in {"enabled", "adaptive"}:
        return field
    return {**(field or {"type": "adaptive"}), "block_binding": {"prefix_mismatch_behavior": "drop_block"}}


def _not_thinking(rules: ModelRules) -> _Thinking:
    match rules.off:
        case "omit":
            return _Thinking()
        case "always_on":
            return _Thinking(effort="low")
        case kind:
            return _Thinking({"type": kind})


def _on_budget(request: ChatRequest, wanted: int, facts: Circumstances) -> _Thinking:
    """ "Extended thinking": a budget is at least 1024 and less than `max_tokens`; no tool may be forced; and
    "a final `assistant` message must start with a thinking block" while its results are sent."""
    if facts.thoughtless_round or (request.tool_choice == "required" and request.tools):
        return _Thinking()
    most = facts.rules.most_thinking if request.max_tokens is None else request.max_tokens * 3 // 4
    budget = min(wanted, most)
    if budget < _MIN_BUDGET:
        return _Thinking()
    return _Thinking({"type": "enabled", "budget_tokens": budget}, budget=budget)


def _max_tokens(request: ChatRequest, quirks: AnthropicQuirks, thinking: _Thinking) -> int:
    if request.max_tokens is not None:
        return request.max_tokens
    if is_strong(thinking.effort):
        return max(quirks.default_max_tokens, _ROOM_TO_THINK)
    return quirks.default_max_tokens + thinking.budget


def _tool_choice(
    request: ChatRequest, quirks: AnthropicQuirks, facts: Circumstances, thinking: _Thinking
) -> JsonDict | None:
    if not facts.has_tools:
        return None
    may_force = facts.rules.forced_choice and not thinking.budget
    wanted = request.tool_choice if request.tools else "none"  # tools that are there for old calls only
    choice: JsonDict = {"type": "auto"}
    schema = request.response_schema if answers_by_tool(request, quirks, facts) else None
    if schema is not None and wanted == "none":
        if may_force:
            choice = {"type": "tool", "name": answer_tool(schema).name}
    elif wanted == "none":
        return {"type": "none"}
    elif wanted == "required" and may_force:
        choice = {"type": "any"}
    if request.parallel_tool_calls is False:
        choice["disable_parallel_tool_use"] = True
    return None if choice == {"type": "auto"} else choice
