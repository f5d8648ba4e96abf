"""The names of the wires, apart from what they are made of, so that the table of hosts costs no import."""

from __future__ import annotations

from typing import Literal

__all__ = ["WireName"]

WireName = Literal["openai_chat", "openai_responses", "anthropic_messages", "gemini"]
"""The shapes of requests and answers that are spoken here."""
