"""What is no message is told wherever messages are taken, with its place and with what reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hermes_messages import (
    History,
    MessageFormatError,
    MessageLog,
    Transcript,
    UserMessage,
    encode_message,
    encode_messages,
    repair,
    to_dicts,
    to_json,
    to_openai_row,
    to_trajectory,
    validate,
)

TAKERS = [
    *(Transcript, validate, repair, to_dicts, to_json, to_trajectory, to_openai_row, encode_messages),
    *(MessageLog, MessageLog().extend, History.of, History.of([]).with_tail),
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
