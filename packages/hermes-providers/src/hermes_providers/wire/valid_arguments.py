"""Argument text of old calls for hosts that read it as JSON."""

from __future__ import annotations

from hermes_messages import ArgumentsError, parse_arguments, parse_arguments_tolerantly
from hermes_providers.streaming.json_bytes import dump

__all__ = ["valid_arguments"]


def valid_arguments(text: str) -> str:
    """`text` itself when it is a JSON object that UTF-8 can hold; else the nearest one, so that no host fails
    on old history."""
    try:
        parsed = parse_arguments(text)
    except ArgumentsError:
        try:
            parsed = parse_arguments_tolerantly(text).arguments
        except ArgumentsError:
            parsed = {"unreadable_arguments": text}
    else:
        if not _has_lone_surrogates(text):
            return text
    return dump(parsed).decode()


def _has_lone_surrogates(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
