"""Child program: llama.cpp's HTTP server, from the wheel `xllamacpp`, in a process of its own.

`LocalServer` runs it by file path, so nothing else of the package is imported; by hand it is::

    python -m hermes_providers.local.server --model MODEL.gguf --port 8080

Exactly one JSON line goes to standard output: `{"event": "ready", "url": ..., "pid": ...}`, or
`{"event": "error", "kind": "model" | "port" | "template" | "import" | "start", "message": ...}` and exit
code 1. Everything that llama.cpp prints goes to standard error. The process ends at SIGTERM and SIGINT,
and, with `--lifeline`, as soon as its parent is gone, however that died.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import NoReturn, Protocol

__all__ = ["GGUF_MAGIC", "gguf_problem", "main"]

GGUF_MAGIC = b"GGUF"
"""First four bytes of a weights file (ggml's docs/gguf.md, "File Structure")."""

_HOST = "127.0.0.1"
_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


class _Server(Protocol):
    """The one attribute of `xllamacpp.Server` that is used here; its wheel has no type hints."""

    listening_address: str


def gguf_problem(path: str) -> str | None:
    """Say why the file can not be a GGUF weights file; None if it looks like one. Reads four bytes."""
    try:
        with Path(path).open("rb") as file:
            magic = file.read(len(GGUF_MAGIC))
    except FileNotFoundError:
        return f"no model file at {path}"
    except OSError as error:
        return f"can not read the model file {path}: {error.strerror or error}"
    if magic != GGUF_MAGIC:
        return f"{path} is not a GGUF file (it starts with {magic!r}, not with {GGUF_MAGIC!r})"
    return None


class _Reporter:
    """The one line for the parent, on a private copy of standard output."""

    def __init__(self) -> None:
        self._fd = os.dup(1)
        # llama.cpp and Python's own prints may write to descriptor 1: from here on that is the log.
        os.dup2(2, 1)

    def say(self, **fields: object) -> None:
        os.write(self._fd, json.dumps(fields).encode() + b"\n")

    def fail(self, kind: str, message: str) -> NoReturn:
        self.say(event="error", kind=kind, message=message)
        # Not sys.exit: the native parts of a half-built server may wait for each other for ever.
        os._exit(1)


def main(argv: list[str] | None = None) -> NoReturn:
    """Start the server, report, and wait for the end."""
    options = _parser().parse_args(argv)
    if options.lifeline:
        _die_with_parent(options.lifeline)
    reporter = _Reporter()
    problem = gguf_problem(options.model)
    if problem is not None:
        reporter.fail("model", problem)
    if _port_in_use(options.port):
        reporter.fail("port", f"port {options.port} on {_HOST} is in use")
    try:
        server = _start(options)
    except ImportError as error:
        reporter.fail("import", f"xllamacpp can not be imported: {error}")
    except OSError as error:
        reporter.fail("template", f"can not read the chat template: {error}")
    except RuntimeError as error:
        # Somebody may have taken the port while the model was loading.
        if _port_in_use(options.port):
            reporter.fail("port", f"port {options.port} on {_HOST} is in use")
        reporter.fail("start", f"llama.cpp did not start: {error}")
    # The server holds no state worth a tidy end, and its own ending waits for open streams.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    reporter.say(event="ready", url=server.listening_address, pid=os.getpid())
    if options.lifeline:
        _wait_for_end_of_stdin()
    while True:
        signal.pause()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hermes_providers.local.server", description="llama.cpp's HTTP server on a loopback port."
    )
    parser.add_argument("--model", required=True, help="path of a GGUF file")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--alias", default="local", help="the model's name in answers")
    parser.add_argument("--chat-template-file", default="", help="Jinja file; default: the model's own")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--slots", type=int, default=2, help="requests answered at the same time")
    parser.add_argument("--context-per-slot", type=int, default=4096, help="tokens of one conversation")
    parser.add_argument("--verbosity", type=int, default=3, help="llama.cpp's log level, 0 to 5")
    parser.add_argument(
        "--lifeline", type=int, default=0, metavar="PID", help="end with this parent, which holds stdin open"
    )
    return parser


def _port_in_use(port: int) -> bool:
    if port == 0:
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError:
            return True
    return False


def _start(options: argparse.Namespace) -> _Server:
    """Load the model and listen; returns when requests are answered.

    Raises ImportError without the wheel, OSError for an unreadable template, RuntimeError for the rest.
    """
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.hostnames = [_HOST]
    params.port = options.port
    params.model_alias = {options.alias}
    params.use_jinja = True
    if options.chat_template_file:
        params.chat_template = Path(options.chat_template_file).read_text(encoding="utf-8")
    params.n_parallel = options.slots
    params.n_ctx = options.slots * options.context_per_slot  # llama.cpp divides it among the slots
    params.cpuparams.n_threads = options.threads
    params.cpuparams_batch.n_threads = options.threads
    params.verbosity = options.verbosity
    params.ui = False
    params.endpoint_slots = False
    params.cache_ram_mib = 0  # else up to 8 GiB of old prompts stay in memory
    server: _Server = xllamacpp.Server(params)
    return server


def _die_with_parent(parent: int) -> None:
    """Ask Linux for SIGKILL at the parent's end: it also works while native code loads the model.

    Strictly it is the end of the parent's *thread* that counts: the one that runs the event loop, and a
    server is bound to its loop. Elsewhere the closed lifeline does the same once the model is loaded.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the request above
            os._exit(1)


def _wait_for_end_of_stdin() -> NoReturn:
    """Block until standard input ends: the parent holds the other end and never writes."""
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
