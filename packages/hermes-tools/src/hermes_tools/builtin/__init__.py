"""The built-in toolsets. Each factory makes a toolset with state of its own and imports its tools then."""

from __future__ import annotations

from hermes_messages.protocols import Toolset

__all__ = [
    "clarify_toolset",
    "delegation_toolset",
    "file_toolset",
    "memory_toolset",
    "session_search_toolset",
    "skills_toolset",
    "terminal_toolset",
    "todo_toolset",
    "web_toolset",
]


def file_toolset() -> Toolset:
    """`read_file`, `write_file`, `patch`, `search_files`, inside the working directory."""
    from hermes_tools.builtin.patch import patch
    from hermes_tools.builtin.read_file import read_file
    from hermes_tools.builtin.search_files import search_files
    from hermes_tools.builtin.write_file import write_file
    from hermes_tools.toolsets import ToolGroup

    return ToolGroup("file", (read_file, write_file, patch, search_files))


def clarify_toolset() -> Toolset:
    """`clarify`: a question to the user, through the host's callback."""
    from hermes_tools.builtin.clarify import ClarifyToolset

    return ClarifyToolset()


def memory_toolset() -> Toolset:
    """`memory`: notes and a profile of the user, kept in files."""
    from hermes_tools.builtin.memory import MemoryToolset

    return MemoryToolset()


def skills_toolset() -> Toolset:
    """`skills_list` and `skill_view`: folders with a SKILL.md."""
    from hermes_tools.builtin.skills import SkillsToolset

    return SkillsToolset()


def terminal_toolset() -> Toolset:
    """`terminal` and `process`: shell commands."""
    from hermes_tools.builtin.terminal import TerminalToolset

    return TerminalToolset()


def todo_toolset() -> Toolset:
    """`todo`: a task list for each session, restored from the conversation."""
    from hermes_tools.builtin.todo import TodoToolset

    return TodoToolset()


def web_toolset() -> Toolset:
    """`web_extract`, and `web_search` where a search backend is configured (extra `web`)."""
    from hermes_tools.builtin.web import WebToolset

    return WebToolset()


def session_search_toolset() -> Toolset:
    """`session_search`: earlier conversations, in a store that can be searched."""
    from hermes_tools.builtin.session_search import SessionSearchToolset

    return SessionSearchToolset()


def delegation_toolset() -> Toolset:
    """`delegate_task`: work that child agents do on their own."""
    from hermes_tools.builtin.delegate_task import DelegationToolset

    return DelegationToolset()
