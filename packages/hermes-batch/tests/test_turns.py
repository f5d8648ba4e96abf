"""Rows of several turns, and rows that go on with a conversation."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from hermes_batch import BatchRunner, BatchStatistics
from hermes_batch.records import Record, decode_record
from hermes_batch.testing import conversation, failed_conversation
from hermes_messages import AssistantMessage, ErrorKind, Message, UserMessage
from hermes_messages.argument_text import JsonValue
from hermes_messages.protocols import AgentRequest, ConversationResult, StreamCallback

Given = Sequence[Mapping[str, JsonValue]] | None


class Remembering:
    """An agent that keeps its conversation, as ours does; a prompt "fail" finds no host."""

    def __init__(self, heard: list[tuple[str, Given]]) -> None:
        self._heard = heard
        self._said: list[Message] = []

    async def run_conversation(
        self,
        user_message: str | UserMessage,
        system_message: str | None = None,
        conversation_history: Given = None,
        task_id: str | None = None,
        stream_callback: StreamCallback | None = None,
    ) -> ConversationResult:
        text = str(user_message)
        self._heard.append((text, conversation_history))
        if text == "fail":
            result = failed_conversation(text, error="no host", kind=ErrorKind.TRANSPORT)
            self._said.append(UserMessage(text))
        else:
            result = conversation(text, answer=f"answer to {text}")
            self._said += [UserMessage(text), AssistantMessage(f"answer to {text}")]
        result["transcript"] = tuple(self._said)
        return result

    async def close(self) -> None:
        pass


class Factory:
    def __init__(self) -> None:
        self.heard: list[tuple[str, Given]] = []

    async def open(self) -> None:
        pass

    def create_agent(self, request: AgentRequest) -> Remembering:
        return Remembering(self.heard)

    async def close(self) -> None:
        pass


def run(tmp_path: Path, prompt: object) -> tuple[Factory, BatchStatistics, list[Record]]:
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"prompt": prompt}) + "\n")
    factory = Factory()
    runner = BatchRunner(
        path, run_name="r", output_dir=tmp_path, agent_factory=factory, require_reasoning=False
    )
    statistics = asyncio.run(runner.run())
    shard = next((tmp_path / "r/shards").glob("*.jsonl"))
    return factory, statistics, [decode_record(line) for line in shard.read_bytes().splitlines()]


def test_the_turns_of_a_row_are_said_in_order_to_one_agent_and_counted_together(tmp_path: Path) -> None:
    factory, statistics, [record] = run(tmp_path, ["one", "two", "three"])
    assert factory.heard == [("one", None), ("two", None), ("three", None)]
    assert statistics.ok == 1
    assert record.api_calls == 3
    assert (record.input_tokens, record.output_tokens, record.usage_known) == (30, 15, True)
    assert [turn.from_ for turn in record.conversations] == ["system", *["human", "gpt"] * 3]


def test_a_turn_that_fails_ends_its_row_and_what_was_said_before_is_kept(tmp_path: Path) -> None:
    factory, statistics, [record] = run(tmp_path, ["one", "fail", "three"])
    assert [text for text, _ in factory.heard] == ["one", "fail"]
    assert statistics.error == 1
    assert record.reason == "provider_error:transport"
    assert record.api_calls == 2
    assert not record.run_again
    assert "answer to one" in record.conversations[2].value


def test_a_list_of_messages_is_the_history_of_the_first_turn(tmp_path: Path) -> None:
    before = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    factory, statistics, _ = run(tmp_path, [*before, {"role": "user", "content": "and now?"}])
    assert factory.heard == [("and now?", before)] or factory.heard == [("and now?", tuple(before))]
    assert statistics.ok == 1
