"""The wire `openai_chat`: chat completions, streamed and plain."""

from __future__ import annotations

from functools import partial

from hermes_providers.profiles import ChatQuirks
from hermes_providers.wire.base import WireFormat, WireSettings
from hermes_providers.wire.openai_chat_messages import WIRE
from hermes_providers.wire.openai_chat_request import ChatRequestBuilder
from hermes_providers.wire.openai_chat_stream import ChatStreamReader

__all__ = ["QUIRKS", "make_wire"]

QUIRKS = ChatQuirks


def make_wire(settings: WireSettings) -> WireFormat:
    """Both halves of the wire. Raises `ConfigurationError` for an extra body that can not be sent."""
    quirks = settings.quirks if isinstance(settings.quirks, ChatQuirks) else ChatQuirks()
    builder = ChatRequestBuilder(
        base_url=settings.base_url,
        provider=settings.provider,
        host=settings.host,
        quirks=quirks,
        extra_body=settings.extra_body,
        refusals=settings.refusals,
    )
    absent = {"seed": quirks.seed_option, "parallel_tool_calls": quirks.parallel_option}
    absent["reasoning_effort"] = quirks.reasoning_option != "none"
    return WireFormat(
        WIRE,
        builder,
        partial(ChatStreamReader, quirks),
        tool_names=quirks.tool_names,
        think_tags=quirks.think_tags,
        starts_inside=quirks.starts_inside,
        absent=frozenset(name for name, taken in absent.items() if not taken),
    )
