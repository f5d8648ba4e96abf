"""A provider, a toolset and a session store of somebody else, on `hermes_messages` alone."""

from acme_hermes.provider import ReplayProvider
from acme_hermes.store import JsonLinesStore
from acme_hermes.tools import PartsToolset

__all__ = ["JsonLinesStore", "PartsToolset", "ReplayProvider"]
