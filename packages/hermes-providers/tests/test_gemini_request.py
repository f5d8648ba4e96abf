"""Requests on the Gemini wire, byte for byte."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from msgspec import Raw

from gemini_help import BASE_URL, NEW, OLD, ask, body, builder, contents
from gemini_requests import CALL, OTHER, PICTURE, own_round, rounds
from hermes_messages import (
    AssistantMessage,
    ConfigurationError,
    ErrorKind,
    Message,
    ProviderError,
    ReasoningEffort,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    encode_messages,
)
from hermes_messages.parts import AudioPart, FilePart, ImagePart, OpaquePart, TextPart
from hermes_providers.wire.base import WireSettings
from hermes_providers.wire.gemini_format import make_wire
from hermes_providers.wire.gemini_quirks import GeminiQuirks
from wire_help import SPEC


def test_whole_body_of_a_tool_round() -> None:
    request = ask(
        SystemMessage("be brief"),
        UserMessage("read x"),
        AssistantMessage("Looking.", tool_calls=(CALL,)),
        ToolMessage("call_1", "content of x"),
        model=OLD,
        tools=(SPEC,),
        tool_choice="required",
        temperature=0.5,
        max_tokens=100,
        seed=7,
        stop=("END",),
        reasoning_effort="low",
    )
    assert builder().build(request) == (
        b'{"systemInstruction":{"parts":[{"text":"be brief"}]},'
        b'"generationConfig":{"maxOutputTokens":100,"temperature":0.5,"seed":7,"stopSequences":["END"],'
        b'"thinkingConfig":{"thinkingBudget":75,"includeThoughts":true}},'
        b'"toolConfig":{"functionCallingConfig":{"mode":"ANY"}},"contents":['
        b'{"role":"user","parts":[{"text":"read x"}]},'
        b'{"role":"model","parts":[{"text":"Looking."},'
        b'{"functionCall":{"name":"read_file","args":{"path": "x"}}}]},'
        b'{"role":"user","parts":[{"functionResponse":{"name":"read_file",'
        b'"response":{"output":"content of x"}}}]}'
        b'],"tools":[{"functionDeclarations":[{"name":"read_file","description":"Read a text file.",'
        b'"parameters":{"type":"OBJECT","properties":{"path":{"type":"STRING"}}}}]}]}'
    )


@pytest.mark.parametrize(
    ("model", "path"),
    [
        (NEW, f"/models/{NEW}"),
        (f"models/{NEW}", f"/models/{NEW}"),
        ("tunedModels/my-own", "/tunedModels/my-own"),
        ("a b?c#d%", "/models/a%20b%3Fc%23d%25"),
        ("x:y", "/models/x%3Ay"),
    ],
)
def test_models_name_is_escaped_in_the_address(model: str, path: str) -> None:
    assert builder().url(ask(model=model)) == f"{BASE_URL}{path}:streamGenerateContent?alt=sse"


@pytest.mark.parametrize("model", ["", "../x", "models/..", "models//x", "/x", "."])
def test_models_name_that_would_lead_elsewhere_is_refused(model: str) -> None:
    with pytest.raises(ProviderError) as caught:
        builder().url(ask(model=model))
    assert caught.value.kind is ErrorKind.FORMAT


def test_query_of_the_base_address_stays() -> None:
    made = builder(base_url="https://x.example/v1beta?team=a")
    assert made.url(ask()) == f"https://x.example/v1beta/models/{NEW}:streamGenerateContent?team=a&alt=sse"


def test_leading_system_messages_are_joined() -> None:
    sent = body(SystemMessage("A"), SystemMessage(" "), SystemMessage("B"), UserMessage("hi"))
    assert sent["systemInstruction"] == {"parts": [{"text": "A\n\nB"}]}
    assert "systemInstruction" not in body(SystemMessage(" "), UserMessage("hi"))


def test_late_system_message_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(ProviderError, match="only the first") as caught:
        body(UserMessage("hi"), SystemMessage("late"))
    assert caught.value.kind is ErrorKind.FORMAT


@pytest.mark.parametrize("messages", [[SystemMessage("A")], [AssistantMessage("")]])
def test_conversation_with_nothing_to_send_is_refused(messages: list[Message]) -> None:
    with pytest.raises(ProviderError, match="nothing to send"):
        body(*messages)


def test_consecutive_contents_of_one_role_are_joined() -> None:
    sent = contents(
        *rounds(),
        UserMessage("a note"),
        AssistantMessage(""),
        UserMessage((TextPart("more"), PICTURE)),
        AssistantMessage("one"),
        AssistantMessage("two"),
    )
    assert [content["role"] for content in sent] == ["user", "model", "user", "model"]
    assert [next(iter(part)) for part in sent[2]["parts"]] == [
        "functionResponse",
        "text",
        "text",
        "inlineData",
    ]
    assert sent[3]["parts"] == [{"text": "one"}, {"text": "two"}]


@pytest.mark.parametrize("content", [None, "", " \n", (TextPart(" "),)])
def test_empty_assistant_turn_of_a_failed_stream_is_not_sent(content: Any) -> None:
    sent = contents(UserMessage("a"), AssistantMessage(content), UserMessage("b"))
    assert sent == [{"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}]


def test_blank_parts_are_dropped_and_a_blank_turn_keeps_its_place() -> None:
    assert contents(UserMessage((TextPart(" \n"), PICTURE)))[0]["parts"] == [
        {"inlineData": {"mimeType": "image/jpeg", "data": "AAAA"}}
    ]
    assert contents(UserMessage("  "))[0]["parts"] == [{"text": "(empty message)"}]


def test_parts_of_a_user_message() -> None:
    content = (
        TextPart("look"),
        ImagePart("https://host.example/a.png?x=1"),
        ImagePart("https://host.example/a"),
        ImagePart("data:image/svg+xml,%3Csvg%2F%3E"),
        AudioPart("BBBB", "mp3"),
        FilePart(filename="a.pdf", data="data:application/pdf;base64,CCCC"),
        FilePart(file_id="https://generativelanguage.googleapis.com/v1beta/files/x", filename="a.txt"),
        OpaquePart(Raw(b'{"videoMetadata":{}}')),
    )
    assert contents(UserMessage(content))[0]["parts"] == [
        {"text": "look"},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://host.example/a.png?x=1"}},
        {"fileData": {"fileUri": "https://host.example/a"}},
        {"inlineData": {"mimeType": "image/svg+xml", "data": "PHN2Zy8+"}},
        {"inlineData": {"mimeType": "audio/mp3", "data": "BBBB"}},
        {"inlineData": {"mimeType": "application/pdf", "data": "CCCC"}},
        {
            "fileData": {
                "mimeType": "text/plain",
                "fileUri": "https://generativelanguage.googleapis.com/v1beta/files/x",
            }
        },
        {"videoMetadata": {}},
    ]


def test_results_tell_output_and_error() -> None:
    sent = contents(
        UserMessage("hi"),
        AssistantMessage(tool_calls=(CALL, OTHER)),
        ToolMessage("call_1", "fine"),
        ToolMessage("call_2", "boom", status="error"),
    )
    assert [part["functionResponse"]["response"] for part in sent[2]["parts"]] == [
        {"output": "fine"},
        {"error": "boom"},
    ]


def test_result_without_its_call_has_its_own_name() -> None:
    sent = contents(UserMessage("hi"), AssistantMessage("x"), ToolMessage("a", "b", name="f"))
    assert sent[-1]["parts"][0]["functionResponse"]["name"] == "f"


@pytest.mark.parametrize("content", ["", " \n", ()])
def test_result_without_text(content: Any) -> None:
    sent = contents(*rounds()[:2], ToolMessage("call_1", content))
    assert sent[-1]["parts"][0]["functionResponse"]["response"] == {"output": "(no output)"}


def test_image_of_a_result_is_inside_of_it_or_behind_all_results() -> None:
    history: list[Message] = [
        UserMessage("hi"),
        AssistantMessage(tool_calls=(CALL, OTHER)),
        ToolMessage("call_1", (PICTURE,)),
        ToolMessage("call_2", (TextPart("b"), ImagePart("https://x.example/a.png"))),
    ]
    image = {"inlineData": {"mimeType": "image/jpeg", "data": "AAAA"}}
    linked = {"fileData": {"mimeType": "image/png", "fileUri": "https://x.example/a.png"}}
    new = contents(*history)[2]["parts"]
    assert new[0]["functionResponse"] == {
        "id": "call_1",
        "name": "read_file",
        "response": {"output": "(image)"},
        "parts": [image],
    }
    assert new[2:] == [linked]
    old = contents(*history, model=OLD)[2]["parts"]
    assert "parts" not in old[0]["functionResponse"]
    assert old[2:] == [image, linked]


@pytest.mark.parametrize("arguments", ['{"x": 1', "[1]", "", '{"a":"x\ny"}', "nonsense"])
def test_broken_arguments_of_another_host_are_sent_as_an_object(arguments: str) -> None:
    sent = contents(*rounds(ToolCall("a", "f", arguments)))
    assert isinstance(sent[1]["parts"][0]["functionCall"]["args"], dict)


def test_lone_surrogates_do_not_stop_a_request() -> None:
    broken = "a\ud800b"
    calls = (ToolCall("a", "f", f'{{"x": "{broken}"}}'),)
    sent = contents(UserMessage(broken), AssistantMessage(tool_calls=calls), ToolMessage("a", broken))
    assert sent[0]["parts"] == [{"text": "a�b"}]


def test_building_changes_nothing_in_the_history() -> None:
    messages = [*own_round(), *rounds(ask_first=False)]
    before = encode_messages(messages)
    body(*messages)
    assert encode_messages(messages) == before


def test_tool_options_only_with_tools() -> None:
    assert {"tools", "toolConfig"}.isdisjoint(body(tool_choice="required", parallel_tool_calls=True))
    assert "toolConfig" not in body(tools=(SPEC,))
    assert body(tools=(SPEC,), tool_choice="none")["toolConfig"] == {
        "functionCallingConfig": {"mode": "NONE"}
    }


SCHEMA = Raw(b'{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":false}')


def test_schema_of_the_answer() -> None:
    config = body(response_schema=SCHEMA)["generationConfig"]
    assert config == {
        "responseMimeType": "application/json",
        "responseSchema": {"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}},
    }
    plain = GeminiQuirks(schema_dialect="json_schema")
    sent = body(response_schema=SCHEMA, tools=(SPEC,), quirks=plain)
    assert sent["generationConfig"]["responseJsonSchema"] == json.loads(bytes(SCHEMA))
    assert sent["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"] == json.loads(
        bytes(SPEC.parameters)
    )


def declared(sent: dict[str, Any]) -> list[str]:
    return [one["name"] for tool in sent.get("tools", []) for one in tool["functionDeclarations"]]


def test_schema_beside_tools_is_a_tool_for_models_that_do_not_take_both() -> None:
    new = body(response_schema=SCHEMA, tools=(SPEC,))
    assert ("generationConfig" in new, declared(new)) == (True, ["read_file"])
    old = body(response_schema=SCHEMA, tools=(SPEC,), model=OLD)
    assert ("generationConfig" in old, declared(old)) == (False, ["read_file", "submit_structured_answer"])
    alone = body(response_schema=SCHEMA, model=OLD)
    assert ("generationConfig" in alone, declared(alone)) == (True, [])


def test_other_ways_to_ask_for_an_answer_in_a_form() -> None:
    by_tool = body(response_schema=SCHEMA, quirks=GeminiQuirks(response_format="output_tool"))
    assert declared(by_tool) == ["submit_structured_answer"]
    assert by_tool["toolConfig"]["functionCallingConfig"] == {
        "mode": "ANY",
        "allowedFunctionNames": ["submit_structured_answer"],
    }
    assert "generationConfig" not in body(response_schema=SCHEMA, quirks=GeminiQuirks(response_format="none"))
    careful = GeminiQuirks(response_format="without_tools")
    sent = body(response_schema=SCHEMA, tools=(SPEC,), quirks=careful)
    assert ("generationConfig" in sent, declared(sent)) == (False, ["read_file"])


def test_tools_are_declared_anew_when_the_schema_of_the_answer_comes_or_goes() -> None:
    made, tools = builder(), (SPEC,)
    bodies = [
        json.loads(made.build(ask(tools=tools, model=OLD, response_schema=schema)))
        for schema in (None, SCHEMA, None)
    ]
    assert [len(declared(sent)) for sent in bodies] == [1, 2, 1]


@pytest.mark.parametrize("effort", get_args(ReasoningEffort))
def test_thinking_is_a_level_or_a_budget_never_both(effort: ReasoningEffort) -> None:
    new = body(reasoning_effort=effort)["generationConfig"]["thinkingConfig"]
    old = body(reasoning_effort=effort, model=OLD)["generationConfig"]["thinkingConfig"]
    assert ("thinkingLevel" in new, "thinkingBudget" in new) == (True, False)
    assert ("thinkingLevel" in old, "thinkingBudget" in old) == (False, True)
    assert ("includeThoughts" in new, "includeThoughts" in old) == (effort != "none", effort != "none")


@pytest.mark.parametrize(
    ("model", "max_tokens", "budget"),
    [
        ("gemini-2.5-flash", 8_000, 6_000),
        ("gemini-2.5-flash", 100_000, 24_576),
        ("gemini-2.5-flash", 100, 75),
        ("gemini-2.5-flash", 1, 0),
        ("gemini-2.5-flash-lite", 1_000, 750),
        ("gemini-2.5-flash-lite", 600, 0),  # it has no budget below 512
        ("gemini-2.5-pro", 400, 300),
        ("gemini-2.5-pro", 100, 128),  # it can not be kept from thinking
    ],
)
def test_thoughts_leave_room_for_an_answer_under_max_tokens(model: str, max_tokens: int, budget: int) -> None:
    config = body(reasoning_effort="max", model=model, max_tokens=max_tokens)["generationConfig"]
    assert config["maxOutputTokens"] == max_tokens
    assert config["thinkingConfig"] == {"thinkingBudget": budget} | (
        {"includeThoughts": True} if budget else {}
    )


def test_thinking_of_single_models() -> None:
    def config(model: str, effort: ReasoningEffort) -> Any:
        return body(reasoning_effort=effort, model=model).get("generationConfig")

    assert config(OLD, "none") == {"thinkingConfig": {"thinkingBudget": 0}}
    assert config("gemini-2.5-pro", "none") == {"thinkingConfig": {"thinkingBudget": 128}}
    for model, lowest in (
        ("gemini-3-flash-preview", "minimal"),
        ("gemini-3.5-flash-lite", "minimal"),
        # "Thinking level MINIMAL is not supported for this model."
        ("gemini-3.1-pro-preview", "low"),
        ("gemini-3.8-flash", "low"),
        ("gemini-4-argon", "low"),
    ):
        assert config(model, "none") == {"thinkingConfig": {"thinkingLevel": lowest}}
        assert config(model, "minimal")["thinkingConfig"]["thinkingLevel"] == lowest
    efforts: tuple[ReasoningEffort, ...] = ("xhigh", "max")
    for effort in efforts:
        assert config("gemini-4-argon", effort)["thinkingConfig"]["thinkingLevel"] == "high"
        assert config("gemini-2.5-pro", effort)["thinkingConfig"]["thinkingBudget"] == 32_768
        assert config("gemini-2.5-flash", effort)["thinkingConfig"]["thinkingBudget"] == 24_576
        assert config("gemini-2.5-flash-lite", effort)["thinkingConfig"]["thinkingBudget"] == 24_576
    assert config("gemini-2.0-flash", "high") is None
    assert config("gemma-3-27b-it", "high") is None


def test_extra_body_is_merged_and_its_generation_config_field_by_field() -> None:
    extra = Raw(b'{"generationConfig":{"topK":3,"seed":9},"safetySettings":[]}')
    sent = body(extra_body=extra, temperature=0.5, seed=1)
    assert sent["generationConfig"] == {"temperature": 0.5, "seed": 9, "topK": 3}
    assert sent["safetySettings"] == []
    assert body(extra_body=extra)["generationConfig"] == {"topK": 3, "seed": 9}


@pytest.mark.parametrize("extra", [b'{"contents":[]}', b"[1]"])
def test_extra_body_that_can_not_be_sent(extra: bytes) -> None:
    with pytest.raises(ConfigurationError):
        builder(extra_body=Raw(extra))
    with pytest.raises(ConfigurationError):
        body(extra_body=Raw(extra))


def test_counting_asks_about_the_whole_request() -> None:
    request = ask(SystemMessage("A"), UserMessage("hi"), tools=(SPEC,))
    counter = make_wire(WireSettings(base_url=BASE_URL, provider="google", host="h")).counter
    assert counter is not None
    question = counter.first(request)
    assert question.url == f"{BASE_URL}/models/{NEW}:countTokens"
    asked = json.loads(question.body)["generateContentRequest"]
    assert asked == {"model": f"models/{NEW}"} | json.loads(builder().build(request))
    assert counter.read(b'{"totalTokens":31}') == 31
    assert counter.read(b"[]") is None
