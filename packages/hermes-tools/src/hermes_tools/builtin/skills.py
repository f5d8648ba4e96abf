"""`skills_list` and `skill_view`: instructions in folders with a SKILL.md, read when they are needed."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from hermes_messages.hygiene import clean_text
from hermes_messages.protocols import SupportsAvailability, Tool, Toolset, TurnContext
from hermes_tools import files
from hermes_tools.builtin.front_matter import read_front_matter
from hermes_tools.builtin.home import missing_home, user_directory
from hermes_tools.errors import PathRefusedError, ToolFailure
from hermes_tools.paths import Workspace
from hermes_tools.text_shape import looks_binary, make_visible
from hermes_tools.tool import tool

__all__ = ["Skill", "SkillsToolset"]

SKILL_FILE = "SKILL.md"
MAX_DEPTH = 3
MAX_FOLDERS = 2_000
MAX_SKILLS = 200
MAX_FILE_BYTES = 100_000
MAX_HEAD_BYTES = 20_000
MAX_FILES_NAMED = 100
MAX_DESCRIPTION = 400
MAX_NAME = 200
GUIDANCE = (
    "Skills are instructions for kinds of work, kept in folders. Before work that one may fit, look with "
    "skills_list, and read it with skill_view."
)


class Skill(Struct, frozen=True):
    """One skill: its `name` and `description` from the head of its file, and its opened `folder`."""

    name: str
    description: str
    folder: files.Place


class SkillsToolset:
    """The toolset `skills`. `roots` are directories that hold skill folders, at most three levels deep.

    Without `roots` they are those of `$HERMES_SKILLS` (separated as in `PATH`), then `$HERMES_HOME/skills`,
    else `$HOME/.hermes/skills`. Of two skills of one name that of the earlier root counts. Links are not
    followed.
    """

    def __init__(self, roots: Sequence[str] | None = None) -> None:
        self._roots = tuple(roots) if roots is not None else _default_roots()
        self._found: bool | None = None

        @tool(scheduling="parallel", idempotent=True)
        async def skills_list() -> str:
            """List the skills that can be read."""
            return await self._list()

        @tool(scheduling="parallel", idempotent=True, output_limit=MAX_FILE_BYTES + 10_000)
        async def skill_view(name: str, file: str = SKILL_FILE) -> str:
            """Read a skill.

            Args:
                name: name of the skill
                file: another file of its folder
            """
            return await self._view(name, file)

        self._tools: tuple[Tool, ...] = (skills_list, skill_view)

    @property
    def name(self) -> str:
        """The toolset's name."""
        return "skills"

    @property
    def tools(self) -> Sequence[Tool]:
        """Its two tools."""
        return self._tools

    @property
    def guidance(self) -> str:
        """When to look, for the system prompt."""
        return GUIDANCE if self.unavailable_reason() is None else ""

    def unavailable_reason(self) -> str | None:
        """It needs a root in which there is a skill, as the last turn found it."""
        if not self._roots:
            return missing_home()
        return None if self._found is not False else f"there is no skill in {' or '.join(self._roots)}"

    async def refresh(self, _context: TurnContext) -> None:
        """Look whether there is a skill."""
        self._found = bool(await self._skills(1))

    async def _list(self) -> str:
        skills = await self._skills(MAX_SKILLS + 1)
        lines = [
            f"{skill.name}: {skill.description}" if skill.description else skill.name
            for skill in skills[:MAX_SKILLS]
        ]
        if len(skills) > MAX_SKILLS:
            lines.append(f"[only the first {MAX_SKILLS} are shown]")
        return "\n".join(lines) or "[no skills]"

    async def _view(self, name: str, file: str) -> str:
        skills = {skill.name: skill for skill in await self._skills(MAX_FOLDERS)}
        skill = skills.get(name.strip())
        if skill is None:
            known = ", ".join(list(skills)[:50]) or "none"
            raise ToolFailure(f"there is no skill {name!r}; known: {known}")
        folder = skill.folder.path
        place = await Workspace(folder).place(file)
        status = await files.status_of(place)
        others = await _files_below(skill.folder)
        if status is None:
            raise ToolFailure(f"{name} has no file {file!r}; its files: {', '.join(others)}")
        if not stat.S_ISREG(status.st_mode):
            raise PathRefusedError(f"{file} is {files.kind_of(status.st_mode)}, not a regular file")
        data = await files.read_small(place, MAX_FILE_BYTES + 1)
        if looks_binary(data[:8192]):
            raise ToolFailure(f"{file} of {name} is a binary file; it is {place.path}")
        text = clean_text(make_visible(data[:MAX_FILE_BYTES].decode("utf-8", errors="backslashreplace")))
        notes = [f"[cut at {MAX_FILE_BYTES} bytes]"] if len(data) > MAX_FILE_BYTES else []
        if file == SKILL_FILE and len(others) > 1:
            notes.append(f"[further files: {', '.join(path for path in others if path != SKILL_FILE)}]")
        return "\n".join([text.rstrip("\n"), *notes])

    async def _skills(self, most: int) -> list[Skill]:
        """The skills in the order of the roots and folders, at most `most`."""
        skills: dict[str, Skill] = {}
        for root in self._roots:
            real = await files.real_path(root)
            for folder, head in await _skill_folders(files.Place(real, ()), most):
                entries = read_front_matter(head)
                name = _one_line(entries.get("name", ""))[:MAX_NAME] or folder.name or os.path.basename(real)  # noqa: PTH119
                description = _one_line(entries.get("description", ""))[:MAX_DESCRIPTION]
                skills.setdefault(name, Skill(name, description, folder))
        return list(skills.values())[:most]


async def _skill_folders(root: files.Place, most: int) -> list[tuple[files.Place, str]]:
    """The folders below `root` that hold a readable SKILL.md, with its start; what is in one is its own."""
    waiting = deque([root])
    found: list[tuple[files.Place, str]] = []
    for _ in range(MAX_FOLDERS):
        if not waiting or len(found) == most:
            break
        folder = waiting.popleft()
        try:
            names = await files.list_names(folder)
        except (OSError, PathRefusedError):
            continue
        if SKILL_FILE in names:
            try:
                data = await files.read_small(folder / SKILL_FILE, MAX_HEAD_BYTES)
            except (OSError, PathRefusedError):
                continue
            found.append((folder, data.decode("utf-8", errors="replace")))
        elif len(folder.parts) < MAX_DEPTH:
            waiting += [folder / name for name in names if not name.startswith(".")]
    return found


async def _files_below(folder: files.Place) -> list[str]:
    """The files of a skill by their path in it, at most `MAX_FILES_NAMED`; not much is looked at for them."""
    waiting = deque([folder])
    found: list[str] = []
    looks = 0
    while waiting and looks < MAX_FOLDERS:
        current = waiting.popleft()
        looks += 1
        try:
            names = await files.list_names(current)
        except (OSError, PathRefusedError):
            continue
        for name in names:
            if len(found) == MAX_FILES_NAMED or looks == MAX_FOLDERS:
                return found
            looks += 1
            status = await files.status_of(current / name)
            if status is not None and stat.S_ISREG(status.st_mode):
                found.append("/".join((current / name).parts[len(folder.parts) :]))
            elif status is not None and stat.S_ISDIR(status.st_mode):
                waiting.append(current / name)
    return found


def _one_line(text: str) -> str:
    return " ".join(clean_text(text).split())


def _default_roots() -> tuple[str, ...]:
    given = [root for root in os.environ.get("HERMES_SKILLS", "").split(os.pathsep) if root.startswith("/")]
    own = user_directory("skills")
    return (*given, own) if own is not None else tuple(given)


if TYPE_CHECKING:

    def _fits(toolset: SkillsToolset) -> tuple[Toolset, SupportsAvailability]:
        return toolset, toolset
