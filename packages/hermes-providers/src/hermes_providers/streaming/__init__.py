"""Framing of streamed responses: bytes in, events out."""

from hermes_providers.streaming.sse import ServerSentEvent, SSEParser

__all__ = ["SSEParser", "ServerSentEvent"]
