"""`clarify`: a question to the user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes_messages.hygiene import clean_text
from hermes_messages.protocols import SupportsAvailability, Tool, ToolCallContext, Toolset, TurnContext
from hermes_tools.errors import ToolFailure
from hermes_tools.tool import tool

__all__ = ["ClarifyToolset"]

MAX_QUESTION = 4_000
MAX_CHOICES = 8
NO_CALLBACK = "nobody can be asked: the host gave no clarify callback"


class ClarifyToolset:
    """The toolset `clarify`. It asks through the host's callback and is absent where there is none."""

    def __init__(self) -> None:
        self._may_ask = True  # until a turn says otherwise; a call without a callback fails with the reason

        @tool(scheduling="interactive")
        async def clarify(context: ToolCallContext, question: str, choices: list[str] | None = None) -> str:
            """Ask the user a question and wait for the answer.

            Args:
                question: one question
                choices: answers to choose from; the user may give another
            """
            ask = context.round.clarify
            if ask is None:
                raise ToolFailure(f"{NO_CALLBACK}; decide yourself")
            text, offered = _checked(question, choices or [])
            answer = clean_text(await ask(text, offered)).strip()
            return answer or "[the user gave no answer]"

        self._tools: tuple[Tool, ...] = (clarify,)

    @property
    def name(self) -> str:
        """The toolset's name."""
        return "clarify"

    @property
    def tools(self) -> Sequence[Tool]:
        """Its one tool."""
        return self._tools

    def unavailable_reason(self) -> str | None:
        """It needs the host's callback."""
        return None if self._may_ask else NO_CALLBACK

    async def refresh(self, context: TurnContext) -> None:
        """Find out whether there is someone to ask."""
        self._may_ask = context.clarify is not None


def _checked(question: str, choices: list[str]) -> tuple[str, list[str]]:
    text = clean_text(question).strip()
    if not 0 < len(text) <= MAX_QUESTION:
        raise ToolFailure(f"the question must have 1 to {MAX_QUESTION} characters; nobody was asked")
    offered = list(dict.fromkeys(choice.strip() for choice in choices if choice.strip()))
    if len(offered) > MAX_CHOICES:
        raise ToolFailure(f"{len(offered)} choices are too many, at most {MAX_CHOICES}; nobody was asked")
    return text, offered


if TYPE_CHECKING:

    def _fits(toolset: ClarifyToolset) -> tuple[Toolset, SupportsAvailability]:
        return toolset, toolset
