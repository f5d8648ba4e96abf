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
    if cleaned == call_id and _fits(len(call_id), rule):
        return call_id
    digest = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()
    if rule.exact and rule.max_length is not None:
        return digest[: rule.max_length]
    if rule.max_length is not None:
        cleaned = cleaned[: max(0, rule.max_length - _HASH_LENGTH)]
    return cleaned + digest[:_HASH_LENGTH]


def _fits(length: int, rule: CallIdRule) -> bool:
    if rule.max_length is None:
        return True
    return length == rule.max_length if rule.exact else length <= rule.max_length
