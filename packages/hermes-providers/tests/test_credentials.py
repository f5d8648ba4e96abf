from __future__ import annotations

import pickle

import pytest

from hermes_messages import ConfigurationError
from hermes_providers import get_profile
from hermes_providers.credentials import check_base_url, check_header, check_key, find_key, join_url, mask


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
    ("name", "value"), [("x y", "a"), ("", "a"), ("x", "a\r\nb: c"), ("x", "ä"), ("x:", "a")]
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
