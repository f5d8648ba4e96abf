"""What one line of a dataset is read as."""

import json
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_batch.rows import BadRow, PromptRow, read_row
from hermes_messages import ImagePart, TextPart, UserMessage


def read(line: str | bytes) -> PromptRow | BadRow:
    data = line if isinstance(line, bytes) else line.encode()
    return read_row(data, index=3, line_number=7)


def test_a_prompt_and_its_options() -> None:
    row = read('{"prompt": "hi", "id": 12, "toolsets": ["file"], "max_iterations": 3, "metadata": {"a": 1}}')
    assert isinstance(row, PromptRow)
    assert (row.index, row.line, row.turns, row.id) == (3, 7, ("hi",), "12")
    assert row.toolsets == ("file",)
    assert row.max_iterations == 3
    assert row.metadata == {"a": 1}


def test_a_number_that_is_missing_is_null_however_it_is_written() -> None:
    odd = read('{"prompt": "NaN", "id": NaN, "max_iterations": NaN, "x": [-Infinity, {"y": Infinity}, 9e30]}')
    plain = read('{"prompt": "NaN", "id": null, "max_iterations": null, "x": [null, {"y": null}, 9e30]}')
    assert isinstance(odd, PromptRow)
    assert odd == plain
    assert (odd.turns, odd.id, odd.max_iterations) == (("NaN",), "", None)
    assert odd.metadata == {"x": [None, {"y": None}, 9e30]}


def test_whole_numbers_are_whole_where_a_table_has_them_as_floats() -> None:
    row = read('{"prompt": "a", "id": 12.0, "max_iterations": 3.0, "score": 1.0}')
    assert isinstance(row, PromptRow)
    assert (row.id, row.max_iterations, row.metadata) == ("12", 3, {"score": 1.0})


def test_a_list_of_texts_is_several_turns() -> None:
    row = read('{"prompt": ["one", "two"]}')
    assert isinstance(row, PromptRow)
    assert row.turns == ("one", "two")


def test_a_list_of_messages_is_a_conversation_that_goes_on() -> None:
    said = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "and now?"},
    ]
    row = read(json.dumps({"prompt": said}))
    assert isinstance(row, PromptRow)
    assert row.turns == ("and now?",)
    assert list(row.history) == said[1:3]
    assert row.system == "be brief"


def test_a_last_message_with_an_image_keeps_it() -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    row = read(
        json.dumps({"prompt": [{"role": "user", "content": [{"type": "text", "text": "see"}, picture]}]})
    )
    assert isinstance(row, PromptRow)
    assert isinstance(row.turns[0], UserMessage)
    assert row.turns[0].content == (TextPart("see"), ImagePart("https://example.org/a.png"))


def test_the_hash_is_of_the_content_whatever_its_spelling() -> None:
    one = read('{"prompt": "hi", "id": "a"}')
    other = read('{"id":"a","prompt":"h\\u0069"}')
    different = read('{"prompt": "hi", "id": "b"}')
    assert one.content_hash == other.content_hash
    assert one.content_hash != different.content_hash


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "invalid JSON"),
        ("", "invalid JSON"),
        (b'{"prompt": "\xff"}', "invalid JSON"),
        ("[1]", "not a JSON object"),
        ('"text"', "not a JSON object"),
        ("{}", 'no "prompt"'),
        ('{"prompt": 123}', "Expected `str | array`, got `int` - at `$.prompt`"),
        ('{"prompt": null}', "Expected `str | array`, got `null` - at `$.prompt`"),
        ('{"prompt": {"a": 1}}', "Expected `str | array`, got `object` - at `$.prompt`"),
        ('{"prompt": []}', '"prompt" is empty'),
        ('{"prompt": ["a", " "]}', '"prompt" is empty'),
        ('{"prompt": ["a", 1]}', "neither a text, a list of texts nor a list of messages"),
        ('{"prompt": ["a", {"role": "user", "content": "b"}]}', "neither a text"),
        ('{"prompt": [{"role": "user", "content": " "}]}', "empty user message"),
        (
            '{"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}',
            "last is not",
        ),
        ('{"prompt": [{"role": "tool", "tool_call_id": "x", "content": "a"}]}', '"prompt": '),
        ('{"prompt": [{"role": "king", "content": "a"}]}', '"prompt": '),
        (
            '{"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}',
            "whose last is not",
        ),
        ('{"prompt": [{"role": "system", "content": "a"}]}', "whose last is not"),
        ('{"system": "a", "prompt": [{"role": "system", "content": "b"}]}', "give one of them"),
        ('{"prompt": "  "}', '"prompt" is empty'),
        ('{"prompt": "a", "toolsets": "file"}', "$.toolsets"),
        ('{"prompt": "a", "max_iterations": 0}', '"max_iterations" is less than 1'),
        ('{"prompt": NaN}', "Expected `str | array`, got `null` - at `$.prompt`"),
        ('{"prompt": "a", "x": nan}', "invalid JSON"),
        ('{"prompt": "NaN", "x": }', "invalid JSON"),
        ('{"prompt": "a", "x": NaN, "y": 1e999}', "invalid JSON"),
        ('{"prompt": "a", "x": NaN, "y": "\\ud800"}', "invalid JSON"),
        (b'{"prompt": "\xff", "x": NaN}', "invalid JSON"),
        ('{"prompt": "a", "x": NaN, "y": ' + "[" * 100_000 + "]" * 100_000 + "}", "invalid JSON"),
        ('{"prompt": "a", "max_iterations": 2.5}', "got `float` - at `$.max_iterations`"),
    ],
)
def test_a_line_that_is_no_row_says_why(line: str | bytes, reason: str) -> None:
    row = read(line)
    assert isinstance(row, BadRow)
    assert reason in row.reason
    assert (row.index, row.line) == (3, 7)


@given(st.binary(max_size=60))
def test_no_bytes_make_the_reader_fail(line: bytes) -> None:
    assert isinstance(read(line), PromptRow | BadRow)


def test_of_several_mistakes_the_first_in_the_line_is_told_in_every_process() -> None:
    for wrong in permutations(("cwd", "system", "toolsets", "image"), 3):
        row = read(json.dumps({"prompt": "x", **dict.fromkeys(wrong, 5)}))
        assert isinstance(row, BadRow)
        assert row.reason.endswith(f"at `$.{wrong[0]}`")


def test_line_separators_inside_text_are_text() -> None:
    row = read('{"prompt": "a\u2028b\u2029c"}')
    assert isinstance(row, PromptRow)
    assert row.turns == ("a\u2028b\u2029c",)


def test_deep_nesting_is_a_bad_row_not_a_crash() -> None:
    assert isinstance(read('{"prompt": "a", "metadata": ' + "[" * 100_000 + "]" * 100_000 + "}"), BadRow)


def test_a_row_may_name_the_image_for_its_commands() -> None:
    row = read('{"prompt": "a", "image": "python:3.13"}')
    assert isinstance(row, PromptRow)
    assert row.image == "python:3.13"
    empty = read('{"prompt": "a", "image": " "}')
    assert isinstance(empty, BadRow)
    assert empty.reason == '"image" is empty'
