"""Git by its command line, on a repository beside the user's: data, index and settings are ours.

Nothing of the user's git is used: no settings, hooks, filters or attributes, and never the `.git` in the
tree, which git itself leaves alone. The environment variables are those of git(1).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from hermes_messages import HermesError
from hermes_tools import files
from hermes_tools.processes import ChildProcess, exit_text
from hermes_tools.secrets import scrubbed_environment

__all__ = ["CheckpointError", "Git", "ignore_line"]

_LIMIT_S = 60.0
_LONGEST_ERROR = 2_000
_LOCKS = ("config", "HEAD", "index", "packed-refs")
"""What git holds while it writes, and leaves behind when it is killed."""
_ATTRIBUTES = "* -text -eol -filter -ident -working-tree-encoding -export-subst -merge\n"


class CheckpointError(HermesError):
    """A checkpoint that could not be taken, read or restored.

    The user's files are as they were, save after `git read-tree`: some may have been restored then.
    """


class Git:
    """Runs git for the files in `work_tree`, with its data in `directory`."""

    def __init__(self, directory: str, work_tree: str) -> None:
        self.directory = directory
        self.excludes: str = f"{directory}/left-out"
        self.work_tree = work_tree
        self._environment = {
            **{name: value for name, value in scrubbed_environment(os.environ).items() if name[:4] != "GIT_"},
            "GIT_DIR": directory,
            "GIT_WORK_TREE": work_tree,
            "GIT_INDEX_FILE": f"{directory}/index",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_AUTHOR_NAME": "checkpoint",
            "GIT_AUTHOR_EMAIL": "checkpoint@localhost",
            "GIT_COMMITTER_NAME": "checkpoint",
            "GIT_COMMITTER_EMAIL": "checkpoint@localhost",
            "LC_ALL": "C",
        }

    async def prepare(self) -> None:
        """Make the repository, if there is none yet. Raises `CheckpointError`."""
        # Whoever held these is dead: the lock around every use of this repository is ours now.
        for name in _LOCKS:
            await files.unlink(f"{self.directory}/{name}.lock")
        if await files.status_of(self.excludes) is None:  # the last that is made: the rest is whole
            await files.make_directories(self.directory)
            environment = {
                k: v for k, v in self._environment.items() if k not in ("GIT_WORK_TREE", "GIT_INDEX_FILE")
            }
            await self._run(["init", "--quiet", "--bare", self.directory], environment=environment)
            await files.make_directories(f"{self.directory}/info")
            await files.replace_file(f"{self.directory}/info/attributes", _ATTRIBUTES.encode(), 0o600)
            await files.replace_file(self.excludes, b"", 0o600)

    async def do(self, *arguments: str, allowed: Sequence[int] = (0,)) -> None:
        """Run a command whose output does not matter. Raises `CheckpointError` with what git said."""
        await self._run(arguments, allowed=allowed)

    async def ask(self, *arguments: str, limit: int = 64_000_000) -> str:
        """What a command answers, at most `limit` bytes; those that are no UTF-8 are kept as surrogates."""
        answer = await self._run(arguments, limit=limit, drop_errors=True)
        return answer.decode("utf-8", errors="surrogateescape")

    async def _run(
        self,
        arguments: Sequence[str],
        *,
        environment: dict[str, str] | None = None,
        allowed: Sequence[int] = (0,),
        limit: int = _LONGEST_ERROR,
        drop_errors: bool = False,
    ) -> bytes:
        command = (
            *("git", "-c", "core.bare=false", "-c", "core.autocrlf=false", "-c", "core.fsmonitor=false"),
            *("-c", f"core.hooksPath={os.devnull}", "-c", f"core.excludesFile={self.excludes}"),
            *("-c", "core.quotePath=false", "-c", "gc.auto=0", "-c", "core.symlinks=true"),
            *("-c", "advice.addEmbeddedRepo=false", *arguments),
        )
        try:
            child = await ChildProcess.start(
                command,
                cwd=self.work_tree,
                environment=environment or self._environment,
                drop_errors=drop_errors,
            )
        except FileNotFoundError:
            raise CheckpointError("git is not installed; install it to have checkpoints") from None
        except OSError as error:
            raise CheckpointError(f"git can not be started: {error}") from error
        output, code = await self._finish(child, arguments[0], limit)
        if code not in allowed:
            said = (
                output[-_LONGEST_ERROR:].decode("utf-8", errors="replace").strip() if not drop_errors else ""
            )
            raise CheckpointError(f"git {arguments[0]}: {said or exit_text(code)}")
        return output

    @staticmethod
    async def _finish(child: ChildProcess, name: str, limit: int) -> tuple[bytes, int | None]:
        pieces: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(_LIMIT_S):
                while piece := await child.read():
                    if size < limit:
                        pieces.append(piece[: limit - size])
                        size += len(pieces[-1])
                return b"".join(pieces), await child.wait()
        except TimeoutError:
            raise CheckpointError(f"git {name} took longer than {_LIMIT_S:g} s and was stopped") from None
        finally:
            try:
                await child.stop()
            finally:
                child.close_pipes()


def ignore_line(path: str) -> str:
    """`path` as a line of an ignore file (gitignore(5)) that fits nothing else in the tree."""
    escaped = "".join(f"\\{character}" if character in "\\*?[ !#" else character for character in path)
    return "/" + escaped.replace("\n", "?").replace("\r", "?")
