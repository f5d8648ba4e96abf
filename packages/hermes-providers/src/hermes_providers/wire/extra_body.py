"""What a user merges into request bodies."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from hermes_messages import ConfigurationError

__all__ = ["read_extra_body"]


def read_extra_body(extra: Raw | None, ours: Sequence[str]) -> dict[str, Raw]:
    """The top-level fields of a JSON object. Raises `ConfigurationError` for anything else, and for `stream`
    and the fields that can only be `ours`."""
    if extra is None:
        return {}
    try:
        fields = msgspec.json.decode(extra, type=dict[str, Raw])
    except msgspec.MsgspecError as error:
        raise ConfigurationError(f"extra_body is no JSON object: {error}") from None
    for name in (*ours, "stream"):
        if name in fields:
            raise ConfigurationError(f"extra_body may not set {name!r}; nothing was sent")
    return fields
