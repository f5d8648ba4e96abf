"""`patch`: edits of files, by the text that is there or as a unified diff."""

from __future__ import annotations

import os
import stat

import msgspec

from hermes_messages.protocols import ToolCallContext
from hermes_tools import files
from hermes_tools.builtin.workspace import file_workspace
from hermes_tools.child_work import run_standalone
from hermes_tools.errors import FileNotWrittenError, PathRefusedError, ToolFailure
from hermes_tools.paths import Workspace
from hermes_tools.standalone.edit import Edit, Edited, EditError, EditRequest, edit_bytes
from hermes_tools.standalone.unified_diff import DiffError, FilePatch, parse_diff
from hermes_tools.text_shape import SAMPLE_BYTES, looks_binary
from hermes_tools.tool import tool

__all__ = ["TextEdit", "patch"]

INLINE_BYTES = 8 * 1024
"""Files and edits that are larger together are worked on in a process of their own."""
MAX_FILE_BYTES = 10 * 1024 * 1024
MAX_DIFF_CHARS = 1_000_000
MAX_EDITS = 200
TIME_LIMIT_S = 20.0


class TextEdit(msgspec.Struct, frozen=True):
    """One replacement."""

    old_string: str
    new_string: str
    replace_all: bool = False


class _Job(msgspec.Struct, frozen=True):
    """The edits of one file, and where it is."""

    request: EditRequest
    place: files.Place
    data: bytes = b""
    status: os.stat_result | None = None


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
    workspace = file_workspace(context, writable=True)
    if diff is not None:
        requests = _requests_of_diff(diff, path)
    elif path is None:
        raise ToolFailure("path is missing; nothing was changed")
    else:
        requests = [_request_of_edits(path, edits or [])]
    jobs = [await _prepared(workspace, request) for request in requests]
    done = [await _edited(job) for job in jobs]
    return await _write_all(jobs, done)


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
    return list(wanted.values())


def _name_of(part: FilePatch) -> str:
    if part.old_path and part.new_path and part.old_path != part.new_path:
        raise ToolFailure(
            f"{part.old_path} would become {part.new_path}: renaming is not supported, use the terminal; "
            "nothing was changed"
        )
    return part.new_path or part.old_path


async def _prepared(workspace: Workspace, request: EditRequest) -> _Job:
    """The job with the bytes of its file. Raises for what can not be edited."""
    path = request["path"]
    place = await workspace.place(path)
    status = await files.status_of(place)
    if request["create"]:
        if status is not None:
            raise ToolFailure(f"{path} exists already, the diff says that it is new; nothing was changed")
        return _Job(request, place)
    if status is None:
        raise ToolFailure(f"{path}: no such file; nothing was changed")
    if not stat.S_ISREG(status.st_mode):
        raise PathRefusedError(f"{path} is {files.kind_of(status.st_mode)}, not a regular file")
    if status.st_size > MAX_FILE_BYTES:
        raise ToolFailure(f"{path} is larger than {MAX_FILE_BYTES} bytes; change it with the terminal")
    data = await files.read_small(place, MAX_FILE_BYTES + 1)
    if looks_binary(data[:SAMPLE_BYTES]):
        raise ToolFailure(f"{path} is a binary file of {len(data)} bytes; it can not be patched")
    return _Job(request, place, data, status)


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
    header = msgspec.json.encode(job.request)
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
    """Put the results in place, each in one step, after all could be made."""
    written: list[str] = []
    shown: list[str] = []
    for job, edited in zip(jobs, done, strict=True):
        path = job.request["path"]
        try:
            await _write(job, edited.data)
        except (OSError, ToolFailure) as error:
            reason = error.strerror or str(error) if isinstance(error, OSError) else error.text
            kept = f"; changed before that: {', '.join(written)}" if written else ""
            unchanged = "nothing was written" if job.status is None else "the old file is unchanged"
            raise FileNotWrittenError(path, reason, unchanged + kept) from error
        written.append(path)
        remarks = f" ({'; '.join(edited.notes)})" if edited.notes else ""
        shown.append(f"{_verb(job)} {path}{remarks}\n{edited.diff}")
    return "\n".join(shown)


async def _write(job: _Job, data: bytes) -> None:
    now = await files.status_of(job.place)
    if _version(now) != _version(job.status):
        raise ToolFailure("it was changed by someone else meanwhile; read it again")
    if job.request["delete"]:
        await files.remove_file(job.place)
    else:
        mode = None if job.status is None else job.status.st_mode
        await files.replace_file(job.place, data, mode, create_parents=True)


def _version(status: os.stat_result | None) -> tuple[int, ...] | None:
    if status is None:
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _verb(job: _Job) -> str:
    if job.request["delete"]:
        return "deleted"
    return "created" if job.request["create"] else "patched"
