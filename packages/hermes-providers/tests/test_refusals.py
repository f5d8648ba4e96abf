"""A parameter that a model refused is named, remembered for that model, and left out from then on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from byte_server import ByteServer, plain, stream
from hermes_messages import ErrorKind, ProviderError
from hermes_messages.protocols import ProviderOptions
from hermes_providers import HttpProvider, classify, from_profile
from hermes_providers.refusals import DROPPABLE, Refusals, plain_name, without_refused
from wire_help import KEY, SPEC, answer, ask, event, run, text_answer


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        # Verbatim texts of vendors.
        (
            {
                "error": {
                    "message": "Unsupported value: 'temperature' does not support 0.2 with this model.",
                    "type": "invalid_request_error",
                    "param": "temperature",
                    "code": "unsupported_value",
                }
            },
            "temperature",
        ),
        (
            "Unsupported parameter: 'max_tokens' is not supported with this model.",
            "max_tokens",
        ),
        ("Unrecognized request argument supplied: reasoning_effort", "reasoning_effort"),
        ("Unknown parameter: 'parallel_tool_calls'.", "parallel_tool_calls"),
        ("`temperature` is deprecated for this model.", "temperature"),
        ("property 'reasoning_effort' is unsupported", "reasoning_effort"),
        ("Argument not supported on this model: stop", "stop"),
        ("Model grok-4 does not support parameter reasoningEffort.", "reasoningEffort"),
        ("context_management: Extra inputs are not permitted", "context_management"),
        ('Unknown name "seed": Cannot find field.', "seed"),
        ("registry.ollama.ai/library/gemma:2b does not support tools", None),
    ],
)
def test_the_refused_parameter_is_named(body: Any, parameter: str | None) -> None:
    raw = json.dumps(body if isinstance(body, dict) else {"error": {"message": body}})
    error = classify(400, {}, raw, now=0.0)
    assert error.kind is ErrorKind.UNSUPPORTED_PARAMETER
    assert error.parameter == parameter
    assert not error.left_out


def test_place_that_a_validator_names() -> None:
    detail: list[dict[str, Any]] = [
        {"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}
    ]
    for body in ({"detail": detail}, {"object": "error", "message": {"detail": detail}}):
        error = classify(422, {}, json.dumps(body), now=0.0)
        assert (error.kind, error.parameter) == (ErrorKind.UNSUPPORTED_PARAMETER, "seed")
    detail[0]["loc"] = ["body", "messages", 0, "name"]
    assert classify(422, {}, json.dumps({"detail": detail}), now=0.0).kind is ErrorKind.FORMAT


def test_malformed_messages_are_no_refused_parameter() -> None:
    error = classify(400, {}, "messages.1.content.0.text.citations: Extra inputs are not permitted", now=0.0)
    assert (error.kind, error.parameter) == (ErrorKind.FORMAT, None)


@pytest.mark.parametrize(
    ("name", "plain_one"),
    [
        ("body.reasoning.effort", "reasoning"),
        ("generationConfig.thinkingConfig.budget", "thinking_config"),
        ("stop[0]", "stop"),
        ("reasoningEffort", "reasoning_effort"),
        ("", ""),
        (None, ""),
        ("...", ""),
    ],
)
def test_paths_are_read_as_their_field(name: str | None, plain_one: str) -> None:
    assert plain_name(name) == plain_one


def test_what_carries_meaning_is_never_dropped() -> None:
    refusals = Refusals()
    for name in ("tools", "messages", "response_format", "model", "tool_choice", None, "top_k"):
        assert not refusals.note("m", name)
    assert refusals.of("m") == frozenset()


def test_dropping_changes_the_named_fields_alone() -> None:
    request = ask(temperature=0.5, seed=1, stop=("x",), reasoning_effort="low", max_tokens=9, session_id="s")
    assert without_refused(request, frozenset()) is request
    assert without_refused(request, frozenset({"max_tokens"})) is request  # the wire renames it
    for name, changes in DROPPABLE.items():
        found = without_refused(request, frozenset({name}))
        for field in request.__struct_fields__:
            expected = changes[field] if field in changes else getattr(request, field)
            assert getattr(found, field) == expected


def refusal(name: str) -> list[Any]:
    text = {"error": {"message": f"Unsupported parameter: '{name}' is not supported with this model."}}
    return list(plain(json.dumps(text).encode(), "400 Bad Request"))


async def refused(provider: HttpProvider, request: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await answer(provider, request)
    return caught.value


def test_later_requests_of_that_model_leave_it_out_and_nothing_is_sent_by_itself() -> None:
    async def main() -> None:
        async with ByteServer([refusal("temperature"), stream(text_answer("ok"))]) as server:
            provider = from_profile("openai", ProviderOptions(api_key=KEY, base_url=server.base_url))
            request = ask(temperature=0.2, seed=1)
            error = await refused(provider, request)
            assert (error.parameter, error.left_out, len(server.requests)) == ("temperature", True, 1)
            await answer(provider, request)
            assert "temperature" in server.requests[0].json()
            assert "temperature" not in server.requests[1].json()
            assert server.requests[1].json()["seed"] == 1
            assert provider.refused_parameters("m-1") == {"temperature"}
            await answer(provider, ask(temperature=0.2, model="other"))
            assert server.requests[2].json()["temperature"] == 0.2
            await provider.close()

    run(main())


def test_a_second_refusal_of_the_same_parameter_promises_nothing() -> None:
    async def main() -> None:
        async with ByteServer([refusal("temperature")]) as server:
            provider = from_profile("openai", ProviderOptions(api_key=KEY, base_url=server.base_url))
            assert (await refused(provider, ask(temperature=0.2))).left_out
            assert not (await refused(provider, ask(temperature=0.2))).left_out
            await provider.close()

    run(main())


def test_refused_name_of_the_output_limit_is_replaced_by_the_other() -> None:
    async def main() -> None:
        scripts = [refusal("max_tokens"), refusal("max_completion_tokens"), stream(text_answer("ok"))]
        async with ByteServer(scripts) as server:
            provider = from_profile("custom", ProviderOptions(api_key=KEY, base_url=server.base_url))
            for _ in range(2):
                assert (await refused(provider, ask(max_tokens=5))).left_out
            await answer(provider, ask(max_tokens=5))
            bodies = [request.json() for request in server.requests]
            assert bodies[0]["max_tokens"] == 5
            assert bodies[1]["max_completion_tokens"] == 5
            assert not {"max_tokens", "max_completion_tokens"} & set(bodies[2])
            await provider.close()

    run(main())


def test_refused_usage_option_and_one_inside_a_stream() -> None:
    async def main() -> None:
        inside = stream(event({"error": {"message": "Unknown parameter: 'stream_options'.", "code": 400}}))
        async with ByteServer([inside, stream(text_answer("ok"))]) as server:
            provider = from_profile("custom", ProviderOptions(api_key=KEY, base_url=server.base_url))
            assert (await refused(provider, ask())).left_out
            await answer(provider, ask())
            assert "stream_options" not in server.requests[1].json()
            await provider.close()

    run(main())


def test_refused_tools_are_told_and_still_sent() -> None:
    async def main() -> None:
        body = b'{"error":{"message":"gemma:2b does not support tools"}}'
        async with ByteServer([plain(body, "400 Bad Request")]) as server:
            provider = from_profile("ollama", ProviderOptions(base_url=server.base_url))
            for _ in range(2):
                error = await refused(provider, ask(tools=(SPEC,)))
                assert (error.kind, error.left_out) == (ErrorKind.UNSUPPORTED_PARAMETER, False)
            assert "tools" in server.requests[1].json()
            await provider.close()

    run(main())
