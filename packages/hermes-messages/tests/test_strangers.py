"""What is no message is told wherever messages are taken, with its place and with what reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hermes_messages import (
    ChatRequest,
    History,
    HistoryEncoder,
    MessageFormatError,
    MessageLog,
    Transcript,
    UserMessage,
    encode_message,
    encode_messages,
    repair,
    segments,
    to_dicts,
    to_json,
    to_openai_row,
    to_trajectory,
    validate,
)
from hermes_messages.stable_bytes import HistoryJoiner
from hermes_messages.testing import ScriptedProvider, text

TAKERS = [
    *(Transcript, validate, repair, to_dicts, to_json, to_trajectory, to_openai_row, encode_messages),
    *(MessageLog, MessageLog().extend, History.of, History.of([]).with_tail, segments),
]


@pytest.mark.parametrize("taker", TAKERS)
def test_a_dict_where_a_message_belongs_is_told_and_not_dropped(taker: Callable[[Any], object]) -> None:
    with pytest.raises(MessageFormatError, match=r"message 1.*not dict; messages_from_dicts reads dicts"):
        taker([UserMessage("hi"), {"role": "assistant", "content": "hello"}])
    with pytest.raises(MessageFormatError, match=r"message 0.*not str$"):
        taker("hi")


def test_one_dict_where_a_message_belongs_is_told_with_its_place() -> None:
    log = MessageLog([UserMessage("hi")])
    stranger: Any = {"role": "assistant", "content": "hello"}
    for taker in (log.append, lambda one: log.extend([UserMessage("on"), one]), encode_message):
        with pytest.raises(MessageFormatError, match="not dict; messages_from_dicts reads dicts"):
            taker(stranger)
    assert list(log.view()) == [UserMessage("hi")]
    with pytest.raises(MessageFormatError, match="message 3,"):
        log.extend([UserMessage("on"), UserMessage("and on"), stranger])


def test_a_list_where_a_history_belongs_is_told_before_anything_is_made_of_it() -> None:
    made: list[object] = []
    lists: list[Any] = [[{"role": "user", "content": "hi"}], [UserMessage("hi")], ()]

    def note(segment: object) -> bytes:
        made.append(segment)
        return b"{}"

    for takes in (HistoryEncoder(note).encode, HistoryJoiner(note, lambda *two: two[::-1]).join):
        for listed in lists:
            with pytest.raises(
                MessageFormatError, match=f"not {type(listed).__name__}; History.of makes one"
            ):
                takes(listed)
    assert made == []


def test_a_request_with_dicts_for_a_history_takes_no_answer_from_a_script() -> None:
    provider = ScriptedProvider([text("hello")])

    async def ask(history: Any) -> int:
        return len([event async for event in provider.stream(ChatRequest(model="m", history=history))])

    with pytest.raises(MessageFormatError, match="a History is needed here, not list"):
        asyncio.run(ask([{"role": "user", "content": "hi"}]))
    assert provider.requests == []
    assert asyncio.run(ask(History.of([UserMessage("hi")]))) == 2
