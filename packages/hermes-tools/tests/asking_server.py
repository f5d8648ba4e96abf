"""A server of the official SDK that asks the user, in the way of its first argument: `new` or `old`.

    python asking_server.py new|old

The protocol of 2026 answers a call with what it wants to know, and is called again; older ones ask meanwhile.
"""

from __future__ import annotations

import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from pydantic import BaseModel

server = MCPServer("asking")


class Count(BaseModel):
    n: int


async def old(context: Context) -> str:
    """Order something."""
    answer = await context.elicit("How many?", schema=Count)
    return f"{answer.action}: {getattr(answer, 'data', None)}"


async def new(context: Context) -> str | InputRequiredResult:
    """Order something."""
    if context.input_responses is None:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        question = ElicitRequest(params=ElicitRequestFormParams(message="How many?", requested_schema=schema))
        return InputRequiredResult(input_requests={"count": question}, request_state="as it was")
    answer = context.input_responses["count"]
    return f"{answer.model_dump(exclude_none=True)} {context.request_state}"


if __name__ == "__main__":
    server.add_tool({"old": old, "new": new}[sys.argv[1]], name="order")
    server.run("stdio")
