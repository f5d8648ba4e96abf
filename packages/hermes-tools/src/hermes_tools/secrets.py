"""Credentials: which environment variables hold one, and how their values are hidden in text. Pure, but
for `own_secrets`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

__all__ = [
    "COMMAND_VARIABLES",
    "MASK",
    "SecretMasker",
    "is_secret_name",
    "own_secrets",
    "scrubbed_environment",
    "secret_values",
]

MASK = "[hidden]"
COMMAND_VARIABLES: Final = {
    "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"
}  # fmt: skip
"""What every command sees: no pager, and no question about a credential, waits for a key."""
_SHORTEST = 8
_WORDS = (
    "KEY|KEYS|APIKEY|TOKEN|TOKENS|SECRET|SECRETS|PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|CREDENTIAL|CREDENTIALS"
    "|AUTH|AUTHORIZATION|BEARER|COOKIE|COOKIES|CONNECTION_STRING|DSN|JWT|PAT|WEBHOOK_URL"
)
_SECRET_NAME = re.compile(
    rf"(?:^|[_.-])(?:{_WORDS})\d*(?:$|[_.-])|(?:KEY|TOKENS?|SECRET|PASSWORD|PASSWD|PWD)$", re.IGNORECASE
)
_PLAIN_NAMES = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY"})
_ADDRESS_WITH_PASSWORD = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]*://[^/\s:@]*:([^/\s@]+)@")


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether a variable of this name is taken to hold a credential (`OPENAI_API_KEY`, `GH_TOKEN`)."""
    return name not in _PLAIN_NAMES and _SECRET_NAME.search(name) is not None


def scrubbed_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` without credentials: neither by name, nor as an address with a password in it."""
    return {
        name: value
        for name, value in environment.items()
        if not is_secret_name(name) and not _ADDRESS_WITH_PASSWORD.match(value)
    }


def secret_values(environment: Mapping[str, str]) -> frozenset[str]:
    """The credentials in `environment` that are long enough to be told from ordinary words."""
    found = set()
    for name, value in environment.items():
        address = _ADDRESS_WITH_PASSWORD.match(value) if "://" in value else None
        if address:
            found.add(address.group(1))
        if is_secret_name(name):
            found.add(value)
    return frozenset(value for value in found if len(value) >= _SHORTEST)


class _OwnSecrets:
    """The credentials in the environment of this process, and what it held when they were looked for."""

    def __init__(self) -> None:
        self._held: object = None
        self._secrets: frozenset[str] = frozenset()

    def now(self) -> frozenset[str]:
        # The dict below `os.environ` is compared in one step. All that is public (`copy`, `==`, `items`)
        # decodes each variable, which takes as long as looking at each; that is done where there is no such
        # dict.
        try:
            holds = vars(os.environ)["_data"]
        except (TypeError, KeyError):
            return secret_values(os.environ)
        if holds != self._held:
            self._held, self._secrets = dict(holds), secret_values(os.environ)
        return self._secrets


own_secrets: Final = _OwnSecrets().now
"""`secret_values` of this process's environment, looked for anew where it changed."""


class SecretMasker:
    """Replaces known credentials in text, and those that it learns later. Its repr does not show them."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._told: frozenset[str] = frozenset()
        self._known: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self.longest: int = 0
        self.learn(secrets)

    def learn(self, secrets: Iterable[str]) -> None:
        """Hide these as well from now on; one that was known once stays hidden."""
        told = frozenset(secrets) - self._told
        if not told:  # as in all rounds but the first
            return
        self._told |= told
        new = {secret for secret in told if len(secret) >= _SHORTEST}
        if new:
            self._known |= new
            longest_first = sorted(self._known, key=lambda secret: (-len(secret), secret))
            self._pattern = re.compile("|".join(re.escape(secret) for secret in longest_first))
            self.longest = len(longest_first[0])

    def __repr__(self) -> str:
        return "SecretMasker(...)"

    def mask(self, text: str) -> str:
        """`text` with every known credential replaced by `[hidden]`."""
        return text if self._pattern is None else self._pattern.sub(MASK, text)

    def mask_stream(self, text: str) -> tuple[str, str]:
        """`text` masked up to where a credential might go on in text still to come, and the rest unmasked.

        Give the rest back in front of the next text; at the end pass it to `mask`.
        """
        if self._pattern is None:
            return text, ""
        safe_end = max(0, len(text) - self.longest + 1)
        for match in self._pattern.finditer(text):
            if match.start() < safe_end < match.end():
                safe_end = match.end()
        return self.mask(text[:safe_end]), text[safe_end:]
