"""An error answer to one typed `ProviderError`. Pure and driven by a table: the body beats the status."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from hermes_messages import ErrorKind, JsonObject, JsonValue, ProviderError, Usage
from hermes_providers.credentials import mask
from hermes_providers.error_patterns import ERROR_PATTERNS
from hermes_providers.parameter_patterns import PARAMETER_NAMES
from hermes_providers.retry_after import retry_after_s
from hermes_providers.size_patterns import OUTPUT_LIMITS, room_for_output

__all__ = ["MAX_BODY_CHARS", "classify", "overflowed_silently"]

MAX_BODY_CHARS = 2000
_MAX_SEARCHED_CHARS = 16_000
_MAX_MESSAGE_CHARS = 600
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # a terminal would obey them
_REQUEST_ID_HEADERS = ("x-request-id", "request-id", "x-generation-id", "apim-request-id", "cf-ray")

# What Anthropic's error types stand for, where one comes inside a stream that began with 200:
# https://platform.claude.com/docs/en/api/errors
_STATUS_OF_TYPE: dict[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}

_BY_STATUS: dict[int, ErrorKind] = {
    401: ErrorKind.AUTH,
    402: ErrorKind.BILLING,
    403: ErrorKind.AUTH,
    404: ErrorKind.NOT_FOUND,
    408: ErrorKind.TIMEOUT,
    413: ErrorKind.CONTEXT_OVERFLOW,
    425: ErrorKind.SERVER,
    429: ErrorKind.RATE_LIMIT,
    503: ErrorKind.OVERLOADED,
    504: ErrorKind.TIMEOUT,
    524: ErrorKind.TIMEOUT,
    529: ErrorKind.OVERLOADED,
}


class _Said(msgspec.Struct, frozen=True):
    """What an error body says, whatever its shape."""

    message: str
    code: str | None = None
    type: str | None = None
    detail: str = ""
    parameter: str | None = None


def classify(
    status: int | None,
    headers: Mapping[str, str],
    body: bytes | str,
    *,
    now: float,
    secrets: Iterable[str] = (),
    host: str = "the host",
) -> ProviderError:
    """The error that an answer with `status`, `headers` (lower-case names) and `body` is.

    An error inside a 200 or inside a stream is given as it came, with its status 200: a numeric code in it
    then takes the place of the status. `now` is seconds since the epoch, for a Retry-After date. `secrets`
    are masked in everything that the error shows.
    """
    secrets = tuple(secrets)
    text = body if isinstance(body, str) else body[: _MAX_SEARCHED_CHARS * 4].decode("utf-8", "replace")
    said = _read_body(text)
    if status is not None and 300 <= status < 400:
        said = _Said(f"it redirects to {headers.get('location', 'nowhere')}; set base_url to where it is")
    effective = _effective_status(status, said)
    kind = _kind(effective, said, empty=not text.strip())
    room = room_for_output(said.message) if kind is ErrorKind.CONTEXT_OVERFLOW else None
    if room is not None:
        kind = ErrorKind.OUTPUT_CAP
    shown = _CONTROL.sub(" ", mask(said.message or "no explanation", secrets)[:_MAX_MESSAGE_CHARS])
    at = f"{host} answered {status}" if status is not None and status >= 300 else f"{host} reported an error"
    code = said.code or said.type
    request_id = next((headers[name] for name in _REQUEST_ID_HEADERS if headers.get(name)), None)
    parameter = _parameter(said) if kind is ErrorKind.UNSUPPORTED_PARAMETER else None
    return ProviderError(
        f"{at}: {shown} [{kind}]",
        kind=kind,
        status=effective,
        code=mask(code, secrets) if code is not None else None,
        request_id=None if request_id is None else mask(request_id, secrets),
        retry_after_s=retry_after_s(headers, text, now=now),
        body=mask(text, secrets)[:MAX_BODY_CHARS],
        parameter=None if parameter is None else mask(parameter, secrets),
        output_limit=room or (_output_limit(said) if kind is ErrorKind.OUTPUT_CAP else None),
    )


def overflowed_silently(usage: Usage | None, context_window: int | None) -> bool:
    """Whether a host took a prompt that is larger than the model's window, without an error."""
    if usage is None or usage.input_tokens is None or context_window is None:
        return False
    return usage.input_tokens > context_window


def _effective_status(status: int | None, said: _Said) -> int | None:
    if status is not None and status >= 300:
        return status
    if said.code is not None and re.fullmatch(r"[45]\d\d", said.code):
        return int(said.code)
    return _STATUS_OF_TYPE.get(said.type or "", status)


def _kind(status: int | None, said: _Said, *, empty: bool) -> ErrorKind:
    if status == 413:
        return ErrorKind.CONTEXT_OVERFLOW
    searched = "\n".join(filter(None, (said.message, said.type, said.code, said.detail)))
    for row in ERROR_PATTERNS:
        if row.pattern.search(searched):
            return row.kind
    if status == 400 and empty:
        return (
            ErrorKind.CONTEXT_OVERFLOW
        )  # Cerebras: "400 status code (no body)" for a prompt that is too long
    if status is None:
        return ErrorKind.UNKNOWN
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= 500:
        return ErrorKind.SERVER
    if status >= 300:
        return ErrorKind.FORMAT
    return ErrorKind.SERVER  # an error inside a success, without a code: the host's own trouble


def _read_body(text: str) -> _Said:
    text = text[:_MAX_SEARCHED_CHARS]
    try:
        value: JsonValue = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return _Said(_plain(text))
    if isinstance(value, list) and value:  # Google wraps its errors in an array
        value = value[0]
    if isinstance(value, str):
        return _Said(value)
    return _read_object(value) if isinstance(value, dict) else _Said(text.strip())


def _read_object(value: JsonObject) -> _Said:
    error = value.get("error")
    if isinstance(error, str):
        return _Said(_text(value.get("message")) or error, _text(value.get("code")), error)
    inner = error if isinstance(error, dict) else value
    holder = inner.get("message")  # Mistral puts the detail into the message
    details = holder.get("detail") if isinstance(holder, dict) else inner.get("detail")
    message = _validation(details) or _text(holder) or _text(details) or _text(inner.get("msg"))
    metadata, specific = inner.get("metadata"), inner.get("details")
    detail = _text(metadata.get("raw")) if isinstance(metadata, dict) else None
    if detail:  # OpenRouter: the text of the host behind it
        message = f"{message}: {detail}" if message else detail
    return _Said(
        message or msgspec.json.encode(inner).decode(),
        # Anthropic: a code beside the type, where there is one ("Errors": `error.details.error_code`).
        (_text(specific.get("error_code")) if isinstance(specific, dict) else None)
        or _text(inner.get("code")),
        _text(inner.get("type")) or _text(inner.get("status")),
        detail or "",
        _text(inner.get("param")),
    )


def _validation(details: JsonValue) -> str | None:
    """The first error of a validator as a line: `[{"loc": ["body", "x"], "msg": "..."}]` is "x: ..."."""
    first = details[0] if isinstance(details, list) and details else None
    place = first.get("loc") if isinstance(first, dict) else None
    if not isinstance(first, dict) or not isinstance(place, list):
        return None
    steps = [str(step) for step in place if isinstance(step, str | int) and step != "body"]
    return f"{'.'.join(steps)}: {_text(first.get('msg')) or 'not valid'}"


def _parameter(said: _Said) -> str | None:
    """Which parameter an error speaks of: its own field for that, else the first name in its text."""
    if said.parameter is not None:
        return said.parameter
    for pattern in PARAMETER_NAMES:
        match = pattern.search(said.message)
        if match is not None:
            return match.group(1)
    return None


def _output_limit(said: _Said) -> int | None:
    for pattern in OUTPUT_LIMITS:
        match = pattern.search(said.message)
        if match is not None and 0 < len(match.group(1)) < 10:
            return int(match.group(1))
    return None


def _text(value: JsonValue) -> str | None:
    match value:
        case None | bool():
            return None
        case str():
            return value or None
        case int() | float():
            return str(value)
        case _:
            return msgspec.json.encode(value).decode() if value else None


def _plain(text: str) -> str:
    """Plain text or HTML as one short line."""
    if "<" in text:
        title = re.search(r"<title[^<>]*>([^<]+)", text, re.IGNORECASE)
        text = title.group(1) if title else re.sub(r"<[^<>]*>", " ", text)
    return " ".join(text.split())
