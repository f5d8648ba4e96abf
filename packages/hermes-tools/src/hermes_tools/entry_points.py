"""What the entry point `default` of the group `hermes.executors` names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes_messages import JsonValue
from hermes_messages.protocols import ExecutorFactory, ExecutorOptions, ToolExecutor, Toolset

__all__ = ["build_executor"]


def build_executor(toolsets: Sequence[str], options: ExecutorOptions) -> ToolExecutor:
    """An executor of the named toolsets, less `options.disabled_toolsets`, and of `options.own_tools`.

    Settings are those of `hermes_tools.settings.ExecutorSettings`, and `mcp_servers`, a mapping as
    `hermes_tools.mcp.read_servers` takes it; a toolset may have a setting of its own under its name. Raises
    `UnknownNameError` for a toolset or setting that does not exist, `ToolDeclarationError` for an own tool
    that can not be run, and `ConfigurationError` for two tools of one name.
    """
    from hermes_messages.abilities import supports
    from hermes_tools.executor import Executor
    from hermes_tools.settings import ExecutorSettings
    from hermes_tools.toolsets import SupportsSettings, load_toolsets

    given = dict(options.settings)
    mcp = _mcp_of(given.pop("mcp_servers", None))
    groups = {name: given[name] for name in ("toolset_groups",) if name in given}
    of_the_host = ExecutorSettings.from_mapping(groups).toolset_groups if groups else {}
    loaded = load_toolsets(toolsets, options.disabled_toolsets, of_the_host)
    for toolset in loaded:
        name = toolset.name
        if name in given and supports(toolset, SupportsSettings):
            toolset.configure(given.pop(name))
    settings = ExecutorSettings.from_mapping(given) if given else None
    secrets = options.secrets
    if mcp is not None:
        toolset, further = mcp
        loaded.append(toolset)
        secrets = (*secrets, *further)
    return Executor(loaded, options.own_tools, settings=settings, secrets=secrets)


def _mcp_of(servers: JsonValue) -> tuple[Toolset, tuple[str, ...]] | None:
    """The toolset of the MCP servers that a setting names, and the credentials in it; None without any."""
    if servers is None:
        return None
    from hermes_tools.mcp import McpToolset, read_servers, server_secrets

    known = read_servers(servers)
    return (McpToolset(known), server_secrets(known)) if known else None


if TYPE_CHECKING:
    _fits: ExecutorFactory = build_executor
