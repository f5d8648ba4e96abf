"""Asking docker or podman, through its command line."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from hermes_tools import files
from hermes_tools.command_runner import command_environment
from hermes_tools.containers.settings import HOST_LABEL, OWNER_LABEL, ContainerSettings, exec_words
from hermes_tools.errors import ContainerError
from hermes_tools.processes import ChildProcess

__all__ = ["ContainerEngine", "our_mark"]

logger: logging.Logger = logging.getLogger(__name__)

_ASK_LIMIT_S = 30.0
_PULL_LIMIT_S = 1_800.0
_REMOVE_LIMIT_S = 8.0
_MOST_ANSWER = 1 << 20
_SHOWN = 500
_IMAGES_AT_ONCE = 100


class _Seen:
    """What was found to work in one event loop, so that many agents that start at once ask once."""

    def __init__(self) -> None:
        self.locks: dict[tuple[str, ...], asyncio.Lock] = {}
        self.works: set[tuple[str, ...]] = set()


_seen: WeakKeyDictionary[asyncio.AbstractEventLoop, _Seen] = WeakKeyDictionary()


class ContainerEngine:
    """The program that runs containers, as `settings` say. Its own environment holds no credentials."""

    def __init__(self, settings: ContainerSettings) -> None:
        self.settings = settings

    async def check(self, *, image: bool = True) -> None:
        """Find out that the program, its daemon and (with `image`) the image are there; an image that is not
        is fetched.

        What a killed process of ours left running on this machine is removed on the way. Asked once for each
        event loop. Raises `ContainerError` with what to do.
        """
        cli = self.settings.cli
        seen = _seen.setdefault(asyncio.get_running_loop(), _Seen())
        for key, find_out in (((cli,), self._check_program), ((cli, self.settings.image), self._check_image)):
            if key in seen.works or (len(key) > 1 and not image):
                continue
            async with seen.locks.setdefault(key, asyncio.Lock()):
                if key not in seen.works:
                    await find_out()
                    seen.works.add(key)

    async def _check_program(self) -> None:
        cli = self.settings.cli
        code, told = await self.ask(["ps", "--quiet"])
        if code:
            raise ContainerError(
                f"{cli} does not answer: {told}; is its daemon running, and may this user ask it?"
            )
        await self._remove_leftovers()

    async def _check_image(self) -> None:
        image = self.settings.image
        if (await self.ask(["image", "inspect", image]))[0] == 0:
            return
        if not self.settings.pull:
            raise ContainerError(f"the image {image} is not on this machine, and is not to be fetched")
        logger.info("fetching the image %s", image)
        code, told = await self.ask(["pull", "--quiet", image], limit_s=_PULL_LIMIT_S)
        if code:
            raise ContainerError(f"the image {image} is not on this machine and can not be fetched: {told}")

    async def missing(self, images: Sequence[str]) -> list[str]:
        """Which of `images` are not on this machine; many are asked for at once. Raises `ContainerError`."""
        missing: list[str] = []
        for begin in range(0, len(images), _IMAGES_AT_ONCE):
            some = images[begin : begin + _IMAGES_AT_ONCE]
            if not await self._has(some):
                missing += [image for image in some if not await self._has([image])]
        return missing

    async def _has(self, images: Sequence[str]) -> bool:
        """Whether all of them are on this machine; a word that would be an option names none."""
        if any(image.startswith("-") for image in images):
            return False
        return (await self.ask(["image", "inspect", "--format", "{{.Id}}", *images]))[0] == 0

    async def _remove_leftovers(self) -> None:
        """Remove containers whose owner, a process of this machine, is gone. Those of others stay."""
        wanted = ["--filter", f"label={HOST_LABEL}={socket.gethostname()}"]
        code, told = await self.ask(["ps", "--all", "--quiet", *wanted])
        names = told.split()
        if code or not names:
            return
        form = '{{.Name}} {{index .Config.Labels "' + OWNER_LABEL + '"}}'
        _, told = await self.ask(["container", "inspect", "--format", form, *names])
        for line in told.splitlines():
            name, _, owner = line.strip().removeprefix("/").partition(" ")
            number = owner.partition(".")[0]
            if number.isdigit() and await _mark(int(number)) != owner:
                logger.warning("removing the container %s, which a killed process left", name)
                await self.remove(name)

    async def remove(self, name: str) -> None:
        """Kill and remove a container; one that is not there is fine. Raises `ContainerError`."""
        code, told = await self.ask(["rm", "--force", "--volumes", name], limit_s=_REMOVE_LIMIT_S)
        if code and "no such container" not in told.lower():
            raise ContainerError(f"the container {name} could not be removed: {told}")

    async def say_inside(self, name: str, script: str, argument: str, limit_s: float) -> int | None:
        """Run a short script in a container: its exit code. Raises `ContainerError`."""
        words = ["exec", name, "/bin/sh", "-c", script, "hermes", argument]
        return (await self.ask(words, limit_s=limit_s))[0]

    async def begin(self, name: str, *, token: str, command: str, cwd: str, with_input: bool) -> ChildProcess:
        """The client of a command in a container. Raises `OSError`."""
        words = exec_words(name, token=token, command=command, cwd=cwd, with_input=with_input)
        return await self._start(words, with_input=True)

    async def ask(self, words: Sequence[str], *, limit_s: float = _ASK_LIMIT_S) -> tuple[int | None, str]:
        """The exit code and what was said. Raises `ContainerError` when the program can not be started or
        takes too long; it is ended then, and when we are cancelled."""
        try:
            child = await self._start(words)
        except OSError as error:
            raise ContainerError(
                f"{self.settings.cli} can not be started ({error.strerror or error}); a container needs"
                " docker or podman: install one, or do without an image"
            ) from error
        try:
            async with asyncio.timeout(limit_s):
                told = bytearray()
                while chunk := await child.read():
                    told += chunk[: _MOST_ANSWER - len(told)]
                code = await child.wait()
        except TimeoutError:
            raise ContainerError(
                f"{self.settings.cli} {words[0]} did not answer within {limit_s:g} s"
            ) from None
        finally:
            await child.stop()
            child.close_pipes()
        text = told.decode(errors="replace").strip()
        return code, text[:_SHOWN] if code else text

    async def _start(self, words: Sequence[str], *, with_input: bool = False) -> ChildProcess:
        command = [self.settings.cli, *words]
        return await ChildProcess.start(
            command, cwd="/", environment=command_environment(), with_input=with_input
        )


async def our_mark() -> dict[str, str]:
    """Labels that tell which process of which machine a container belongs to."""
    return {HOST_LABEL: socket.gethostname(), OWNER_LABEL: await _mark(os.getpid())}


async def _mark(number: int) -> str:
    """A process by its number and, where the system tells, the time of its start; "" for one that is gone."""
    try:
        line = await files.read_small(f"/proc/{number}/stat", 4096)
    except OSError:
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return ""
        except PermissionError:
            pass
        return f"{number}."
    # proc_pid_stat(5): the 22nd field is the start time; two stand before the name's closing bracket
    return f"{number}.{line.rpartition(b')')[2].split()[19].decode()}"
