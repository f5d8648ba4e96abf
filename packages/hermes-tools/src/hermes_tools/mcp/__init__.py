"""Tools of MCP servers (extra `mcp`): started when they are first needed, one owner task for each.

Servers are named in the setting `mcp_servers` of an executor; see `read_servers` for what may stand there.
"""

from __future__ import annotations

from hermes_tools.mcp.budget import ReconnectLimits
from hermes_tools.mcp.config import (
    HttpServer,
    ProtocolChoice,
    Server,
    StdioServer,
    ToolFilter,
    read_servers,
    server_secrets,
)
from hermes_tools.mcp.toolset import McpToolset

__all__ = [
    "HttpServer",
    "McpToolset",
    "ProtocolChoice",
    "ReconnectLimits",
    "Server",
    "StdioServer",
    "ToolFilter",
    "read_servers",
    "server_secrets",
]
