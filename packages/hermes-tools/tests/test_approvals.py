from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from hermes_messages import ConfigurationError, HermesError, JsonObject, ToolCall, UnknownNameError
from hermes_messages.protocols import Approve, ExecutorOptions, Later
from hermes_messages.testing import ToolDouble, check_approvals
from hermes_tools import ApprovalPolicy, ApprovalRule, Executor, ExecutorSettings, build_executor, tool

ASK = ApprovalPolicy(rules=(ApprovalRule("ask", tool="guarded", reason="it is guarded"),))


def judge(policy: ApprovalPolicy, line: str, name: str = "terminal") -> str:
    return policy.judge(name, {"command": line}).action


def test_the_executor_keeps_the_promises_on_approvals(run_async: Any) -> None:
    settings = ExecutorSettings(approval_policy=ASK)
    make = lambda tools: Executor((), tuple(tools), settings=settings)  # noqa: E731
    run_async(check_approvals(make, limit_s=600))


# -- the policy -------------------------------------------------------------------------------------------


def test_dangerous_commands_are_asked_about_unless_the_policy_says_otherwise() -> None:
    assert judge(ApprovalPolicy(), "ls && rm -rf /") == "ask"
    assert judge(ApprovalPolicy(), "ls") == "allow"
    assert judge(ApprovalPolicy(dangerous="deny"), "ls && rm -rf /") == "deny"
    assert judge(ApprovalPolicy(dangerous="allow"), "rm -rf /") == "allow"
    assert judge(ApprovalPolicy(default="ask"), "ls") == "ask"
    assert judge(ApprovalPolicy(), "sudo reboot", name="my_own_shell") == "ask"
    assert ApprovalPolicy().judge("t", {"cmd": ["bash", "-c", "rm -rf /"]}).action == "ask"
    reason = ApprovalPolicy().judge("terminal", {"command": "make; git push -f"}).reason
    assert reason == "it overwrites history that others have: git push -f"


def test_the_first_rule_that_fits_a_command_decides_and_the_strictest_command_of_a_line() -> None:
    policy = ApprovalPolicy(
        rules=(
            ApprovalRule("allow", pattern="rm -rf ./cache*"),
            ApprovalRule("allow", pattern="git push --force origin scratch"),
            ApprovalRule("deny", pattern="git push*", reason="pushing is for people"),
            ApprovalRule("ask", tool="terminal", pattern="npm *"),
        )
    )
    assert judge(policy, "git push --force origin scratch") == "allow"
    assert judge(policy, "git push --force origin scratch && git push") == "deny"
    assert judge(policy, "bash -c 'cd x && git push'") == "deny"
    assert judge(policy, "env A=1 g'i't push -f") == "deny"
    assert judge(policy, "npm ci; ls") == "ask"
    assert judge(policy, "npm ci", name="other") == "allow"
    assert judge(policy, "sudo ls") == "ask"
    assert policy.judge("terminal", {"command": "git push"}).reason == "pushing is for people"


def test_a_rule_may_be_for_a_tool_or_for_its_arguments() -> None:
    policy = ApprovalPolicy(
        rules=(ApprovalRule("deny", tool="write_*", pattern="*.lock"), ApprovalRule("ask", tool="mail_*"))
    )
    assert policy.judge("write_file", {"path": "uv.lock", "content": ""}).action == "deny"
    assert policy.judge("write_file", {"path": "a.py", "content": ""}).action == "allow"
    assert policy.judge("mail_send", {}).action == "ask"


def test_a_line_that_can_not_be_judged_is_never_just_run() -> None:
    assert judge(ApprovalPolicy(), "echo 'a") == "ask"
    assert judge(ApprovalPolicy(dangerous="deny"), "echo 'a") == "deny"
    rules = (ApprovalRule("allow", pattern="ls*"),)
    assert judge(ApprovalPolicy(rules=rules, dangerous="allow"), "ls 'a") == "ask"
    assert judge(ApprovalPolicy(rules=(ApprovalRule("deny", tool="terminal"),)), "ls 'a") == "deny"


def test_a_policy_is_read_from_settings_and_bad_ones_are_refused() -> None:
    given: dict[str, Any] = {
        "approval_policy": {"default": "ask", "rules": [{"action": "deny", "pattern": "git push*"}]}
    }
    settings = ExecutorSettings.from_mapping(given)
    assert settings.approval_policy.rules == (ApprovalRule("deny", pattern="git push*"),)
    bad: list[tuple[dict[str, Any], str]] = [
        ({"default": "maybe"}, "default"),
        ({"rules": [{"action": "deny", "patern": "x"}]}, "patern"),
        ({"rules": [{"pattern": "x"}]}, "action"),
        ({"rules": [{"action": "deny", "pattern": ""}]}, "never fit"),
        ({"rule": []}, "rule"),
    ]
    for policy, said in bad:
        with pytest.raises(ConfigurationError, match=said):
            build_executor([], ExecutorOptions(cwd=".", settings={"approval_policy": policy}))
    with pytest.raises(UnknownNameError, match="approval_policy"):
        ExecutorSettings.from_mapping({"aproval_policy": {}})


# -- asking -----------------------------------------------------------------------------------------------


def test_without_a_callback_a_dangerous_command_is_denied_with_the_reason(bench: Any) -> None:
    (bench.workspace / "kept").write_text("x")
    [result] = bench.run(bench.call("terminal", {"command": "rm -rf ./*"}), toolsets=("terminal",))
    assert result.status == "denied"
    assert "it deletes broadly: rm -rf './*'" in result.content or "rm -rf ./*" in result.content
    assert "nobody can be asked" in result.content
    assert (bench.workspace / "kept").exists()


def test_asking_has_no_time_limit_and_the_tool_keeps_its_own(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        @tool(name="guarded", description="D.", timeout_s=0.05)
        async def guarded(wait: bool) -> str:
            if wait:
                await asyncio.Event().wait()
            return "ran"

        async def slow(_: ToolCall, __: str) -> bool:
            await asyncio.sleep(0.2)  # longer than the tool may take
            return True

        executor = bench.executor(tools=(guarded,), settings={"approval_policy": ASK})
        calls = [bench.call("guarded", {"wait": False}), bench.call("guarded", {"wait": True})]
        outcome = await bench.outcome(executor, *calls, approval=slow)
        assert [result.status for result in outcome.results] == ["ok", "timed_out"]

    run_async(main())


def test_a_call_that_is_asked_about_stands_alone_in_its_round(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        free = ToolDouble("free")
        guarded = ToolDouble("guarded")
        seen: list[tuple[int, int]] = []

        async def asked(_: ToolCall, __: str) -> bool:
            await asyncio.sleep(0)
            seen.append((free.finished, free.running))
            return True

        executor = bench.executor(tools=(free, guarded), settings={"approval_policy": ASK})
        calls = [bench.call(name) for name in ("free", "free", "guarded", "free", "guarded")]
        await bench.outcome(executor, *calls, approval=asked)
        assert seen == [(2, 0), (3, 0)]

    run_async(main())


def test_arguments_that_the_host_changed_are_fitted_judged_and_told(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        answers = iter(
            ['{"command": "echo careful"}', '{"command": 5, "extra": 1}', "[]", '{"command": "git push"}']
        )

        async def changes(_: ToolCall, __: str) -> Approve:
            return Approve(next(answers))

        policy = ApprovalPolicy(rules=(ApprovalRule("deny", pattern="git push*"),))
        executor = bench.executor("terminal", settings={"approval_policy": policy})
        call = bench.call("terminal", {"command": "sudo rm -rf /"})
        changed, misfit, nonsense, denied = [
            (await bench.outcome(executor, call, approval=changes)).results[0] for _ in range(4)
        ]
        assert changed.status == "ok"
        assert changed.content.startswith(
            '[Run with arguments that the user changed: {"command": "echo careful"}]\ncareful'
        )
        assert (misfit.status, nonsense.status, denied.status) == ("error", "error", "denied")
        assert "'extra'" in misfit.content
        await executor.close()

    run_async(main())


def test_a_round_is_finished_by_another_process_from_stored_values(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        async def later(_: ToolCall, __: str) -> Later:
            return Later()

        wrote = bench.workspace / "wrote"
        calls = [
            bench.call("terminal", {"command": "echo first >> log"}, id_="a"),
            bench.call("terminal", {"command": "echo second >> log; git reset --hard"}, id_="b"),
            bench.call("terminal", {"command": f"echo third >> log; touch {wrote}"}, id_="c"),
        ]
        first = bench.executor("terminal")
        outcome = await bench.outcome(first, *calls, approval=later)
        await first.close()
        [pending] = outcome.pending
        assert (pending.call.id, pending.position) == ("b", 1)
        assert pending.reason == "it throws away work: git reset --hard"
        stored = json.loads(msgspec.json.encode([calls, outcome.results]))

        calls_again = msgspec.convert(stored[0], list[ToolCall])
        results = msgspec.convert(stored[1], tuple[Any, ...])
        assert results[1] is None
        second = bench.executor("terminal")
        bench.stored.clear()
        outcome = await second.resume(
            calls_again, outcome.results, {"b": Approve('{"command": "echo second >> log"}')}, bench.context()
        )
        assert [result.status for result in outcome.results] == ["ok", "ok", "ok"]
        assert [position for position, _ in bench.stored] == [1]
        assert (bench.workspace / "log").read_text() == "first\nthird\nsecond\n"
        await second.close()
        with pytest.raises(HermesError, match="closed"):
            await second.resume(calls_again, (None, None, None), {}, bench.context())

    run_async(main())


def test_changed_arguments_that_do_not_fit_are_refused_before_any_call_of_the_round_runs(
    bench: Any, run_async: Any
) -> None:
    async def main() -> None:
        executor = bench.executor("terminal")
        calls = [bench.call("terminal", {"command": f"touch {name}"}, id_=name) for name in ("a", "b")]
        decisions = {"a": True, "b": Approve('{"comand": "ls"}')}
        with pytest.raises(ConfigurationError, match="'b' do not fit"):
            await executor.resume(calls, (None, None), decisions, bench.context())
        assert list(bench.workspace.iterdir()) == []
        await executor.close()

    run_async(main())


def test_a_reason_holds_no_credential_of_ours(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        reasons: list[str] = []

        async def later(_: ToolCall, reason: str) -> Later:
            reasons.append(reason)
            return Later()

        executor = bench.executor("terminal", secrets=("sk-verysecret",))
        call = bench.call("terminal", {"command": "sudo curl -H sk-verysecret https://example.org"})
        outcome = await bench.outcome(executor, call, approval=later)
        assert reasons == ["it gets other rights: sudo curl -H [hidden] https://example.org"]
        assert outcome.pending[0].reason == reasons[0]
        await executor.close()

    run_async(main())


def test_the_same_denied_call_is_not_asked_about_for_ever(bench: Any, run_async: Any) -> None:
    async def main() -> None:
        asked: list[str] = []

        async def no(call: ToolCall, _: str) -> bool:
            asked.append(call.id)
            return False

        executor = bench.executor(tools=(ToolDouble("guarded"),), settings={"approval_policy": ASK})
        calls = [bench.call("guarded", {"a": 1}) for _ in range(5)]
        outcome = await bench.outcome(executor, *calls, approval=no)
        assert len(asked) == 3
        assert [result.status for result in outcome.results] == ["denied"] * 3 + ["error"] * 2

    run_async(main())


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("rm -rf /\n", "ask"),
        ("it's done; sudo reboot\n", "ask"),
        ("git push origin main\n", "deny"),
        ("y\n", "allow"),
        ("it's fine\n", "allow"),
        ("print('hello')\n", "allow"),
        ("", "allow"),
    ],
)
def test_text_typed_into_a_shell_in_the_background_is_judged(text: str, action: str) -> None:
    policy = ApprovalPolicy(rules=(ApprovalRule("deny", pattern="git push*"),))
    arguments: JsonObject = {"action": "write", "process_id": "p1", "text": text}
    assert policy.judge("process", arguments).action == action
    assert ApprovalPolicy().judge("notes", arguments).action == "allow"
    assert ApprovalPolicy(typed_arguments=()).judge("process", arguments).action == "allow"


def test_a_rule_for_the_process_tool_holds_whatever_is_typed() -> None:
    policy = ApprovalPolicy(rules=(ApprovalRule("deny", tool="process", pattern="write"),))
    assert policy.judge("process", {"action": "write", "text": "ls"}).action == "deny"
    assert policy.judge("process", {"action": "poll"}).action == "allow"
