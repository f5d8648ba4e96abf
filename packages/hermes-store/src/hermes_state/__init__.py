"""Drop-in name: `from hermes_state import SessionDB`."""

from hermes_store import SessionDB

__all__ = ["SessionDB"]
