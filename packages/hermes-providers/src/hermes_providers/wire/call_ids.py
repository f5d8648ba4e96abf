"""Tool-call ids for hosts that do not take every id.

The model of a conversation keeps the id as it came. Only the request copy is mapped, from the id alone, so a
call and its result, and the same call in the next request, always get the same one.
"""

from __future__ import annotations

import hashlib
import re

from hermes_providers.profiles import CallIdRule

__all__ = ["wire_call_id"]

_HASH_LENGTH = 8


def wire_call_id(call_id: str, rule: CallIdRule) -> str:
    """`call_id` itself when the rule admits it, else its clean start and a hash of the whole."""
    cleaned = call_id if rule.allowed is None else "".join(re.findall(rule.allowed, call_id))
    longest = rule.max_length
    if cleaned == call_id and (longest is None or _fits(len(call_id), longest, exact=rule.exact)):
        return call_id
    digest = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()
    if rule.exact and longest is not None:
        return digest[:longest]
    if longest is not None:
        cleaned = cleaned[: max(0, longest - _HASH_LENGTH)]
    return cleaned + digest[:_HASH_LENGTH]


def _fits(length: int, longest: int, *, exact: bool) -> bool:
    return length == longest if exact else length <= longest
