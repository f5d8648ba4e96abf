"""`make demo`: install what the main job needs, then run it.

    python3 .ci/demo.py [OPTIONS OF hermes-batch run]

Without an API key and without --base-url or --provider the job uses a small local model, installed here.
"""

from __future__ import annotations

import os
import sys

from environment import SetupError, missing_wheels, prepared, run, sync

JOB = [
    "hermes-batch", "run", "--resume",
    "--dataset-file", "examples/demo/prompts.jsonl",
    "--run-name", "demo",
    "--toolsets", "file,terminal,todo",
    "--num-workers", "2",
    "--max-iterations", "6",
    "--keep-without-reasoning",
]  # fmt: skip
FOR_THE_LOCAL_MODEL = ["--max-tokens", "256", "--temperature", "0"]

API_KEYS = ("OPENROUTER_API_KEY", "OPENAI_API_KEY")
HOST_OPTIONS = ("--base-url", "--provider")
BASE = ("--inexact", "--only-group", "demo")
WITH_MODEL = (*BASE, "--only-group", "local")
OTHER_MODEL = 'run it on another model: make demo ARGS="--base-url http://HOST:PORT/v1 --model NAME"'


def wants_local_model(options: list[str]) -> bool:
    """Whether nothing names a model host, so that the local model has to do."""
    if "--provider" in options:
        return options[options.index("--provider") + 1 :][:1] == ["local"]
    named = any(option.split("=")[0] in HOST_OPTIONS for option in options)
    return not named and not any(os.environ.get(key) for key in API_KEYS)


def main() -> None:
    """Set up, then become the job."""
    options = sys.argv[1:]
    env = prepared()
    groups: tuple[str, ...] = BASE
    job = JOB
    if wants_local_model(options):
        job = JOB + FOR_THE_LOCAL_MODEL
        groups = WITH_MODEL
        new, complaint = missing_wheels(env, *groups)
        if complaint:
            sys.exit(f"demo: the local model cannot be installed here ({complaint}); {OTHER_MODEL}")
        if new:
            print(
                "demo: no API key is set, so a small local model is used: about 140 MB to download, once",
                flush=True,
            )
    try:
        sync(env, *groups)
    except SetupError as error:
        sys.exit(f"demo: could not install what the demo needs ({error}); check the network and try again")
    run(env, [*job, *options])


if __name__ == "__main__":
    main()
