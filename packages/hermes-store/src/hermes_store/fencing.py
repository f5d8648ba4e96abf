"""Who may write a transcript: the rule, as a pure function.

lease of the session      no token      a token
none                      may write     refused: it was released, or taken and released since
held, its number          -             may write, also past its expiry while nobody took it
held, another number      refused       refused
past its expiry, another  may write     refused
"""

from __future__ import annotations

from msgspec import Struct

from hermes_messages.protocols import LeaseToken

__all__ = ["HeldLease", "refusal"]


class HeldLease(Struct, frozen=True):
    """A lease as it stands in the database."""

    holder: str
    number: int
    expires_at: float


def refusal(held: HeldLease | None, token: LeaseToken | None, now: float) -> str | None:
    """Why a write with `token` (or none) is refused at `now`, or None when it may go ahead."""
    if token is None:
        if held is not None and held.expires_at > now:
            return f"the turn lease is held by {held.holder!r} and the write carries no token"
        return None
    if held is None:
        return f"lease {token.number} of {token.holder!r} was given back, or taken by another turn that ended"
    if held.number != token.number:
        return f"lease {token.number} of {token.holder!r} was taken over by {held.holder!r}"
    return None
