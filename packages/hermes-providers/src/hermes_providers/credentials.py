"""Keys, headers and addresses, checked when a provider is built and never shown again."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from hermes_messages import ConfigurationError, ProviderError
from hermes_messages.addresses import shown_url
from hermes_providers.profiles import Profile

__all__ = [
    "Secret",
    "check_base_url",
    "check_header",
    "check_key",
    "find_key",
    "join_url",
    "mask",
    "mask_error",
    "query_secrets",
]

_MAX_LABEL = 63  # RFC 1035 section 2.3.4
_MASK = "***"
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # token, RFC 9110 section 5.6.2
_OF_THE_TRANSPORT = frozenset(
    {"connection", "content-length", "expect", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")
_SECRET_FIELD = re.compile(r"key|token|secret|sig|pass|auth|code|cred", re.IGNORECASE)
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
    if not isinstance(key, str):
        raise ConfigurationError(
            f"the API key from {source} is {type(key).__name__}, not str; nothing was sent"
        )
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


def check_header(name: str, value: str) -> str:
    """`value` without the white space around it. Raises `ConfigurationError` for a header that HTTP can not
    carry, or that only the transport may set; the value is not in the error."""
    value = value.strip(" \t")
    if not _HEADER_NAME.fullmatch(name):
        # A whole line given as a name holds its value, so only what could be a name is told.
        start = _HEADER_NAME.match(name)
        told = f"what begins with {start.group()!r}" if start and start.end() < len(name) else "such a word"
        raise ConfigurationError(f"{told} is no HTTP header name; give names and values apart")
    if not _HEADER_VALUE.fullmatch(value):
        raise ConfigurationError(f"the value of header {name!r} holds a line break or a non-ASCII character")
    if name.lower() in _OF_THE_TRANSPORT:
        raise ConfigurationError(
            f"the header {name!r} says how a request is framed: that is the transport's own"
        )
    return value


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
            f"the base URL {shown_url(trimmed)!r} is no http or https address; write it like https://host.example/v1"
        )
    labels = parts.hostname.removesuffix(".").split(".")
    if ":" not in parts.hostname and not all(0 < len(label) <= _MAX_LABEL for label in labels):
        raise ConfigurationError("the host's name in the base URL has a part that is empty or too long")
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), parts.query, ""))


def join_url(base_url: str, path: str) -> str:
    """`path` appended to the path of `base_url`, whose query stays at the end."""
    parts = urlsplit(base_url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path + path, parts.query, ""))


def query_secrets(url: str) -> tuple[str, ...]:
    """What the query of an address holds that must not be shown: some gateways take their key there."""
    if "?" not in url:
        return ()
    return tuple(value for name, value in parse_qsl(urlsplit(url).query) if _SECRET_FIELD.search(name))


def mask_error(error: ProviderError, secrets: Iterable[str]) -> None:
    """Let an error say nothing secret, and be no longer chained to ones that do: what a peer sent in place of
    HTTP is quoted in them."""
    hidden = tuple(secrets)
    error.args = tuple(mask(part, hidden) if isinstance(part, str) else part for part in error.args)
    if any(mask(text := str(cause), hidden) != text for cause in _causes(error)):
        error.__cause__ = error.__context__ = None


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = [error]
    for link in seen:
        for cause in (link.__cause__, link.__context__):
            if cause is not None and cause not in seen:
                seen.append(cause)
                yield cause


def mask(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` with `secrets`, and whatever looks like a key, replaced."""
    for secret in secrets:
        if len(secret) >= 4:  # shorter ones would riddle the text and protect nothing
            text = text.replace(secret, _MASK)
    return _LIKE_A_KEY.sub(_MASK, text)
