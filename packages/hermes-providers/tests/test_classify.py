from __future__ import annotations

import json
import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_messages import ErrorKind, ProviderError, Usage
from hermes_providers import classify, overflowed_silently
from hermes_providers.classify import MAX_BODY_CHARS
from hermes_providers.error_patterns import ERROR_PATTERNS, ErrorPattern
from hermes_providers.retry_after import retry_after_s

NOW = datetime(2026, 10, 21, 7, 28, 0, tzinfo=UTC).timestamp()


def judge(status: int | None, body: object, **headers: str) -> ProviderError:
    raw = body if isinstance(body, str | bytes) else json.dumps(body)
    return classify(status, {name.replace("_", "-"): value for name, value in headers.items()}, raw, now=NOW)


@pytest.mark.parametrize("row", ERROR_PATTERNS, ids=lambda row: f"{row.vendor}: {row.verbatim[:40]}")
def test_verbatim_text_of_each_row_is_judged_by_its_row(row: ErrorPattern) -> None:
    assert row.pattern.search(row.verbatim)
    for body in (
        {"error": {"message": row.verbatim}},
        row.verbatim,
        [{"error": {"message": row.verbatim}}],
        {"message": row.verbatim},
    ):
        assert judge(row.status, body).kind is row.kind
    first = next(one for one in ERROR_PATTERNS if one.pattern.search(row.verbatim))
    assert first is row, "an earlier row hides this one"


@pytest.mark.parametrize(
    "row",
    [row for row in ERROR_PATTERNS if row.kind is ErrorKind.CONTEXT_OVERFLOW],
    ids=lambda row: row.vendor,
)
@pytest.mark.parametrize("status", [200, 400, 429, 500])
def test_overflow_wording_beats_every_status(row: ErrorPattern, status: int) -> None:
    assert judge(status, {"error": {"message": row.verbatim}}).kind is ErrorKind.CONTEXT_OVERFLOW


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ErrorKind.FORMAT),
        (401, ErrorKind.AUTH),
        (402, ErrorKind.BILLING),
        (403, ErrorKind.AUTH),
        (404, ErrorKind.NOT_FOUND),
        (408, ErrorKind.TIMEOUT),
        (413, ErrorKind.CONTEXT_OVERFLOW),
        (422, ErrorKind.FORMAT),
        (429, ErrorKind.RATE_LIMIT),
        (500, ErrorKind.SERVER),
        (502, ErrorKind.SERVER),
        (503, ErrorKind.OVERLOADED),
        (504, ErrorKind.TIMEOUT),
        (529, ErrorKind.OVERLOADED),
        (307, ErrorKind.FORMAT),
    ],
)
def test_status_decides_where_the_body_says_nothing(status: int, kind: ErrorKind) -> None:
    assert judge(status, {"error": {"message": "Something."}}).kind is kind


@pytest.mark.parametrize(
    "row",
    [row for row in ERROR_PATTERNS if row.kind is ErrorKind.OUTPUT_CAP],
    ids=lambda row: row.vendor,
)
def test_the_output_that_a_host_allows_is_read_from_its_text(row: ErrorPattern) -> None:
    allowed = {"OpenAI": 16_384, "Anthropic": 64_000, "Groq": 32_768, "DeepSeek": 8192}
    assert judge(row.status, {"error": {"message": row.verbatim}}).output_limit == allowed[row.vendor]


def test_a_429_is_not_always_a_rate_limit() -> None:
    assert judge(429, {"error": {"message": "The engine is overloaded"}}).kind is ErrorKind.OVERLOADED
    assert judge(429, "Extra usage is required for long context requests").kind is ErrorKind.CONTEXT_OVERFLOW
    assert judge(429, {"error": {"code": "insufficient_quota", "message": "x"}}).kind is ErrorKind.BILLING
    assert judge(429, "").kind is ErrorKind.RATE_LIMIT


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (413, "nginx says no"),
        (413, ""),
        (
            413,
            "Request too large on tokens per minute (TPM): Limit 6000, Requested 9000. rate_limit_exceeded",
        ),
        (400, ""),
        (400, " \n"),
    ],
)
def test_413_and_a_bare_400_are_overflow(status: int, body: str) -> None:
    assert judge(status, body).kind is ErrorKind.CONTEXT_OVERFLOW


@pytest.mark.parametrize(
    "text",
    [
        "Too many tokens, please wait before trying again.",
        "Rate limit: too many tokens per minute",
        "Limit of 9 tokens per day",
    ],
)
def test_throttling_text_about_tokens_is_no_overflow(text: str) -> None:
    assert judge(429, text).kind is ErrorKind.RATE_LIMIT


OF_8192 = "This model's maximum context length is 8192 tokens"
ABOUT = "However, you requested about 9000 tokens (500 of text input, 500 of tool input, 8000 in the output)"
OUTPUT = (
    "However, you requested 8192 output tokens and your prompt contains at least 1 input tokens, for a total"
)
SUMS: list[tuple[str, int | None]] = [
    (f"{OF_8192}. {ABOUT}.", 8192 - 1000 - 128),
    (f"{OF_8192}. However, you requested 9000 tokens (1000 in the messages, 8000 in the completion).", 7064),
    (f"'max_tokens' is too large: 8192. {OF_8192} and your request has 20 input tokens (8192 > 8172).", 8044),
    (f"{OF_8192}. {OUTPUT} of at least 8193 tokens.", 8192 - 1 - 128),
    ("input length and `max_tokens` exceed context limit: 90000 + 128000 > 200000, decrease it", 106_875),
    ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 31 `inputs` tokens and 5000 more", 4001),
    # The prompt itself takes half of the window or more: it is to be shortened.
    (f"{OF_8192} and your request has 4096 input tokens (8192 > 4096).", None),
]


@pytest.mark.parametrize(("text", "limit"), SUMS)
def test_answer_that_does_not_fit_beside_a_short_prompt_is_asked_for_smaller(
    text: str, limit: int | None
) -> None:
    error = judge(400, {"error": {"message": text}})
    kind = ErrorKind.CONTEXT_OVERFLOW if limit is None else ErrorKind.OUTPUT_CAP
    assert (error.kind, error.output_limit) == (kind, limit)


def test_silent_overflow_shows_in_the_usage() -> None:
    assert overflowed_silently(Usage(input_tokens=9000), 8192)
    assert not overflowed_silently(Usage(input_tokens=8192), 8192)
    assert not overflowed_silently(None, 8192)
    assert not overflowed_silently(Usage(), 8192)
    assert not overflowed_silently(Usage(input_tokens=9000), None)


@pytest.mark.parametrize(
    ("body", "shown", "code"),
    [
        ({"error": {"message": "M", "code": "c", "type": "t"}}, "M", "c"),
        ({"type": "error", "error": {"type": "t", "message": "M"}}, "M", "t"),
        ({"error": "M"}, "M", "M"),
        (
            {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": "deep cause"}}},
            "deep cause",
            "400",
        ),
        ([{"error": {"code": 400, "message": "M", "status": "INVALID_ARGUMENT"}}], "M", "400"),
        ({"detail": [{"loc": ["body"], "msg": "M"}]}, "M", None),
        ({"object": "error", "message": "M", "code": 40}, "M", "40"),
        ("<html><head><title>502 Bad Gateway</title></head><body>x</body></html>", "502 Bad Gateway", None),
        ({"error": {}}, "{}", None),
        ("{broken", "{broken", None),
        ("", "no explanation", None),
    ],
)
def test_every_shape_of_error_body_is_read(body: object, shown: str, code: str | None) -> None:
    error = judge(400, body)
    assert shown in str(error)
    assert error.code == code


def test_spend_limit_that_comes_as_a_rate_limit_is_a_matter_of_billing() -> None:
    said = {"type": "rate_limit_error", "message": "This request was refused."}
    for code, kind in (
        ("contract_spend_limit_reached", ErrorKind.BILLING),
        ("enforced_spend_limit_reached", ErrorKind.BILLING),
        ("ramp_limit_exceeded", ErrorKind.RATE_LIMIT),
    ):
        error = judge(429, {"type": "error", "error": {**said, "details": {"error_code": code}}})
        assert (error.kind, error.code) == (kind, code)
    error = judge(400, {"error": {"message": "You have reached your specified API usage limits."}})
    assert error.kind is ErrorKind.BILLING
    assert judge(429, {"error": {"message": "M", "details": [{"error_code": "x"}]}}).code is None


def test_facts_are_kept() -> None:
    error = judge(429, {"error": {"message": "M"}}, x_request_id="req_1", retry_after="7")
    assert (error.status, error.request_id, error.retry_after_s) == (429, "req_1", 7.0)
    assert error.body == '{"error": {"message": "M"}}'


def test_redirect_names_the_place() -> None:
    assert "https://new.example/v1" in str(judge(308, "", location="https://new.example/v1"))


def test_body_is_bounded_and_keys_are_masked() -> None:
    key = "weird.key/1234567890"
    text = f"bad key {key} and sk-proj-abcdefgh12345678 and Bearer abcdefghijklm " + "x" * 100_000
    error = classify(401, {}, json.dumps({"error": {"message": text, "code": key}}), now=NOW, secrets=[key])
    assert len(error.body) <= MAX_BODY_CHARS
    assert len(str(error)) < 1000
    for shown in (str(error), error.body, error.code or "", repr(error)):
        assert key not in shown
        assert "abcdefgh" not in shown


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after-ms": "1250", "retry-after": "9"}, 1.25),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": " 2.5 "}, 2.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2020 07:28:00 GMT"}, 0.0),
        ({"retry-after": "1m30s"}, 90.0),
        ({"retry-after": "250ms"}, 0.25),
        ({"retry-after": "1h2m"}, 3720.0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "garbage"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e400"}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "86400"}, 86400.0),
        ({"retry-after-ms": "soon", "retry-after": "4"}, 4.0),
        # Limits of which nothing remains; the last of them counts.
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 360.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "7.66s"}, 7.66),
        ({"x-ratelimit-remaining-tokens": "9", "x-ratelimit-reset-tokens": "7.66s"}, None),
        ({"x-ratelimit-reset-tokens": "7.66s"}, None),
        (
            {
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2026-10-21T07:28:05Z",
                "anthropic-ratelimit-output-tokens-remaining": "0",
                "anthropic-ratelimit-output-tokens-reset": "2026-10-21T07:28:20Z",
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "soon",
            },
            20.0,
        ),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1792567690000"}, 10.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1792567690"}, 10.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "30"}, 30.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1000000000"}, 0.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "999999999"}, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": ""}, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "9" * 400}, None),
        ({"retry-after": "3", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "30"}, 3.0),
        ({}, None),
    ],
)
def test_retry_after_forms(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after_s(headers, "", now=NOW) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("Please try again in 3.5s.", 3.5),
        ("Please try again in 1m4.2s. Visit", 64.2),
        ("Please retry in 34.074824224s.", 34.074824224),
        ("try again in 20ms", 0.02),
        ('{"retryDelay": "34s"}', 34.0),
        ("try again in a while", None),
        ("try again in 2 days", None),
    ],
)
def test_wait_that_only_the_body_tells(body: str, expected: float | None) -> None:
    assert retry_after_s({}, body, now=NOW) == expected


@given(st.text(), st.binary(max_size=300), st.integers(100, 599) | st.none())
def test_no_answer_breaks_the_classifier(header: str, body: bytes, status: int | None) -> None:
    error = classify(status, {"retry-after": header, "retry-after-ms": header}, body, now=NOW)
    assert error.retry_after_s is None or error.retry_after_s >= 0


def test_no_field_of_an_error_shows_a_secret() -> None:
    said = {"message": f"Unsupported parameter: {'x' * 590} hunter2-hunter2", "param": "hunter2-hunter2"}
    error = classify(
        400,
        {"x-request-id": "hunter2-hunter2"},
        json.dumps({"error": {**said, "code": "unsupported_parameter"}}),
        now=0,
        secrets=("hunter2-hunter2",),
    )
    assert error.kind is ErrorKind.UNSUPPORTED_PARAMETER
    assert (error.request_id, error.parameter) == ("***", "***")
    assert "hunter2" not in repr(vars(error)) + str(error)


def test_secret_that_the_end_of_the_message_cuts_is_masked_whole() -> None:
    error = classify(500, {}, "x" * 590 + " hunter2-hunter2", now=0, secrets=("hunter2-hunter2",))
    assert "hunter2" not in str(error)


def test_characters_that_a_terminal_obeys_are_not_told() -> None:
    error = classify(500, {}, b"\x1b[31mred\x00\x9b", now=0)
    assert "red" in str(error)
    assert not set("\x1b\x00\x9b") & set(str(error))


@pytest.mark.parametrize("piece", [b"<", b"<title", b"<title>", b"</title>", b"<a "])
def test_markup_that_never_closes_is_read_in_linear_time(
    piece: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Many times more than is searched: with the square of the length it would not end.
    monkeypatch.setattr(sys.modules[classify.__module__], "_MAX_SEARCHED_CHARS", 10_000_000)
    assert classify(502, {}, piece * 200_000, now=0).status == 502
