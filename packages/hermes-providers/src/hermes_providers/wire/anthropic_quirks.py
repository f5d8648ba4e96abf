"""What hosts of the Messages wire want to be different, and what each Claude model takes, as data."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from hermes_providers.credentials import join_url
from hermes_providers.efforts import StrongEffort
from hermes_providers.profiles import CallIdRule, ToolNameRule
from hermes_providers.wire.base import WireSettings

__all__ = ["BINDING_BETA", "WIRE", "AnthropicQuirks", "ModelRules", "address", "drops_unbound", "rules_for"]

WIRE = "anthropic_messages"

BINDING_BETA = "thinking-binding-controls-2026-08-01"
"""The feature by which a request may say what becomes of thinking blocks whose conversation has changed."""


class AnthropicQuirks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one host of the Messages wire wants to be different. The defaults are those of Anthropic itself.

    `path` and `count_path` are appended to the base URL, which may end in `/v1`; `count_path` None: the
    host does not count. `version` and `beta` go into the headers `anthropic-version` and `anthropic-beta`.
    The wire demands `max_tokens`; `default_max_tokens` stands for it where the caller names none, a thinking
    budget comes on top. `cache_markers` places up to four cache breakpoints that live for `cache_ttl`.

    `call_ids` and `tool_names` say which ids of calls and which names of tools are taken. `think_tags` takes
    reasoning in tags like `<think>` out of the text, for hosts that have no blocks for it; `starts_inside`
    says that the text begins inside such a tag.

    `thinking` says how reasoning is asked for: by the table of models, or always in one of the two forms.
    `thinking_display` is sent with the adaptive form. `replay` says whose thinking blocks go back: those of
    the same model at the same host, of any model at the same host, or of any host of this wire.
    `unsigned_thinking` also sends those back that have no signature. `block_binding` "drop_block" asks the
    host to leave thinking blocks out in front of which the conversation was changed (by a compression, or
    other tools), which the newest Claude models refuse otherwise; "none" does not, and "by_host" asks
    Anthropic itself only. `response_format` says how a schema is
    asked for: `native` is `output_config.format`, `output_tool` a tool whose arguments are the answer.
    """

    path: str = "/v1/messages"
    count_path: str | None = "/v1/messages/count_tokens"
    version: str = "2023-06-01"
    beta: tuple[str, ...] = ()
    default_max_tokens: int = 16_384
    # The host's words: tool_use.id "String should match pattern '^[a-zA-Z0-9_-]+$'"
    call_ids: CallIdRule = CallIdRule(max_length=64, allowed="[a-zA-Z0-9_-]")
    # tools.0.custom.name: "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
    tool_names: ToolNameRule = ToolNameRule(max_length=128)
    cache_markers: bool = True
    cache_ttl: Literal["5m", "1h"] = "5m"
    thinking: Literal["by_model", "adaptive", "budget", "none"] = "by_model"
    thinking_display: Literal["summarized", "omitted"] | None = "summarized"
    replay: Literal["same_model", "same_host", "any"] = "same_model"
    unsigned_thinking: bool = False
    block_binding: Literal["by_host", "drop_block", "none"] = "by_host"
    think_tags: bool = False
    starts_inside: bool = False
    response_format: Literal["by_model", "native", "output_tool", "none"] = "by_model"


class ModelRules(Struct, frozen=True):
    """What a model takes. `off` is how thinking is turned off; `always_on` models only think less.

    `sampling`: it takes a temperature. `forced_choice`: a tool may be forced. `native_schema`: it takes
    `output_config.format`. `bound`: its thinking blocks belong to what stood in front of them. `strong` are
    the efforts above "high" that it has, rising. `most_thinking` is the largest budget that leaves room for
    an answer under the model's limit of output tokens, where the caller names none.
    """

    thinking: Literal["adaptive", "budget", "none"]
    off: Literal["omit", "disabled", "between_tools", "always_on"] = "omit"
    sampling: bool = True
    forced_choice: bool = True
    native_schema: bool = True
    bound: bool = False
    strong: tuple[StrongEffort, ...] = ()
    most_thinking: int = 12_288


_STRONG: tuple[StrongEffort, ...] = ("xhigh", "max")

# Sources, on platform.claude.com/docs/en: "Thinking" (build-with-claude/thinking), "What's new in Claude
# Opus 5.5", "What's new in Claude Sonnet 5.5", "What's new in Claude Haiku 5.5" (models/*/whats-new-*),
# "Preserved thinking" (build-with-claude/preserved-thinking), "Structured outputs"
# (build-with-claude/structured-outputs), "Effort" (build-with-claude/effort), which models have `xhigh` and
# `max`. Opus 4 and 4.1 answer with 32,000 tokens at most, others with 64,000 or more ("Models overview"); and
# above a budget of 32,000 a request may take too long. The first row that matches counts.
_MODELS: tuple[tuple[re.Pattern[str], ModelRules], ...] = tuple(
    (re.compile(pattern), rules)
    for pattern, rules in (
        (r"claude-(instant|2|3-(opus|sonnet|haiku|5))", ModelRules("none", native_schema=False)),
        (
            r"claude-opus-4(-[01])?(?![-.]?\d(?!\d))",
            ModelRules("budget", native_schema=False, most_thinking=15_616),
        ),
        (
            r"claude-3-7|claude-sonnet-4(-[01])?(?![-.]?\d(?!\d))",
            ModelRules("budget", native_schema=False, most_thinking=32_000),
        ),
        (r"claude-(opus|sonnet|haiku)-4-5", ModelRules("budget", most_thinking=32_000)),
        (r"claude-(opus|sonnet)-4-6", ModelRules("adaptive", strong=("max",))),
        # "`temperature` is deprecated for this model."
        (r"claude-opus-4-[78]", ModelRules("adaptive", sampling=False, strong=_STRONG)),
        # "\"thinking.type.disabled\" is not supported for this model."; forcing a tool is an error, too.
        (
            r"claude-sonnet-5-5",
            ModelRules(
                "adaptive", "between_tools", sampling=False, forced_choice=False, bound=True, strong=_STRONG
            ),
        ),
        (
            r"claude-opus-5-5|claude-(fable|mythos)-5-\d(?!\d)",
            ModelRules(
                "adaptive", "always_on", sampling=False, forced_choice=False, bound=True, strong=_STRONG
            ),
        ),
        (r"claude-mythos-preview", ModelRules("adaptive", "always_on", sampling=False, strong=("max",))),
        (r"claude-(fable|mythos)", ModelRules("adaptive", "always_on", sampling=False, strong=_STRONG)),
        (r"claude-haiku-5-5", ModelRules("adaptive", "disabled", sampling=False, bound=True, strong=_STRONG)),
        (r"claude-(opus|sonnet)-5", ModelRules("adaptive", "disabled", sampling=False, strong=_STRONG)),
        # A model that came later: it most likely takes what the newest take; what it refuses is remembered.
        (r"claude", ModelRules("adaptive", bound=True, strong=_STRONG)),
    )
)
_OTHER = ModelRules("budget", native_schema=False)
"""Other models behind this wire: hosts that imitate it know the older forms."""


def address(base_url: str, path: str) -> str:
    """`path` at the host, whether or not the base URL names the version that the path begins with."""
    return join_url(base_url.rstrip("/").removesuffix("/v1") if path.startswith("/v1/") else base_url, path)


def drops_unbound(settings: WireSettings, quirks: AnthropicQuirks) -> bool:
    """Whether the host is asked to leave out thinking blocks whose conversation has changed. The user's own
    `anthropic-beta` stands for ours, so without the feature in it this can not be asked for."""
    wanted = quirks.block_binding == "drop_block"
    if quirks.block_binding == "by_host":
        wanted = settings.host == "api.anthropic.com"
    own = [value for name, value in settings.headers.items() if name.lower() == "anthropic-beta"]
    return wanted and (not own or any(BINDING_BETA in value for value in own))


def rules_for(model: str) -> ModelRules:
    """The rules of `model`, whatever prefix or date its name carries."""
    for pattern, rules in _MODELS:
        if pattern.search(model.replace(".", "-")):
            return rules
    return _OTHER
