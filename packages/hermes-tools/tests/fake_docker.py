"""Stands where docker would: records what it is asked, and runs the commands of a "container" on this
machine.

As with docker, a command goes on when its client is killed, sees none of the client's environment, and its
client stays for as long as anybody holds the output. Its state is in the directory in which it lies.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

HERE = Path(sys.argv[0]).resolve().parent / "state"
CONTAINERS = HERE / "containers"
MARK = "HERMES_TEST_MARK"


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def options(words: list[str], name: str) -> list[str]:
    return [words[place + 1] for place, word in enumerate(words) if word == name]


def fail(text: str, code: int = 1) -> NoReturn:
    sys.stderr.write(text + "\n")
    sys.exit(code)


def run(words: list[str]) -> None:
    if (HERE / "slow").exists():
        time.sleep(0.5)
    source = dict(part.split("=", 1) for part in option(words, "--mount").split(","))["source"]
    labels = dict(label.split("=", 1) for label in options(words, "--label"))
    state = {"cwd": source, "labels": labels, "env": options(words, "--env")}
    (CONTAINERS / option(words, "--name")).write_text(json.dumps(state))
    print("0123456789abcdef")


def execute(words: list[str]) -> None:
    given = {}
    interactive = False
    while words[0].startswith("-"):
        word = words.pop(0)
        if word == "--env":
            name, _, value = words.pop(0).partition("=")
            given[name] = value
        interactive |= word == "--interactive"
    name = words.pop(0)
    place = CONTAINERS / name
    if not place.exists():
        fail(f"Error response from daemon: No such container: {name}")
    state = json.loads(place.read_text())
    environment = {"PATH": os.environ["PATH"], MARK: os.environ.get(MARK, ""), "FAKE_CONTAINER": name}
    environment |= dict(pair.split("=", 1) for pair in state["env"]) | given
    child = subprocess.Popen(
        words,
        cwd=state["cwd"],
        env=environment,
        stdin=None if interactive else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert child.stdout is not None
    while piece := os.read(child.stdout.fileno(), 65536):
        while piece:
            piece = piece[os.write(1, piece) :]
    code = child.wait()
    sys.exit(code if code >= 0 else 128 - code)


def remove(name: str) -> None:
    place = CONTAINERS / name
    if not place.exists():
        fail(f"Error response from daemon: No such container: {name}")
    for entry in Path("/proc").iterdir():
        try:
            if f"FAKE_CONTAINER={name}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
        except (OSError, ValueError):
            pass
    place.unlink()


def leftovers(which: str) -> None:
    key, value = which.removeprefix("label=").split("=", 1)
    for place in CONTAINERS.iterdir():
        if json.loads(place.read_text())["labels"].get(key) == value:
            print(place.name)


def owners(names: list[str]) -> None:
    for name in names:
        labels = json.loads((CONTAINERS / name).read_text())["labels"]
        print(f"/{name} {labels['hermes.owner']}")


def image(words: list[str]) -> None:
    match words:
        case ["image", "inspect", "here"] | ["pull", "--quiet", "fetched"]:
            pass
        case ["image", "inspect", "--format", _, *names]:
            if missing := [name for name in names if name != "here"]:
                fail(f"Error: No such image: {missing[0]}")
        case ["image", "inspect", name]:
            fail(f"Error: No such image: {name}")
        case _:
            fail(f"Error response from daemon: pull access denied for {words[-1]}")


def main() -> None:
    CONTAINERS.mkdir(parents=True, exist_ok=True)
    words = sys.argv[1:]
    with (HERE / "log").open("a") as log:
        log.write(json.dumps({"words": words, "environment": dict(os.environ)}) + "\n")
    if (HERE / "down").exists():
        fail("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.")
    match words:
        case ["ps", "--quiet"]:
            pass
        case ["ps", "--all", "--quiet", "--filter", which]:
            leftovers(which)
        case ["container", "inspect", "--format", _, *names]:
            owners(names)
        case ["image" | "pull", *_]:
            image(words)
        case ["run", *rest]:
            run(rest)
        case ["exec", *rest]:
            execute(rest)
        case ["rm", "--force", "--volumes", name]:
            remove(name)
        case _:
            fail(f"unknown command {words}", 125)


main()
