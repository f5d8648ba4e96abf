from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from example_counts import fewer_examples
from hermes_messages import (
    ArgumentDefect,
    ArgumentsError,
    JsonObject,
    ToolCall,
    parse_arguments,
    parse_arguments_tolerantly,
)
from hermes_messages.argument_text import MAX_DEPTH
from message_strategies import json_objects


@fewer_examples
@given(json_objects, st.booleans())
def test_every_json_object_is_read_without_defects(value: JsonObject, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert parse_arguments(text) == value
    found = parse_arguments_tolerantly(f" {text}\n")
    assert found.arguments == value
    assert found.defects == ()


@pytest.mark.parametrize(
    ("text", "value", "defects"),
    [
        ("", {}, ["empty"]),
        (" \n", {}, ["empty"]),
        ('{"a":"x\ny"}', {"a": "x\ny"}, ["raw_control"]),
        ('{"a\t":"\x00\\\\"}', {"a\t": "\x00\\"}, ["raw_control"]),
        ('{}""', {}, ["trailing_quotes"]),
        ('{"a":1}"', {"a": 1}, ["trailing_quotes"]),
        ("{\"a\":1} '''", {"a": 1}, ["trailing_quotes"]),
        ('{"a":1} and so on', {"a": 1}, ["trailing_junk"]),
        ('{"a":1}}', {"a": 1}, ["trailing_junk"]),
        ('{"a":{"b":[]}}</tool_call>', {"a": {"b": []}}, ["trailing_junk"]),
        ('{"action": listt"}', {"action": "listt"}, ["unquoted_word"]),
        ('{"action": list , "n": 2}', {"action": "list", "n": 2}, ["unquoted_word"]),
        ('{"a":[read, write"]}', {"a": ["read", "write"]}, ["unquoted_word"]),
        (
            '{"action": listt", "b": "x\ny"} ok',
            {"action": "listt", "b": "x\ny"},
            ["raw_control", "unquoted_word", "trailing_junk"],
        ),
    ],
)
def test_defects_of_the_list_are_overlooked_and_named(
    text: str, value: JsonObject, defects: list[str]
) -> None:
    found = parse_arguments_tolerantly(text)
    assert found.arguments == value
    assert [defect.value for defect in found.defects] == defects
    with pytest.raises(ArgumentsError):
        parse_arguments(text)


def test_every_defect_has_an_example_above() -> None:
    (mark,) = [
        mark
        for mark in test_defects_of_the_list_are_overlooked_and_named.pytestmark  # type: ignore[attr-defined]
        if mark.name == "parametrize"
    ]
    assert {name for case in mark.args[1] for name in case[2]} == {defect.value for defect in ArgumentDefect}


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "b: word, c", "d": listt"}',
        '{"a": "[x, y]", "d": listt"}',
        '{"a": "\\": word, ", "d": listt"}',
    ],
)
def test_the_inside_of_strings_is_never_mended(text: str) -> None:
    found = parse_arguments_tolerantly(text)
    assert found.arguments["a"] == json.loads(text.replace('listt"', '"listt"'))["a"]


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "[1]",
        '"text"',
        "7",
        "word",
        "{",
        '{"a":',
        '{"a": "x',
        '{"a": "\\',
        '{"a": wor',
        '{"a": word"',
        '{"a": two words}',
        '{"a": foo"bar"}',
        '{"a": /etc/passwd}',
        '{"a": True}',
        '{"a": None}',
        '{"a": nan}',
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": undefined}',
        "{a: 1}",
        "{'a': 1}",
        '{"a": 1,}',
        '{"a": 1 "b": 2}',
        '{"a": 1]}',
        '{"a": "x" y"}',
        '{"a": "\\x"}',
        '{"a": 1}{"b": 2}',
        '{"a": 1}, {"b": 2}',
        '{"a": 1} [2]',
        '{"a": 1}\n<tool_call>{"name": "rm"}',
        '```json\n{"a": 1}\n```',
        'text {"a": 1}',
        '{"a": 1, "a": 1}',
        '{"x": {"a": 1, "a": 2}}',
        '{"a": 1e999}',
        '{"a": ' + "9" * 5000 + "}",
    ],
)
def test_everything_else_still_fails(text: str) -> None:
    with pytest.raises(ArgumentsError):
        parse_arguments_tolerantly(text)
    with pytest.raises(ArgumentsError):
        parse_arguments(text)


@pytest.mark.parametrize("text", ["", '{}""', '{"a":"x\ny"}', '{"a": listt"}', '{"a":1} x', '{"a'])
def test_truncated_only_when_the_finish_reason_says_so(text: str) -> None:
    with pytest.raises(ArgumentsError) as cut:
        parse_arguments_tolerantly(text, truncated=True)
    assert cut.value.truncated
    assert "cut off" in str(cut.value)
    with pytest.raises(ArgumentsError) as whole:
        parse_arguments(text)
    assert not whole.value.truncated
    assert "cut off" not in str(whole.value)


def test_a_whole_object_of_a_truncated_response_is_still_read() -> None:
    assert parse_arguments_tolerantly('{"a": 1}', truncated=True).arguments == {"a": 1}


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ('{"a": foo bar}', 6, "Expecting value"),
        ('{"a": "x', 6, "Unterminated string starting"),
        ("[1]", 0, "it is an array"),
        ("null", 0, "it is null"),
        ("true", 0, "it is a boolean"),
        ('{"a": 1, "a": 2}', None, "the key 'a' is given twice"),
        ('{"a": NaN}', None, "NaN is no JSON value"),
    ],
)
def test_errors_say_what_and_where(text: str, position: int | None, reason: str) -> None:
    with pytest.raises(ArgumentsError) as caught:
        ToolCall("a", "f", text).parse_arguments()
    assert (caught.value.position, caught.value.reason, caught.value.text) == (position, reason, text)


def test_big_integers_are_exact() -> None:
    number = 10**400 + 1
    assert parse_arguments(f'{{"n": {number}}}') == {"n": number}


def test_nesting_is_limited_at_the_same_depth_everywhere() -> None:
    def nested(depth: int) -> str:
        return '{"a":' + "[" * (depth - 1) + "]" * (depth - 1) + "}"

    assert parse_arguments(nested(MAX_DEPTH))
    for depth in (MAX_DEPTH + 1, 1_000, 200_000):
        with pytest.raises(ArgumentsError, match="nested too deeply"):
            parse_arguments_tolerantly(nested(depth))
    brackets_in_text = {"a": "[{" * 500}
    assert parse_arguments(json.dumps(brackets_in_text)) == brackets_in_text
    flat: JsonObject = {"a": [[]] * 500}
    assert parse_arguments(json.dumps(flat)) == flat


@pytest.mark.parametrize(
    "text",
    ['{"a":"' + "x" * 1_000_000, '{"a":' + "b " * 300_000, '"' * 300_000, '{"a":"' + '\\"' * 300_000],
    ids=["open string", "words", "quotes", "escapes"],
)
def test_hostile_text_fails_in_linear_time(text: str) -> None:
    with pytest.raises(ArgumentsError):  # with the square of the length it would not end
        parse_arguments_tolerantly(text)


@given(st.text(st.sampled_from('{}[]":,\\ \nabtrue1-'), max_size=30))
def test_what_is_accepted_is_an_object_and_nothing_else_is_raised(text: str) -> None:
    try:
        found = parse_arguments_tolerantly(text)
    except ArgumentsError:
        return
    assert isinstance(found.arguments, dict)
    assert not found.defects or text.lstrip()[:1] in {"{", ""}


@pytest.mark.parametrize(
    "text", ['{"path": "a"}, "content": "b"}', '{"path": "a"} ,\n"content": "b"}', '{"a"}: 1}']
)
def test_keys_behind_a_brace_that_came_too_early_are_never_dropped(text: str) -> None:
    with pytest.raises(ArgumentsError):
        parse_arguments_tolerantly(text)
