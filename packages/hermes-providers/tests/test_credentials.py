from __future__ import annotations

import pickle
from typing import Any

import pytest

from hermes_messages import ConfigurationError, ErrorKind, ProviderError
from hermes_messages.addresses import shown_url
from hermes_messages.protocols import ProviderOptions
from hermes_providers import HttpProvider, custom, get_profile
from hermes_providers.credentials import (
    check_base_url,
    check_header,
    check_key,
    find_key,
    join_url,
    mask,
    mask_error,
)


@pytest.mark.parametrize("key", ["sk-abc\n", "  sk-abc", "\tsk-abc\r\n", "\ufeffsk-abc"])
def test_key_is_trimmed(key: str) -> None:
    assert check_key(key, source="api_key").reveal() == "sk-abc"


@pytest.mark.parametrize(
    "key", ["", " \n", "sk abc", "sk-a\nbc", "sk-a\x00bc", "sk-\u2028abc", "sk-äbc", "sk-a\u200bbc"]
)
def test_key_that_no_header_carries_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY") as caught:
        check_key(key, source="OPENAI_API_KEY")
    assert "abc" not in str(caught.value)
    assert "bc" not in str(caught.value)


def test_secret_is_never_shown() -> None:
    secret = check_key("sk-hidden", source="api_key")
    assert "hidden" not in f"{secret} {secret!r} {[secret]}"
    with pytest.raises(TypeError):
        pickle.dumps(secret)


def test_key_comes_from_the_options_first() -> None:
    profile = get_profile("openrouter")
    environment = {"OPENROUTER_API_KEY": "from-env "}
    for given, expected in (("given", "given"), (None, "from-env")):
        found = find_key(profile, given, environment)
        assert found is not None
        assert found.reveal() == expected


def test_missing_key_names_the_variable() -> None:
    with pytest.raises(ConfigurationError, match="set OPENROUTER_API_KEY"):
        find_key(get_profile("openrouter"), None, {"OPENROUTER_API_KEY": "  "})
    assert find_key(get_profile("custom"), None, {}) is None


def test_key_of_a_well_known_host_never_reaches_a_custom_one() -> None:
    assert find_key(get_profile("custom"), None, {"OPENAI_API_KEY": "sk", "OPENROUTER_API_KEY": "sk"}) is None


@pytest.mark.parametrize(
    "url",
    [
        "api.example.com/v1",
        "localhost:8080",
        "ftp://x.example",
        "http://",
        "https:///v1",
        "",
        "http://a b/v1",
        "http://x.example:99999/",
        "http://x.example:0",
        "http://user:pw@x.example/v1",
        "http://x\n.example",
        "http://x..example/v1",
        "http://.example/v1",
        f"http://{'x' * 64}.example/v1",
    ],
)
def test_base_url_that_can_not_work_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_base_url(url)
    assert "pw" not in str(caught.value)


def test_base_url_and_path_are_joined() -> None:
    base = check_base_url(" https://x.example/openai/v1/?api-version=1 ")
    assert join_url(base, "/chat/completions") == "https://x.example/openai/v1/chat/completions?api-version=1"
    assert join_url(check_base_url("http://[::1]:80"), "/c") == "http://[::1]:80/c"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x y", "a"),
        ("", "a"),
        ("x", "a\r\nb: c"),
        ("x", "ä"),
        ("x:", "a"),
        ("Content-Length", "5"),
        ("transfer-encoding", "chunked"),
        ("Expect", "100-continue"),
    ],
)
def test_headers_that_no_request_carries_are_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError):
        check_header(name, value)


def test_mask_replaces_known_and_likely_keys() -> None:
    text = (
        "k1-secret sk-or-v1-0123456789abcdef Bearer abc.def-ghi12345 AIzaSyA0123456789012345678 "
        "?key=hunter2&x=1 task-list-of-things"
    )
    masked = mask(text, ["k1-secret", ""])
    assert masked == "*** *** Bearer *** *** ?key=***&x=1 task-list-of-things"


SHOWN = [
    ("https://h.example/v1", "https://h.example/v1"),
    ("https://h.example/v1?key=hunter2", "https://h.example/v1?***"),
    ("ftp://user:hunter2@h.example/v1", "ftp://h.example/v1"),
    ("user:hunter2@h.example/v1", "h.example/v1"),
    ("https://h.example/a@b", "https://h.example/a@b"),
]


@pytest.mark.parametrize(("url", "shown"), SHOWN)
def test_address_is_shown_without_what_may_be_secret(url: str, shown: str) -> None:
    assert shown_url(url) == shown
    assert "hunter2" not in repr(ProviderOptions(base_url=url))


@pytest.mark.parametrize("url", ["ftp://h.example/v1?key=hunter2", "user:hunter2@h.example/v1"])
def test_base_url_that_is_refused_is_not_told_with_its_secrets(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        check_base_url(url)
    assert "hunter2" not in str(refused.value)


def test_key_in_the_address_is_never_shown() -> None:
    provider = custom(ProviderOptions(base_url="https://h.example/v1?api-key=hunter2&api-version=2024-10-21"))
    assert isinstance(provider, HttpProvider)
    assert "hunter2" not in repr(provider) + repr(provider._route)
    assert "hunter2" in provider.secret_values()
    assert "2024-10-21" not in provider.secret_values()


def test_header_given_as_one_line_is_refused_without_its_value() -> None:
    with pytest.raises(ConfigurationError, match="Authorization") as refused:
        check_header("Authorization: Bearer hunter2", "")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("key", [b"hunter2", 5, ["hunter2"], {"hunter2": 1}])
def test_key_of_another_type_is_refused_without_showing_it(key: Any) -> None:
    with pytest.raises(ConfigurationError) as refused:
        check_key(key, source="api_key")
    assert "hunter2" not in str(refused.value)
    with pytest.raises(ConfigurationError) as refused:
        custom(ProviderOptions(base_url="https://h.example/v1", api_key=key))
    assert "hunter2" not in str(refused.value)


def _broken(said: str) -> None:
    raise ProviderError(f"broken: {said}", kind=ErrorKind.TRANSPORT) from ValueError(said)


@pytest.mark.parametrize(
    ("said", "told", "chained"), [("it said hunter2", "it said ***", False), ("no", "no", True)]
)
def test_error_loses_the_causes_that_quote_a_secret(said: str, told: str, chained: bool) -> None:
    with pytest.raises(ProviderError) as caught:
        _broken(said)
    mask_error(caught.value, ("hunter2",))
    assert str(caught.value) == f"broken: {told}"
    assert isinstance(caught.value.__cause__, ValueError) is chained
    assert caught.value.__context__ is None
