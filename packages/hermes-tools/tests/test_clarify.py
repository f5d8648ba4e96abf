from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest


async def ask_me(_question: str, _choices: Sequence[str]) -> str:
    return "the second"


def test_the_question_goes_to_the_host_and_the_answer_comes_back(bench: Any, run_async: Any) -> None:
    asked: list[tuple[str, list[str]]] = []

    async def ask(question: str, choices: Sequence[str]) -> str:
        asked.append((question, list(choices)))
        return " the \U000e0041second "

    async def main() -> None:
        executor = bench.executor("clarify")
        call = bench.call("clarify", {"question": " which? ", "choices": ["a", " b ", "a", ""]})
        [result] = (await bench.outcome(executor, call, clarify=ask)).results
        assert result.content == "the second"
        await executor.close()

    run_async(main())
    assert asked == [("which?", ["a", "b"])]


def test_without_a_callback_the_tool_is_absent_and_a_call_is_told_why(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        executor = bench.executor("clarify")
        [result] = (await bench.outcome(executor, bench.call("clarify", {"question": "x"}))).results
        assert result.status == "error"
        assert "nobody can be asked" in result.content
        snapshot = await executor.refresh(bench.turn())
        assert not snapshot.tools
        assert "no clarify callback" in snapshot.unavailable[0].reason
        snapshot = await executor.refresh(bench.turn(clarify=ask_me))
        assert [spec.name for spec in snapshot.tools] == ["clarify"]
        await executor.close()

    run_async(main())


@pytest.mark.parametrize("arguments", [{"question": " "}, {"question": "x", "choices": list("abcdefghi")}])
def test_what_can_not_be_asked_does_not_reach_the_host(bench: Any, run_async: Any, arguments: Any) -> None:
    async def never(_question: str, _choices: Sequence[str]) -> str:
        raise AssertionError("asked")

    async def main() -> None:
        executor = bench.executor("clarify")
        [result] = (await bench.outcome(executor, bench.call("clarify", arguments), clarify=never)).results
        assert result.status == "error"
        assert "nobody was asked" in result.content
        await executor.close()

    run_async(main())


def test_an_interrupt_ends_the_wait_for_an_answer(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        executor = bench.executor("clarify")
        waiting = asyncio.Event()

        async def silent(_question: str, _choices: Sequence[str]) -> str:
            waiting.set()
            await asyncio.Event().wait()
            return ""

        call = bench.call("clarify", {"question": "which?"})
        round_ = asyncio.ensure_future(bench.outcome(executor, call, clarify=silent))
        await waiting.wait()
        bench.interrupt.request()
        [result] = (await round_).results
        assert result.status == "interrupted"
        await executor.close()

    run_async(main())
