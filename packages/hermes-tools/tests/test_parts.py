"""The small parts: limits of output, credentials, toolset names, the clean-up that is not cancelled."""

from __future__ import annotations

import asyncio
import doctest
import importlib
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hard_times import deaf, outlasts_a_standstill
from hypothesis import given
from hypothesis import strategies as st

import hermes_tools
from hermes_messages import ConfigurationError, UnknownNameError
from hermes_tools.output_limits import HeadAndTail, RoundBudget, cut_middle
from hermes_tools.secrets import SecretMasker, is_secret_name, own_secrets, secret_values
from hermes_tools.shielding import finish_despite_cancel
from hermes_tools.toolsets import expand_names

SOURCES = Path(hermes_tools.__file__).parent
WITH_EXAMPLES = [
    ".".join(("hermes_tools", *path.relative_to(SOURCES).with_suffix("").parts)).removesuffix(".__init__")
    for path in sorted(SOURCES.rglob("*.py"))
    if ">>> " in path.read_text("utf-8")
]
NOTE = "[{left_out} left out]"


@given(st.text(alphabet="ab\n", max_size=400), st.integers(1, 100))
def test_what_is_shown_and_what_is_left_out_add_up(text: str, limit: int) -> None:
    cut = cut_middle(text, limit, NOTE)
    if len(text) <= limit:
        assert cut == text
        return
    head, _, rest = cut.partition("\n[")
    count, _, tail = rest.partition(" left out]")
    assert text.startswith(head)
    assert text.endswith(tail.removeprefix("\n"))
    assert len(head) + len(tail) <= limit + 2
    assert int(count) >= len(text) - limit


@given(st.lists(st.text(max_size=40), max_size=30), st.integers(2, 60))
def test_text_in_pieces_is_held_whole_or_as_start_and_end(pieces: list[str], limit: int) -> None:
    kept = HeadAndTail(limit)
    for piece in pieces:
        kept.feed(piece)
    text = "".join(pieces)
    shown = kept.text(NOTE)
    assert kept.total == len(text)
    if len(text) <= limit - 1:
        assert shown == text
    elif shown != text:
        head, _, tail = shown.partition(f"\n[{kept.left_out} left out]\n")
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len(head) + len(tail) + kept.left_out == len(text)


def test_a_share_that_is_not_used_is_left_to_the_others() -> None:
    budget = RoundBudget(1_000, 4, floor=10)
    assert budget.share() == 250
    budget.take(10)
    assert budget.share() == 330
    for _ in range(3):
        budget.take(2_000)
    assert budget.share() == 10


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "GH_TOKEN",
        "aws_secret_access_key",
        "DB_PASSWORD",
        "MYSQL_PWD",
        "SENTRY_DSN",
        "APIKEY",
        "MYTOKEN",
    ],
)
def test_names_of_credentials_are_known(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["PATH", "PWD", "OLDPWD", "HOME", "TOKENIZERS_PARALLELISM", "KEYMAP", "COMPASS", "LANG"]
)
def test_ordinary_names_are_not_taken_for_credentials(name: str) -> None:
    assert not is_secret_name(name)


@given(
    st.lists(st.sampled_from(["secret-one", "secret-one-longer", "x", "sec", "\n"]), max_size=30),
    st.integers(1, 9),
)
def test_a_credential_is_hidden_wherever_the_stream_is_cut(words: list[str], size: int) -> None:
    masker = SecretMasker(("secret-one", "secret-one-longer"))
    text = "".join(words)
    out, rest = "", ""
    for start in range(0, len(text), size):
        shown, rest = masker.mask_stream(rest + text[start : start + size])
        out += shown
    assert out + masker.mask(rest) == masker.mask(text)
    assert "secret" not in repr(masker)


def test_a_credential_that_comes_into_the_environment_later_is_known_from_then_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "first-credential")
    assert "first-credential" in own_secrets()
    monkeypatch.setenv("SOME_API_KEY", "other-credential")
    assert "other-credential" in own_secrets()
    assert "first-credential" not in own_secrets()
    monkeypatch.delenv("SOME_API_KEY")
    assert own_secrets() == secret_values(os.environ)
    monkeypatch.setattr(os, "environ", {"SOME_API_KEY": "third-credential"})
    assert own_secrets() == {"third-credential"}


def test_combinations_are_expanded_to_any_depth() -> None:
    combinations = {
        "all": ("*",),
        "mine": ("a", "inner"),
        "inner": ("b",),
        "loop": ("loop2",),
        "loop2": ("loop",),
    }
    assert expand_names(["mine"], "abc", combinations) == {"a", "b"}
    assert expand_names(["all"], "abc", combinations) == {"a", "b", "c"}
    assert expand_names([], "abc", combinations) == frozenset()
    with pytest.raises(ConfigurationError, match="contains itself"):
        expand_names(["loop"], "abc", combinations)
    with pytest.raises(UnknownNameError):
        expand_names(["d"], "abc", combinations)


# -- a clean-up that is not cancelled ---------------------------------------------------------------------


def test_a_clean_up_is_finished_although_it_is_cancelled_twice(run_async: Any) -> None:
    async def main() -> None:
        go_on, done = asyncio.Event(), []

        async def work() -> None:
            await go_on.wait()
            done.append(True)

        task = asyncio.ensure_future(finish_despite_cancel(work, 300))
        for _ in range(2):
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert done == [True]

    run_async(main())


def test_a_process_that_stood_still_gives_a_clean_up_the_rest_of_its_time() -> None:
    assert asyncio.run(outlasts_a_standstill(lambda work: finish_despite_cancel(work, 300), cancelled=False))


def test_a_clean_up_that_never_ends_is_left_behind(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        over = asyncio.Event()
        with pytest.raises(TimeoutError):
            await finish_despite_cancel(partial(deaf, over), 0.05)
        over.set()

    asyncio.run(main())
    assert "left behind" in caplog.text


def test_a_clean_up_that_the_end_of_the_loop_cancels_is_run_again() -> None:
    runs: list[str] = []

    async def work() -> None:
        runs.append("begun")
        await asyncio.sleep(0.02)
        runs.append("done")

    async def cleans_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await finish_despite_cancel(work, 300)

    async def main() -> None:
        task = asyncio.ensure_future(cleans_up())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        # main returns now: asyncio.run cancels the clean-up's own task as well

    asyncio.run(main())
    assert runs == ["begun", "begun", "done"]


def test_errors_of_a_clean_up_are_raised(run_async: Any) -> None:
    async def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_async(finish_despite_cancel(work, 300))


# -- the package ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_module_are_true(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted
    assert not result.failed


def test_every_public_name_exists() -> None:
    for name in hermes_tools.__all__:
        assert vars(hermes_tools).get(name) or hermes_tools.__getattr__(name), name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        hermes_tools.nothing  # noqa: B018


def test_importing_the_package_loads_neither_files_nor_tasks() -> None:
    code = (
        "import sys, hermes_tools; print([m for m in ('anyio', 'aiofiles', 'asyncio') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
