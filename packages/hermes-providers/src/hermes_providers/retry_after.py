"""How long a host asks to wait, in all the forms in which hosts say it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC

__all__ = ["retry_after_s"]

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_IN_TEXT = re.compile(r"(?:try again|retry) (?:in|after) ((?:\d+(?:\.\d+)?(?:ms|h|m|s))+)\b")
_GOOGLE_DELAY = re.compile(r'"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"')
_LONGEST_S = 10 * 366 * 86400.0  # beyond this the number is no wait but a mistake


def retry_after_s(headers: Mapping[str, str], body: str, *, now: float) -> float | None:
    """Seconds to wait, or None when the host did not say, or nothing that makes sense.

    `headers` has lower-case names; `now` is seconds since the epoch. `retry-after-ms` wins over
    `retry-after`, which is seconds, a duration like `1m30s` or a date; a date in the past is 0. Without
    headers the body is searched. Long waits are returned as they are: what is too long, the caller says.
    """
    milliseconds = headers.get("retry-after-ms", "").strip()
    if _NUMBER.fullmatch(milliseconds):
        return _sane(float(milliseconds) / 1000)
    value = headers.get("retry-after", "").strip()
    if _NUMBER.fullmatch(value):
        return _sane(float(value))
    if value:
        wait = _duration(value)
        return wait if wait is not None else _until(value, now)
    return _from_body(body)


def _sane(seconds: float) -> float | None:
    return seconds if seconds <= _LONGEST_S else None


def _duration(text: str) -> float | None:
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        return None
    hours, minutes, seconds, milliseconds = (float(group or 0) for group in match.groups())
    return _sane(hours * 3600 + minutes * 60 + seconds + milliseconds / 1000)


def _until(date: str, now: float) -> float | None:
    from email.utils import parsedate_to_datetime  # it imports socket, and a date is seldom

    try:
        moment = parsedate_to_datetime(date)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return _sane(max(0.0, moment.timestamp() - now))
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _from_body(body: str) -> float | None:
    match = _GOOGLE_DELAY.search(body)
    if match is not None:
        return _sane(float(match.group(1)))
    match = _IN_TEXT.search(body.lower())
    return _duration(match.group(1)) if match is not None and match.group(1) else None
