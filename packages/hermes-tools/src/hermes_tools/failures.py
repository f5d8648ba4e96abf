"""What the model is told of a call that failed. Pure."""

from __future__ import annotations

import traceback
from collections.abc import Sequence

from hermes_messages import HermesError
from hermes_tools.middleware import Outcome

__all__ = ["cancelled", "describe", "interrupted", "not_started", "place", "timed_out", "unknown_tool"]

_LONGEST_NAME = 80
_LISTED = 40


def describe(error: BaseException) -> str:
    """An exception in words: its text, that of the root cause behind it, the class where there is no text.

    Groups with one member are that member; of larger groups the first three are named.
    """
    error = _unwrapped(error)
    if isinstance(error, BaseExceptionGroup):
        parts = [describe(part) for part in error.exceptions[:3]]
        more = len(error.exceptions) - len(parts)
        return "; ".join(parts) + (f"; and {more} more" if more else "")
    root = _root_cause(error)
    text = _own_text(error)
    return text if root is error else f"{text} ({_own_text(root)})"


def place(error: BaseException) -> str:
    """What was raised and where, for a log: no text of it, which may quote what was said or a credential."""
    error = _unwrapped(error)
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    return "".join([type(error).__name__, *(f" at {f.filename}:{f.lineno} in {f.name}" for f in frames)])


def _unwrapped(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _root_cause(error: BaseException) -> BaseException:
    seen = {id(error)}
    while error.__cause__ is not None and id(error.__cause__) not in seen:
        error = _unwrapped(error.__cause__)
        seen.add(id(error))
    return error


def _own_text(error: BaseException) -> str:
    text = str(error).strip()
    name = type(error).__name__
    if isinstance(error, HermesError) and text:
        return text
    return f"{name}: {text}" if text else name


def unknown_tool(name: str, near: Sequence[str], known: Sequence[str]) -> Outcome:
    """For a name that no tool has."""
    if not name.strip():
        text = "Error: the call names no tool."
    else:
        shown = name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "..."
        text = f"Error: there is no tool {shown!r}."
    if near:
        text += f" Did you mean {' or '.join(near)}?"
    listed = ", ".join(known[:_LISTED]) + (", ..." if len(known) > _LISTED else "")
    return Outcome(f"{text} Tools: {listed or 'none'}.", "error")


def not_started() -> Outcome:
    """For a call that an interrupt kept from running."""
    return Outcome("Not run: the user interrupted before this call was started.", "not_started")


def interrupted(so_far: str) -> Outcome:
    """For a call that was running when the interrupt came."""
    text = "Interrupted by the user while it was running; what it did until then stands."
    return Outcome(_with_output(text, so_far), "interrupted")


def cancelled(so_far: str) -> Outcome:
    """For a call that ended in a cancellation that nobody outside asked for."""
    text = "Error: the tool was cancelled from inside; what it did until then stands."
    return Outcome(_with_output(text, so_far), "error")


def timed_out(limit_s: float, so_far: str) -> Outcome:
    """For a call that took longer than it may."""
    return Outcome(_with_output(f"Timed out after {limit_s:g} s.", so_far), "timed_out")


def _with_output(text: str, so_far: str) -> str:
    return f"{text} Output so far:\n{so_far}" if so_far.strip() else f"{text} There was no output."
