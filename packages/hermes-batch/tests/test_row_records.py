"""What a record says of the tools that were called."""

from hermes_batch.records import ToolStats
from hermes_batch.row_records import UNKNOWN_TOOL, count_tools, outcome_of_result, record_of
from hermes_batch.rows import PromptRow, read_row
from hermes_batch.testing import conversation
from hermes_messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage


def test_calls_are_counted_by_how_they_ended_and_every_known_tool_is_named() -> None:
    transcript: list[Message] = [
        UserMessage("go"),
        AssistantMessage(tool_calls=(ToolCall("1", "read", "{}"), ToolCall("2", "write", "{}"))),
        ToolMessage("1", "text"),
        ToolMessage("2", "no such place", status="error"),
        AssistantMessage(tool_calls=(ToolCall("1", "read", "{}"),)),
        ToolMessage("1", "late", status="timed_out"),
        AssistantMessage("done"),
    ]
    stats, errors = count_tools(transcript, ["read", "write", "todo"])
    assert stats == {"read": ToolStats(2, 1, 1), "todo": ToolStats(), "write": ToolStats(1, 0, 1)}
    assert errors == {"read": 1, "todo": 0, "write": 1}


def test_names_that_the_model_invented_are_counted_under_one_name() -> None:
    transcript: list[Message] = [
        UserMessage("go"),
        AssistantMessage(tool_calls=(ToolCall("1", "invented", "{}"),)),
        ToolMessage("1", "unknown tool", status="error"),
    ]
    assert count_tools(transcript, ["read"])[0] == {UNKNOWN_TOOL: ToolStats(1, 0, 1), "read": ToolStats()}


def test_a_tool_told_of_in_half_a_character_does_not_cost_the_conversation() -> None:
    row = read_row(b'{"prompt": "go"}', index=0, line_number=1)
    assert isinstance(row, PromptRow)
    result = conversation("go", answer="done")
    result["tools"] = [
        {"type": "function", "function": {"name": "t", "description": "half \ud800", "parameters": {}}}
    ]
    record = record_of(row, outcome_of_result(result), session_id="s")
    assert [step.from_ for step in record.conversations] == ["system", "human", "gpt"]
    assert "half \ufffd" in record.conversations[0].value
