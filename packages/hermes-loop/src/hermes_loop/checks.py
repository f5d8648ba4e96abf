"""Whether what a host gives is of the kind that it must be, told before anything happens. Pure."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType, MethodType
from typing import Final, cast

import msgspec

from hermes_messages import ConfigurationError, TextPart, UserMessage
from hermes_messages.protocols import Provider

__all__ = [
    "check_agent_arguments",
    "check_callback",
    "check_json_object",
    "check_members",
    "check_provider",
    "check_text",
    "check_user_message",
]


def check_text(name: str, value: object, *, filled: bool = False) -> None:
    """None or text; with `filled` not blank. The value is in no error: it may be a key."""
    if value is not None and not isinstance(value, str):
        raise ConfigurationError(f"{name} must be text, not {type(value).__name__}")
    if filled and value is not None and not value.strip():
        raise ConfigurationError(f"{name} must not be empty")


def check_callback(name: str, value: object) -> None:
    """None or something that can be called."""
    if value is not None and not callable(value):
        raise ConfigurationError(f"{name} must be a function, not {type(value).__name__}")


def check_members(what: str, value: object, members: tuple[str, ...]) -> None:
    """An object that offers `members`. `what` is how the error names it (`tools=`)."""
    missing = [name for name in members if not hasattr(value, name)]
    if missing:
        raise ConfigurationError(
            f"{what} got {type(value).__name__}, which has no {', '.join(missing)}; "
            "see hermes_messages.protocols for what it must offer"
        )


def check_provider(what: str, value: object) -> Provider:
    """`value`, if it offers what a `Provider` must."""
    check_members(what, value, ("open", "stream", "close", "origin", "model_info"))
    provider = cast("Provider", value)
    if _is_no_async_generator(provider.stream):
        raise ConfigurationError(f"{what} has a stream() that is no async generator function")
    return provider


def _is_no_async_generator(given: object) -> bool:
    """Whether it is surely none: an async function, or a generator. What is written in Python says so itself;
    `inspect` also looks into partial functions and the like, and takes long."""
    function = given.__func__ if isinstance(given, MethodType) else given
    if isinstance(function, FunctionType):
        return bool(function.__code__.co_flags & (inspect.CO_COROUTINE | inspect.CO_GENERATOR))
    return inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function)


def check_user_message(message: object) -> None:
    """A message that says something."""
    if not isinstance(message, UserMessage):
        raise ConfigurationError(
            f"the user message must be text or a UserMessage, not {type(message).__name__}"
        )
    content: object = message.content
    if not isinstance(content, str | tuple):
        raise ConfigurationError(
            f"the content of the user message must be text or a tuple of parts, not {type(content).__name__}"
        )
    if isinstance(content, str):
        is_empty = not content.strip()
    else:
        is_empty = all(isinstance(part, TextPart) and not part.text.strip() for part in content)
    if is_empty:
        raise ConfigurationError("the user message is empty")


def _check_path(name: str, value: object) -> None:
    if value is not None and not isinstance(value, str | os.PathLike):
        raise ConfigurationError(f"{name} must be a path, not {type(value).__name__}")


def _check_names(name: str, value: object) -> None:
    if value is None:
        return
    if isinstance(value, str):
        raise ConfigurationError(f"{name} must be a list of names: write [{value!r}]")
    if not isinstance(value, Iterable) or not all(isinstance(item, str) for item in value):
        raise ConfigurationError(f"{name} must be a list of names, not {value!r}")


def _check_mapping(name: str, value: object) -> None:
    if value is not None and not isinstance(value, Mapping):
        raise ConfigurationError(f"{name} must be a dict, not {type(value).__name__}")


def check_json_object(name: str, value: object) -> None:
    """None or a dict that JSON can hold."""
    _check_mapping(name, value)
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{name} must be JSON: {error}") from None


def _check_number(name: str, value: object) -> None:
    if value is not None and (
        not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value)
    ):
        raise ConfigurationError(f"{name} must be a number, not {value!r}")


def _check_seconds(name: str, value: object) -> None:
    _check_number(name, value)
    if not isinstance(value, int | float) or value <= 0:
        raise ConfigurationError(f"{name} must be a number of seconds above 0, not {value!r}")


def _check_whole(name: str, value: object) -> None:
    if value is not None and type(value) is not int:
        raise ConfigurationError(f"{name} must be a whole number, not {value!r}")


def _check_filled(name: str, value: object) -> None:
    check_text(name, value, filled=True)


def _check_listed(name: str, value: object) -> None:
    if isinstance(value, str | bytes | Mapping):
        raise ConfigurationError(f"{name} must be a list, not {type(value).__name__}")


_CHECKS: Final[Mapping[str, Callable[[str, object], None]]] = {
    "model": _check_filled,
    "tools": _check_listed,
    "base_url": check_text,
    "api_key": check_text,
    "enabled_toolsets": _check_names,
    "disabled_toolsets": _check_names,
    "session_id": _check_filled,
    "save_trajectories": _check_path,
    "ephemeral_system_prompt": check_text,
    "system_prompt": check_text,
    "identity": check_text,
    "prefill_messages": _check_listed,
    "temperature": _check_number,
    "seed": _check_whole,
    "reasoning_config": _check_mapping,
    "request_overrides": _check_mapping,
    "cwd": _check_path,
    "context_files": _check_names,
    "provider_settings": _check_mapping,
    "tool_settings": _check_mapping,
    "mcp_servers": _check_mapping,
    "approval_policy": _check_mapping,
    "source": _check_filled,
    "session_metadata": check_json_object,
    "parent_session_id": _check_filled,
    "lease_ttl_s": _check_seconds,
    "stream_delta_callback": check_callback,
    "reasoning_callback": check_callback,
    "tool_start_callback": check_callback,
    "tool_progress_callback": check_callback,
    "tool_complete_callback": check_callback,
    "step_callback": check_callback,
    "status_callback": check_callback,
    "clarify_callback": check_callback,
    "approval_callback": check_callback,
    "event_callback": check_callback,
}


_NEVER_NONE: Final = frozenset({"lease_ttl_s", "source"})


def check_agent_arguments(given: Mapping[str, object]) -> None:
    """The arguments of `AIAgent`, by name, each for itself. Raises `ConfigurationError`."""
    for name in _NEVER_NONE:
        if given[name] is None:
            _CHECKS[name](name, None)
    for name, check in _CHECKS.items():
        value = given[name]
        if value is None:
            continue
        if not isinstance(value, bool) or check is check_callback:
            check(name, value)
        elif name != "save_trajectories":
            raise ConfigurationError(f"{name} must not be {value!r}")
