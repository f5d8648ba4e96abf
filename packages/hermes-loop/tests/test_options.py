"""What `AIAgent` accepts, and what it refuses before anything is opened."""

from __future__ import annotations

import asyncio
from typing import get_args

import pytest

from hermes_loop import AIAgent, UnexpectedOptionError
from hermes_loop.options import read_effort
from hermes_messages import (
    ConfigurationError,
    HermesError,
    ReasoningEffort,
    TextPart,
    UserMessage,
)
from hermes_messages.protocols import ConversationResult
from hermes_messages.testing import (
    MemoryStore,
    ScriptedProvider,
    SimpleExecutor,
    text,
)


class TestOptions:
    def test_an_unknown_keyword_is_a_type_error_with_the_near_name(self) -> None:
        with pytest.raises(UnexpectedOptionError, match="did you mean 'max_iterations'") as caught:
            AIAgent(max_iteration=3)
        assert isinstance(caught.value, TypeError)
        assert isinstance(caught.value, ConfigurationError)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("plugins", ["one"]),
        ],
    )
    def test_what_is_not_there_yet_is_refused_and_never_ignored(self, name: str, value: object) -> None:
        with pytest.raises(ConfigurationError, match=f"{name}= is not available in this version"):
            AIAgent(**{name: value})  # type: ignore[arg-type]

    def test_values_that_ask_for_nothing_are_fine(self) -> None:
        AIAgent(fallback_model=None, checkpoints_enabled=False, skip_memory=True, quiet_mode=True)

    def test_every_effort_is_taken_in_both_forms(self) -> None:
        for effort in get_args(ReasoningEffort):
            assert read_effort({"enabled": True, "effort": effort}, None) == effort
            assert read_effort(None, effort) == effort
        assert read_effort({"enabled": False, "effort": "max"}, None) == "none"

    @pytest.mark.parametrize(
        "options",
        [
            {"max_iterations": 0},
            {"max_iterations": True},
            {"max_tokens": -1},
            {"reasoning_config": {"effort": "huge"}},
            {"reasoning_config": {"budget": 3}},
            {"request_overrides": {"x": object()}},
            {"prefill_messages": [{"role": "system", "content": "x"}]},
            {"prefill_messages": [{"role": "assistant", "content": "x"}]},
            {"provider": ScriptedProvider([]), "api_key": "k"},
            {"tools": SimpleExecutor(), "enabled_toolsets": ["file"]},
            {"provider": object()},
            {"tools": print},
            {"session_db": object()},
            {"enabled_toolsets": "file"},
            {"enabled_toolsets": [5]},
            {"tools": "file"},
            {"session_id": ""},
            {"session_id": 5},
            {"model": " "},
            {"api_key": 5},
            {"system_prompt": b"x"},
            {"temperature": "hot"},
            {"temperature": float("nan")},
            {"temperature": True},
            {"seed": "x"},
            {"lease_ttl_s": 0},
            {"lease_ttl_s": float("inf")},
            {"cwd": 5},
            {"cwd": b"/"},
            {"save_trajectories": 5},
            {"session_metadata": {"a": object()}},
            {"request_overrides": 5},
            {"tool_settings": 5},
            {"mcp_servers": ["a"]},
            {"approval_policy": "always"},
            {"checkpoints_enabled": "yes"},
            {"tools": SimpleExecutor(), "approval_policy": {"default": "ask"}},
            {"tools": SimpleExecutor(), "checkpoints_enabled": True},
            {"prefill_messages": [5]},
            {"prefill_messages": "hello"},
            {"step_callback": 5},
        ],
    )
    def test_values_that_can_not_work_are_refused_at_once(self, options: dict[str, object]) -> None:
        with pytest.raises(ConfigurationError):
            AIAgent(**options)  # type: ignore[arg-type]

    def test_a_key_of_the_wrong_kind_is_not_in_the_error(self) -> None:
        with pytest.raises(ConfigurationError) as raised:
            AIAgent(api_key=b"sk-very-secret")  # type: ignore[arg-type]
        assert "secret" not in str(raised.value)

    @pytest.mark.parametrize(
        "arguments",
        [
            {"user_message": 5},
            {"user_message": " "},
            {"user_message": UserMessage(())},
            {"user_message": UserMessage((TextPart(" "),))},
            {"user_message": UserMessage(5)},  # type: ignore[arg-type]
            {"system_message": 5},
            {"task_id": 5},
            {"task_id": ""},
            {"stream_callback": 5},
            {"conversation_history": 5},
            {"conversation_history": "hello"},
            {"conversation_history": [None]},
        ],
    )
    def test_what_a_turn_can_not_work_with_is_refused_before_it_begins(
        self, arguments: dict[str, object]
    ) -> None:
        async def main() -> None:
            store = MemoryStore()
            agent = AIAgent(provider=ScriptedProvider([]), session_db=store)
            with pytest.raises(HermesError):
                await agent.run_conversation(**({"user_message": "hi"} | arguments))  # type: ignore[arg-type]
            assert store.calls == []

        asyncio.run(main())

    def test_the_key_is_in_no_repr(self) -> None:
        agent = AIAgent(provider="x", api_key="sk-very-secret")
        pretty = dict(agent._options.__rich_repr__())
        assert pretty == {"provider": "x", "model": None}
        assert "sk-very-secret" not in repr(agent) + repr(agent._options)


def test_a_result_of_one_turn_is_not_changed_by_the_next() -> None:
    async def main() -> None:
        async with AIAgent(provider=ScriptedProvider([text("a"), text("b")])) as agent:
            first: ConversationResult = await agent.run_conversation("one")
            first["messages"].clear()
            second = await agent.run_conversation("two")
        assert len(second["messages"]) == 4
        assert len(first["transcript"]) == 2

    asyncio.run(main())
