"""Requests on the Gemini wire, byte for byte."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from gemini_help import (
    BASE_URL,
    NEW,
    OLD,
    SIGNATURE,
    ask,
    body,
    builder,
    call_part,
    contents,
    replayed,
)
from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    ConfigurationError,
    ErrorKind,
    History,
    Message,
    MessageLog,
    ProviderError,
    ReasoningEffort,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    encode_messages,
)
from hermes_messages.parts import AudioPart, FilePart, ImagePart, OpaquePart, Replay, TextPart
from hermes_providers.wire.base import WireSettings
from hermes_providers.wire.gemini_format import make_wire
from hermes_providers.wire.gemini_quirks import GeminiQuirks
from wire_help import SPEC

DUMMY = "skip_thought_signature_validator"
PICTURE = ImagePart("data:image/jpeg;base64,AAAA")
CALL = ToolCall("call_1", "read_file", '{"path": "x"}')
OTHER = ToolCall("call_2", "now", "{}")


def rounds(
    *calls: ToolCall, content: str | None = None, replay: Replay | None = None, ask_first: bool = True
) -> list[Message]:
    calls = calls or (CALL,)
    asked: list[Message] = [UserMessage("hi")] if ask_first else []
    said = AssistantMessage(content, tool_calls=calls, replay=replay)
    return [*asked, said, *[ToolMessage(call.id, f"result of {call.id}") for call in calls]]


def own_round(*, with_ids: bool = True, model: str = NEW) -> list[Message]:
    parts: list[dict[str, Any]] = [
        {"text": "Looking."},
        call_part("read_file", SIGNATURE, id="call_1", args={"path": "x"}),
        call_part("now", id="call_2", args={}),
    ]
    if not with_ids:
        for part in parts[1:]:
            del part["functionCall"]["id"]
    calls = (ToolCall("call_1", "read_file", '{"path":"x"}'), OTHER)
    return rounds(*calls, content="Looking.", replay=replayed(*parts, model=model))


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
        b'"thinkingConfig":{"thinkingBudget":1024,"includeThoughts":true}},'
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


def ids_of(sent: list[dict[str, Any]]) -> list[str | None]:
    fields = [part.get("functionCall") or part.get("functionResponse") for c in sent for part in c["parts"]]
    return [field.get("id") for field in fields if field]


@pytest.mark.parametrize("history", [rounds(CALL, OTHER), own_round()], ids=["foreign", "own"])
def test_ids_go_to_the_generations_that_know_them(history: list[Message]) -> None:
    wanted = ["call_1", "call_2", "call_1", "call_2"]
    assert ids_of(contents(*history)) == wanted
    assert ids_of(contents(*history, model="gemini-flash-latest")) == wanted
    for model in (OLD, "gemini-1.5-pro", "models/gemini-2.0-flash", "gemma-3-27b-it"):
        assert ids_of(contents(*history, model=model)) == [None] * 4
    always = GeminiQuirks(call_ids="always")
    assert ids_of(contents(*history, model=OLD, quirks=always)) == wanted


def test_own_parts_of_an_older_model_lose_the_ids_that_it_does_not_take_back() -> None:
    assert ids_of(contents(*own_round(model=OLD), model=OLD)) == [None] * 4


def test_result_has_no_id_where_the_hosts_own_call_had_none() -> None:
    assert ids_of(contents(*own_round(with_ids=False))) == [None] * 4


def test_one_response_stays_one_content_with_its_signature_where_it_was() -> None:
    sent = contents(*own_round())
    assert sent[1] == {
        "role": "model",
        "parts": [
            {"text": "Looking."},
            call_part("read_file", SIGNATURE, id="call_1", args={"path": "x"}),
            call_part("now", id="call_2", args={}),
        ],
    }


def signatures(sent: list[dict[str, Any]]) -> list[str | None]:
    return [part.get("thoughtSignature") for c in sent for part in c["parts"] if "functionCall" in part]


def test_dummy_signature_only_on_the_first_call_of_a_step_of_the_current_turn() -> None:
    earlier: list[Message] = [*rounds(CALL, OTHER), AssistantMessage("done")]
    current = [*rounds(CALL, OTHER), *rounds(OTHER, CALL, ask_first=False)]
    assert signatures(contents(*earlier, *current)) == [None, None, DUMMY, None, DUMMY, None]
    assert signatures(contents(*earlier, *current, AssistantMessage("x"), UserMessage("new"))) == [None] * 6


def test_real_signatures_are_never_joined_by_a_dummy() -> None:
    assert signatures(contents(*own_round())) == [SIGNATURE, None]
    mixed: list[Message] = [*own_round(), *rounds(CALL, OTHER, ask_first=False)]
    assert signatures(contents(*mixed)) == [SIGNATURE, None, DUMMY, None]


def test_older_models_get_no_dummy() -> None:
    assert signatures(contents(*rounds(CALL, OTHER), model=OLD)) == [None, None]
    always = GeminiQuirks(signatures="always")
    assert signatures(contents(*rounds(), model=OLD, quirks=always)) == [DUMMY]


@pytest.mark.parametrize(
    "replay",
    [
        replayed(call_part("read_file", SIGNATURE, id="call_1", args={"path": "x"}), model=OLD),
        replayed(call_part("read_file", SIGNATURE, id="call_1", args={"path": "x"}), wire="openai_chat"),
        replayed(call_part("read_file", SIGNATURE, id="call_1", args={"path": "y"})),
        replayed(call_part("read_file", SIGNATURE, id="other", args={"path": "x"})),
        replayed({"text": "I said more."}, call_part("read_file", SIGNATURE, args={"path": "x"})),
        replayed({"text": "", "thoughtSignature": SIGNATURE}),
        replayed("nonsense"),
    ],
    ids=["other model", "other wire", "arguments edited", "id changed", "text edited", "call gone", "broken"],
)
def test_parts_that_are_foreign_or_say_something_else_are_not_sent(replay: Replay) -> None:
    call = ToolCall("call_1", "read_file", '{"path":"x"}')
    assert signatures(contents(*rounds(call, replay=replay))) == [DUMMY]
    text = json.dumps(contents(*rounds(call, replay=replay)))
    assert SIGNATURE not in text
    assert "said more" not in text


def test_fields_that_only_a_response_has_are_not_sent() -> None:
    part = {**call_part("f", SIGNATURE, id="a", args={}), "partMetadata": {"x": 1}, "thought": None}
    part["functionCall"] = {"name": "f", "id": "a", "args": {}, "willContinue": False}
    sent = contents(*rounds(ToolCall("a", "f", "{}"), replay=replayed(part)))
    assert sent[1]["parts"] == [call_part("f", SIGNATURE, id="a", args={})]


def test_signed_text_goes_back_as_the_part_that_it_was() -> None:
    parts = [{"text": "Hel"}, {"text": "lo", "thoughtSignature": SIGNATURE}]
    said = AssistantMessage("Hello", replay=replayed(*parts))
    assert contents(UserMessage("a"), said, UserMessage("b"))[1]["parts"] == parts


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


def test_thinking_of_single_models() -> None:
    def config(model: str, effort: ReasoningEffort) -> Any:
        return body(reasoning_effort=effort, model=model).get("generationConfig")

    assert config(OLD, "none") == {"thinkingConfig": {"thinkingBudget": 0}}
    assert config("gemini-2.5-pro", "none") == {"thinkingConfig": {"thinkingBudget": 128}}
    assert config(NEW, "none") == {"thinkingConfig": {"thinkingLevel": "minimal"}}
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


def common_prefix(left: bytes, right: bytes) -> int:
    return next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), len(left))


def test_consecutive_bodies_share_everything_up_to_the_last_part_of_the_contents() -> None:
    messages: list[Message] = [SystemMessage("be brief")]
    for number in range(4):
        call = ToolCall(f"call_{number}", "read_file", '{"path":"x"}')
        part = call_part("read_file", SIGNATURE, id=call.id, args={"path": "x"})
        messages += [UserMessage(f"question {number}"), *rounds(call, replay=replayed(part))[1:]]
        messages += [UserMessage("a note"), AssistantMessage(f"answer {number}")]
    log, made, previous = MessageLog(), builder(), b""
    for message in messages:
        log.append(message)
        if isinstance(message, SystemMessage):
            continue
        current = made.build(ChatRequest(model=NEW, history=log.view(), tools=(SPEC,)))
        # A content may still grow, so the end that counts is that of its last part.
        assert common_prefix(previous, current) >= previous.rfind(b']}],"tools":')
        previous = current
    assert made.encode_calls < 60


@given(
    st.lists(
        st.sampled_from(
            [
                UserMessage("u"),
                UserMessage(" "),
                AssistantMessage("t"),
                AssistantMessage(""),
                *rounds(CALL, OTHER)[1:],
                own_round()[1],
            ]
        ),
        min_size=1,
    ),
    st.sampled_from([NEW, OLD]),
)
def test_growing_log_and_fresh_log_give_the_same_alternating_contents(
    messages: list[Message], model: str
) -> None:
    log, kept = MessageLog([UserMessage("first")]), builder()
    for message in messages:
        log.append(message)
        again = kept.build(ChatRequest(model=model, history=log.view()))
        assert again == builder().build(ChatRequest(model=model, history=History.of(list(log.view()))))
        roles = [content["role"] for content in json.loads(again)["contents"]]
        assert all(a != b for a, b in pairwise(roles))
