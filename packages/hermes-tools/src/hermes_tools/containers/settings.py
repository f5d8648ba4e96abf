"""What a container is to be, and the words of the command line that make it so. Pure.

Source: the reference of `docker run` and `docker exec`, https://docs.docker.com/reference/cli/docker/; podman
takes the same words (podman-run(1), podman-exec(1)).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from hermes_messages import ConfigurationError
from hermes_tools.containers.script import KEEP_ALIVE, SCRIPT
from hermes_tools.secrets import COMMAND_VARIABLES

__all__ = [
    "HOST_LABEL",
    "OWNER_LABEL",
    "TASK_LABEL",
    "ContainerSettings",
    "container_name",
    "exec_words",
    "run_words",
]

TASK_LABEL = "hermes.task"
OWNER_LABEL = "hermes.owner"
HOST_LABEL = "hermes.host"
_NO_NAME = re.compile(r"[^a-zA-Z0-9_.-]+")
_LONGEST_TASK = 80


class ContainerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The container of a task. An image needs `/bin/sh`, `sleep` and `kill`, and a `/proc` as Linux has it;
    file tools need programs that coreutils or busybox bring (`hermes_tools.containers.file_scripts`).

    `cli`: `docker`, `podman`, or the path of a program that takes the same words. `network`: none, bridge, or
    the name of a network. `memory`: as the command line takes it (`512m`, `2g`). `pids`: how
    many processes at once. `cpus`: how many of them, None: no limit. `user`: by name or `uid:gid`; None: the
    user that we are, so that files in the working directory stay ours, and without capabilities.
    `environment` is all that it has beside the image's own. `options`: further words for `run`. `pull`:
    whether an image that is not there may be fetched.
    """

    image: str
    cli: str = "docker"
    network: str = "none"
    memory: str = "2g"
    pids: int = 512
    cpus: float | None = None
    user: str | None = None
    environment: Mapping[str, str] = {}
    options: tuple[str, ...] = ()
    pull: bool = True

    def checked(self) -> ContainerSettings:
        """These settings. Raises `ConfigurationError` for values that can not work."""
        for name in ("image", "cli", "network", "memory"):
            value = str(getattr(self, name))
            if not value or value.startswith("-") or not value.isprintable() or " " in value:
                raise ConfigurationError(f"container setting {name} is {value!r}, which can not be meant")
        if self.pids < 1 or (self.cpus is not None and self.cpus <= 0):
            raise ConfigurationError("container settings pids and cpus must be above 0")
        return self


def container_name(task_id: str, suffix: str) -> str:
    """The name of a task's container: `suffix` keeps two tasks of one name apart."""
    return f"hermes-{_NO_NAME.sub('-', task_id)[:_LONGEST_TASK]}-{suffix}"


def run_words(
    settings: ContainerSettings, *, name: str, cwd: str, labels: Mapping[str, str], we_are: tuple[int, int]
) -> list[str]:
    """The words after the program's name that start a container which waits for commands. `we_are` are our
    user and group. The working directory is there by its own path, and nothing else of this machine."""
    words = ["run", "--detach", "--rm", "--pull", "never", "--name", name]
    for label, value in labels.items():
        words += ["--label", f"{label}={value}"]
    words += ["--network", settings.network, "--memory", settings.memory]
    words += ["--pids-limit", str(settings.pids), "--security-opt", "no-new-privileges"]
    if settings.cpus is not None:
        words += ["--cpus", f"{settings.cpus:g}"]
    words += _user_words(settings, we_are)
    words += ["--mount", f"type=bind,{_field('source', cwd)},{_field('target', cwd)}", "--workdir", cwd]
    for variable, value in settings.environment.items():
        words += ["--env", f"{variable}={value}"]
    return [*words, *settings.options, "--entrypoint", "/bin/sh", settings.image, "-c", KEEP_ALIVE]


def _user_words(settings: ContainerSettings, we_are: tuple[int, int]) -> list[str]:
    if settings.user is not None:
        return ["--user", settings.user]
    user, group = we_are
    words = ["--user", f"{user}:{group}", "--cap-drop", "ALL", "--env", "HOME=/tmp"]
    if user and "podman" in settings.cli.rpartition("/")[2]:
        words.append("--userns=keep-id")  # without it our files belong to another user in there
    return words


def _field(key: str, value: str) -> str:
    """A field of `--mount`, which is read as a line of CSV."""
    text = f"{key}={value}"
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\n') else text


def exec_words(name: str, *, token: str, command: str, cwd: str, with_input: bool) -> Sequence[str]:
    """The words that start a command in the container `name`."""
    environment = [word for pair in COMMAND_VARIABLES.items() for word in ("--env", "=".join(pair))]
    script = ["/bin/sh", "-c", SCRIPT, "hermes", token, cwd, "input" if with_input else "none", command]
    return ["exec", "--interactive", *environment, name, *script]
