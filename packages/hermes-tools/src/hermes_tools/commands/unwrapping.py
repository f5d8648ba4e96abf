"""The commands that a command line comes to: `env`, `sudo`, `bash -c` and the like taken off. Pure.

>>> for command in commands_of("env A=1 nohup bash -lc 'git push -f' && xargs -0 rm -r"):
...     print(shown(command))
env A=1 nohup bash -lc 'git push -f'
nohup bash -lc 'git push -f'
bash -lc 'git push -f'
git push -f
xargs -0 rm -r
rm -r
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Callable, Iterator, Mapping

import msgspec
from msgspec import Struct

from hermes_tools.commands.reading import LONGEST, read_script
from hermes_tools.commands.words import Command, UnreadableCommandError, Word

__all__ = ["INTERPRETERS", "SHELLS", "commands_of", "plain_arguments", "program_of", "shown"]

SHELLS = frozenset(("sh", "bash", "rbash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "csh", "tcsh")) | {
    "$SHELL",
    "$BASH",
}
INTERPRETERS = re.compile(r"(?:python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|osascript|pwsh)[\d.]*")
_MOST_LAYERS = 12
_MOST_COMMANDS = 2_000
_LONGEST_FOLDER = 1_000
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=", re.ASCII)


class _Wrapper(Struct, frozen=True):
    """How a program that runs another one is called: the options that take a value of their own as the next
    word, and how many words stand before the other program."""

    with_value: str = ""
    words_before: int = 0


WRAPPERS: Mapping[str, _Wrapper] = {
    "!": _Wrapper(),
    "builtin": _Wrapper(),
    "busybox": _Wrapper(),
    "catchsegv": _Wrapper(),
    "chroot": _Wrapper(words_before=1),
    "chrt": _Wrapper(words_before=1),
    "command": _Wrapper(),
    "doas": _Wrapper("-u -C"),
    "env": _Wrapper("-u --unset -C --chdir"),
    "exec": _Wrapper("-a"),
    "flock": _Wrapper("-w --timeout -E", words_before=1),
    "ionice": _Wrapper("-c -n -p --class --classdata"),
    "ltrace": _Wrapper("-o -e -n -s -u -p"),
    "nice": _Wrapper("-n --adjustment"),
    "nohup": _Wrapper(),
    "nsenter": _Wrapper("-t --target -S -G"),
    "parallel": _Wrapper("-j --jobs -a -n -N -S -I"),
    "pkexec": _Wrapper("--user"),
    "proxychains": _Wrapper("-f"),
    "run0": _Wrapper("-u --user -g --group -D --chdir"),
    "setsid": _Wrapper(),
    "stdbuf": _Wrapper("-i -o -e --input --output --error"),
    "strace": _Wrapper("-o -e -s -u -p -E"),
    "sudo": _Wrapper("-u -g -h -p -C -T -r -t -D -R -U --user --group --chdir --prompt --host"),
    "systemd-run": _Wrapper("-p --property --unit -u -E --setenv --slice"),
    "taskset": _Wrapper(words_before=1),
    "time": _Wrapper("-o -f"),
    "timeout": _Wrapper("-s -k --signal --kill-after", words_before=1),
    "toybox": _Wrapper(),
    "unshare": _Wrapper("-S -G -R -w"),
    "watch": _Wrapper("-n --interval"),
    "{": _Wrapper(),  # behind `time`
    "xargs": _Wrapper("-I -n -L -P -d -a -E -s --max-args --max-procs --replace --arg-file --delimiter"),
}


def commands_of(line: str) -> list[Command]:
    """Every command that `line` would run as far as its text tells, each wrapper before what it wraps.

    Raises `UnreadableCommandError` for a line that can not be judged.
    """
    return _Unwrapping().all_of(line)


def program_of(command: Command) -> str:
    """The name of the program without its folder; "" where there is none (only assignments)."""
    return command.words[0].text.rpartition("/")[2] if command.words else ""


def plain_arguments(command: Command) -> list[str]:
    """The arguments that are no options; all of those after `--`."""
    texts = [word.text for word in command.words[1:]]
    if "--" in texts:
        cut = texts.index("--")
        return [text for text in texts[:cut] if not text.startswith("-")] + texts[cut + 1 :]
    return [text for text in texts if not text.startswith("-") or text == "-"]


def shown(command: Command) -> str:
    """A command as one line; what patterns are compared with."""
    words = [program_of(command), *(word.text for word in command.words[1:])]
    return " ".join(words[:1] + [word if " " not in word else shlex.quote(word) for word in words[1:]])


class _Unwrapping:
    """Takes wrappers off, within bounds: scripts inside scripts make a text grow with each layer."""

    def __init__(self) -> None:
        self._characters_left = 4 * LONGEST
        self._commands_left = _MOST_COMMANDS

    def all_of(self, line: str) -> list[Command]:
        return [inner for command in self._read(line, 0) for inner in self._unwrapped(command, 0)]

    def _read(self, text: str, depth: int) -> list[Command]:
        self._characters_left -= min(len(text), LONGEST)  # a longer one is refused below
        if self._characters_left < 0:
            raise UnreadableCommandError("the command holds more scripts than can be judged")
        return list(_in_their_folders(read_script(text, depth)))

    def _unwrapped(self, command: Command, layers: int) -> Iterator[Command]:
        self._commands_left -= 1
        if layers > _MOST_LAYERS or self._commands_left < 0:
            raise UnreadableCommandError("the command is wrapped too often to be judged")
        yield command
        name = program_of(command)
        if name in WRAPPERS:
            inner = _behind(command, WRAPPERS[name])
            if inner is not None:
                yield from self._unwrapped(inner, layers + 1)
        scripts = _SCRIPTS.get("sh" if name in SHELLS else name)
        for text in scripts(command) if scripts is not None else ():
            for read in self._read(text, layers + 1):
                fed = msgspec.structs.replace(read, upstream=read.upstream or command.upstream)
                yield from self._unwrapped(fed, layers + 1)


def _in_their_folders(commands: list[Command]) -> Iterator[Command]:
    """Each command with the folder that a `cd` before it led to, as far as the text tells."""
    folder = ""
    for command in commands:
        yield msgspec.structs.replace(command, folder=folder) if folder else command
        if program_of(command) in ("cd", "pushd"):
            folder = _led_to(folder, next(iter(plain_arguments(command)), "~"))
        elif program_of(command) == "popd":
            folder = ""


def _led_to(folder: str, target: str) -> str:
    target = re.sub(r"^\$HOME(?=/|$)", "~", target)
    if target.startswith("$") or target == "-" or len(folder) > _LONGEST_FOLDER:
        return ""
    return target if target.startswith(("/", "~")) else f"{folder}/{target}".removeprefix("/")


def _behind(command: Command, wrapper: _Wrapper) -> Command | None:
    """The command that a wrapper runs."""
    with_value = wrapper.with_value.split()
    before = wrapper.words_before
    at = 1
    while at < len(command.words):
        text = command.words[at].text
        if text == "--":
            at += 1
            break
        if text.startswith("-") and (len(text) > 1 or program_of(command) == "env"):
            at += 2 if text in with_value else 1
        elif _ASSIGNMENT.match(text):
            at += 1
        elif before:
            before -= 1
            at += 1
        else:
            break
    rest = command.words[at + before :] if before and at < len(command.words) else command.words[at:]
    return msgspec.structs.replace(command, words=rest, redirects=()) if rest else None


# -- programs that are given a script -----------------------------------------------------------------------


def _of_shell(command: Command) -> Iterator[str]:
    """`sh -c TEXT` (also `-lc`), and the here-documents of a shell that reads its input."""
    words = [word.text for word in command.words[1:]]
    for index, text in enumerate(words):
        if re.fullmatch(r"[-+][A-Za-z]*c[A-Za-z]*", text) and index + 1 < len(words):
            # Options may stand between -c and its text.
            yield next((word for word in words[index + 1 :] if not word.startswith(("-", "+"))), "")
            return
        if text.startswith("--command="):
            yield text.partition("=")[2]
    yield from command.inputs


def _joined(command: Command) -> Iterator[str]:
    yield " ".join(word.text for word in command.words[1:])


def _first_argument(command: Command) -> Iterator[str]:
    yield from plain_arguments(command)[:1]


def _of_su(command: Command) -> Iterator[str]:
    words = [word.text for word in command.words]
    for option, value in itertools.pairwise(words):
        if option in ("--command", "--session-command") or re.fullmatch(r"-[A-Za-z]*c", option):
            yield value


def _of_env(command: Command) -> Iterator[str]:
    """`env -S TEXT` splits its text into a command."""
    words = [word.text for word in command.words]
    for index, word in enumerate(words):
        if word == "--split-string" or re.fullmatch(r"-[A-Za-z0]*S", word):
            yield " ".join(words[index + 1 :])
        elif word.startswith(("-S", "--split-string=")):
            yield " ".join([word.removeprefix("--split-string=").removeprefix("-S"), *words[index + 1 :]])


def _of_ssh(command: Command) -> Iterator[str]:
    """What runs on the other machine."""
    words = [word.text for word in command.words[1:]]
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if re.fullmatch(r"-[bcDEeFIiJLlmOopQRSWw]", words[at]) else 1
    yield " ".join(words[at + 1 :])
    yield from (
        text.partition("=")[2] for text in words[:at] if re.match(r"(?:-o)?(?:Proxy|Local)Command=", text)
    )


def _of_shell_wrapper(command: Command) -> Iterator[str]:
    """`watch 'TEXT'` and `parallel 'TEXT' ::: x` give what they run to a shell."""
    inner = _behind(command, WRAPPERS[program_of(command)])
    if inner is not None and " " in inner.words[0].text:
        yield inner.words[0].text


def _of_options(*options: str) -> Callable[[Command], Iterator[str]]:
    """Programs that are named as the value of an option: `--to-command=TEXT`, `-e TEXT`, `SHELL=TEXT`."""

    def scripts(command: Command) -> Iterator[str]:
        words = [word.text for word in command.words[1:]]
        for index, text in enumerate(words):
            for option in options:
                if text == option and index + 1 < len(words):
                    yield words[index + 1]
                elif "=" in option + text and text.startswith(option) and text != option:
                    yield text.removeprefix(option).removeprefix("=")

    return scripts


def _of_find(command: Command) -> Iterator[str]:
    words = command.words
    for index, word in enumerate(words):
        if word.text in ("-exec", "-execdir", "-ok", "-okdir"):
            yield shlex.join(_until(words[index + 1 :], (";", "+")))


def _until(words: tuple[Word, ...], ends: tuple[str, ...]) -> Iterator[str]:
    for word in words:
        if word.text in ends:
            return
        yield word.text


def _of_alias(command: Command) -> Iterator[str]:
    yield from (word.text.partition("=")[2] for word in command.words[1:])


_RUN_BY_GIT = re.compile(
    r"[\w.-]*(?:pager|sshCommand|editor|external|helper|cmd|textconv|clean|smudge|process|program)=",
    re.IGNORECASE,
)


def _of_git(command: Command) -> Iterator[str]:
    """Programs named in `git -c alias.x='!...'` and in `git bisect run`, `git submodule foreach`."""
    words = [word.text for word in command.words]
    for index, word in enumerate(words):
        if word == "-c" and index + 1 < len(words):
            value = words[index + 1].partition("=")[2]
            if value.startswith("!"):
                yield value[1:]
            elif _RUN_BY_GIT.match(words[index + 1]):
                yield value
        elif word in ("-x", "--exec", "--extcmd") and {"rebase", "difftool"} & set(words[:index]):
            yield " ".join(words[index + 1 : index + 2])
        elif word in ("foreach", "run") and index > 1:
            yield " ".join(words[index + 1 :])


_SCRIPTS: Mapping[str, Callable[[Command], Iterator[str]]] = {
    "alias": _of_alias,
    "env": _of_env,
    "eval": _joined,
    "find": _of_find,
    "flock": _of_su,
    "git": _of_git,
    "make": _of_options("SHELL="),
    "parallel": _of_shell_wrapper,
    "pwsh": _of_options("-c", "-Command", "-command"),
    "rsync": _of_options("-e", "--rsh"),
    "runuser": _of_su,
    "script": _of_su,
    "sh": _of_shell,
    "ssh": _of_ssh,
    "su": _of_su,
    "tar": _of_options("--to-command", "--checkpoint-action=exec", "-I", "--use-compress-program"),
    "trap": _first_argument,
    "watch": _of_shell_wrapper,
}
