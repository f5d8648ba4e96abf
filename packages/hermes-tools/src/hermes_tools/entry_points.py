"""What the entry point `default` of the group `hermes.executors` names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes_messages.protocols import ExecutorFactory, ExecutorOptions, ToolExecutor

__all__ = ["build_executor"]


def build_executor(toolsets: Sequence[str], options: ExecutorOptions) -> ToolExecutor:
    """An executor of the named toolsets, less `options.disabled_toolsets`, and of `options.own_tools`.

    Settings are those of `hermes_tools.settings.ExecutorSettings`, and `mcp_servers`, a mapping as
    `hermes_tools.mcp.read_servers` takes it; a toolset may have a setting of its own under its name. Raises
    `UnknownNameError` for a toolset or setting that does not exist, `ToolDeclarationError` for an own tool
    that can not be run, and `ConfigurationError` for two tools of one name.
    """
    from hermes_tools.executor import Executor
    from hermes_tools.mcp import McpToolset, read_servers, server_secrets
    from hermes_tools.settings import ExecutorSettings
    from hermes_tools.toolsets import SupportsSettings, load_toolsets

    given = dict(options.settings)
    servers = read_servers(given.pop("mcp_servers", None))
    groups = ExecutorSettings.from_mapping(
        {name: value for name, value in given.items() if name == "toolset_groups"}
    ).toolset_groups
    loaded = load_toolsets(toolsets, options.disabled_toolsets, groups)
    for toolset in loaded:
        if isinstance(toolset, SupportsSettings) and toolset.name in given:
            toolset.configure(given.pop(toolset.name))
    settings = ExecutorSettings.from_mapping(given)
    if servers:
        loaded.append(McpToolset(servers))
    secrets = (*options.secrets, *server_secrets(servers))
    return Executor(loaded, options.own_tools, settings=settings, secrets=secrets)


if TYPE_CHECKING:
    _fits: ExecutorFactory = build_executor
