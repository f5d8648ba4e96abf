"""One immutable row per host: where it is, how a key is shown to it, and its quirks as data.

A new host is a new row; nothing in the flow compares provider names.

>>> from hermes_providers import list_profiles
>>> [profile.name for profile in list_profiles()]
['custom', 'llamacpp', 'openai', 'openrouter']
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from hermes_messages import UnknownNameError

__all__ = ["AuthHeader", "CallIdRule", "ChatQuirks", "Profile", "get_profile", "list_profiles"]

WireName = Literal["openai_chat"]
"""The wire formats that exist so far."""


class AuthHeader(Struct, frozen=True):
    """How a key is shown: the header `name` with the value `prefix` + key."""

    name: str = "Authorization"
    prefix: str = "Bearer "


class CallIdRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tool-call ids a host takes. Others are mapped, the same way on a call and on its result.

    `max_length` counts characters; None is no limit. `allowed` is a regular expression for one character.
    """

    max_length: int | None = None
    allowed: str | None = None


class ChatQuirks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one chat-completions host wants to be different. The defaults suit most hosts.

    Request side: `path` is appended to the base URL. `empty_content` is what stands for the content of an
    assistant message that has only calls. `tool_content_list` says that a tool message may hold images;
    otherwise they move into a user message behind the results. `merge_user_turns` joins user messages that
    follow each other. `names` sends the `name` of user messages. `json_arguments` makes the argument text
    of old calls valid JSON where it is not, because the host (or its chat template) parses it.
    `reasoning_echo` names the field in which old reasoning text goes back; `replay_field` the one for the
    host's own reasoning blocks. `reasoning_option` says how an effort is asked for. `response_format` says
    whether a schema can be asked for: always, only in a request without tools, or never.
    `cache_key` names the field for the session id.

    Response side: `reasoning_read` are the fields that may hold reasoning text; the first that is present
    in a chunk counts.
    """

    path: str = "/chat/completions"
    system_role: Literal["system", "developer"] = "system"
    max_tokens_key: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_usage: bool = True
    empty_content: Literal["null", "empty_string", "omit"] = "null"
    tool_content_list: bool = False
    merge_user_turns: bool = False
    names: bool = False
    json_arguments: bool = True
    parallel_option: bool = True
    seed_option: bool = True
    call_ids: CallIdRule = CallIdRule()
    reasoning_echo: Literal["reasoning_content", "reasoning"] | None = None
    replay_field: Literal["reasoning_details"] | None = None
    reasoning_option: Literal["reasoning_effort", "reasoning_object", "none"] = "reasoning_effort"
    response_format: Literal["json_schema", "without_tools", "none"] = "json_schema"
    cache_key: Literal["prompt_cache_key"] | None = None
    reasoning_read: tuple[str, ...] = ("reasoning_content", "reasoning")


class Profile(Struct, frozen=True, kw_only=True):
    """One host. `base_url` None: the caller must say. `key_variables` are environment variables for the key,
    the first that is set counts; `needs_key` False lets a host be used without one."""

    name: str
    base_url: str | None
    wire: WireName = "openai_chat"
    auth: AuthHeader = AuthHeader()
    key_variables: tuple[str, ...] = ()
    needs_key: bool = True
    headers: tuple[tuple[str, str], ...] = ()
    default_model: str | None = None
    quirks: ChatQuirks = ChatQuirks()


_PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            name="custom",
            base_url=None,
            # A key of another host must not reach this one, so no well-known variable is read.
            key_variables=("HERMES_CUSTOM_API_KEY",),
            needs_key=False,
            # Chat templates of open models often demand strict alternation of roles.
            quirks=ChatQuirks(merge_user_turns=True, response_format="without_tools"),
        ),
        Profile(
            name="llamacpp",
            base_url="http://127.0.0.1:8080/v1",
            needs_key=False,
            quirks=ChatQuirks(
                merge_user_turns=True,
                # The server puts a missing content into its templates as the word "None" in some versions.
                empty_content="empty_string",
                # One grammar for tools and schema at once keeps the model from calling tools.
                response_format="without_tools",
                reasoning_option="none",
                # https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md
                reasoning_read=("reasoning_content",),
            ),
        ),
        Profile(
            name="openai",
            base_url="https://api.openai.com/v1",
            key_variables=("OPENAI_API_KEY",),
            default_model="gpt-4.1-mini",
            quirks=ChatQuirks(
                # https://platform.openai.com/docs/api-reference/chat/create: max_tokens is deprecated, and
                # refused by reasoning models.
                max_tokens_key="max_completion_tokens",
                names=True,
                json_arguments=False,
                # "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum
                # length 40, but got a string with length 53 instead."
                call_ids=CallIdRule(max_length=40),
                cache_key="prompt_cache_key",
            ),
        ),
        Profile(
            name="openrouter",
            base_url="https://openrouter.ai/api/v1",
            key_variables=("OPENROUTER_API_KEY",),
            default_model="openai/gpt-4.1-mini",
            quirks=ChatQuirks(
                # https://openrouter.ai/docs/use-cases/reasoning-tokens: blocks go back unchanged, in order.
                replay_field="reasoning_details",
                reasoning_option="reasoning_object",
                reasoning_read=("reasoning", "reasoning_content"),
            ),
        ),
    )
}


def list_profiles() -> tuple[Profile, ...]:
    """All profiles, sorted by name."""
    return tuple(_PROFILES[name] for name in sorted(_PROFILES))


def get_profile(name: str) -> Profile:
    """The profile called `name`. Raises `UnknownNameError` with the near names."""
    try:
        return _PROFILES[name]
    except KeyError:
        raise UnknownNameError("provider profile", name, _PROFILES) from None
