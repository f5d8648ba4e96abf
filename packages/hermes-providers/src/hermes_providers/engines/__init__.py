"""What awaits the network, one module for each engine; all satisfy `hermes_providers.transport.Transport`."""

from __future__ import annotations

__all__: list[str] = []
