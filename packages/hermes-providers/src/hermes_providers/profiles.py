"""What a host is: where it is, how a key is shown to it, which wire it speaks, and its quirks as data.

The rows are in `hermes_providers.profile_rows`. A new host is a new row; nothing in the flow compares names.

>>> from hermes_providers import get_profile
>>> get_profile("groq").base_url
'https://api.groq.com/openai/v1'
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from hermes_messages import UnknownNameError
from hermes_providers.efforts import check_rows
from hermes_providers.wire_names import WireName

__all__ = [
    "AuthHeader",
    "CallIdRule",
    "ChatQuirks",
    "Profile",
    "ToolNameRule",
    "get_profile",
    "list_profiles",
]


class AuthHeader(Struct, frozen=True):
    """How a key is shown: the header `name` with the value `prefix` + key."""

    name: str = "Authorization"
    prefix: str = "Bearer "


class CallIdRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tool-call ids a host takes. Others are mapped, the same way on a call and on its result.

    `max_length` counts characters; None is no limit. `allowed` is a regular expression for one character.
    `exact` says that an id must have just `max_length` characters.
    """

    max_length: int | None = None
    allowed: str | None = None
    exact: bool = False


class ToolNameRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which names of tools a host takes. Others are mapped, and mapped back in what it answers.

    `max_length` counts characters. `allowed` is a regular expression for one character, `first` one for the
    first. The default is OpenAI's: "Must be a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum
    length of 64" ("Create chat completion", `tools`), which most hosts of its wire have taken over.
    """

    max_length: int = 64
    allowed: str = "[a-zA-Z0-9_-]"
    first: str | None = None


class ChatQuirks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one chat-completions host wants to be different. The defaults suit most hosts.

    All hosts get at most one system message, first.

    Messages: `path` is appended to the base URL. `empty_content` is what stands for the content of an
    assistant message that has only calls. `tool_content_list` says that a tool message may hold images;
    otherwise they move into a user message behind the results. `user_parts` are the kinds of part besides
    text that a user message may hold; a short text stands for others. `blind_models` are the beginnings of
    names of models that take no image where others of the host do. `merge_user_turns` joins user messages
    that follow each other. `names` sends the `name` of user messages. `json_arguments` makes the argument
    text of old calls valid JSON where it is not, because the host (or its chat template) parses it.
    `call_ids` says which ids are taken, `tool_names` which names of tools.

    Reasoning: `reasoning_read` are the response fields that may hold its text; the first that is present in a
    chunk counts. `reasoning_echo` names the field in which it goes back, and `reasoning_echo_missing` what
    goes there for a message with calls that came without reasoning, from another host for example.
    `replay_field` is for the host's own reasoning blocks. `reasoning_option` says how an effort is asked for:
    a field, OpenRouter's object, a switch `thinking`, or the switch and the field. `effort_models` are the
    beginnings of names of models that always think and take `low` or `high` in a field, where others of the
    host have a switch. `strong_efforts` says which models have efforts above `high`, and which: a regular
    expression for the name and `xhigh`, `max` or both; others get `high` for them. `think_tags` takes
    reasoning in tags like `<think>` out of the text; `starts_inside` says that the host's chat template opens
    the tag, so that the text begins with reasoning.

    Parameters: `max_tokens_key`, `seed_key`, `seed_option`, `parallel_option`, `tool_choice_option` and
    `stream_usage` say how they are called and whether they are taken. `response_format` says whether a schema
    can be asked for: always, only in a request without tools, as a tool whose arguments are the answer, as
    "some JSON" without the schema, or never.
    `schema_dialect` "no_refs" writes `$ref` out in the schemas of tools and answers.

    Caches: `cache_key` names the field for the session id. `cache_markers` are the beginnings of the names of
    models for which cache markers are set.

    Ends: `error_finishes` are finish reasons that mean an error.
    """

    path: str = "/chat/completions"
    system_role: Literal["system", "developer"] = "system"
    """The role under which the system message is sent."""
    max_tokens_key: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_usage: bool = True
    empty_content: Literal["null", "empty_string", "omit"] = "null"
    tool_content_list: bool = False
    user_parts: tuple[Literal["image", "audio", "file"], ...] = ("image", "audio", "file")
    blind_models: tuple[str, ...] = ()
    merge_user_turns: bool = False
    names: bool = False
    json_arguments: bool = True
    parallel_option: bool = True
    tool_choice_option: bool = True
    seed_option: bool = True
    seed_key: Literal["seed", "random_seed"] = "seed"
    call_ids: CallIdRule = CallIdRule()
    tool_names: ToolNameRule = ToolNameRule()
    reasoning_echo: Literal["reasoning_content", "reasoning"] | None = None
    reasoning_echo_missing: str | None = None
    replay_field: Literal["reasoning_details"] | None = None
    reasoning_option: Literal[
        "reasoning_effort", "reasoning_object", "thinking", "thinking_and_effort", "none"
    ] = "reasoning_effort"
    effort_models: tuple[str, ...] = ()
    strong_efforts: tuple[tuple[str, tuple[Literal["xhigh", "max"], ...]], ...] = ()
    response_format: Literal["json_schema", "without_tools", "output_tool", "json_object", "none"] = (
        "json_schema"
    )
    schema_dialect: Literal["full", "no_refs"] = "full"
    cache_key: Literal["prompt_cache_key", "session_id"] | None = None
    cache_markers: tuple[str, ...] = ()
    think_tags: bool = True
    starts_inside: bool = False
    reasoning_read: tuple[str, ...] = ("reasoning_content", "reasoning")
    error_finishes: tuple[str, ...] = ("error",)

    def __post_init__(self) -> None:
        check_rows(self.strong_efforts)


class Profile(Struct, frozen=True, kw_only=True):
    """One host. `base_url` None: the caller must say. `key_variables` are environment variables for the key,
    the first that is set counts; `needs_key` False lets a host be used without one.

    `quirks` are those of the wire `openai_chat`; `wire_quirks` those of another wire, None for its defaults.
    `routing` says that the host takes OpenRouter's routing options. `counts_tokens` names how the host counts
    tokens beside its wire. `model_wires` are regular expressions for names of models that speak another wire
    of the host, with the same key header; the first that is found in a name counts, and none does where the
    caller said anything that belongs to a wire. Key, headers and quirks can each be changed by the caller.
    """

    name: str
    """What `provider=` finds it by."""
    base_url: str | None
    wire: WireName = "openai_chat"
    auth: AuthHeader = AuthHeader()
    """The header that carries the key, and what stands before it."""
    key_variables: tuple[str, ...] = ()
    needs_key: bool = True
    headers: tuple[tuple[str, str], ...] = ()
    """Sent with every request; those of the caller win."""
    default_model: str | None = None
    """Asked for when nothing names one; None: the caller must."""
    quirks: ChatQuirks = ChatQuirks()
    wire_quirks: Struct | None = None
    routing: bool = False
    counts_tokens: Literal["llamacpp"] | None = None
    model_wires: tuple[tuple[str, WireName], ...] = ()


def list_profiles() -> tuple[Profile, ...]:
    """All profiles, sorted by name."""
    return tuple(sorted(_rows().values(), key=lambda profile: profile.name))


def get_profile(name: str) -> Profile:
    """The profile called `name`. Raises `UnknownNameError` with the near names."""
    rows = _rows()
    try:
        return rows[name]
    except KeyError:
        raise UnknownNameError("provider profile", name, rows) from None


def _rows() -> dict[str, Profile]:
    from hermes_providers.profile_rows import PROFILES  # the rows are made of the types above

    return PROFILES
