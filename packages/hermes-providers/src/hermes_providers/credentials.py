"""Keys, headers and addresses, checked when a provider is built and never shown again."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit, urlunsplit

from hermes_messages import ConfigurationError
from hermes_providers.profiles import Profile

__all__ = ["Secret", "check_base_url", "check_header", "check_key", "find_key", "join_url", "mask"]

_MASK = "***"
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # token, RFC 9110 section 5.6.2
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")
_LIKE_A_KEY = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|nvapi|csk|fw|r8|pplx)[-_][A-Za-z0-9_\-]{8,}"
    r"|\bAIza[A-Za-z0-9_\-]{20,}"
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/=\-]{8,}"
    r"|(?<=[?&]key=)[^&\s\"']+"
)


class Secret:
    """A key that no repr, log line or error shows. `reveal` is for the one place that sends it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The key itself."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({_MASK!r})"

    __str__ = __repr__

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        raise TypeError("a secret is not to be pickled")


def check_key(key: str, *, source: str) -> Secret:
    """`key` without the white space around it. Raises `ConfigurationError` for one that no header can carry.

    `source` says where it came from; the key itself is never part of the error.
    """
    trimmed = key.strip().removeprefix("\ufeff")
    if not trimmed:
        raise ConfigurationError(f"the API key from {source} is empty; nothing was sent")
    for position, character in enumerate(trimmed):
        if not "\x21" <= character <= "\x7e":
            what = "white space" if character.isspace() else f"the character U+{ord(character):04X}"
            raise ConfigurationError(
                f"the API key from {source} has {what} at position {position}; copy it again as one word "
                "(nothing was sent)"
            )
    return Secret(trimmed)


def find_key(
    profile: Profile, given: str | None, environment: Mapping[str, str] | None = None
) -> Secret | None:
    """The key for a profile: the one given, else from its environment variables, else None.

    Raises `ConfigurationError` when the host needs one and there is none, or when it is malformed.
    """
    if given is not None:
        return check_key(given, source="api_key")
    variables = os.environ if environment is None else environment
    for name in profile.key_variables:
        value = variables.get(name, "")
        if value.strip():
            return check_key(value, source=name)
    if profile.needs_key:
        names = " or ".join(profile.key_variables)
        raise ConfigurationError(
            f"provider {profile.name!r} needs an API key: set {names}, or pass api_key=..."
        )
    return None


def check_header(name: str, value: str) -> None:
    """Raises `ConfigurationError` for a header that HTTP can not carry; its value is not in the error."""
    if not _HEADER_NAME.fullmatch(name):
        raise ConfigurationError(f"{name!r} is no HTTP header name")
    if not _HEADER_VALUE.fullmatch(value):
        raise ConfigurationError(f"the value of header {name!r} holds a line break or a non-ASCII character")


def check_base_url(url: str) -> str:
    """`url` without a trailing slash. Raises `ConfigurationError` when it is no http(s) address."""
    trimmed = url.strip()
    if any(character.isspace() or not character.isprintable() for character in trimmed):
        raise ConfigurationError("the base URL has white space or a control character inside")
    try:
        parts = urlsplit(trimmed)
        port = parts.port
    except ValueError as error:
        raise ConfigurationError(f"the base URL can not be read: {error}") from None
    if "@" in parts.netloc:
        raise ConfigurationError(
            "the base URL holds a user name or password; pass api_key or headers instead"
        )
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        raise ConfigurationError(
            f"the base URL {trimmed!r} is no http or https address; write it like https://host.example/v1"
        )
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), parts.query, ""))


def join_url(base_url: str, path: str) -> str:
    """`path` appended to the path of `base_url`, whose query stays at the end."""
    parts = urlsplit(base_url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path + path, parts.query, ""))


def mask(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` with `secrets`, and whatever looks like a key, replaced."""
    for secret in secrets:
        if len(secret) >= 4:  # shorter ones would riddle the text and protect nothing
            text = text.replace(secret, _MASK)
    return _LIKE_A_KEY.sub(_MASK, text)
