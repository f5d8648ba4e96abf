"""What is decided about MCP servers without one: settings, names, starts, lines, texts, forms."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import ElicitRequestFormParams
from mcp_types import Tool as ListedTool

from hermes_messages import ConfigurationError, MissingDependencyError, UnknownNameError
from hermes_messages.protocols import ExecutorOptions, SupportsAvailability
from hermes_tools import build_executor
from hermes_tools.failures import describe
from hermes_tools.mcp import HttpServer, StdioServer, read_servers, server_secrets, toolset
from hermes_tools.mcp.budget import ReconnectBudget, ReconnectLimits
from hermes_tools.mcp.elicitation import form_questions
from hermes_tools.mcp.framing import LineBuffer, LineTooLongError, TextTail, parse_message
from hermes_tools.mcp.names import tool_name
from hermes_tools.mcp.server import MOST_QUESTIONS, ActiveCall, McpServer
from hermes_tools.secrets import SecretMasker

# -- settings ---------------------------------------------------------------------------------------------


def test_servers_are_read_in_the_order_of_their_names() -> None:
    first, second = read_servers(
        {
            "web": {"url": "https://mcp.test/mcp", "headers": {"Authorization": "Bearer tok-0123456789"}},
            "files": {"command": "node", "args": ["server.js"], "env": {"A": "b"}, "timeout": 5},
            "off": {"command": "node", "enabled": False},
        }
    )
    assert first == StdioServer(name="files", command="node", args=("server.js",), env={"A": "b"}, timeout=5)
    assert isinstance(second, HttpServer)
    assert second.url == "https://mcp.test/mcp"
    assert read_servers(None) == ()


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"command": "a", "url": "http://b"}, "either a command to start or a url"),
        ({}, "either a command to start or a url"),
        ({"type": "http", "command": "a"}, "either a command to start or a url"),
        ({"command": " "}, "its command is empty"),
        ({"url": "ftp://host/"}, "must begin with http:// or https://"),
        ({"url": "http://"}, "must begin with http:// or https://"),
        ({"url": "http://a", "headers": {"X": "a\nb: c"}}, "a line end stands in a header"),
        ({"command": "a", "args": ["\0"]}, "a NUL stands in"),
        ({"command": "a", "timeout": 0}, "must be above 0"),
        ({"command": "a", "timeout": "5"}, "Expected `float`, got `str` - at `$.timeout`"),
        ({"command": "a", "type": "sse"}, "Invalid enum value"),
        ("node", "must be a mapping"),
    ],
)
def test_settings_that_can_not_work_are_refused_before_anything_starts(settings: Any, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(complaint)):
        read_servers({"one": settings})


def test_a_misspelt_setting_and_a_name_that_no_tool_can_carry_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'command'"):
        read_servers({"one": {"comand": "a"}})
    for name in ("", "1a", "a__b", "a b", "a" * 33):
        with pytest.raises(ConfigurationError, match="a name has 1 to 32"):
            read_servers({name: {"command": "a"}})


def test_the_executor_reads_servers_from_its_settings() -> None:
    with pytest.raises(ConfigurationError, match="MCP server 'one': give either"):
        build_executor([], ExecutorOptions(cwd=".", settings={"mcp_servers": {"one": {}}}))
    with pytest.raises(UnknownNameError, match="executor setting"):
        build_executor([], ExecutorOptions(cwd=".", settings={"mcp_server": {}}))


SECRETS: dict[str, Any] = {
    "a": {
        "command": "node",
        "args": ["--api-key=arg-secret-1", "--token", "arg-secret-2", "--port", "8080", "--verbose"],
        "env": {"TOKEN": "env-secret-1", "ODD": "Env-Secret-2", "DB": "pg://u:db-secret@h/d", "MODE": "fast"},
    },
    "b": {
        "url": "https://user:url-secret-1@host/mcp?key=url-secret-2",
        "headers": {"Authorization": "Bearer head-secret-1", "X-Key": "head-secret-2"},
    },
}


def test_every_credential_of_a_server_is_known_as_one_and_no_repr_shows_it() -> None:
    servers = read_servers(SECRETS)
    secrets = server_secrets(servers)
    for known in ("arg-secret-1", "arg-secret-2", "env-secret-1", "Env-Secret-2", "db-secret"):
        assert any(known in secret for secret in secrets)
    for known in ("url-secret-1", "url-secret-2", "head-secret-1", "head-secret-2"):
        assert known in secrets
    assert not {"fast", "8080", "--verbose", "node"} & set(secrets)
    assert "secret" not in repr(servers)
    assert "secret" not in repr([dict(server.__rich_repr__()) for server in servers])


def test_paths_words_and_numbers_in_an_environment_are_no_credentials() -> None:
    plain: Any = {
        "CACHE_DIR": "/var/cache/things", "NODE_ENV": "production", "LANG": "de_DE.UTF-8",
        "PORT": "808012345", "HOME_PAGE": "https://example.test/start", "TIMEZONE": "Europe/Berlin",
    }  # fmt: skip
    assert server_secrets(read_servers({"a": {"command": "x", "env": plain}})) == ()


# -- names ------------------------------------------------------------------------------------------------


def test_a_plain_name_is_the_server_and_the_tool() -> None:
    assert tool_name("time", "get_current_time") == "time__get_current_time"


@given(
    st.sampled_from(["a", "a_b", "a-b", "server"]),
    st.text(max_size=80),
    st.sampled_from(["a", "a_b", "a-b", "server"]),
    st.text(max_size=80),
)
def test_different_tools_have_different_names_that_every_host_takes(s: str, t: str, u: str, v: str) -> None:
    names = tool_name(s, t), tool_name(u, v)
    assert (names[0] == names[1]) == ((s, t) == (u, v))
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names)


# -- starts -----------------------------------------------------------------------------------------------


def test_a_server_that_drops_after_a_second_is_parked_and_tried_again_later() -> None:
    budget = ReconnectBudget(ReconnectLimits())
    now, starts = 0.0, []
    while now < 2_000:
        now += budget.wait_s(now)
        budget.started(now)
        starts.append(now)
        now += 1
        budget.ended(1.0, answered=True)
    assert starts[:5] == [0, 1, 2, 4, 8]
    assert [later - earlier for earlier, later in itertools.pairwise(starts[4:])] == [300] * 7


def test_rare_losses_of_a_healthy_server_never_add_up() -> None:
    budget = ReconnectBudget(ReconnectLimits())
    for hour in range(1_000):
        assert budget.wait_s(hour * 3_600.0) == 0
        budget.started(hour * 3_600.0)
        budget.ended(3_599.0, answered=True)
        assert budget.used == 0


def test_a_long_connection_that_never_answered_proves_nothing() -> None:
    budget = ReconnectBudget(ReconnectLimits(attempts=2))
    for _ in range(2):
        budget.started(0.0)
        budget.ended(3_600.0, answered=False)
    assert budget.wait_s(3_600.0) == 0  # the pause has passed meanwhile
    assert budget.wait_s(10.0) == 290


def test_a_start_that_failed_slowly_keeps_the_next_one_off() -> None:
    budget = ReconnectBudget(ReconnectLimits())
    budget.started(0.0)
    budget.failed(30.0, 30.0)
    assert budget.wait_s(30.0) == 300
    quick = ReconnectBudget(ReconnectLimits())
    quick.started(0.0)
    quick.failed(0.05, 0.05)
    assert quick.wait_s(0.05) == 0.5


def test_without_the_sdk_the_error_names_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolset, "find_spec", lambda name: None)
    settings: Any = {"mcp_servers": {"one": {"command": "a"}}}
    with pytest.raises(MissingDependencyError, match=r"pip install 'hermes-tools\[mcp\]'"):
        build_executor([], ExecutorOptions(cwd=".", settings=settings))


# -- lines ------------------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=20)), st.integers(1, 7))
def test_lines_are_the_same_however_the_output_is_cut(lines: list[bytes], size: int) -> None:
    lines = [line.replace(b"\n", b"") for line in lines]
    data = b"".join(line + b"\n" for line in lines) + b"rest"
    buffer = LineBuffer()
    found = [line for at in range(0, len(data), size) for line in buffer.feed(data[at : at + size])]
    assert found == lines


def test_a_line_without_an_end_is_not_gathered_for_ever() -> None:
    buffer = LineBuffer(longest=100)
    assert buffer.feed(b"x" * 100) == []
    with pytest.raises(LineTooLongError):
        buffer.feed(b"x")


@pytest.mark.parametrize(
    "line", [b"", b"  ", b"hello", b"[1]", b"{", b'{"a": 1}', b"null", b"\xff\xfe", b"{" * 5_000]
)
def test_a_line_that_is_no_message_is_none(line: bytes) -> None:
    assert parse_message(line) is None


@given(st.binary())
def test_any_line_at_all_can_be_read(line: bytes) -> None:
    parse_message(line)
    parse_message(b'{"jsonrpc": "2.0", "method": "x", "params": {"a": "' + line + b'"}}')


def test_marks_and_line_ends_around_a_message_are_taken_off() -> None:
    message = parse_message(b'\xef\xbb\xbf{"jsonrpc": "2.0", "method": "x"}\r')
    assert message is not None
    assert message.model_dump()["method"] == "x"


def test_the_tail_keeps_the_last_lines_within_its_bounds() -> None:
    tail = TextTail(lines=3, characters=20)
    tail.add("one\n\ntwo\nthree\n")
    tail.add("four " + "x" * 60)
    assert str(tail) == ("two\nthree\nfour " + "x" * 15)[-20:]


# -- errors -----------------------------------------------------------------------------------------------


def test_empty_and_wrapped_errors_name_their_root_cause() -> None:
    assert describe(anyio.ClosedResourceError()) == "ClosedResourceError"
    inner = ConnectionRefusedError("refused")
    nested = BaseExceptionGroup("outer", [ExceptionGroup("inner", [inner])])
    assert describe(nested) == "ConnectionRefusedError: refused"
    wrapped = anyio.BrokenResourceError()
    wrapped.__cause__ = OSError("the pipe is gone")
    group = ExceptionGroup("unhandled errors in a TaskGroup", [wrapped])
    assert describe(group) == "BrokenResourceError (OSError: the pipe is gone)"


# -- forms ------------------------------------------------------------------------------------------------


def test_answers_become_values_of_the_form() -> None:
    schema = {
        "properties": {
            "name": {"type": "string"},
            "count": {"type": "integer", "default": 3},
            "share": {"type": "number"},
            "sure": {"type": "boolean"},
            "size": {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"]},
            "hero": {"type": "string", "oneOf": [{"const": "h1", "title": "One"}]},
            "many": {"type": "array", "items": {"enum": ["a", "b", "c"]}},
        },
        "required": ["name"],
    }
    questions = {question.field: question for question in form_questions(schema)}
    answers = {
        "name": " Ada ", "count": "", "share": "0.5", "sure": "YES", "size": "large", "hero": "One",
        "many": "a, c",
    }  # fmt: skip
    values = {field: questions[field].value_of(answer) for field, answer in answers.items()}
    assert values == {
        "name": "Ada", "count": 3, "share": 0.5, "sure": True, "size": "l", "hero": "h1", "many": ["a", "c"]
    }  # fmt: skip
    assert questions["share"].value_of(" ") is None
    for field, answer in {"name": "", "count": "x", "sure": "perhaps", "many": "a,z"}.items():
        with pytest.raises(ValueError, match=r"needed|invalid|choose"):
            questions[field].value_of(answer)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists) | st.just({}))
def test_no_schema_of_a_server_breaks_the_form(odd: Any) -> None:
    field = {"type": "string", "enum": odd} if isinstance(odd, list) else {"type": odd}
    for question in form_questions({"properties": {"a": field}}):
        assert json.dumps(list(question.options))


def test_a_server_can_not_wear_a_person_down_with_questions() -> None:
    asked: list[str] = []

    async def clarify(question: str, choices: Sequence[str]) -> str:
        asked.append(question)
        return "accept"

    async def run() -> list[str]:
        params = ElicitRequestFormParams(
            message="Sure?", requested_schema={"type": "object", "properties": {}}
        )
        async with (call := ActiveCall(clarify, 5.0)):
            return [(await call.ask("liar", params)).action for _ in range(300)]

    actions = asyncio.run(run())
    assert actions == ["accept"] * MOST_QUESTIONS + ["decline"] * (300 - MOST_QUESTIONS)
    assert len(asked) == MOST_QUESTIONS


def test_a_schema_that_would_fill_the_window_makes_its_tool_absent() -> None:
    server = McpServer(StdioServer(name="s", command="none"), {})
    big = {"type": "object", "properties": {f"field{n}": {"type": "string"} for n in range(5_000)}}
    server.reason = None
    server.tools = (
        ListedTool(name="small", input_schema={"type": "object"}),
        ListedTool(name="big", input_schema=big),
    )
    tools = {tool.spec.name: tool for tool in toolset._tools_of(server, SecretMasker(()))}
    assert isinstance(tools["s__small"], toolset.McpTool)
    absent = tools["s__big"]
    assert isinstance(absent, SupportsAvailability)
    assert "at most are taken" in str(absent.unavailable_reason())
    assert len(bytes(absent.spec.parameters)) < 200
