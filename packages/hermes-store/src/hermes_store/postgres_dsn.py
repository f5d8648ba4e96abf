"""The address of a PostgreSQL database, with its secrets kept out of sight."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NoReturn

from hermes_messages import ConfigurationError

__all__ = ["Dsn", "is_dsn"]

_SCHEMES = ("postgresql://", "postgres://")
_SECRETS = ("password", "sslpassword", "scram_client_key", "scram_server_key", "oauth_client_secret")
_MASK = "***"
_SILENCE = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
"""A server whose machine is gone is given up after a minute, where the system would wait for up to two hours.
https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-KEEPALIVES"""


def is_dsn(target: str) -> bool:
    """Whether `target` names a PostgreSQL database; anything else is a path."""
    return target.lower().startswith(_SCHEMES)


class Dsn:
    """What to connect to. Only `reveal` gives the secrets; `name`, `repr` and `mask` never do."""

    __slots__ = ("_secrets", "_text", "name", "silence")

    def __init__(self, text: str) -> None:
        """Read `text`, without any I/O. Raises `ConfigurationError`, which does not quote it."""
        scheme, _, rest = text.partition("://")
        parse = _parser()
        try:
            parts = parse(f"{scheme.lower()}://{rest}")
        except Exception:  # noqa: BLE001 - the driver's text may quote the password: it must not be chained
            parts = None
        if parts is None:
            raise ConfigurationError(
                "the address of the session database is no PostgreSQL address (it is not shown here, since "
                "it may hold a password). Write postgresql://user:password@host:port/database, with percent "
                "codes for characters such as @ : / % in the password"
            )
        self._text = f"{scheme.lower()}://{rest}"
        self._secrets = tuple(str(parts[key]) for key in _SECRETS if parts.get(key))
        self.silence: dict[str, int] = {name: value for name, value in _SILENCE.items() if name not in parts}
        """Settings for a server that says nothing any more, but for those that the address has itself."""
        self.name: str = _name(parts)
        """The address without secrets, for messages."""

    def reveal(self) -> str:
        """The address as the driver wants it, password included."""
        return self._text

    def mask(self, text: str) -> str:
        """`text` with every secret of this address replaced."""
        for secret in (*self._secrets, *self._quoted_secrets()):
            text = text.replace(secret, _MASK)
        return text

    def __repr__(self) -> str:
        return f"Dsn({self.name!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an address is not pickled: the copy would hold its password")

    def _quoted_secrets(self) -> tuple[str, ...]:
        """The password as it stands in the address, where percent codes differ from what it means."""
        found = re.match(r"[a-z]+://[^/?#@:]*:([^@]*)@", self._text)
        return (found[1],) if found and found[1] else ()


def _name(parts: Mapping[str, object]) -> str:
    user = f"{parts['user']}@" if parts.get("user") else ""
    host = str(parts.get("host") or parts.get("hostaddr") or "")
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"postgresql://{user}{host}{port}/{parts.get('dbname') or ''}"


def _parser() -> Callable[[str], Mapping[str, object]]:
    try:
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as error:
        raise ConfigurationError(
            "a PostgreSQL session database needs psycopg 3: pip install 'hermes-store[postgres]'"
        ) from error
    return conninfo_to_dict
