"""Stands where docker would: records what it is asked, and runs the commands of a "container" on this
machine.

As with docker, a command goes on when its client is killed, sees none of the client's environment, and its
client stays for as long as anybody holds the output. Its state is in the directory in which it lies. Where
there is a directory `image` in it, a container has files of its own, copied from there, and of this machine's
only the working directory and `/dev`: its commands run in a mount namespace and a changed root.

It is started for every call of every test, so it imports only what each call needs, and no `pathlib`.
"""

import json
import os
import sys

TYPE_CHECKING = False  # as typing has it, whose import costs as much as all the rest

if TYPE_CHECKING:
    from typing import NoReturn

HERE = os.path.join(os.path.dirname(os.path.realpath(sys.argv[0])), "state")
CONTAINERS = f"{HERE}/containers"
IMAGE = f"{HERE}/image"
ROOTS = f"{HERE}/roots"
MARK = "HERMES_TEST_MARK"
ENTER = """
for place in /dev "$2"; do mount --rbind "$place" "$1$place" || exit 125; done
root=$1
shift 2
exec unshare --root "$root" "$@"
"""


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def options(words: list[str], name: str) -> list[str]:
    return [words[place + 1] for place, word in enumerate(words) if word == name]


def fail(text: str, code: int = 1) -> "NoReturn":
    sys.stderr.write(text + "\n")
    sys.exit(code)


def state_of(name: str) -> dict[str, object]:
    try:
        with open(f"{CONTAINERS}/{name}") as file:
            state: dict[str, object] = json.load(file)
    except FileNotFoundError:
        fail(f"Error response from daemon: No such container: {name}")
    return state


def run(words: list[str]) -> None:
    if os.path.exists(f"{HERE}/slow"):
        import time

        time.sleep(0.5)
    source = dict(part.split("=", 1) for part in option(words, "--mount").split(","))["source"]
    labels = dict(label.split("=", 1) for label in options(words, "--label"))
    name = option(words, "--name")
    if os.path.exists(IMAGE):
        import shutil

        shutil.copytree(IMAGE, f"{ROOTS}/{name}", symlinks=True)
        for place in ("/dev", source):
            os.makedirs(f"{ROOTS}/{name}{place}", exist_ok=True)
    with open(f"{CONTAINERS}/{name}", "w") as file:
        json.dump({"cwd": source, "labels": labels, "env": options(words, "--env")}, file)
    print("0123456789abcdef")


def execute(words: list[str]) -> None:
    given = {}
    interactive = False
    while words[0].startswith("-"):
        word = words.pop(0)
        if word == "--env":
            variable, _, value = words.pop(0).partition("=")
            given[variable] = value
        interactive |= word == "--interactive"
    if os.path.exists(f"{HERE}/deaf") and not interactive:
        import time

        time.sleep(600)
    name = words.pop(0)
    state = state_of(name)
    environment = {"PATH": os.environ["PATH"], MARK: os.environ.get(MARK, ""), "FAKE_CONTAINER": name}
    environment |= dict(pair.split("=", 1) for pair in state["env"]) | given  # type: ignore[attr-defined]
    if os.path.exists(root := f"{ROOTS}/{name}"):
        new_mounts = ["--mount"] if os.geteuid() == 0 else ["--mount", "--map-root-user"]
        words = ["unshare", *new_mounts, "/bin/sh", "-c", ENTER, "enter", root, str(state["cwd"]), *words]
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            os.chdir(str(state["cwd"]))
            if not interactive:
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(write_end, 1)
            os.dup2(write_end, 2)
            os.execvpe(words[0], words, environment)
        finally:
            os._exit(126)
    os.close(write_end)
    while piece := os.read(read_end, 65536):
        while piece:
            piece = piece[os.write(1, piece) :]
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    sys.exit(code if code >= 0 else 128 - code)


def remove(name: str) -> None:
    import shutil
    import signal

    state_of(name)
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/environ", "rb") as file:
                if f"FAKE_CONTAINER={name}".encode() in file.read().split(b"\0"):
                    os.kill(int(number), signal.SIGKILL)
        except OSError:
            pass
    os.unlink(f"{CONTAINERS}/{name}")
    shutil.rmtree(f"{ROOTS}/{name}", ignore_errors=True)


def label_of(name: str, key: str) -> object:
    labels = state_of(name)["labels"]
    return labels.get(key) if isinstance(labels, dict) else None


def leftovers(which: str) -> None:
    key, value = which.removeprefix("label=").split("=", 1)
    for name in os.listdir(CONTAINERS):
        if label_of(name, key) == value:
            print(name)


def owners(names: list[str]) -> None:
    for name in names:
        print(f"/{name} {label_of(name, 'hermes.owner')}")


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
    os.makedirs(CONTAINERS, exist_ok=True)
    words = sys.argv[1:]
    with open(f"{HERE}/log", "a") as log:
        log.write(json.dumps({"words": words, "environment": dict(os.environ)}) + "\n")
    if os.path.exists(f"{HERE}/down"):
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
