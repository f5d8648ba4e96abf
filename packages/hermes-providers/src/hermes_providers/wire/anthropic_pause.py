"""Going on with an answer that the host paused.

"Server tools: the server-side loop and pause_turn" (platform.claude.com/docs/en/agents-and-tools/tool-use):
the host pauses a long turn of its own tools and says `pause_turn`; the same request with the blocks so far as
an assistant message behind its messages lets it go on. A container in which its code ran is named there too.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from hermes_providers.streaming.json_bytes import dump
from hermes_providers.wire.anthropic_replay import sent_blocks

__all__ = ["MAX_PAUSES", "continued"]

MAX_PAUSES = 20
"""How often one answer is let go on."""

_END = b"]}"


def continued(body: bytes, blocks: Sequence[Raw], container: str | None) -> bytes | None:
    """`body`, whose messages stand last, with `blocks` behind them; None when none of them can be sent."""
    sent = sent_blocks(blocks)
    if not sent:
        return None
    message = dump({"role": "assistant", "content": sent})
    body = b"".join((body.removesuffix(_END), b",", message, _END))
    if container is None or "container" in msgspec.json.decode(body, type=dict[str, Raw]):
        return body
    return b'{"container":' + dump(container) + b"," + body[1:]
