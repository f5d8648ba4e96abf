"""What generations of Gemini models, and hosts of this wire, want to be different."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from hermes_messages import ReasoningEffort
from hermes_providers.efforts import within
from hermes_providers.profiles import ToolNameRule

__all__ = [
    "WIRE",
    "GeminiQuirks",
    "answer_way",
    "is_tool_image_model",
    "sends_ids",
    "thinking_config",
    "wants_signatures",
]

WIRE = "gemini"

_VERSION = re.compile(r"(?:^|/)gemini-(\d+)(?:\.(\d+))?(?!\d)")

_MINIMAL = re.compile(r"flash-lite|gemini-3-flash")
"""Models that have the level "minimal". Others: "Thinking level MINIMAL is not supported for this model." """

_BUDGETS: dict[ReasoningEffort, int] = {
    "none": 0,
    "minimal": 1024,
    "low": 1024,
    "medium": 8192,
    "high": 24576,
    "xhigh": 32768,
    "max": 32768,
}
"""What the efforts mean as a budget of tokens, which models before 3 have: "OpenAI compatibility", thinking
(ai.google.dev/gemini-api/docs/openai), which ends at `high`; above it stands the most that a model takes."""

# "Thinking" (ai.google.dev/gemini-api/docs/thinking), thinkingBudget: what stands for none, the least and the
# most of a model. 2.5 Pro does not take 0: it can not be kept from thinking.
_BUDGET_RANGES = (("pro", 128, 128, 32768), ("flash-lite", 0, 512, 24576), ("", 0, 1, 24576))


class GeminiQuirks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The defaults are those of the Gemini API (generativelanguage.googleapis.com).

    "by_model" leaves a rule to the generation in the model's name; a name without one counts as new.

    `call_ids` says whether ids of calls are sent. `signatures` says whether a call of the current turn that
    came without a thought signature (from another host, for example) gets the documented dummy.
    `tool_images` says whether the result of a call may hold images; otherwise they stand behind it.
    `response_format` says how an answer in a given form is asked for: by a schema, also beside tools; by a
    schema in a request without tools, and not at all in one with tools; by a tool whose arguments are the
    answer; or never. "by_model" asks by a schema, and older models beside tools by a tool.
    `schema_dialect` "openapi" sends schemas in Gemini's own dialect, "json_schema" as they are.
    `include_thoughts` asks for a readable summary of the thoughts when an effort is asked for. `tool_names`
    says which names of tools are taken. `think_tags` takes reasoning in tags like `<think>` out of the text;
    `starts_inside` says that the text begins inside such a tag.
    """

    call_ids: Literal["by_model", "always", "never"] = "by_model"
    signatures: Literal["by_model", "always", "never"] = "by_model"
    tool_images: Literal["by_model", "always", "never"] = "by_model"
    response_format: Literal["by_model", "with_tools", "without_tools", "output_tool", "none"] = "by_model"
    schema_dialect: Literal["openapi", "json_schema"] = "openapi"
    include_thoughts: bool = True
    # "FunctionDeclaration" (ai.google.dev/api/caching): "underscores, colons, dots, and dashes, with a
    # maximum length of 64"; Vertex AI besides: "Must start with a letter or an underscore".
    tool_names: ToolNameRule = ToolNameRule(allowed="[a-zA-Z0-9_.:-]", first="[a-zA-Z_]")
    think_tags: bool = False
    starts_inside: bool = False


def _version(model: str) -> tuple[int, int] | None:
    """The generation in a model's name; None for names without one, like `gemini-flash-latest`."""
    found = _VERSION.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else None


def _is_new(model: str) -> bool:
    """Whether the model is of generation 3 or later. Gemma models follow the older rules."""
    version = _version(model)
    if version is None:
        return not model.rpartition("/")[2].startswith("gemma")
    return version >= (3, 0)


def _by(rule: Literal["by_model", "always", "never"], model: str) -> bool:
    return _is_new(model) if rule == "by_model" else rule == "always"


def sends_ids(quirks: GeminiQuirks, model: str) -> bool:
    """Whether calls and results carry ids. Models from 3 on want them ("Function calling", map function IDs
    always); before: 'Unknown name "id" at contents[1].parts[0].function_call: Cannot find field.'"""
    return _by(quirks.call_ids, model)


def wants_signatures(quirks: GeminiQuirks, model: str) -> bool:
    """Whether a call without a thought signature is refused ("Thought signatures", ai.google.dev): "Function
    call is missing a thought_signature in functionCall parts." """
    return _by(quirks.signatures, model)


def is_tool_image_model(quirks: GeminiQuirks, model: str) -> bool:
    """Whether a result may hold images ("Function calling: multimodal function responses", from 3 on)."""
    return _by(quirks.tool_images, model)


def answer_way(quirks: GeminiQuirks, model: str, *, has_tools: bool) -> Literal["schema", "tool", "none"]:
    """How an answer in a given form is asked for. "Function calling with a response mime type:
    'application/json' is unsupported" says a model before 3 ("Structured outputs", with tools).
    """
    match quirks.response_format:
        case "none":
            return "none"
        case "output_tool":
            return "tool"
        case "with_tools":
            return "schema"
        case "without_tools":
            return "none" if has_tools else "schema"
        case "by_model":
            return "tool" if has_tools and not _is_new(model) else "schema"


def thinking_config(
    quirks: GeminiQuirks, model: str, effort: ReasoningEffort | None, max_tokens: int | None = None
) -> dict[str, object]:
    """`thinkingConfig`; empty when nothing is asked for, or the model has no thinking.

    From 3 on there are levels and no way to switch thinking off, so the lowest one stands for "none", and
    "high" for what is above it ("Gemini 4 Argon": low, medium, high); 2.5 has a budget, which leaves room for
    an answer under `max_tokens`; both at once are refused.
    """
    version = _version(model)
    if effort is None or (version is not None and version < (2, 5)):
        return {}
    if _is_new(model):
        lowest = "minimal" if _MINIMAL.search(model) else "low"
        level = lowest if effort in {"none", "minimal"} else within(effort, ())
        config: dict[str, object] = {"thinkingLevel": level}
    elif version is None:  # gemma
        return {}
    else:
        config = {"thinkingBudget": _budget(model, _BUDGETS[effort], max_tokens)}
    if quirks.include_thoughts and effort != "none" and config.get("thinkingBudget") != 0:
        config["includeThoughts"] = True
    return config


def _budget(model: str, wanted: int, max_tokens: int | None) -> int:
    """Thoughts count against `maxOutputTokens`: with a budget as large, which nothing refuses, an answer ends
    without a text (github.com/googleapis/python-genai/issues/811). A quarter is left for the answer; where no
    budget of the model's is as small, it does not think, and 2.5 Pro as little as it can."""
    none, least, most = next(limits for name, *limits in _BUDGET_RANGES if name in model)
    budget = min(wanted, most if max_tokens is None else min(most, max_tokens * 3 // 4))
    return budget if budget >= least else none
