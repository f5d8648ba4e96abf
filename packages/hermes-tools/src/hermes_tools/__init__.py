"""Declare, schedule and run the tools of an LLM agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes_tools.errors import ArgumentsMismatchError, FileNotWrittenError, PathRefusedError, ToolFailure
from hermes_tools.tool import FunctionTool, tool
from hermes_tools.toolsets import ToolGroup

if TYPE_CHECKING:
    from hermes_tools.approval_policy import ApprovalAction, ApprovalPolicy, ApprovalRule, Judgement
    from hermes_tools.checkpoints import Checkpoint, CheckpointError, Checkpoints
    from hermes_tools.context import CallContext
    from hermes_tools.entry_points import build_executor
    from hermes_tools.executor import Executor
    from hermes_tools.middleware import Handler, Insert, Invocation, Middleware, Outcome
    from hermes_tools.settings import ExecutorSettings

from hermes_tools.tool import ToolFunction

__all__ = [
    "ApprovalAction",
    "ApprovalPolicy",
    "ApprovalRule",
    "ArgumentsMismatchError",
    "CallContext",
    "Checkpoint",
    "CheckpointError",
    "Checkpoints",
    "Executor",
    "ExecutorSettings",
    "FileNotWrittenError",
    "FunctionTool",
    "Handler",
    "Insert",
    "Invocation",
    "Judgement",
    "Middleware",
    "Outcome",
    "PathRefusedError",
    "ToolFailure",
    "ToolFunction",
    "ToolGroup",
    "build_executor",
    "tool",
]

_LAZY = {
    "Judgement": "approval_policy",
    "ApprovalAction": "approval_policy",
    "ApprovalPolicy": "approval_policy",
    "ApprovalRule": "approval_policy",
    "CallContext": "context",
    "Checkpoint": "checkpoints",
    "CheckpointError": "checkpoints",
    "Checkpoints": "checkpoints",
    "Executor": "executor",
    "ExecutorSettings": "settings",
    "Handler": "middleware",
    "Insert": "middleware",
    "Invocation": "middleware",
    "Middleware": "middleware",
    "Outcome": "middleware",
    "build_executor": "entry_points",
}


def __getattr__(name: str) -> object:
    """Public names that cost an import of anyio and aiofiles are loaded when they are first used."""
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found: object = vars(import_module(f"{__name__}.{module}"))[name]
    return found
