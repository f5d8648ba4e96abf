"""Every row of the table of hosts, and what each quirk does to a request."""

from __future__ import annotations

import json
import re
from typing import Any, get_args
from urllib.parse import urlsplit

import msgspec
import pytest
from msgspec import Raw

from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    ConfigurationError,
    History,
    ImagePart,
    Message,
    ReasoningEffort,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UnknownNameError,
    UserMessage,
)
from hermes_messages.protocols import ProviderOptions
from hermes_providers import ChatQuirks, Profile, from_profile, get_profile, list_profiles
from hermes_providers.profiles import CallIdRule
from hermes_providers.wire.call_ids import wire_call_id
from hermes_providers.wire.formats import wire_names
from hermes_providers.wire.openai_chat_request import ChatRequestBuilder
from hermes_providers.wire.schema_dialect import without_refs
from wire_help import KEY, SPEC

ROUND: tuple[Message, ...] = (
    SystemMessage("s"),
    UserMessage("u"),
    AssistantMessage(None, (ToolCall("call_abc|fc_HIR/d_iG", "read_file", '{"path":"x"}'),)),
    ToolMessage("call_abc|fc_HIR/d_iG", "text"),
)


def sent(quirks: ChatQuirks, *messages: Message, model: str = "m", **more: Any) -> dict[str, Any]:
    builder = ChatRequestBuilder(
        base_url="https://h.example/v1", provider="p", host="h.example", quirks=quirks
    )
    value = json.loads(builder.build(ChatRequest(model=model, history=History.of(messages or ROUND), **more)))
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize("profile", list_profiles(), ids=lambda profile: profile.name)
def test_every_host_is_whole(profile: Profile) -> None:
    assert profile.wire in wire_names()
    assert profile.key_variables
    if profile.base_url is not None:
        parts = urlsplit(profile.base_url)
        assert parts.scheme == "https" or (parts.hostname == "127.0.0.1" and not profile.needs_key)
        assert not profile.base_url.endswith("/")
    for name in profile.key_variables:
        assert re.fullmatch(r"[A-Z_]+", name)


@pytest.mark.parametrize(
    "profile", [p for p in list_profiles() if p.wire == "openai_chat"], ids=lambda profile: profile.name
)
def test_every_chat_host_carries_a_tool_round(profile: Profile) -> None:
    provider = from_profile(
        profile, ProviderOptions(api_key=KEY, base_url=profile.base_url or "https://mine.example/v1")
    )
    body = sent(profile.quirks, tools=(SPEC,), max_tokens=5, seed=7, reasoning_effort="low")
    assert [m["role"] for m in body["messages"]] == ["system", "user", "assistant", "tool"]
    call, result = body["messages"][2]["tool_calls"][0], body["messages"][3]
    assert call["id"] == result["tool_call_id"]
    assert body[profile.quirks.max_tokens_key] == 5
    assert KEY not in repr(provider)
    assert provider.secret_values()[0] == KEY


@pytest.mark.parametrize(
    ("name", "header", "value"),
    [
        ("openai", "authorization", f"Bearer {KEY}"),
        ("anthropic", "x-api-key", KEY),
        ("google", "x-goog-api-key", KEY),
        ("azure-openai", "api-key", KEY),
    ],
)
def test_key_is_shown_as_the_host_wants_it(name: str, header: str, value: str) -> None:
    from hermes_providers.credentials import check_key
    from hermes_providers.route import Route

    route = Route(provider=name, base_url="https://x.example", auth=get_profile(name).auth)
    assert route.request_headers(check_key(KEY, source="test"))[header] == value


def test_azure_address_comes_from_the_caller() -> None:
    with pytest.raises(ConfigurationError, match="base_url"):
        from_profile("azure-openai", ProviderOptions(api_key=KEY))
    made = from_profile(
        "azure-openai", ProviderOptions(api_key=KEY, base_url="https://r.openai.azure.com/openai/v1/")
    )
    assert made.origin("d").host == "r.openai.azure.com"


def test_another_wire_of_the_same_host() -> None:
    made = from_profile("google", ProviderOptions(api_key=KEY, settings={"wire": "openai_chat"}))
    assert made._wire.builder.url(ChatRequest(model="m", history=History.of(ROUND))).endswith(
        "/v1beta/openai/chat/completions"
    )
    assert made._route.auth.prefix == "Bearer "
    with pytest.raises(UnknownNameError, match="openai_chat"):
        from_profile("google", ProviderOptions(api_key=KEY, settings={"wire": "openai-chat"}))


# Reasoning


def test_reasoning_of_rounds_goes_back_where_its_absence_is_an_error() -> None:
    with_text = (UserMessage("u"), AssistantMessage(None, ROUND[2].tool_calls, reasoning="why"), ROUND[3])  # type: ignore[union-attr]
    for name in ("deepseek", "moonshot"):
        quirks = get_profile(name).quirks
        assert sent(quirks, *with_text)["messages"][1]["reasoning_content"] == "why"
        # A round that another host made has none: "reasoning_content is missing" would end the conversation.
        assert sent(quirks)["messages"][2]["reasoning_content"] == " "
        plain = sent(quirks, UserMessage("u"), AssistantMessage("a"), UserMessage("v"))["messages"][1]
        assert "reasoning_content" not in plain


@pytest.mark.parametrize(
    ("option", "effort", "expected"),
    [
        ("reasoning_effort", "high", {"reasoning_effort": "high"}),
        ("reasoning_object", "low", {"reasoning": {"effort": "low"}}),
        ("thinking", "low", {"thinking": {"type": "enabled"}}),
        ("thinking", "none", {"thinking": {"type": "disabled"}}),
        ("thinking_and_effort", "high", {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
        ("thinking_and_effort", "none", {"thinking": {"type": "disabled"}}),
        ("none", "high", {}),
    ],
)
def test_effort_is_asked_for_as_the_host_wants_it(option: Any, effort: Any, expected: dict[str, Any]) -> None:
    body = sent(ChatQuirks(reasoning_option=option), reasoning_effort=effort)
    assert {k: v for k, v in body.items() if k in {"reasoning_effort", "reasoning", "thinking"}} == expected


# Parameters


def test_seed_under_the_name_of_the_host() -> None:
    assert sent(get_profile("mistral").quirks, seed=3)["random_seed"] == 3
    assert "seed" not in sent(get_profile("moonshot").quirks, seed=3)


def test_forbidden_tools_stay_at_home_where_none_can_not_be_said() -> None:
    zai = get_profile("zai").quirks
    assert "tools" not in sent(zai, tools=(SPEC,), tool_choice="none")
    required = sent(zai, tools=(SPEC,), tool_choice="required")
    assert "tool_choice" not in required
    assert required["tools"]


@pytest.mark.parametrize(
    ("form", "tools", "kind"),
    [
        ("json_schema", False, "json_schema"),
        ("json_schema", True, "json_schema"),
        ("without_tools", False, "json_schema"),
        ("without_tools", True, None),
        ("output_tool", False, None),
        ("output_tool", True, None),
        ("json_object", False, "json_object"),
        ("json_object", True, None),
        ("none", False, None),
    ],
)
def test_structured_output_by_host(form: Any, tools: bool, kind: str | None) -> None:
    body = sent(
        ChatQuirks(response_format=form),
        tools=(SPEC,) if tools else (),
        response_schema=Raw(b'{"type":"object"}'),
    )
    assert body.get("response_format", {}).get("type") == kind


def test_schema_without_references_for_hosts_that_read_none() -> None:
    schema = Raw(
        msgspec.json.encode(
            {
                "$defs": {
                    "Leaf": {"type": "string"},
                    "Tree": {"type": "object", "properties": {"kids": {"items": {"$ref": "#/$defs/Tree"}}}},
                },
                "type": "object",
                "properties": {
                    "leaf": {"$ref": "#/$defs/Leaf", "description": "one"},
                    "tree": {"$ref": "#/$defs/Tree"},
                    "lost": {"$ref": "https://elsewhere.example/x"},
                },
            }
        )
    )
    assert json.loads(bytes(without_refs(schema))) == {
        "type": "object",
        "properties": {
            "leaf": {"type": "string", "description": "one"},
            "tree": {"type": "object", "properties": {"kids": {"items": {}}}},
            "lost": {},
        },
    }
    plain = Raw(b'{"type": "object"}')
    assert without_refs(plain) is plain
    body = sent(ChatQuirks(schema_dialect="no_refs"), response_schema=schema)
    assert "$ref" not in json.dumps(body)


# Switching hosts


def test_images_become_words_for_a_host_that_sees_none() -> None:
    image = ImagePart("data:image/png;base64,AA==")
    quirks = ChatQuirks(user_parts=())
    messages = sent(
        quirks,
        UserMessage((TextPart("look"), image)),
        *ROUND[2:3],
        ToolMessage("call_abc|fc_HIR/d_iG", (TextPart("shot"), image)),
    )["messages"]
    assert messages[0]["content"].startswith("look")
    assert "can not see" in messages[0]["content"]
    assert messages[2]["content"].startswith("shot")
    assert "image_url" not in json.dumps(messages)


@pytest.mark.parametrize(
    ("model", "effort", "asked"),
    [
        ("glm-5.3-flash", "none", {"reasoning_effort": "low"}),
        ("glm-5.2", "none", {"thinking": {"type": "disabled"}}),
        ("kimi-k3.1-pro", "none", {"reasoning_effort": "low"}),
        ("kimi-k3", "minimal", {"reasoning_effort": "low"}),
        ("kimi-k3", "medium", {"reasoning_effort": "high"}),
        ("kimi-k3", "high", {"reasoning_effort": "high"}),
        ("kimi-k3", "xhigh", {"reasoning_effort": "max"}),
        ("kimi-k3.1-pro", "max", {"reasoning_effort": "max"}),
        ("glm-5.3", "xhigh", {"reasoning_effort": "max"}),
        ("glm-5.2", "max", {"thinking": {"type": "enabled"}}),
        ("kimi-k2.6", "xhigh", {"thinking": {"type": "enabled"}}),
        ("kimi-k3", None, {}),
        ("kimi-k2.6", "none", {"thinking": {"type": "disabled"}}),
        ("kimi-k2.6", "low", {"thinking": {"type": "enabled"}}),
    ],
)
def test_effort_is_asked_for_in_the_form_of_the_model(model: str, effort: Any, asked: dict[str, Any]) -> None:
    host = "moonshot" if model.startswith("kimi") else "zai"
    body = sent(get_profile(host).quirks, model=model, reasoning_effort=effort)
    assert {name: body[name] for name in ("reasoning_effort", "thinking") if name in body} == asked


@pytest.mark.parametrize(
    ("host", "model", "xhigh", "most"),
    [
        ("openai", "gpt-6-luna", "xhigh", "max"),
        ("openai", "gpt-5.2", "xhigh", "xhigh"),
        ("openai", "o3", "high", "high"),
        ("azure-openai", "gpt-5.6-luna", "xhigh", "max"),
        ("azure-openai", "our-deployment", "high", "high"),
        ("deepseek", "deepseek-flash", "max", "max"),
        ("xai", "grok-4.7", "xhigh", "xhigh"),
        ("xai", "grok-4.3", "high", "high"),
        ("openrouter", "anthropic/claude-opus-5.5", "xhigh", "max"),
        ("fireworks", "accounts/fireworks/models/glm-5p3", "max", "max"),
        ("fireworks", "accounts/fireworks/models/gpt-oss-120b", "high", "high"),
        ("together", "zai-org/GLM-5.3-Flash", "max", "max"),
        ("together", "openai/gpt-oss-120b", "high", "high"),
        ("mistral", "mistral-medium-latest", "high", "high"),
        ("groq", "openai/gpt-oss-120b", "high", "high"),
        ("custom", "anything", "high", "high"),
        ("vllm", "openai/gpt-oss-20b", "high", "high"),
    ],
)
def test_effort_above_high_is_the_highest_that_host_and_model_have(
    host: str, model: str, xhigh: str, most: str
) -> None:
    asked: tuple[tuple[ReasoningEffort, str], ...] = (("xhigh", xhigh), ("max", most))
    for effort, expected in asked:
        body = sent(get_profile(host).quirks, model=model, reasoning_effort=effort)
        assert body.get("reasoning_effort", body.get("reasoning", {}).get("effort")) == expected


def test_a_wrong_name_of_models_with_strong_efforts_is_told_before_anything_is_sent() -> None:
    def of(pattern: str, **settings: Any) -> None:
        rows: dict[str, Any] = {"quirks": {"strong_efforts": [[pattern, ["xhigh", "max"]]]}}
        options = ProviderOptions(base_url="https://h.example", model="m", settings={**rows, **settings})
        from_profile("custom", options)

    for wire in ("openai_chat", "openai_responses"):
        of("^my-model", wire=wire)
        with pytest.raises(ConfigurationError, match="no regular expression"):
            of("my-(model", wire=wire)


def test_no_host_is_sent_an_effort_above_high_that_its_row_does_not_name() -> None:
    for profile in list_profiles():
        named = {effort for _, strong in profile.quirks.strong_efforts for effort in strong}
        for effort in get_args(ReasoningEffort):
            body = sent(profile.quirks, model="deepseek-v4-pro", reasoning_effort=effort)
            told = body.get("reasoning_effort", body.get("reasoning", {}).get("effort"))
            assert told not in {"xhigh", "max"} - named, profile.name


def test_images_go_to_the_models_of_a_host_that_see() -> None:
    image = ImagePart("data:image/png;base64,AA==")
    history = (
        UserMessage((TextPart("look"), image)),
        *ROUND[2:3],
        ToolMessage("call_abc|fc_HIR/d_iG", (image,)),
    )
    quirks = get_profile("deepseek").quirks
    builder = ChatRequestBuilder(
        base_url="https://api.deepseek.com", provider="deepseek", host="api.deepseek.com", quirks=quirks
    )
    log = History.of(history)
    for model, seen in (("deepseek-flash", 2), ("deepseek-v4-pro", 0), ("deepseek-v4-flash", 2)):
        body = builder.build(ChatRequest(model=model, history=log))
        assert body.count(b'"image_url":{"url"') == seen
        assert (b"can not see" in body) == (seen == 0)


def test_ids_of_exact_length_are_mapped_and_own_ones_stay() -> None:
    rule = get_profile("mistral").quirks.call_ids
    for call_id in ("turn1_0", "call_abc|fc_HIR/d_iG", "", "äöü"):
        mapped = wire_call_id(call_id, rule)
        assert re.fullmatch("[a-zA-Z0-9]{9}", mapped)
        assert mapped == wire_call_id(call_id, rule)
    assert wire_call_id("Abc123XyZ", rule) == "Abc123XyZ"
    assert wire_call_id("a" * 12, CallIdRule(max_length=40)) == "a" * 12


# OpenRouter's routing


def test_routing_options_go_to_openrouter_alone() -> None:
    routing: Any = {"order": ["anthropic"], "allow_fallbacks": False, "max_price": {"prompt": 1}}
    made = from_profile("openrouter", ProviderOptions(api_key=KEY, settings={"routing": routing}))
    body = json.loads(made._wire.builder.build(ChatRequest(model="m", history=History.of(ROUND))))
    assert body["provider"] == {
        "order": ["anthropic"],
        "allow_fallbacks": False,
        "max_price": {"prompt": 1.0},
    }
    with pytest.raises(ConfigurationError, match="OpenRouter"):
        from_profile("openai", ProviderOptions(api_key=KEY, settings={"routing": routing}))
    with pytest.raises(ConfigurationError):
        from_profile("openrouter", ProviderOptions(api_key=KEY, settings={"routing": {"oder": []}}))


def test_own_extra_body_wins_over_routing() -> None:
    settings: dict[str, Any] = {"routing": {"sort": "price"}, "extra_body": {"provider": {"only": ["x"]}}}
    made = from_profile("openrouter", ProviderOptions(api_key=KEY, settings=settings))
    body = json.loads(made._wire.builder.build(ChatRequest(model="m", history=History.of(ROUND))))
    assert body["provider"] == {"only": ["x"]}
