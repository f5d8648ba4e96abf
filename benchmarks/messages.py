"""Ratios for hermes-messages: import, JSON against pydantic v2 models of the same shape, append and repair.

Run with `uv run benchmarks/messages.py`; add `--with pydantic` before the file for the comparison.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, Literal, Union

from hermes_messages import (
    AssistantMessage,
    Message,
    StableBytes,
    ToolCall,
    ToolMessage,
    Transcript,
    UserMessage,
    decode_messages,
    encode_messages,
    messages_from_dicts,
    to_dicts,
)
from hermes_messages.repair import repair

MESSAGES = 4_000


def conversation(count: int) -> list[Message]:
    """`count` messages of user, calls, two results and answer, with text of ordinary length."""
    messages: list[Message] = []
    for turn in range(count // 5):
        calls = tuple(
            ToolCall(f"call_{turn}_{number}", "read_file", '{"path": "src/main.py", "limit": 200}')
            for number in range(2)
        )
        messages += [
            UserMessage(f"Please look at file {turn} and tell me what it does. " * 3),
            AssistantMessage("I will read it.", calls, reasoning="Two parts have to be read. " * 4),
            ToolMessage(calls[0].id, "def main() -> None:\n    run()\n" * 10, "read_file"),
            ToolMessage(calls[1].id, "nothing", "read_file", "error"),
            AssistantMessage("It starts the program. " * 6, finish_reason="stop"),
        ]
    return messages


def seconds(work: Callable[[], object], rounds: int = 7) -> float:
    """The best CPU time of `rounds` runs."""
    best = float("inf")
    for _ in range(rounds):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


def import_seconds(code: str) -> float:
    """The best CPU time of a fresh interpreter that runs `code`."""
    best = float("inf")
    for _ in range(15):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-I", "-c", code], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def against_pydantic(messages: list[Message]) -> None:
    """JSON of the same shape through pydantic models that keep unknown keys."""
    try:
        pydantic = import_module("pydantic")
    except ImportError:
        print("json: pydantic is not installed; run `uv run --with pydantic benchmarks/messages.py`")
        return

    def model(title: str, /, **fields: Any) -> Any:
        return pydantic.create_model(
            title, __config__=pydantic.ConfigDict(extra="allow", frozen=True), **fields
        )

    text, optional = (str, ...), (str | None, None)
    call: type[Any] = model("Call", id=text, name=text, arguments=text)
    roles = [
        model("System", role=(Literal["system"], ...), content=text),
        model("User", role=(Literal["user"], ...), content=text),
        model(
            "Assistant",
            role=(Literal["assistant"], ...),
            content=optional,
            tool_calls=(tuple.__class_getitem__((call, ...)), ()),
            reasoning=optional,
            finish_reason=optional,
        ),
        model(
            "Tool",
            role=(Literal["tool"], ...),
            tool_call_id=text,
            content=text,
            name=optional,
            status=(str, "ok"),
        ),
    ]
    one: Any = Annotated[Union[tuple(roles)], pydantic.Field(discriminator="role")]  # noqa: UP007 - made at run time
    adapter = pydantic.TypeAdapter(list[one])
    data = encode_messages(messages)
    theirs = adapter.validate_json(data)
    ours_decode, ours_encode = (
        seconds(lambda: decode_messages(data)),
        seconds(lambda: encode_messages(messages)),
    )
    their_decode = seconds(lambda: adapter.validate_json(data))
    their_encode = seconds(lambda: adapter.dump_json(theirs, exclude_defaults=True))
    print(f"json decode of {len(messages)} messages: {their_decode / ours_decode:.1f}x faster than pydantic")
    print(f"json encode of {len(messages)} messages: {their_encode / ours_encode:.1f}x faster than pydantic")
    shape = json.dumps(to_dicts(messages))
    ours_shape = seconds(lambda: messages_from_dicts(json.loads(shape)))
    print(f"OpenAI shape, json.loads included: {their_decode / ours_shape:.1f}x of pydantic's own decode")


def main() -> None:
    """Print every ratio."""
    msgspec_s, ours_s = import_seconds("import msgspec"), import_seconds("import hermes_messages")
    print(f"import: {ours_s / msgspec_s:.2f}x of importing msgspec ({ours_s * 1000:.0f} ms of CPU)")

    messages = conversation(MESSAGES)
    against_pydantic(messages)

    short, long = conversation(400), conversation(40_000)
    per_short = seconds(lambda: Transcript(short)) / len(short)
    per_long = seconds(lambda: Transcript(long), 3) / len(long)
    print(f"append at 40,000 messages: {per_long / per_short:.2f}x of append at 400")
    per_message = seconds(lambda: repair(messages)) / MESSAGES
    print(f"repair of a valid conversation: {per_message * 1e6:.1f} us a message")

    transcript = Transcript(messages)
    stable = StableBytes(lambda segment: encode_messages(segment)[1:-1])
    whole = seconds(lambda: encode_messages(messages))
    stable.encode(transcript.history())
    again = seconds(lambda: stable.encode(transcript.history()).joined())
    print(f"request body of a known history: {whole / again:.1f}x faster than encoding it again")


if __name__ == "__main__":
    main()
