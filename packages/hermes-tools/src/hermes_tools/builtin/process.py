"""`process`: what to do with commands in the background."""

from __future__ import annotations

import asyncio
from typing import Literal

from hermes_tools.builtin.process_table import BackgroundProcess, LoggedOutput, ProcessTable
from hermes_tools.context import CallContext
from hermes_tools.errors import ToolFailure

__all__ = ["LEFT_GROUP", "Action", "act", "described"]

Action = Literal["list", "poll", "log", "wait", "write", "kill"]

MAX_WAIT_S = 600.0
SHOWN_CHARS = 20_000
MAX_LOG_LINES = 2_000
WRITE_LIMIT_S = 5.0
MAX_INPUT_CHARS = 100_000
MAX_UNREAD_BYTES = 1 << 20
LEFT_GROUP = "it left its process group, so it can not be stopped here"


async def act(
    context: CallContext,
    table: ProcessTable,
    action: Action,
    process_id: str | None,
    *,
    text: str | None,
    end_input: bool,
    timeout_s: float,
    offset: int | None,
    limit: int,
) -> str:
    """Do `action`. Raises `ToolFailure`."""
    await table.sweep()
    if action == "list":
        lines = [f"{process.id}: {process.state()}: {_short(process.command)}" for process in table.all]
        return "\n".join(lines) or "[no processes]"
    process = table.find(process_id)
    match action:
        case "poll":
            return described(process)
        case "log":
            return _page(process, offset, limit)
        case "wait":
            context.partial_output_from(lambda: described(process))
            limit_s = min(max(0.0, timeout_s), MAX_WAIT_S)
            ended = await process.wait(limit_s)
            return described(process) + ("" if ended else f"\n[still running after {limit_s:g} s]")
        case "write":
            return await _write(process, text, end_input=end_input)
        case "kill":
            return await _kill(table, process)


async def _kill(table: ProcessTable, process: BackgroundProcess) -> str:
    had_ended = process.gone
    in_group = await process.running.child.group_lives()
    await process.stop()
    if process.output is None:
        table.forget(process)
        return f"{process.id}: {'stopped' if in_group else LEFT_GROUP}"
    return described(process) + ("\n[it had ended before]" if had_ended else "")


def described(process: BackgroundProcess) -> str:
    """Its state and what it put out since the model was last told."""
    first = f"{process.id}: {process.state()}"
    if process.output is None:
        return f"{first}\n[its output is not kept]"
    log = process.output.log
    new, left_out = log.since(process.read_to, SHOWN_CHARS)
    process.read_to = log.total
    new += process.output.line_so_far()
    if not new.strip():
        return f"{first}\n[no new output]"
    notes = [f"[{left_out} characters before this are left out; see the log]"] if left_out else []
    return "\n".join([first, *notes, new.rstrip("\n")])


def _page(process: BackgroundProcess, offset: int | None, limit: int) -> str:
    output = _output_of(process)
    count = min(max(1, limit), MAX_LOG_LINES)
    page = output.log.page(None if offset is None else max(1, offset), count)
    if not page.lines:
        return f"[{process.id}: {page.total} lines; nothing from line {page.first} on]" + output.line_so_far()
    notes = [f"[{process.id}: lines {page.first} to {page.last} of {page.total}]"]
    if page.kept_from > 1:
        notes.append(f"[lines before {page.kept_from} are no longer kept]")
    rest = output.line_so_far() if page.last == page.total else ""
    return "\n".join([*page.lines, *([rest] if rest else []), *notes])


async def _write(process: BackgroundProcess, text: str | None, *, end_input: bool) -> str:
    if text is None and not end_input:
        raise ToolFailure("give text to write, or end_input")
    if text is not None and len(text) > MAX_INPUT_CHARS:
        raise ToolFailure(f"text is longer than {MAX_INPUT_CHARS} characters; nothing was written")
    _output_of(process)
    child = process.running.child
    if process.has_ended:
        raise ToolFailure(f"{process.id} has {process.state()}; nothing was written")
    if child.unwritten() > MAX_UNREAD_BYTES:
        raise ToolFailure(f"{process.id} does not read its input; nothing more was written")
    done = []
    try:
        if text is not None:
            async with asyncio.timeout(WRITE_LIMIT_S):
                await child.write(text.encode("utf-8", errors="replace"))
            done.append(f"wrote {len(text)} characters to {process.id}")
    except BrokenPipeError as error:
        raise ToolFailure(f"{process.id}: {error}; nothing was written") from None
    except TimeoutError:
        done.append(f"{process.id} does not read its input; {child.unwritten()} bytes wait for it")
    if end_input:
        child.end_input()
        done.append("its input is closed")
    return "; ".join(done)


def _output_of(process: BackgroundProcess) -> LoggedOutput:
    if process.output is None:
        raise ToolFailure(f"{process.id} was {process.state()}: it has no log and no input, only kill works")
    return process.output


def _short(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= 120 else line[:117] + "..."
