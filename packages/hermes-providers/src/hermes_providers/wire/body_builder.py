"""What the builders of all wires have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from msgspec import Raw

from hermes_messages import ChatRequest, ToolSpec
from hermes_messages.stable_bytes import HistoryJoiner
from hermes_providers.wire.output_tool import answer_tool
from hermes_providers.wire.sent_history import ModelJoiners

__all__ = ["BodyBuilder"]


class BodyBuilder(ABC):
    """Builds the bodies for one host, and keeps the bytes of what it encoded before."""

    def __init__(self, url: str, extra_body: dict[str, Raw]) -> None:
        """`extra_body` is merged into every body."""
        self._url = url
        self._extra_body = extra_body
        self._joiners = ModelJoiners(self._joiner)
        # Compared by value: each agent has a tuple of its own, mostly of the same specs.
        self._tools: tuple[ToolSpec, ...] = ()
        self._schema: Raw | None = None
        self._tools_bytes = b""

    @property
    def encode_calls(self) -> int:
        """How many segments were encoded so far, for tests."""
        return self._joiners.encode_calls

    def url(self, request: ChatRequest) -> str:  # noqa: ARG002 - one wire has the model in the path
        """Where the request goes."""
        return self._url

    @abstractmethod
    def build(self, request: ChatRequest) -> bytes:
        """The body as UTF-8 JSON. Raises `ProviderError` (format) when the history can not be sent."""

    def _tools_field(self, tools: tuple[ToolSpec, ...], schema: Raw | None) -> bytes:
        """`tools`, and with `schema` the tool for an answer of that form, as they stand in the body; empty
        where there are none. They are encoded when they are others than in the request before."""
        if not tools and schema is None:
            return b""
        if tools != self._tools or schema != self._schema:
            self._tools, self._schema = tools, schema
            self._tools_bytes = self._encode_tools(tools if schema is None else (*tools, answer_tool(schema)))
        return self._tools_bytes

    @abstractmethod
    def _encode_tools(self, tools: Sequence[ToolSpec]) -> bytes:
        """At least one tool, as this wire has it."""

    @abstractmethod
    def _joiner(self, model: str) -> HistoryJoiner:
        """The joiner of what is sent to `model`."""
