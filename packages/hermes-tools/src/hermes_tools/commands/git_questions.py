"""What the rows of the table of dangers ask about a command of git. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hermes_tools.commands.questions import Question, arguments_of
from hermes_tools.commands.words import Command

__all__ = ["git", "git_overwrites_files"]


def git(*alternatives: str, flags: Iterable[str] = (), refspec: str = "") -> Question:
    """A subcommand of git (its own options before it left out), with one of the `flags` or a refspec that
    starts with `refspec`, if those are given."""
    sequences = [tuple(alternative.split()) for alternative in alternatives]
    wanted = set(flags)

    def test(command: Command) -> bool:
        given = _after_git_options(arguments_of(command))
        if not any(given[: len(sequence)] == sequence for sequence in sequences):
            return False
        if not wanted and not refspec:
            return True
        short = {letter for text in given if re.fullmatch(r"-[A-Za-z]+", text) for letter in text[1:]}
        long = {text.partition("=")[0] for text in given if len(text) > 4 and text.startswith("--")}
        shortened = any(flag.startswith(text) for flag in wanted for text in long)
        return (
            bool(short & wanted)
            or shortened
            or bool(refspec and any(text.startswith(refspec) for text in given[1:]))
        )

    return test


_WHOLE_TREE = frozenset((".", "./", ":/", ":", "*", ":(top)"))


def git_overwrites_files(command: Command) -> bool:
    """`git checkout -- x`, `git restore .`, `git rm -r .`: files of the tree become what git knows."""
    given = _after_git_options(arguments_of(command))
    rest = set(given[1:])
    match given[:1]:
        case ("checkout",):
            return "--" in rest or bool(rest & _WHOLE_TREE)
        case ("restore",):
            staged_only = bool(rest & {"--staged", "-S"}) and not rest & {"--worktree", "-W", "-SW", "-WS"}
            return bool(rest & _WHOLE_TREE) and not staged_only
        case ("rm",):
            return bool(rest & _WHOLE_TREE) and "--cached" not in rest
        case ("branch",):
            letters = {letter for text in rest if re.fullmatch(r"-[A-Za-z]+", text) for letter in text[1:]}
            return bool(letters & {"d"} or "--delete" in rest) and bool(letters & {"f"} or "--force" in rest)
        case ("worktree",):
            return "remove" in rest and bool(rest & {"-f", "--force"})
        case _:
            return False


def _after_git_options(texts: Sequence[str]) -> tuple[str, ...]:
    at = 0
    while at < len(texts) and texts[at].startswith("-"):
        at += 2 if texts[at] in ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path") else 1
    return tuple(texts[at:])
