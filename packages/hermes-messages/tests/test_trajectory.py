from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from example_counts import fewer_examples
from hermes_messages import (
    AssistantMessage,
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    MessageFormatError,
    OpaquePart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
    from_openai_row,
    from_trajectory,
    to_openai_row,
    to_trajectory,
    tools_from_trajectory,
    validate,
)
from hermes_messages.openai_row import OpenAIRow
from hermes_messages.trajectory_text import GPT_TAGS, SYSTEM_TAGS
from message_strategies import any_messages, conversations, json_objects, texts

TOOL = ToolSpec.from_schema(
    "read_file", "Reads </tools> a file.", {"type": "object", "properties": {"path": {}}}
)
HI = UserMessage("hi")


def gpt_value(message: AssistantMessage) -> str:
    (row,) = to_trajectory([message])
    assert row["from"] == "gpt"
    return row["value"]


def same_but_spacing(message: Message) -> Message:
    """What a trajectory may change in a plain conversation: the spacing of arguments, None and ""."""
    if not isinstance(message, AssistantMessage):
        return message
    calls = tuple(
        ToolCall(call.id, call.name, json.dumps(json.loads(call.arguments))) for call in message.tool_calls
    )
    return AssistantMessage(message.content or None, calls, reasoning=message.reasoning or None)


# Shape


def test_a_conversation_in_rows() -> None:
    rows = to_trajectory(
        [
            SystemMessage("Be brief."),
            UserMessage("What is in a.txt and b.txt?"),
            AssistantMessage(
                "I look.",
                (
                    ToolCall("c1", "read_file", '{"path":"a.txt"}'),
                    ToolCall("c2", "read_file", '{"path":"b.txt"}'),
                ),
                reasoning="Two files.",
            ),
            ToolMessage("c2", "B", "read_file"),
            ToolMessage("c1", '{"x": 1}'),
            AssistantMessage("A and B."),
        ],
        [TOOL],
    )
    assert [row["from"] for row in rows] == ["system", "human", "gpt", "tool", "gpt"]
    assert all(list(row) == ["from", "value"] for row in rows)
    assert rows[0]["value"].startswith("Be brief.\n\n")
    listed = rows[0]["value"].split("<tools>\n")[1].split("\n</tools>")[0]
    assert json.loads(listed) == [
        {
            "type": "function",
            "function": {
                "name": "read_file",
                "description": "Reads </tools> a file.",
                "parameters": {"type": "object", "properties": {"path": {}}},
            },
        }
    ]
    assert rows[1]["value"] == "What is in a.txt and b.txt?"
    assert rows[2]["value"] == (
        "<think>\nTwo files.\n</think>\nI look.\n"
        '<tool_call>\n{"name": "read_file", "arguments": {"path": "a.txt"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "read_file", "arguments": {"path": "b.txt"}}\n</tool_call>'
    )
    assert rows[3]["value"] == (
        '<tool_response>\n{"tool_call_id": "c1", "name": "read_file", "content": "{\\"x\\": 1}"}\n'
        "</tool_response>\n"
        '<tool_response>\n{"tool_call_id": "c2", "name": "read_file", "content": "B"}\n</tool_response>'
    )
    assert rows[4]["value"] == "<think>\n</think>\nA and B."


def test_tools_without_a_system_message_get_a_row_of_their_own() -> None:
    rows = to_trajectory([HI], [TOOL])
    assert [row["from"] for row in rows] == ["system", "human"]
    assert from_trajectory(rows) == [HI]
    assert [row["from"] for row in to_trajectory([HI])] == ["human"]


def test_each_round_has_one_tool_row() -> None:
    rows = to_trajectory(
        [
            HI,
            AssistantMessage(tool_calls=(ToolCall("a", "f", "{}"),)),
            ToolMessage("a", "1"),
            AssistantMessage(tool_calls=(ToolCall("a", "f", "{}"),)),
            ToolMessage("a", "2"),
        ]
    )
    assert [row["from"] for row in rows] == ["human", "gpt", "tool", "gpt", "tool"]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (AssistantMessage("x", reasoning=""), "<think>\n</think>\nx"),
        (
            AssistantMessage("<REASONING_SCRATCHPAD>\nplan\n</REASONING_SCRATCHPAD>\nDone."),
            "<think>\nplan\n</think>\nDone.",
        ),
        (
            AssistantMessage("<REASONING_SCRATCHPAD>plan</REASONING_SCRATCHPAD>Done.", reasoning="native"),
            "<think>\nnative\nplan\n</think>\nDone.",
        ),
        (
            AssistantMessage(
                "First.\n<REASONING_SCRATCHPAD>more\n</REASONING_SCRATCHPAD>\n"
                "<REASONING_SCRATCHPAD>\nyet more</REASONING_SCRATCHPAD>\nThen."
            ),
            "<think>\nmore\nyet more\n</think>\nFirst.\nThen.",
        ),
        (AssistantMessage("<REASONING_SCRATCHPAD>\nnever closed"), "<think>\nnever closed\n</think>\n"),
        (
            AssistantMessage("x", reasoning="<REASONING_SCRATCHPAD>\nplan\n</REASONING_SCRATCHPAD>"),
            "<think>\nplan\n</think>\nx",
        ),
        (
            AssistantMessage("The tag <REASONING_SCRATCHPAD> is old."),
            "<think>\n</think>\nThe tag <REASONING_SCRATCHPAD> is old.",
        ),
        (AssistantMessage(refusal="I will not."), "<think>\n</think>\nI will not."),
        (
            AssistantMessage(tool_calls=(ToolCall("a", "f", '{"x": listt"}'),)),
            '<think>\n</think>\n<tool_call>\n{"name": "f", "arguments": {"x": "listt"}}\n</tool_call>',
        ),
        (
            AssistantMessage(tool_calls=(ToolCall("a", "f", "{"),)),
            '<think>\n</think>\n<tool_call>\n{"name": "f", "arguments": {"_unparsed": "{"}}\n</tool_call>',
        ),
    ],
)
def test_gpt_rows(message: AssistantMessage, expected: str) -> None:
    assert gpt_value(message) == expected


def test_media_become_lines_of_text() -> None:
    content = (
        TextPart("Look:"),
        ImagePart("https://e.org/a.png"),
        ImagePart("data:image/png;base64," + "A" * 10_000),
        TextPart("and "),
        TextPart("listen"),
        AudioPart("AAAA", "wav"),
        FilePart(filename="a.pdf", data="data:application/pdf;base64,AA"),
        FilePart(data="data:application/pdf;base64,AA"),
        OpaquePart(msgspec.Raw(b'{"type":"video"}')),
    )
    (row,) = to_trajectory([UserMessage(content)])
    assert row["value"] == (
        "Look:\n[image: https://e.org/a.png]\n[image: image/png]\nand listen\n[audio: wav]\n[file: a.pdf]\n"
        "[file: application/pdf]\n[content of another kind]"
    )


# Round trips


@given(conversations(plain=True), st.booleans())
def test_plain_conversations_survive_as_rows_of_both_kinds(messages: list[Message], with_tools: bool) -> None:
    """Of one conversation, since to draw it takes longer than to write and read it."""
    a_trajectory_survives(messages, with_tools)
    an_openai_row_survives(messages)


def a_trajectory_survives(messages: list[Message], with_tools: bool) -> None:
    rows = to_trajectory(messages, [TOOL] if with_tools else [])
    back = from_trajectory(rows)
    assert [same_but_spacing(message) for message in back] == [
        same_but_spacing(message) for message in messages
    ]
    assert validate(back) == []
    assert tools_from_trajectory(rows) == ([TOOL] if with_tools else [])
    assert to_trajectory(back, [TOOL] if with_tools else []) == rows


@fewer_examples
@given(st.lists(any_messages, max_size=5))
def test_rows_of_any_messages_settle_at_once(messages: list[Message]) -> None:
    rows = to_trajectory(messages)
    json.dumps(rows, ensure_ascii=False).encode()
    assert all(set(row) == {"from", "value"} for row in rows)
    assert all(row["value"].startswith("<think>\n") for row in rows if row["from"] == "gpt")
    once = to_trajectory(from_trajectory(rows))
    assert to_trajectory(from_trajectory(once)) == once


@given(texts, texts)
def test_text_that_holds_the_tags_survives(text: str, reasoning: str) -> None:
    message = AssistantMessage(text, reasoning=reasoning or None)
    if "<REASONING_SCRATCHPAD>" in text + reasoning:
        return
    assert from_trajectory(to_trajectory([SystemMessage(text), UserMessage(text), message], [TOOL])) == [
        *([SystemMessage(text)] if text else []),
        UserMessage(text),
        message,
    ]


@given(json_objects, texts)
def test_arguments_and_results_that_hold_the_tags_survive(arguments: dict[str, object], text: str) -> None:
    call = ToolCall("a", "f", msgspec.json.encode({**arguments, text: text}).decode())
    messages: list[Message] = [HI, AssistantMessage(text or None, (call, call)), ToolMessage("a", text, "f")]
    rows = to_trajectory(messages)
    assert rows[1]["value"].count("<tool_call>") == rows[1]["value"].count("</tool_call>") == 2
    assert rows[2]["value"].count("<tool_response>") == rows[2]["value"].count("</tool_response>") == 1
    back = from_trajectory(rows)
    made, result = back[1], back[2]
    assert isinstance(made, AssistantMessage)
    assert json.loads(made.tool_calls[0].arguments) == json.loads(call.arguments)
    assert made.content == (text or None)
    assert result == ToolMessage("a", text, "f")


@given(texts)
def test_escaped_text_holds_no_tag_and_comes_back(text: str) -> None:
    for escape, names in ((GPT_TAGS, ("think", "tool_call")), (SYSTEM_TAGS, ("tools",))):
        escaped = escape.escaped(text)
        assert not any(tag in escaped for name in names for tag in (f"<{name}>", f"</{name}>"))
        assert escape.restored(escaped) == text


def test_a_system_prompt_may_speak_of_think_tags() -> None:
    text = "Reason in <think></think>; the functions are in <tools>."
    (row,) = to_trajectory([SystemMessage(text)])
    assert row["value"] == "Reason in <think></think>; the functions are in <\\tools>."


def test_unparsed_arguments_come_back_byte_for_byte() -> None:
    call = ToolCall("a", "f", '{"half": ')
    messages: list[Message] = [
        HI,
        AssistantMessage(tool_calls=(call,)),
        ToolMessage("a", "no JSON", "f", "error"),
    ]
    back = from_trajectory(to_trajectory(messages))[1]
    assert back == AssistantMessage(tool_calls=(call,))


def test_lone_surrogates_never_reach_a_row() -> None:
    bad = "x\ud83dy"
    call = ToolCall("a", "f", '{"x": "\\ud83d"}')
    rows = to_trajectory(
        [UserMessage(bad), AssistantMessage(bad, (call,), reasoning=bad), ToolMessage("a", bad)]
    )
    json.dumps(rows, ensure_ascii=False).encode()
    json.dumps(to_openai_row([UserMessage(bad), AssistantMessage(bad, (call,))]), ensure_ascii=False).encode()


def test_a_schema_that_a_strict_reader_refuses_spoils_no_row() -> None:
    schema = b'{"description":"x\\ud83dy","maximum":1e400,"default":NaN}'
    tools = [ToolSpec("f", "does f", msgspec.Raw(schema))]
    rows = to_trajectory([UserMessage("hi")], tools)
    assert "x\ufffdy" in rows[0]["value"]
    assert "Infinity" in rows[0]["value"]
    json.dumps(rows, ensure_ascii=False).encode()
    assert "x\ufffdy" in to_openai_row([UserMessage("hi")], tools)["tools"]


# Rows of other writers


def test_rows_of_another_writer() -> None:
    back = from_trajectory(
        [
            {"from": "system", "value": "You call functions in <tools>\n[]\n</tools> tags."},
            {"from": "human", "value": "q"},
            {
                "from": "gpt",
                "value": "<think>plan</think>\n\nI call.\n"
                '<tool_call>{"arguments": {"q": 1}, "name": "s"}</tool_call>\n'
                '<tool_call>\n{"name": "s", "arguments": "{\\"q\\":2}"}\n</tool_call>\nafter',
            },
            {
                "from": "tool",
                "value": '<tool_response>\n{"content": {"rows": []}, "name": "s"}\n</tool_response>',
            },
            {
                "from": "tool",
                "value": '<tool_response>{"tool_call_id": "z", "content": "two"}</tool_response>',
            },
            {"from": "gpt", "value": "no think here"},
        ]
    )
    assert back == [
        SystemMessage("You call functions in <tools>\n[]\n</tools> tags."),
        UserMessage("q"),
        AssistantMessage(
            "\nI call.after",
            (ToolCall("call_2_1", "s", '{"q":1}'), ToolCall("z", "s", '{"q":2}')),
            reasoning="plan",
        ),
        ToolMessage("call_2_1", '{"rows": []}', "s"),
        ToolMessage("z", "two"),
        AssistantMessage("no think here"),
    ]


@pytest.mark.parametrize(
    ("row", "path"),
    [
        ({"from": "narrator", "value": "x"}, "$.from"),
        ({"value": "x"}, "$.from"),
        ({"from": "human"}, "$.value"),
        ({"from": "gpt", "value": "<tool_call>{</tool_call>"}, "$.value"),
        ({"from": "gpt", "value": "<tool_call>[1]</tool_call>"}, "$.value"),
        ({"from": "gpt", "value": '<tool_call>{"arguments": {}}</tool_call>'}, "$.value"),
        ({"from": "tool", "value": "plain text"}, "$.value"),
    ],
)
def test_rows_that_can_not_be_read_name_their_place(row: dict[str, str], path: str) -> None:
    with pytest.raises(MessageFormatError) as caught:
        from_trajectory([{"from": "human", "value": "x"}, row])
    assert (caught.value.index, caught.value.path) == (1, path)


def test_unanswered_calls_keep_the_others_paired() -> None:
    calls = (ToolCall("a", "f", "{}"), ToolCall("b", "g", "{}"), ToolCall("c", "h", "{}"))
    back = from_trajectory(to_trajectory([HI, AssistantMessage(tool_calls=calls), ToolMessage("b", "of g")]))
    made = back[1]
    assert isinstance(made, AssistantMessage)
    assert [call.id for call in made.tool_calls] == ["call_1_1", "b", "call_1_3"]


# OpenAI rows


def shape(value: object) -> object:
    """The column types as a reader of columns would find them in this row."""
    if isinstance(value, dict):
        return [(key, shape(item)) for key, item in value.items()]
    if isinstance(value, list):
        kinds = [shape(item) for item in value]
        assert all(kind == kinds[0] for kind in kinds)
        return ("list", kinds[0] if kinds else None)
    return type(value).__name__


@fewer_examples
@given(st.lists(any_messages, min_size=1, max_size=4), st.booleans())
def test_every_row_has_the_same_columns_and_types(messages: list[Message], with_tools: bool) -> None:
    row = to_openai_row(messages, [TOOL] if with_tools else [])
    assert shape(row) == [
        (
            "messages",
            (
                "list",
                [
                    (key, "str")
                    for key in ("role", "content", "reasoning", "tool_calls", "tool_call_id", "name")
                ],
            ),
        ),
        ("tools", "str"),
    ]
    assert json.loads(json.dumps(row)) == row
    for message in row["messages"]:
        assert isinstance(json.loads(message["tool_calls"]), list)
    assert isinstance(json.loads(row["tools"]), list)


def an_openai_row_survives(messages: list[Message]) -> None:
    row = to_openai_row(messages, [TOOL])
    back = from_openai_row(row)
    assert back == messages
    assert to_openai_row(back, [TOOL]) == row


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"messages": "x"},
        {"messages": [5]},
        {"messages": [{"role": "assistant", "content": "", "tool_calls": "{"}]},
    ],
)
def test_what_is_no_openai_row_is_refused(row: OpenAIRow) -> None:
    with pytest.raises(MessageFormatError):
        from_openai_row(row)


@pytest.mark.parametrize(
    "arguments", ['{"_unparsed":"<think>"}', '{"_unparsed":{"a":1}}', '{"_unparsed":5}', "no object", "[]"]
)
def test_arguments_that_look_like_the_stand_in_for_others_survive(arguments: str) -> None:
    messages: list[Message] = [
        UserMessage("x"),
        AssistantMessage(tool_calls=(ToolCall("a", "f", arguments),)),
        ToolMessage("a", "y", "f"),
    ]
    assert from_trajectory(to_trajectory(messages)) == messages


@pytest.mark.parametrize("arguments", [0, False, [], ""])
def test_foreign_arguments_that_are_no_object_are_not_taken_for_none(arguments: object) -> None:
    value = f"<tool_call>{json.dumps({'name': 'f', 'arguments': arguments})}</tool_call>"
    [message] = from_trajectory([{"from": "gpt", "value": value}])
    assert isinstance(message, AssistantMessage)
    assert message.tool_calls[0].arguments == (arguments if arguments == "" else json.dumps(arguments))


def test_a_row_full_of_opening_tags_does_not_take_the_square_of_its_length() -> None:
    many = 20_000  # with a search to the end from each of them, minutes
    assert from_trajectory([{"from": "gpt", "value": "<tool_call>" * many}]) == [
        AssistantMessage("<tool_call>" * many)
    ]
    system = [{"from": "system", "value": "<tools>" * many}]
    assert from_trajectory(system) == [SystemMessage("<tools>" * many)]
    assert tools_from_trajectory(system) == []
    with pytest.raises(MessageFormatError):
        from_trajectory([{"from": "tool", "value": "<tool_response>" * many}])


def test_a_list_of_tools_that_nests_without_end_is_no_list_of_tools() -> None:
    assert tools_from_trajectory([{"from": "system", "value": f"<tools>{'[' * 100_000}</tools>"}]) == []
