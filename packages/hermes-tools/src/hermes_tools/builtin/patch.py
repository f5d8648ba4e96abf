"""`patch`: edits of files, by the text that is there or as a unified diff."""

from __future__ import annotations

import contextlib
import json

import msgspec

from hermes_messages.protocols import ToolCallContext
from hermes_tools.builtin.workspace import task_files
from hermes_tools.child_work import run_standalone
from hermes_tools.errors import FileNotWrittenError, FilesLostError, PathRefusedError, ToolFailure
from hermes_tools.shielding import finish_despite_cancel
from hermes_tools.standalone.edit import Edit, Edited, EditError, EditRequest, edit_bytes
from hermes_tools.standalone.unified_diff import DiffError, FilePatch, parse_diff
from hermes_tools.task_files import FoundFile, PutInPlace, TaskFiles, check_regular
from hermes_tools.text_shape import SAMPLE_BYTES, looks_binary
from hermes_tools.tool import tool

__all__ = ["TextEdit", "patch"]

INLINE_BYTES = 8 * 1024
"""Files and edits that are larger together are worked on in a process of their own."""
MAX_FILE_BYTES = 10 * 1024 * 1024
MAX_DIFF_CHARS = 1_000_000
MAX_EDITS = 200
TIME_LIMIT_S = 20.0
MAX_FILES = 100
RESTORE_LIMIT_S = 10.0


class TextEdit(msgspec.Struct, frozen=True):
    """One replacement."""

    old_string: str
    new_string: str
    replace_all: bool = False


class _Job(msgspec.Struct, frozen=True):
    """The edits of one file, and where it is."""

    request: EditRequest
    file: FoundFile
    data: bytes = b""


@tool(scheduling="sequential")
async def patch(
    context: ToolCallContext,
    path: str | None = None,
    old_string: str | None = None,
    new_string: str | None = None,
    replace_all: bool = False,
    edits: list[TextEdit] | None = None,
    diff: str | None = None,
) -> str:
    """Change parts of files: replace old_string by new_string, several edits, or a unified diff.

    Args:
        path: file to change
        old_string: text that is there once
        new_string: text to put in its place
        replace_all: replace it everywhere
        edits: several replacements in the file, made in order
        diff: unified diff, of one file or more
    """
    if edits is None and old_string is not None and new_string is not None:
        edits = [TextEdit(old_string, new_string, replace_all)]
    elif old_string is not None or new_string is not None:
        raise ToolFailure("give both old_string and new_string, or edits, or diff; nothing was changed")
    if (edits is None) == (diff is None):
        raise ToolFailure("give old_string and new_string, or edits, or diff; nothing was changed")
    within = task_files(context, writable=True)
    if diff is not None:
        requests = _requests_of_diff(diff, path)
    elif path is None:
        raise ToolFailure("path is missing; nothing was changed")
    else:
        requests = [_request_of_edits(path, edits or [])]
    jobs = [await _prepared(within, request) for request in requests]
    _check_distinct(jobs)
    done = [await _edited(job) for job in jobs]
    return await _write_all(jobs, done)


def _check_distinct(jobs: list[_Job]) -> None:
    names: dict[tuple[str, str], str] = {}
    for job in jobs:
        path = job.request["path"]
        known = names.setdefault(job.file.identity, path)
        if known != path:
            raise ToolFailure(
                f"{known} and {path} are the same file: name it in one way; nothing was changed"
            )


def _request_of_edits(path: str, edits: list[TextEdit]) -> EditRequest:
    if not 0 < len(edits) <= MAX_EDITS:
        raise ToolFailure(f"give 1 to {MAX_EDITS} edits; nothing was changed")
    return {
        "path": path,
        "create": False,
        "delete": False,
        "edits": [
            Edit(old=edit.old_string, new=edit.new_string, everywhere=edit.replace_all, hunk=False, line=None)
            for edit in edits
        ],
    }


def _requests_of_diff(diff: str, path: str | None) -> list[EditRequest]:
    if len(diff) > MAX_DIFF_CHARS:
        raise ToolFailure(f"the diff is longer than {MAX_DIFF_CHARS} characters; nothing was changed")
    try:
        patches = parse_diff(diff, path or "")
    except DiffError as error:
        raise ToolFailure(f"the diff can not be read: {error}; nothing was changed") from None
    wanted: dict[str, EditRequest] = {}
    for part in patches:
        name = _name_of(part)
        known = wanted.setdefault(
            name, {"path": name, "create": not part.old_path, "delete": not part.new_path, "edits": []}
        )
        known["edits"] += [
            Edit(old=hunk.old, new=hunk.new, everywhere=False, hunk=True, line=hunk.line)
            for hunk in part.hunks
        ]
    if len(wanted) > MAX_FILES:
        raise ToolFailure(f"the diff changes {len(wanted)} files, at most {MAX_FILES}; nothing was changed")
    return list(wanted.values())


def _name_of(part: FilePatch) -> str:
    if part.old_path and part.new_path and part.old_path != part.new_path:
        raise ToolFailure(
            f"{part.old_path} would become {part.new_path}: renaming is not supported, use the terminal; "
            "nothing was changed"
        )
    return part.new_path or part.old_path


async def _prepared(within: TaskFiles, request: EditRequest) -> _Job:
    """The job with the bytes of its file. Raises for what can not be edited."""
    path = request["path"]
    file = await within.find(path)
    status = file.status
    if request["create"]:
        if status is not None:
            raise ToolFailure(f"{path} exists already, the diff says that it is new; nothing was changed")
        return _Job(request, file)
    if status is None:
        raise ToolFailure(f"{path}: no such file; nothing was changed")
    check_regular(file, path)
    if status.size > MAX_FILE_BYTES:
        raise ToolFailure(f"{path} is larger than {MAX_FILE_BYTES} bytes; change it with the terminal")
    data = await file.read_small(MAX_FILE_BYTES + 1)
    if looks_binary(data[:SAMPLE_BYTES]):
        raise ToolFailure(f"{path} is a binary file of {len(data)} bytes; it can not be patched")
    return _Job(request, file, data)


async def _edited(job: _Job) -> Edited:
    path = job.request["path"]
    size = len(job.data) + sum(len(edit["old"]) + len(edit["new"]) for edit in job.request["edits"])
    try:
        if size <= INLINE_BYTES:
            return edit_bytes(job.data, job.request)
        return await _edited_elsewhere(job)
    except EditError as error:
        raise ToolFailure(f"{path}: {error}. Nothing was changed.") from None


async def _edited_elsewhere(job: _Job) -> Edited:
    header = json.dumps(job.request).encode()  # a name may hold bytes that are no UTF-8
    answer = await run_standalone(
        "edit", header + b"\n" + job.data, limit_s=TIME_LIMIT_S, output_limit=8 * MAX_FILE_BYTES
    )
    first, _, data = answer.output.partition(b"\n")
    if not answer.in_time:
        raise EditError(f"the edits took longer than {TIME_LIMIT_S:g} s and were stopped")
    try:
        match msgspec.json.decode(first):
            case {"error": str(text)}:
                raise EditError(text)
            case {"diff": str(diff), "notes": list(notes)}:
                return Edited(data, diff, tuple(map(str, notes)))
            case _:
                pass
    except msgspec.DecodeError:
        pass
    raise EditError(f"the edits failed: {answer.output[-300:].decode(errors='replace')}")


async def _write_all(jobs: list[_Job], done: list[Edited]) -> str:
    """Put the results in place, each in one step, after all could be made and all are on the disk."""
    begun: list[_Job] = []
    at_work = jobs[0]
    try:
        async with contextlib.AsyncExitStack() as stack:
            steps: list[PutInPlace] = []
            for at_work, edited in zip(jobs, done, strict=True):
                steps.append(await _staged(stack, at_work, edited.data))
            for at_work in jobs:
                await _check_unchanged(at_work)
            for at_work, step in zip(jobs, steps, strict=True):
                begun.append(at_work)
                await step()
    except BaseException as error:  # a cancellation too: what was changed is taken back first
        lost = await _taken_back(begun) if len(jobs) > 1 else []
        if not isinstance(error, OSError | ToolFailure) or isinstance(error, FilesLostError):
            raise  # the latter says itself what is known
        reason = error.strerror or str(error) if isinstance(error, OSError) else error.text
        kept = "nothing was written" if at_work.file.status is None else "the old file is unchanged"
        if len(jobs) > 1:
            kept += f"; changed and not restored: {', '.join(lost)}" if lost else ", as are all others"
        raise FileNotWrittenError(at_work.request["path"], reason, kept) from error
    return "\n".join(map(_told, jobs, done))


def _told(job: _Job, edited: Edited) -> str:
    remarks = f" ({'; '.join(edited.notes)})" if edited.notes else ""
    return f"{_verb(job)} {job.request['path']}{remarks}\n{edited.diff}"


async def _staged(stack: contextlib.AsyncExitStack, job: _Job, data: bytes) -> PutInPlace:
    """What makes the change, once everything that takes room is on the disk."""
    if job.request["delete"]:
        return job.file.remove
    return await stack.enter_async_context(job.file.staged(data))


async def _taken_back(begun: list[_Job]) -> list[str]:
    """Restore the files as they were, the last one first; the names of those for which that failed."""
    lost: list[str] = []

    async def restore() -> None:
        lost.clear()
        for job in reversed(begun):
            try:
                await _restored(job)
            except (OSError, PathRefusedError, ToolFailure):
                lost.append(job.request["path"])

    await finish_despite_cancel(restore, RESTORE_LIMIT_S)
    return lost


async def _restored(job: _Job) -> None:
    if job.file.status is None:
        await job.file.remove()
        return
    if await job.file.status_now() is not None and await job.file.read_small(MAX_FILE_BYTES + 1) == job.data:
        return
    async with job.file.staged(job.data) as put_in_place:
        await put_in_place()


async def _check_unchanged(job: _Job) -> None:
    if await job.file.status_now() != job.file.status:
        raise ToolFailure("it was changed by someone else meanwhile; read it again")


def _verb(job: _Job) -> str:
    if job.request["delete"]:
        return "deleted"
    return "created" if job.request["create"] else "patched"
