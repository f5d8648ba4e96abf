"""What a host says of an MCP server: read from a mapping, checked, its credentials named. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

import msgspec

from hermes_messages import ConfigurationError, JsonValue, UnknownNameError
from hermes_tools.secrets import is_secret_name, secret_values

__all__ = ["HttpServer", "Server", "StdioServer", "ToolFilter", "read_servers", "server_secrets"]

_NAME = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]|_(?!_)){0,31}")
_PLAIN_VALUE = re.compile(
    r"[~./][^\s]*"  # a path
    r"|[a-z]+://[^@?\s]*"  # an address without a password or a query
    r"|[a-z]{2}_[A-Z]{2}(?:\.[\w-]+)?|C\.UTF-8"  # a locale
    r"|[a-z]+|[0-9.]+|(?:[A-Z][a-z]+/)+[A-Z][A-Za-z_]+"  # a word, a number, a time zone
)
_SECRET_OPTION = re.compile(r"--?([\w-]+)(?:=(.*))?", re.DOTALL)

ProtocolChoice = Literal["auto", "legacy"]
"""`auto`: the newest protocol that the server knows; `legacy`: those that begin with `initialize`."""


class ToolFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which tools of a server are offered, by the server's own names; without `include` all.

    `resources` adds two tools that list and read the server's resources, if it has any.
    """

    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    """Left out, even if `include` names them."""
    resources: bool = False

    def takes(self, name: str) -> bool:
        """Whether the tool of this name is offered."""
        return (self.include is None or name in self.include) and name not in self.exclude


class StdioServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server that is started as a process. Times are in seconds; the repr shows no values of `env`.

    `timeout` bounds one call, without the time that a person takes to answer the server's questions.
    `connect_timeout` bounds the start up to the end of the handshake. `protocol` "legacy" is for servers that
    ask the user in the old way although they know the newest protocol, which has none.
    """

    name: str
    """Stands before the names of its tools: `NAME__tool`."""
    command: str
    """The program, looked up in PATH; no shell reads it."""
    args: tuple[str, ...] = ()
    """One string for each argument."""
    env: Mapping[str, str] = {}
    cwd: str | None = None
    """Where it starts; None: where this process is."""
    timeout: float = 120.0
    connect_timeout: float = 30.0
    protocol: ProtocolChoice = "auto"
    tools: ToolFilter = ToolFilter()
    """Which of its tools are offered; by default all."""

    def __repr__(self) -> str:
        return f"StdioServer(name={self.name!r}, command={self.command!r}, env={sorted(self.env)})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [("name", self.name), ("command", self.command), ("env", sorted(self.env))]


class HttpServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server that is reached by streamable HTTP; see `StdioServer`. The repr shows no values of `headers`
    and of the address only the host."""

    name: str
    """Stands before the names of its tools: `NAME__tool`."""
    url: str
    """`https://...`, the endpoint itself."""
    headers: Mapping[str, str] = {}
    timeout: float = 120.0
    """Bounds one call, in seconds."""
    connect_timeout: float = 30.0
    """Bounds the way to the end of the handshake, in seconds."""
    protocol: ProtocolChoice = "auto"
    """As in `StdioServer`."""
    tools: ToolFilter = ToolFilter()
    """Which of its tools are offered; by default all."""

    def __repr__(self) -> str:
        return (
            f"HttpServer(name={self.name!r}, host={urlsplit(self.url).hostname!r}, "
            f"headers={sorted(self.headers)})"
        )

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [("name", self.name), ("host", urlsplit(self.url).hostname), ("headers", sorted(self.headers))]


Server = StdioServer | HttpServer
"""One MCP server: a program that is started, or an address."""


class _Given(msgspec.Struct, frozen=True, kw_only=True):
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = {}
    type: Literal["stdio", "http", "streamable-http", "streamable_http"] | None = None
    timeout: float = 120.0
    connect_timeout: float = 30.0
    protocol: ProtocolChoice = "auto"
    tools: tuple[str, ...] | ToolFilter = ToolFilter()
    enabled: bool = True


def read_servers(given: JsonValue) -> tuple[Server, ...]:
    """The servers of a mapping from their names, sorted by name; those with `enabled: false` are left out.

    A server is `{"command": ..., "args": [...], "env": {...}, "cwd": ...}` or `{"url": ..., "headers":
    {...}}`, both with `timeout`, `connect_timeout` (seconds), `protocol`, `enabled` and `tools`: a list of
    names, or `{"include": [...], "exclude": [...], "resources": true}`. Raises `ConfigurationError` with no
    value in it.
    """
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise ConfigurationError("mcp_servers must be a mapping from a server's name to its settings")
    servers = (_read_server(name, settings) for name, settings in sorted(given.items()))
    return tuple(server for server in servers if server is not None)


def _read_server(name: str, settings: JsonValue) -> Server | None:
    label = f"MCP server {name!r}"
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{label}: a name has 1 to 32 letters, digits, '-' and single '_', a letter first"
        )
    if not isinstance(settings, Mapping):
        raise ConfigurationError(f"{label}: its settings must be a mapping")
    for key in settings:
        if key not in _Given.__struct_fields__:
            raise UnknownNameError(f"setting of {label}", key, _Given.__struct_fields__)
    try:
        read = msgspec.convert(dict(settings), _Given)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{label}: {error}") from None
    if read.timeout <= 0 or read.connect_timeout <= 0:
        raise ConfigurationError(f"{label}: timeout and connect_timeout must be above 0")
    return _checked(name, label, read) if read.enabled else None


def _checked(name: str, label: str, read: _Given) -> Server:
    tools = read.tools if isinstance(read.tools, ToolFilter) else ToolFilter(include=read.tools)
    common: dict[str, Any] = {
        "name": name, "timeout": read.timeout, "connect_timeout": read.connect_timeout,
        "protocol": read.protocol, "tools": tools,
    }  # fmt: skip
    wants_http = read.type not in (None, "stdio")
    if (read.command is None) == (read.url is None) or wants_http != (read.url is not None and wants_http):
        raise ConfigurationError(f"{label}: give either a command to start or a url")
    if read.url is not None:
        parts = urlsplit(read.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(f"{label}: its url must begin with http:// or https:// and name a host")
        _refuse_line_ends(label, "a header", [*read.headers, *read.headers.values()])
        return HttpServer(url=read.url, headers=read.headers, **common)
    assert read.command is not None
    if not read.command.strip():
        raise ConfigurationError(f"{label}: its command is empty")
    if any("\0" in part for part in (read.command, *read.args, *read.env, *read.env.values())):
        raise ConfigurationError(f"{label}: a NUL stands in its command, args or env")
    return StdioServer(command=read.command, args=read.args, env=read.env, cwd=read.cwd, **common)


def _refuse_line_ends(label: str, what: str, texts: Iterable[str]) -> None:
    if any(sign in text for text in texts for sign in "\r\n\0"):
        raise ConfigurationError(f"{label}: a line end stands in {what}")


def server_secrets(servers: Iterable[Server]) -> tuple[str, ...]:
    """What must not be shown of `servers`: headers, values of `env` that are no plain word, number or path,
    options like `--token`, and passwords and queries in addresses."""
    found: set[str] = set()
    for server in servers:
        if isinstance(server, HttpServer):
            parts = urlsplit(server.url)
            found.update(value for _, value in parse_qsl(parts.query))
            found.update(filter(None, (parts.password, parts.username, parts.query)))
            for value in server.headers.values():
                found.update((value, value.rpartition(" ")[2]))
        else:
            found |= secret_values(server.env)
            found.update(value for value in server.env.values() if not _PLAIN_VALUE.fullmatch(value))
            found.update(_secret_arguments(server.args))
    return tuple(sorted(found - {""}))


def _secret_arguments(arguments: tuple[str, ...]) -> Iterable[str]:
    expected = False
    for argument in arguments:
        option = _SECRET_OPTION.fullmatch(argument)
        if expected and not argument.startswith("-"):
            yield argument
        expected = False
        if option is not None and is_secret_name(option[1].replace("-", "_")):
            if option[2] is not None:
                yield option[2]
            expected = option[2] is None
