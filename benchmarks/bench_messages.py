"""Ratios for hermes-messages: import, JSON against pydantic v2 models of the same shape, append and repair.

Run with `uv run --group bench benchmarks/bench_messages.py`; without pydantic the rows of JSON are left out.

Where keys are unknown, a reader of the OpenAI shape needs two passes of msgspec, one for the types and one
for the keys: it can not say which keys it skipped. The row of the passes alone is what is left when all of
our own code is taken away. With results thrown away at once, as in most rows, pydantic's models never meet
the garbage collector; in the rows of a fresh process they do, as in every program that keeps what it read.
"""

from __future__ import annotations

import gc
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, Literal, Union

import msgspec

from hermes_messages import (
    AssistantMessage,
    HistoryEncoder,
    Message,
    ToolCall,
    ToolMessage,
    Transcript,
    UserMessage,
    decode_messages,
    encode_messages,
    messages_from_dicts,
    messages_from_json,
    repair,
    to_dicts,
    to_json,
)

MESSAGES = 4_000
PLAIN, IN_ANSWERS, IN_MESSAGES, IN_CALLS = SHAPES = (
    "OpenAI JSON",
    "OpenAI JSON, unknown keys in every assistant message",
    "OpenAI JSON, unknown keys in every message",
    "OpenAI JSON, unknown keys in every message and call",
)


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


def ratio(theirs: Callable[[], object], ours: Callable[[], object]) -> float:
    """The best time of `theirs` over that of `ours`, in turns, each with warm caches.

    What other rows left in memory is kept out of the garbage collector's sight: it would be scanned in the
    middle of either.
    """
    gc.collect()
    gc.freeze()
    best_theirs = best_ours = float("inf")
    for _ in range(6):
        best_theirs = min(best_theirs, seconds(theirs, 6))
        best_ours = min(best_ours, seconds(ours, 6))
    gc.unfreeze()
    return best_theirs / best_ours


def import_seconds(code: str) -> float:
    """The best CPU time of a fresh interpreter that runs `code`."""
    best = float("inf")
    for _ in range(15):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-I", "-c", code], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def with_unknown_keys(messages: list[Message], shape: str) -> bytes:
    """The conversation in OpenAI shape, with keys that no model names where `shape` says."""
    dicts = to_dicts(messages)
    in_calls = shape == IN_CALLS
    for number, item in enumerate(dicts):
        if shape == IN_ANSWERS and item["role"] != "assistant":
            continue
        item["timestamp"] = 1_718_000_000.25 + number
        item["metadata"] = {"id": f"msg_{number}", "tags": ["a", "b"]}
        calls = item.get("tool_calls")
        for position, call in enumerate(calls if in_calls and isinstance(calls, list) else []):
            call["index"] = position  # type: ignore[index, call-overload] # a list of dicts
    return json.dumps(dicts, ensure_ascii=False).encode()


class CallAsRead(msgspec.Struct, gc=False):
    """The least that a pass over a message with calls has to read."""

    id: str
    function: dict[str, str]


class MessageAsRead(msgspec.Struct, gc=False):
    """The least that a pass for the types of a message has to read."""

    role: str
    content: str | None = None
    tool_call_id: str | None = None
    tool_calls: list[CallAsRead] = []
    reasoning: str | None = None
    name: str | None = None


TYPES = msgspec.json.Decoder(list[MessageAsRead])
KEYS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])


def fresh_process_ratio(shape: str) -> float:
    """pydantic's time over ours for the first decode of a process that keeps the result."""

    def best(reader: str) -> float:
        command = [sys.executable, __file__, "first-decode", reader, shape]
        runs = [subprocess.run(command, check=True, capture_output=True).stdout for _ in range(9)]
        return min(map(float, runs))

    return best("pydantic") / best("ours")


def print_first_decode(reader: str, shape: str) -> None:
    """What a process of `fresh_process_ratio` prints: the CPU seconds of one decode."""
    data = openai_json(conversation(MESSAGES), shape)
    if reader == "pydantic":
        decode: Callable[[bytes], object] = pydantic_models(
            import_module("pydantic"), own_shape=False
        ).validate_json
    else:
        decode = messages_from_json
    started = time.process_time()
    kept = decode(data)
    print(time.process_time() - started)
    del kept


def openai_json(messages: list[Message], shape: str) -> bytes:
    """The conversation in OpenAI shape, with unknown keys as `shape` says."""
    return to_json(messages) if shape == PLAIN else with_unknown_keys(messages, shape)


def pydantic_models(pydantic: Any, *, own_shape: bool) -> Any:
    """An adapter for a list of messages, of our own JSON shape or of OpenAI's, that keeps unknown keys."""

    def model(title: str, /, **fields: Any) -> Any:
        return pydantic.create_model(
            title, __config__=pydantic.ConfigDict(extra="allow", frozen=True), **fields
        )

    text, optional = (str, ...), (str | None, None)
    if own_shape:
        call: type[Any] = model("Call", id=text, name=text, arguments=text)
    else:
        function: type[Any] = model("Function", name=text, arguments=text)
        call = model("Call", id=text, type=(str, "function"), function=(function, ...))
    roles = [
        model("System", role=(Literal["system"], ...), content=text, name=optional),
        model("User", role=(Literal["user"], ...), content=text, name=optional),
        model(
            "Assistant",
            role=(Literal["assistant"], ...),
            content=optional,
            tool_calls=(tuple.__class_getitem__((call, ...)), ()),
            reasoning=optional,
            refusal=optional,
            name=optional,
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
    return pydantic.TypeAdapter(list[one])


def compare(
    what: str,
    adapter: Any,
    data: bytes,
    decode: Callable[[bytes], list[Message]],
    encode: Callable[[list[Message]], bytes],
) -> None:
    """Print how much faster `decode` and `encode` are than the adapter, both writing the same keys."""
    ours, theirs = decode(data), adapter.validate_json(data)
    assert json.loads(encode(ours)) == json.loads(adapter.dump_json(theirs, exclude_unset=True))
    decoding = ratio(lambda: adapter.validate_json(data), lambda: decode(data))
    encoding = ratio(lambda: adapter.dump_json(theirs, exclude_unset=True), lambda: encode(ours))
    print(f"{what}: decode {decoding:.1f}x, encode {encoding:.1f}x as fast as pydantic v2")


def against_pydantic(messages: list[Message]) -> None:
    """JSON of the same shape through pydantic models that keep unknown keys."""
    try:
        pydantic = import_module("pydantic")
    except ImportError:
        print("json: pydantic is not installed; run `uv run --group bench benchmarks/bench_messages.py`")
        return
    own, openai = (pydantic_models(pydantic, own_shape=own) for own in (True, False))
    compare("our own JSON", own, encode_messages(messages), decode_messages, encode_messages)
    for shape in SHAPES:
        data = openai_json(messages, shape)
        compare(shape, openai, data, messages_from_json, to_json)
        print(f"  the first decode of a fresh process: {fresh_process_ratio(shape):.1f}x")
    passes = ratio(lambda: openai.validate_json(data), lambda: (TYPES.decode(data), KEYS.decode(data)))
    print(f"  the two passes of msgspec alone: {passes:.1f}x")
    by_dicts = ratio(lambda: openai.validate_json(data), lambda: messages_from_dicts(json.loads(data)))
    print(f"the same by way of dicts, json.loads included: {by_dicts:.1f}x of pydantic's own decode")


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
    stable = HistoryEncoder(lambda segment: encode_messages(segment)[1:-1])
    whole = seconds(lambda: encode_messages(messages))
    stable.encode(transcript.history())
    again = seconds(lambda: stable.encode(transcript.history()).joined())
    print(f"request body of a known history: {whole / again:.1f}x faster than encoding it again")


if __name__ == "__main__":
    if sys.argv[1:2] == ["first-decode"]:
        print_first_decode(*sys.argv[2:])
    else:
        main()
