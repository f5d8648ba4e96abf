"""How long a host asks to wait, in all the forms in which hosts say it.

Beside `retry-after` there are headers that tell when a limit is whole again: `x-ratelimit-reset-requests` and
`-tokens` are durations (OpenAI "Rate limits", Groq), `anthropic-ratelimit-*-reset` are times (Anthropic "Rate
limits"), `x-ratelimit-reset` alone is milliseconds or seconds since the epoch (OpenRouter "Limits"). They are
sent with every answer, so only that of a limit of which nothing remains says how long to wait.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

__all__ = ["retry_after_s"]

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_IN_TEXT = re.compile(r"(?:try again|retry) (?:in|after) ((?:\d+(?:\.\d+)?(?:ms|h|m|s))+)\b")
_GOOGLE_DELAY = re.compile(r'"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"')
_LIMITS = (
    *((f"x-ratelimit-remaining{kind}", f"x-ratelimit-reset{kind}") for kind in ("-requests", "-tokens", "")),
    *(
        (f"anthropic-ratelimit-{kind}-remaining", f"anthropic-ratelimit-{kind}-reset")
        for kind in ("requests", "tokens", "input-tokens", "output-tokens")
    ),
)
_EPOCH_S = 1e9  # a larger number is no wait but a time
_EPOCH_MS = 1e11
_LONGEST_S = 10 * 366 * 86400.0  # beyond this the number is no wait but a mistake


def retry_after_s(headers: Mapping[str, str], body: str, *, now: float) -> float | None:
    """Seconds to wait, or None when the host did not say, or nothing that makes sense.

    `headers` has lower-case names; `now` is seconds since the epoch. `retry-after-ms` wins over
    `retry-after`, which is seconds, a duration like `1m30s` or a date; a date in the past is 0. Without
    these the body is searched, and then the headers of limits that are used up. Long waits are returned as
    they are: what is too long, the caller says.
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
    wait = _from_body(body)
    return _until_whole(headers, now) if wait is None else wait


def _until_whole(headers: Mapping[str, str], now: float) -> float | None:
    """Until the last of the limits of which nothing remains is whole again."""
    waits = [
        _reset(headers.get(reset, "").strip(), now)
        for remaining, reset in _LIMITS
        if headers.get(remaining, "").strip() == "0"
    ]
    return max((wait for wait in waits if wait is not None), default=None)


def _reset(text: str, now: float) -> float | None:
    if not _NUMBER.fullmatch(text):
        return _duration(text) if text[-1:] == "s" else _until_time(text, now)
    number = float(text)
    if number < _EPOCH_S:
        return _sane(number)
    return _sane(max(0.0, (number / 1000 if number >= _EPOCH_MS else number) - now))


def _until_time(text: str, now: float) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
        return _sane(max(0.0, moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() - now))
    except (ValueError, OverflowError):
        return None


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
