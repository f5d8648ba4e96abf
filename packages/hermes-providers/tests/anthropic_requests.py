"""Requests for the Messages wire and what they are made of, which several modules of tests send."""

from __future__ import annotations

from msgspec import Raw

from anthropic_help import ask, replay
from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from hermes_messages.parts import AudioPart, FilePart, ImagePart, Replay, TextPart
from wire_help import ODD_ROUND, ODD_SPEC

__all__ = [
    "CALL",
    "CALL_2",
    "CASES",
    "HI",
    "INTERLEAVED",
    "LIST",
    "PICTURE",
    "SCHEMA",
    "SPEC",
    "THINKING",
    "THINKING_2",
    "USE",
    "USE_2",
    "round_of",
]

SPEC = ToolSpec.from_schema(
    "read_file", "Read a text file.", {"type": "object", "properties": {"path": {"type": "string"}}}
)
LIST = ToolSpec.from_schema("list_files", "", {"properties": {}})
PICTURE = ImagePart("data:image/png;base64,AAAA")
CALL = ToolCall("toolu_1", "read_file", '{"path": "x"}')
CALL_2 = ToolCall("toolu_2", "list_files", "{}")
THINKING = {"type": "thinking", "thinking": "Look.", "signature": "sigA"}
THINKING_2 = {"type": "thinking", "thinking": "And list.", "signature": "sigB"}
USE = {"type": "tool_use", "id": "toolu_1", "name": "read_file"}
USE_2 = {"type": "tool_use", "id": "toolu_2", "name": "list_files"}
SCHEMA = Raw(b'{"type":"object","properties":{"n":{"type":"integer","minimum":1}},"required":["n"]}')
HI = UserMessage("hi")


def round_of(*calls: ToolCall, blocks: Replay | None = None, text: str | None = None) -> list[Message]:
    answer = AssistantMessage(content=text, tool_calls=calls, replay=blocks)
    return [answer, *(ToolMessage(call.id, f"result of {call.name}") for call in calls)]


INTERLEAVED = replay(THINKING, USE, THINKING_2, USE_2)

CASES: dict[str, ChatRequest] = {
    "odd_tools": ask(*ODD_ROUND, tools=(ODD_SPEC,)),
    "tool_round": ask(
        SystemMessage("Be brief."),
        HI,
        *round_of(CALL, CALL_2, text="I look."),
        tools=(SPEC, LIST),
        temperature=0.5,
        stop=("END", " "),
        max_tokens=100,
        parallel_tool_calls=False,
    ),
    "interleaved_thinking": ask(
        HI, *round_of(CALL, CALL_2, blocks=INTERLEAVED), tools=(SPEC, LIST), reasoning_effort="medium"
    ),
    "adaptive_thinking": ask(HI, model="claude-opus-5-5", reasoning_effort="high", temperature=0.2),
    "schema": ask(HI, response_schema=SCHEMA),
    "schema_by_tool": ask(HI, response_schema=SCHEMA, model="claude-opus-4-1"),
    "images_and_files": ask(
        UserMessage(
            (
                TextPart("What is this?"),
                PICTURE,
                ImagePart("https://host.example/a.png"),
                FilePart(data="data:application/pdf;base64,JVBE", filename="a.pdf"),
                FilePart(file_id="file_1"),
                AudioPart("AAAA", "wav"),
            )
        )
    ),
    "image_result": ask(
        HI,
        AssistantMessage(tool_calls=(CALL,)),
        ToolMessage("toolu_1", (PICTURE,), status="error"),
        tools=(SPEC,),
    ),
    "steer_note_behind_results": ask(HI, *round_of(CALL), UserMessage("hurry"), tools=(SPEC,)),
    "summary_without_tools": ask(HI, *round_of(CALL), UserMessage("Summarise.")),
}
