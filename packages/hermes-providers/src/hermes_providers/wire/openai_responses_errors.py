"""Errors that the Responses wire reports inside a successful HTTP answer."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from hermes_messages import ErrorKind, ProviderError
from hermes_providers.wire.base import ErrorReader

__all__ = ["failure", "with_kind"]

_KINDS: dict[str, ErrorKind] = {
    "rate_limit_exceeded": ErrorKind.RATE_LIMIT,
    "server_error": ErrorKind.SERVER,
    "vector_store_timeout": ErrorKind.TIMEOUT,
    "context_length_exceeded": ErrorKind.CONTEXT_OVERFLOW,
    "insufficient_quota": ErrorKind.BILLING,
    "bio_policy": ErrorKind.CONTENT_POLICY,
    "cyber_policy": ErrorKind.CONTENT_POLICY,
    "misalignment_policy_violation": ErrorKind.CONTENT_POLICY,
    "image_content_policy_violation": ErrorKind.CONTENT_POLICY,
    "data_residency_mismatch": ErrorKind.FORMAT,
    "invalid_prompt": ErrorKind.FORMAT,
    "invalid_request_error": ErrorKind.FORMAT,
    "invalid_image": ErrorKind.FORMAT,
    "invalid_image_format": ErrorKind.FORMAT,
    "invalid_base64_image": ErrorKind.FORMAT,
    "invalid_image_url": ErrorKind.FORMAT,
    "invalid_image_mode": ErrorKind.FORMAT,
    "image_too_large": ErrorKind.FORMAT,
    "image_too_small": ErrorKind.FORMAT,
    "image_parse_error": ErrorKind.FORMAT,
    "image_file_too_large": ErrorKind.FORMAT,
    "unsupported_image_media_type": ErrorKind.FORMAT,
    "empty_image_file": ErrorKind.FORMAT,
    "failed_to_download_image": ErrorKind.FORMAT,
    "image_file_not_found": ErrorKind.FORMAT,
}
"""The codes of a response's error ("The response object", API reference: `error.code`). No status stands
beside them, so they decide where the wording does not."""

_UNEXPLAINED = b'{"error":{"code":"server_error","message":"the response failed; the host did not say why"}}'


def failure(read_error: ErrorReader, payload: bytes | Raw | None) -> ProviderError:
    """The typed error of an error object, of an event that is one, or of nothing."""
    said = bytes(payload) if payload else b""
    if said in {b"", b"null", b"{}"}:
        return read_error(_UNEXPLAINED)
    error = read_error(said if _has_error_key(said) else b'{"error":' + said + b"}")
    if error.kind in {ErrorKind.SERVER, ErrorKind.UNKNOWN} and error.code in _KINDS:
        return with_kind(error, _KINDS[error.code])
    return error


def with_kind(error: ProviderError, kind: ErrorKind) -> ProviderError:
    """`error` itself, of the kind that the wire knows it to be."""
    error.args = (f"{str(error).removesuffix(f'[{error.kind}]').rstrip()} [{kind}]",)
    error.kind = kind
    return error


def _has_error_key(said: bytes) -> bool:
    try:
        value = msgspec.json.decode(said)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return True  # no JSON: to be read as it is
    return not isinstance(value, dict) or isinstance(value.get("error"), dict)
