"""The system prompt: built once per conversation, from stable facts only. Pure.

It holds no time and nothing else that changes from turn to turn; what is volatile belongs at the end of the
message list, or the host's prompt cache is lost.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DEFAULT_IDENTITY", "build_system_prompt", "needs_rebuild"]

DEFAULT_IDENTITY: Final = "You are a helpful assistant."


def build_system_prompt(
    *,
    system_prompt: str | None,
    identity: str | None,
    system_message: str | None,
    tool_guidance: str,
    context_text: str = "",
    cwd: str,
    has_tools: bool,
) -> str:
    """The prompt of one conversation. A `system_prompt` of the host's own is taken whole, as it is."""
    if system_prompt is not None:
        sections = [system_prompt, system_message or ""]
    else:
        sections = [identity or DEFAULT_IDENTITY, system_message or "", tool_guidance, context_text]
        if has_tools:
            sections.append(f"Working directory: {cwd}")
    return "\n\n".join(filter(None, map(str.strip, sections)))


def needs_rebuild(current: str | None, system_message: str | None) -> bool:
    """Whether there is no prompt yet, or the host now gives a system message that is not in it."""
    if current is None:
        return True
    return system_message is not None and system_message.strip() not in current
