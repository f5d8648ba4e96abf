"""What the commands of `hermes-batch` share: exit codes, signals, the options of the model."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Awaitable
from contextlib import suppress
from typing import Protocol, TypeVar

from hermes_batch.cli_parser import read_settings
from hermes_messages import ConfigurationError
from hermes_messages.argument_text import JsonValue

__all__ = ["FAILED", "INTERRUPTED", "OK", "USAGE", "api_key", "provider_settings", "run_until_signal", "tell"]

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

T = TypeVar("T")


class _Stoppable(Protocol):
    """What a signal stops."""

    def request_stop(self, *, now: bool = False) -> None:
        """Begin nothing more; with `now`, cancel what runs."""
        ...


def provider_settings(arguments: argparse.Namespace) -> dict[str, JsonValue]:
    """The settings of the provider's own."""
    settings = read_settings(arguments.provider_setting)
    if arguments.model_path is not None:
        settings["model_path"] = arguments.model_path
    return settings


def api_key(arguments: argparse.Namespace) -> str | None:
    """The key, given or in the environment variable that is named; None for the provider's own way."""
    variable: str | None = arguments.api_key_env
    if arguments.api_key:
        given: str = arguments.api_key
        return given
    if variable is None:
        return None
    if not variable.isidentifier():
        raise ConfigurationError(
            "--api-key-env takes the name of an environment variable, not the key itself"
        )
    key = os.environ.get(variable, "")
    if not key:
        raise ConfigurationError(f"the environment variable {variable} is not set")
    return key


async def run_until_signal(runner: _Stoppable, work: Awaitable[T]) -> T:
    """The result of `work`. The first SIGINT or SIGTERM lets running rows end, the second cancels them, the
    third cancels `work`."""
    loop = asyncio.get_running_loop()
    run = asyncio.current_task()
    signals = 0

    def on_signal() -> None:
        nonlocal signals
        signals += 1
        match signals:
            case 1:
                tell("\nstopping: running rows may end; once more to stop at once\n")
                runner.request_stop()
            case 2:
                tell("\nstopping now; once more to leave the results unmerged\n")
                runner.request_stop(now=True)
            case _:
                if run is not None:
                    run.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    try:
        return await work
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def tell(text: str) -> None:
    """Write to the terminal, if it is still there."""
    with suppress(OSError):
        sys.stderr.write(text)
