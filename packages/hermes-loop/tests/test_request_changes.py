"""What a request may be changed in after a host refused it: once each, in the request alone."""

from __future__ import annotations

import pytest
from msgspec import Raw

from hermes_loop.request_changes import (
    LONGEST_ARGUMENTS,
    NOTHING_CHANGED,
    RequestChange,
    apply_change,
    find_change,
)
from hermes_messages import (
    AssistantMessage,
    ChatRequest,
    ErrorKind,
    History,
    ProviderError,
    ToolCall,
    ToolMessage,
    UserMessage,
    encode_messages,
)
from hermes_messages.parts import Origin, Replay

PLAIN = [UserMessage("hi")]


def request(messages: list[object] | None = None, **fields: object) -> ChatRequest:
    return ChatRequest(model="m", history=History.of(messages or PLAIN), **fields)  # type: ignore[arg-type]


def refused(parameter: str | None, *, left_out: bool = False) -> ProviderError:
    return ProviderError(
        "unsupported", kind=ErrorKind.UNSUPPORTED_PARAMETER, parameter=parameter, left_out=left_out
    )


def capped(limit: int | None, status: int = 400) -> ProviderError:
    return ProviderError("too large", kind=ErrorKind.OUTPUT_CAP, status=status, output_limit=limit)


MALFORMED = ProviderError("bad", kind=ErrorKind.FORMAT, status=400)


class TestParameters:
    def test_one_that_the_request_carries_is_left_out(self) -> None:
        sent = request(temperature=0.5, seed=1)
        change = find_change(refused("temperature"), sent, NOTHING_CHANGED)
        assert change is not None
        changed = apply_change(sent, change)
        assert (changed.temperature, changed.seed) == (None, 1)

    @pytest.mark.parametrize("name", [None, "tools", "messages", "temperature"])
    def test_one_that_it_can_not_do_without_or_does_not_carry_changes_nothing(self, name: str | None) -> None:
        assert find_change(refused(name), request(seed=1), NOTHING_CHANGED) is None

    def test_one_that_the_provider_leaves_out_itself_is_sent_again_as_it_is(self) -> None:
        sent = request()
        change = find_change(refused("cache_control", left_out=True), sent, NOTHING_CHANGED)
        assert change is not None
        assert apply_change(sent, change) is sent

    def test_the_same_one_is_not_tried_twice_and_the_number_of_all_is_bounded(self) -> None:
        made = NOTHING_CHANGED
        for number in range(100):
            change = find_change(refused(f"p{number}", left_out=True), request(), made)
            if change is None:
                break
            made = change
            assert find_change(refused(f"p{number}", left_out=True), request(), made) is None
        assert len(made.parameters) == 8


class TestOutputLimit:
    @pytest.mark.parametrize(("allowed", "then"), [(16_384, 16_384), (None, None), (0, None)])
    def test_the_limit_becomes_the_hosts_own_or_is_left_to_it(
        self, allowed: int | None, then: int | None
    ) -> None:
        sent = request(max_tokens=100_000)
        change = find_change(capped(allowed), sent, NOTHING_CHANGED)
        assert change is not None
        assert apply_change(sent, change).max_tokens == then
        assert find_change(capped(allowed), sent, change) is None

    def test_nothing_is_changed_where_that_can_not_help(self) -> None:
        assert find_change(capped(100), request(), NOTHING_CHANGED) is None
        assert find_change(capped(100_000), request(max_tokens=10), NOTHING_CHANGED) is None
        assert find_change(capped(None, status=200), request(max_tokens=10), NOTHING_CHANGED) is None


class TestFormat:
    def test_arguments_that_are_no_json_are_mended_in_the_copy_alone(self) -> None:
        messages: list[object] = [
            UserMessage("go"),
            AssistantMessage(
                tool_calls=(ToolCall("a", "f", '{"x": 1'), ToolCall("b", "f", '{"y": "two\nlines"}'))
            ),
            ToolMessage("a", "1"),
            ToolMessage("b", "2"),
        ]
        sent = request(messages)
        before = encode_messages(list(sent.history))
        change = find_change(MALFORMED, sent, NOTHING_CHANGED)
        assert change == RequestChange(repaired=True)
        assistant = apply_change(sent, change).history[1]
        assert isinstance(assistant, AssistantMessage)
        assert [call.parse_arguments() for call in assistant.tool_calls] == [{}, {"y": "two\nlines"}]
        assert encode_messages(list(sent.history)) == before
        assert find_change(MALFORMED, sent, change) is None

    def test_what_a_host_put_beside_the_messages_is_left_out(self) -> None:
        replay = Replay(Origin("p", "h", "m"), "w", (Raw(b"{}"),))
        odd = [
            UserMessage("go", extra=Raw(b'{"k":1}')),
            AssistantMessage("yes", replay=replay, reasoning="hm", extra=Raw(b'{"k":1}')),
            UserMessage("on"),
        ]
        change = find_change(MALFORMED, request(list(odd)), NOTHING_CHANGED)
        assert change is not None
        assert list(apply_change(request(list(odd)), change).history) == [
            UserMessage("go"),
            AssistantMessage("yes", reasoning="hm"),
            UserMessage("on"),
        ]

    def test_arguments_too_long_for_a_host_are_shortened_in_the_copy_alone(self) -> None:
        long = '{"text": "' + "x" * LONGEST_ARGUMENTS + '"}'
        messages = [
            UserMessage("go"),
            AssistantMessage(tool_calls=(ToolCall("a", "write", long), ToolCall("b", "f", '{"y": 1}'))),
            ToolMessage("a", "written"),
            ToolMessage("b", "2"),
        ]
        sent = request(list(messages))
        change = find_change(MALFORMED, sent, NOTHING_CHANGED)
        assert change is not None
        changed = list(apply_change(sent, change).history)
        assistant = changed[1]
        assert isinstance(assistant, AssistantMessage)
        shortened, other = assistant.tool_calls
        assert len(shortened.arguments) <= LONGEST_ARGUMENTS
        assert shortened.parse_arguments()["_characters"] == len(long)
        assert (shortened.id, other) == ("a", ToolCall("b", "f", '{"y": 1}'))
        assert changed[2:] == messages[2:]  # what the calls gave is still said
        assert list(sent.history) == messages
        assert find_change(MALFORMED, sent, change) is None

    def test_a_request_with_nothing_to_mend_is_not_sent_again(self) -> None:
        assert find_change(MALFORMED, request(), NOTHING_CHANGED) is None


@pytest.mark.parametrize(
    "kind", set(ErrorKind) - {ErrorKind.UNSUPPORTED_PARAMETER, ErrorKind.OUTPUT_CAP, ErrorKind.FORMAT}
)
def test_other_failures_change_nothing(kind: ErrorKind) -> None:
    sent = request(max_tokens=5, temperature=1.0)
    assert find_change(ProviderError("x", kind=kind, parameter="temperature"), sent, NOTHING_CHANGED) is None
