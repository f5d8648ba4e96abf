"""The table of wires: a name, and the module that makes it. Imported when a wire is first used.

Such a module has two names: `QUIRKS`, the frozen struct of what its hosts want to be different (all fields
with defaults, unknown ones forbidden), and `make_wire(settings: WireSettings) -> WireFormat`.
"""

from __future__ import annotations

import importlib
from typing import Protocol, cast, get_args

from msgspec import Struct

from hermes_messages import UnknownNameError
from hermes_providers.wire.base import WireFormat, WireSettings
from hermes_providers.wire_names import WireName

__all__ = ["WireName", "make_wire", "quirks_type", "wire_names"]

_MODULES: dict[str, str] = {
    "openai_chat": "hermes_providers.wire.openai_chat_format",
    "openai_responses": "hermes_providers.wire.openai_responses_format",
    "anthropic_messages": "hermes_providers.wire.anthropic_format",
    "gemini": "hermes_providers.wire.gemini_format",
}


class WireModule(Protocol):
    """What a module of the table has."""

    QUIRKS: type[Struct]

    def make_wire(self, settings: WireSettings) -> WireFormat:
        """The wire. Raises `ConfigurationError` for an extra body that can not be sent."""
        ...


def wire_names() -> tuple[str, ...]:
    """The names of all wires."""
    return get_args(WireName)


def make_wire(name: str, settings: WireSettings) -> WireFormat:
    """The wire called `name`. Raises `UnknownNameError`, and `ConfigurationError` as the wire does."""
    return _module(name).make_wire(settings)


def quirks_type(name: str) -> type[Struct]:
    """The type of the quirks of the wire called `name`."""
    return _module(name).QUIRKS


def _module(name: str) -> WireModule:
    try:
        path = _MODULES[name]
    except KeyError:
        raise UnknownNameError("wire", name, _MODULES) from None
    return cast("WireModule", importlib.import_module(path))
