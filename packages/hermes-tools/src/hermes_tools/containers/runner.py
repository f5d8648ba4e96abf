"""The commands of one task, in a container of their own that is started for the first of them."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from hermes_tools.command_runner import CommandProcess, CommandRunner, command_place
from hermes_tools.containers.engine import ContainerEngine, our_mark
from hermes_tools.containers.script import GO, LIVES, STOP, CommandStream, new_token
from hermes_tools.containers.settings import TASK_LABEL, container_name, run_words
from hermes_tools.errors import ContainerError, ToolFailure
from hermes_tools.processes import ChildProcess
from hermes_tools.shielding import finish_despite_cancel

__all__ = ["ContainerCommands", "ContainerProcess"]

logger: logging.Logger = logging.getLogger(__name__)

_START_LIMIT_S = 120.0
_HEAD_LIMIT_S = 30.0
_REMOVE_LIMIT_S = 9.0
_STOP_LIMIT_S = 3.7
_INSIDE_LIMIT_S = 2.5
_REST_LIMIT_S = 1.0


class ContainerCommands:
    """Runs the commands of the task `task_id`. Nothing is started before the first; `release` removes it."""

    def __init__(self, engine: ContainerEngine, task_id: str) -> None:
        self._engine = engine
        self._task_id = task_id
        self._lock = asyncio.Lock()
        self._name: str | None = None
        self._begun: str | None = None
        self._starting: asyncio.Task[tuple[int | None, str]] | None = None

    async def start(
        self,
        command: str,
        *,
        cwd: str,
        workdir: str | None,
        with_input: bool,
        on_lost_output: Callable[[bytes], Awaitable[None]] | None = None,  # noqa: ARG002 - none is
    ) -> CommandProcess:
        """See `CommandRunner`; the directory is looked for in the container. No output is lost by a
        cancellation: the command runs only once it is known that it can."""
        place = command_place(cwd, workdir)
        if "\0" in command:
            raise ToolFailure("the command could not be started: embedded null byte")
        try:
            async with self._lock:
                name = await self._container(cwd)
            return await self._begin(name, command, place, with_input=with_input)
        except ContainerError as error:
            raise ToolFailure(f"the command could not be started: {error}") from error

    async def _container(self, cwd: str) -> str:
        """The name of the task's container, which runs. What was begun is finished by `release`."""
        if self._name is not None:
            return self._name
        await self._discard()
        name = container_name(self._task_id, secrets.token_hex(4))
        labels = {TASK_LABEL: self._task_id, **await our_mark()}
        words = run_words(
            self._engine.settings, name=name, cwd=cwd, labels=labels, we_are=(os.getuid(), os.getgid())
        )
        self._begun = name
        self._starting = asyncio.create_task(self._engine.ask(words, limit_s=_START_LIMIT_S))
        # A client that is killed may leave a container that its daemon makes later: it is never cut short.
        await asyncio.wait({self._starting})
        code, told = await self._starting
        if code:
            raise ContainerError(f"its container can not be started: {told}")
        self._name = name
        return name

    async def _begin(self, name: str, command: str, place: str, *, with_input: bool) -> CommandProcess:
        token = new_token()
        try:
            client = await self._engine.begin(
                name, token=token, command=command, cwd=place, with_input=with_input
            )
        except OSError as error:
            raise ToolFailure(f"the command could not be started: {error.strerror or error}") from error
        process = ContainerProcess(self._engine, name, client, CommandStream(token))
        try:
            await process.begin(place, with_input=with_input)
        except BaseException:
            await client.stop()  # the script in there reads the end of its input, and runs nothing
            client.close_pipes()
            if process.lost:
                self._name = None  # the next command gets a new container
            raise
        return process

    async def release(self) -> None:
        """Remove the container, with all that runs in it. Idempotent; failures are told in the log."""
        await finish_despite_cancel(self._discard, _REMOVE_LIMIT_S)

    async def _discard(self) -> None:
        starting, name = self._starting, self._begun
        self._name = None
        if starting is not None:
            await asyncio.wait({starting}, timeout=_REMOVE_LIMIT_S / 2)
            if not starting.done():
                starting.cancel()
                await asyncio.wait({starting})
            self._starting = None
        if name is not None:
            try:
                await self._engine.remove(name)
            except ContainerError as error:
                logger.warning("%s; a later process removes it", error)
            self._begun = None


class ContainerProcess:
    """A command in a container, seen through the client of the engine."""

    def __init__(
        self, engine: ContainerEngine, name: str, client: ChildProcess, stream: CommandStream
    ) -> None:
        self._engine = engine
        self._name = name
        self._client = client
        self._stream = stream
        self._early = b""
        self._told = asyncio.Event()
        self._stopped = False
        self.lost: bool = False
        """Whether the container did not run the script at all."""

    @property
    def pid(self) -> int:
        """Its number in the container."""
        return self._stream.pid or 0

    async def begin(self, place: str, *, with_input: bool) -> None:
        """Wait until the script stands ready, then let it run. Raises `ToolFailure`."""
        try:
            async with asyncio.timeout(_HEAD_LIMIT_S):
                while self._stream.pid is None and (chunk := await self._client.read()):
                    self._early += self._stream.feed(chunk)
        except TimeoutError:
            raise ToolFailure(
                f"the command could not be started: its container did not answer in {_HEAD_LIMIT_S:g} s"
            ) from None
        if self._stream.no_directory:
            raise ToolFailure(f"{place}: no such directory in the container; nothing was run")
        if self._stream.pid is None:
            self.lost = True
            told = (self._early + self._stream.finish()).decode(errors="replace").strip()
            raise ToolFailure(
                f"the command could not be started in its container: {told[:500]}; the next call gets a new"
                " one, which has of this one's changes only those in the working directory"
            )
        await self._client.write(GO)
        if not with_input:
            self._client.end_input()

    async def read(self) -> bytes:
        """See `CommandProcess`."""
        if self._early:
            early, self._early = self._early, b""
            return early
        # Where nothing is left that belongs to it, its client may take a while to see that, and need not.
        while (self._stream.end is None or self._stream.end.left) and (chunk := await self._client.read()):
            own = self._stream.feed(chunk)
            if self._stream.end is not None:
                self._told.set()
            if own:
                return own
        self._told.set()
        return self._stream.finish()

    async def wait(self) -> int | None:
        """See `CommandProcess`: it has ended when the script says so; a client may stay for what it left."""
        told = asyncio.ensure_future(self._told.wait())
        gone = asyncio.ensure_future(self._client.wait())
        try:
            await asyncio.wait({told, gone}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait(
                {told}, timeout=_REST_LIMIT_S
            )  # the last words of a client may still be on the way
            if self._stream.end is not None:
                return self._stream.end.code
            return await gone
        finally:
            for task in (told, gone):
                task.cancel()
            await asyncio.wait({told, gone})

    async def group_lives(self) -> bool:
        """See `CommandProcess`."""
        if self._stopped or (self._stream.end is not None and not self._stream.end.left):
            return False
        try:
            code = await self._engine.say_inside(self._name, LIVES, str(self.pid), _INSIDE_LIMIT_S)
        except ContainerError as error:
            logger.warning("%s", error)
            return True
        return code == 0

    async def stop(self) -> None:
        """See `CommandProcess`. Where the engine does not stop it, the whole container goes."""
        await finish_despite_cancel(lambda: self._stop(self._engine.remove), _STOP_LIMIT_S)

    async def stop_or_leave(self) -> None:
        """Stop it as well, but where the engine does not do that, leave it to its own end: the container and
        all that was changed in it stay."""

        async def stay(_: str) -> None:
            logger.warning("what it runs is left to its own end")

        await finish_despite_cancel(lambda: self._stop(stay), _STOP_LIMIT_S)

    async def _stop(self, on_failure: Callable[[str], Awaitable[None]]) -> None:
        if not self._stopped and (self._stream.end is None or self._stream.end.left):
            try:
                await self._engine.say_inside(self._name, STOP, str(self.pid), _INSIDE_LIMIT_S)
            except ContainerError as error:
                logger.warning("a process in the container %s is not stopped: %s", self._name, error)
                await on_failure(self._name)
        self._stopped = True
        await self._client.stop()

    async def write(self, data: bytes) -> None:
        """See `CommandProcess`."""
        await self._client.write(data)

    def unwritten(self) -> int:
        """See `CommandProcess`."""
        return self._client.unwritten()

    def end_input(self) -> None:
        """See `CommandProcess`."""
        self._client.end_input()

    def close_pipes(self) -> None:
        """See `CommandProcess`."""
        self._client.close_pipes()


if TYPE_CHECKING:

    def _fits(process: ContainerProcess) -> CommandProcess:
        return process

    def _runs(commands: ContainerCommands) -> CommandRunner:
        return commands
