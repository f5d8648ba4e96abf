"""What single hosts of the Responses wire want to be different."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from hermes_messages import ReasoningEffort
from hermes_providers.efforts import MODEL_EFFORTS, StrongEfforts, check_rows, taken_effort
from hermes_providers.profiles import CallIdRule, ToolNameRule

__all__ = ["WIRE", "ResponsesQuirks", "effort_for"]

WIRE = "openai_responses"

_LOW_EFFORTS: tuple[tuple[re.Pattern[str], dict[ReasoningEffort, ReasoningEffort]], ...] = (
    # https://developers.openai.com/api/docs/models/gpt-6.2-sol: "The API rejects requests that set reasoning
    # effort to `none`"; GPT-6 Sol and Luna still have it. `minimal` was GPT-5's, which had no `none`.
    (re.compile(r"^gpt-(6\.[1-9]|6-astra|[7-9])"), {"none": "low", "minimal": "low"}),
    (re.compile(r"^gpt-(5\.[1-9]|6)"), {"minimal": "low"}),
    (re.compile(r"^gpt-5(-mini|-nano)?(-20|$)"), {"none": "minimal"}),
)
"""What stands for a low effort that a model of OpenAI's refuses: left out, it would think with more. The
first row that matches counts."""


class ResponsesQuirks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The defaults are those of OpenAI, used without a state on its side.

    `path` is appended to the base URL. `system_as` says where the system text goes: in `instructions`, or in
    a first message of that role. `call_ids` says which ids of calls are taken, `tool_names` which names of
    tools.

    Reasoning: `encrypted_reasoning` asks for reasoning items that can be sent back, except from the models
    whose names begin with one of `models_without_reasoning`. `replay` says when the items of an earlier
    response go back: "encrypted" if all of its reasoning items carry encrypted content, "always" (open models
    that take plain reasoning back), or "never". `reasoning_summary` asks for a readable summary. `think_tags`
    takes reasoning in tags like `<think>` out of the text, for hosts that have no items for it;
    `starts_inside` says that the text begins inside such a tag. `strong_efforts` says which models have
    efforts above `high`, and which: a regular expression for the name and `xhigh`, `max` or both; others get
    `high` for them.

    Parameters: `tool_images` says that the output of a call may hold images; otherwise they move into a user
    message behind it. `response_format` says whether a schema can be asked for: always, only in a request
    without tools, as a tool whose arguments are the answer, or never. `parallel_option` and `cache_key` say
    whether `parallel_tool_calls` and `prompt_cache_key` are taken. `seed_option` and `stop_option`: OpenAI
    has neither a seed nor stop sequences on this wire ("Create a response"), other hosts of it may.
    """

    path: str = "/responses"
    system_as: Literal["instructions", "system", "developer"] = "instructions"
    # "Invalid 'input[2].call_id': string too long. Expected a string with maximum length 64"; ids with other
    # characters: "Expected an ID that contains letters, numbers, underscores, or dashes".
    call_ids: CallIdRule = CallIdRule(max_length=64, allowed="[a-zA-Z0-9_-]")
    tool_names: ToolNameRule = ToolNameRule()
    encrypted_reasoning: bool = True
    # "Encrypted content is not supported with this model." (param: include)
    models_without_reasoning: tuple[str, ...] = ("gpt-3", "gpt-4", "chatgpt-", "gpt-5-chat")
    replay: Literal["encrypted", "always", "never"] = "encrypted"
    reasoning_summary: Literal["auto", "concise", "detailed"] | None = None
    strong_efforts: StrongEfforts = MODEL_EFFORTS
    tool_images: bool = True
    response_format: Literal["json_schema", "without_tools", "output_tool", "none"] = "json_schema"
    parallel_option: bool = True
    cache_key: bool = True
    seed_option: bool = False
    stop_option: bool = False
    think_tags: bool = False
    starts_inside: bool = False

    def __post_init__(self) -> None:
        check_rows(self.strong_efforts)


def effort_for(model: str, effort: ReasoningEffort | None, quirks: ResponsesQuirks) -> ReasoningEffort | None:
    """`effort`, or the nearest one that the model has, where that is known."""
    if effort is None:
        return None
    if effort not in {"none", "minimal"}:
        return taken_effort(effort, model, quirks.strong_efforts)
    for pattern, efforts in _LOW_EFFORTS:
        if pattern.search(model):
            return efforts.get(effort, effort)
    return effort
