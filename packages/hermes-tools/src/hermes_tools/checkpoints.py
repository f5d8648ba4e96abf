"""Snapshots of the working directory before a tool changes it, in a repository outside of it.

    checkpoints = Checkpoints("/path/of/the/project")
    for checkpoint in await checkpoints.list():
        print(checkpoint.id, checkpoint.label)
    print(await checkpoints.diff(checkpoint.id))
    await checkpoints.restore(checkpoint.id)

What is covered: every file that the ignore files of the tree do not name and that is no larger than
`file_limit`; content, the executable bit, and links as links. Not covered: ignored files, larger ones (they
are named in `left_out`), repositories inside the tree, empty directories, owners, times and other rights.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable

import msgspec
from msgspec import Struct

from hermes_messages.abilities import supports
from hermes_messages.protocols import Tool
from hermes_tools import files
from hermes_tools.builtin.home import missing_home, user_directory
from hermes_tools.checkpoint_git import CheckpointError, Git, ignore_line
from hermes_tools.middleware import Handler, Invocation, Outcome
from hermes_tools.registry import SupportsChanges

__all__ = ["Checkpoint", "CheckpointError", "CheckpointStation", "Checkpoints"]

logger: logging.Logger = logging.getLogger(__name__)

_LOCK_LIMIT_S = 60.0
_REFS = "refs/checkpoints/"
_ID = re.compile(r"[0-9]{8}T[0-9]{6}\.[0-9]{6}-[0-9a-f]{6}")
_SPARE = 10


class Checkpoint(Struct, frozen=True, kw_only=True):
    """One snapshot. `created_at` is in seconds since the epoch, `left_out` names files too large for it."""

    id: str
    """What `restore` and `diff` take."""
    created_at: float
    label: str
    """Why it was taken, for people."""
    left_out: tuple[str, ...] = ()


class Checkpoints:
    """The snapshots of one directory. Several objects and processes may use them at once.

    `directory` is where all repositories are kept (`$HERMES_HOME/checkpoints` without it). Files above
    `file_limit` bytes are left out, a tree with more than `files_limit` changed files is refused, and the
    `keep` newest snapshots are kept.
    """

    def __init__(
        self,
        cwd: str,
        *,
        directory: str | None = None,
        file_limit: int = 10_000_000,
        files_limit: int = 20_000,
        keep: int = 50,
    ) -> None:
        self._cwd = cwd
        self._directory = directory or user_directory("checkpoints")
        self._file_limit = file_limit
        self._files_limit = files_limit
        self._keep = keep
        self._git: Git | None = None

    async def unavailable_reason(self) -> str | None:
        """Why no checkpoint can be taken here, or None."""
        try:
            async with self._using():
                return None
        except CheckpointError as error:
            return str(error)

    async def take(self, label: str) -> Checkpoint | None:
        """A snapshot of the directory as it is; None when the newest one is just that.

        Raises `CheckpointError`.
        """
        async with self._using() as git:
            return await self._take(git, label)

    async def list(self) -> tuple[Checkpoint, ...]:
        """All snapshots, the newest first. Raises `CheckpointError`."""
        async with self._using() as git:
            return tuple([checkpoint for checkpoint, _ in await self._all(git)])

    async def diff(self, checkpoint_id: str, other_id: str | None = None, *, limit: int = 200_000) -> str:
        """What changed from one snapshot to another, or to the directory as it is: a unified diff of at most
        `limit` bytes. Raises `CheckpointError`."""
        async with self._using() as git:
            before = await self._tree(git, checkpoint_id)
            after = await self._tree(git, other_id) if other_id is not None else (await self._scan(git))[0]
            return await git.ask(
                "diff-tree",
                "-r",
                "-p",
                "--no-color",
                "--no-ext-diff",
                "--no-textconv",
                before,
                after,
                limit=limit,
            )

    async def restore(self, checkpoint_id: str) -> Checkpoint | None:
        """Make the directory what it was. Files that came since are removed, those not covered stay.

        What is there now becomes a snapshot first, which is returned (None when the newest is just that).
        Raises `CheckpointError`.
        """
        async with self._using() as git:
            tree = await self._tree(git, checkpoint_id)
            kept = await self._take(git, f"before going back to {checkpoint_id}", spare=checkpoint_id)
            await git.do("read-tree", "--reset", "-u", tree)
            return kept

    # -- how it is done -----------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _using(self) -> AsyncIterator[Git]:
        """The repository, held against others. Raises `CheckpointError`."""
        try:
            git = await self._opened()
            async with files.locked(files.Place.of(f"{git.directory}.lock"), _LOCK_LIMIT_S):
                await git.prepare()
                yield git
        except TimeoutError as error:
            raise CheckpointError(f"the checkpoints are in use elsewhere: {error}") from error
        except OSError as error:
            raise CheckpointError(f"the checkpoints can not be used: {error}") from error

    async def _opened(self) -> Git:
        if self._git is None:
            if self._directory is None:
                raise CheckpointError(f"there is no place for checkpoints: {missing_home()}")
            await files.make_directories(self._directory)
            home, work_tree = await files.real_path(self._directory), await files.real_path(self._cwd)
            if work_tree == "/" or work_tree == await files.real_path(os.environ.get("HOME") or "/"):
                raise CheckpointError(f"{work_tree} is no project: checkpoints of it would be of everything")
            if f"{home}/".startswith(f"{work_tree}/"):
                raise CheckpointError(
                    f"the place for checkpoints, {home}, lies inside the working directory; set another one"
                )
            name = hashlib.sha256(os.fsencode(work_tree)).hexdigest()[:24]
            self._git = Git(f"{home}/{name}", work_tree)
        return self._git

    async def _take(self, git: Git, label: str, spare: str = "") -> Checkpoint | None:
        tree, left_out = await self._scan(git)
        known = await self._all(git)
        if known and known[0][1] == tree:
            return None
        now = time.time()
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now)) + f".{int(now % 1 * 1_000_000):06d}"
        checkpoint = Checkpoint(
            id=f"{stamp}-{secrets.token_hex(3)}", created_at=now, label=label, left_out=left_out[:100]
        )
        message = msgspec.json.encode(checkpoint).decode()
        commit = (await git.ask("commit-tree", tree, "-m", message)).strip()
        await git.do("update-ref", f"{_REFS}{checkpoint.id}", commit)
        if len(known) >= self._keep + _SPARE:
            old = [item.id for item, _ in known[self._keep - 1 :] if item.id != spare]
            for checkpoint_id in old:
                await git.do("update-ref", "-d", f"{_REFS}{checkpoint_id}")
            await git.do("prune", "--expire=now")
        return checkpoint

    async def _scan(self, git: Git) -> tuple[str, tuple[str, ...]]:
        """The directory as it is, as a tree in the repository, and what is left out of it."""
        status = await files.status_of(git.excludes)
        if status is None or status.st_size:
            await files.replace_file(git.excludes, b"", 0o600)
        listed = await git.ask("ls-files", "-z", "--others", "--modified", "--exclude-standard")
        paths = sorted({path for path in listed.split("\0") if path and not path.endswith("/")})
        if len(paths) > self._files_limit:
            raise CheckpointError(
                f"{len(paths)} files are new or changed, more than the {self._files_limit} that a "
                "checkpoint takes; name generated files in .gitignore"
            )
        sizes = await files.sizes_of(git.work_tree, paths)
        large = [path for path, size in zip(paths, sizes, strict=True) if size > self._file_limit]
        if large:
            lines = "".join(f"{ignore_line(path)}\n" for path in large)
            await files.replace_file(git.excludes, lines.encode("utf-8", "surrogateescape"), 0o600)
            for start in range(0, len(large), 200):
                await git.do("update-index", "--force-remove", "--", *large[start : start + 200])
        # 1: some file could not be read; it is left as the repository knows it.
        await git.do("add", "--all", "--ignore-errors", "--", ".", allowed=(0, 1))
        return (await git.ask("write-tree")).strip(), tuple(large)

    async def _all(self, git: Git) -> tuple[tuple[Checkpoint, str], ...]:
        """The snapshots and their trees, the newest first."""
        listed = await git.ask(
            "for-each-ref", "--sort=-refname", "--format=%(tree) %(contents:subject)", _REFS
        )
        found = []
        for line in listed.splitlines():
            tree, _, message = line.partition(" ")
            with contextlib.suppress(msgspec.DecodeError):
                found.append((msgspec.json.decode(message.encode("utf-8", "replace"), type=Checkpoint), tree))
        return tuple(found)

    async def _tree(self, git: Git, checkpoint_id: str) -> str:
        if not _ID.fullmatch(checkpoint_id):
            raise CheckpointError(f"{checkpoint_id!r} is no checkpoint; list() names them")
        try:
            return (await git.ask("rev-parse", "--verify", f"{_REFS}{checkpoint_id}^{{tree}}")).strip()
        except CheckpointError:
            raise CheckpointError(f"there is no checkpoint {checkpoint_id}; list() names them") from None


class CheckpointStation:
    """The station `checkpoint`: takes a snapshot before a tool of `names`, or one with `changes_files`, runs.

    A snapshot that fails is logged once for each reason, and the tool runs all the same.
    """

    def __init__(self, checkpoints_of: Callable[[str], Checkpoints], names: frozenset[str]) -> None:
        self._checkpoints_of = checkpoints_of
        self._names = names
        self._told: set[str] = set()

    async def __call__(self, call: Invocation, following: Handler, /) -> Outcome:
        """See `Middleware`."""
        if self._changes_files(call.tool):
            try:
                await self._checkpoints_of(call.context.round.cwd).take(f"before {call.tool.spec.name}")
            except CheckpointError as error:
                if str(error) not in self._told:
                    self._told.add(str(error))
                    logger.warning("no checkpoint was taken: %s", error)
        return await following(call)

    def _changes_files(self, tool: Tool) -> bool:
        return tool.spec.name in self._names or (supports(tool, SupportsChanges) and tool.changes_files)
