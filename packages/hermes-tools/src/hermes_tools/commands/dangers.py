"""Commands that a person should see before they run: a table of patterns over commands taken apart. Pure.

The table is a net, not a fence. It sees what a text says, whatever the quoting and wrapping; it does not see
what a program does on its own (a script file, `make`, `python -c`), names that are put together at run time,
and aliases of the user's shell. Whoever must be sure runs the tools where nothing can be harmed.

>>> [danger.kind for danger in dangers_of("env X=1 bash -c 'cd / && \\\\rm -r -f *'; ls")]
['deletes broadly']
>>> dangers_of("rm -rf build && git push")
[]
"""

from __future__ import annotations

import re

from msgspec import Struct

from hermes_tools.commands.git_questions import git, git_overwrites_files
from hermes_tools.commands.questions import (
    DEVICE,
    EVERYONE,
    SET_ID,
    SYSTEM_FILE,
    Question,
    always,
    argument,
    arguments_of,
    asks_for_secrets,
    dd_writes,
    deletes_broadly,
    destroys_data,
    fed_with_deletion,
    finds_and_deletes,
    goes_to,
    has,
    is_fed,
    is_fork_bomb,
    mentions,
    name_is_made,
    opens_network_shell,
    options_of,
    reads_credentials,
    runs_fetched,
    words,
    writes_to,
)
from hermes_tools.commands.unwrapping import (
    INTERPRETERS,
    SHELLS,
    commands_of,
    plain_arguments,
    program_of,
    shown,
)
from hermes_tools.commands.words import Command

__all__ = ["TABLE", "Danger", "Pattern", "danger_of", "dangers_of"]

FORK_BOMB = "multiplies itself"


class Danger(Struct, frozen=True):
    """What a command would do, in words, and the command."""

    kind: str
    command: str


class Pattern(Struct, frozen=True):
    """A row of the table. `programs` is a regular expression for the whole name of the program."""

    kind: str
    programs: str
    test: Question


def dangers_of(line: str) -> list[Danger]:
    """All dangers in a command line. Raises `UnreadableCommandError` for one that can not be judged."""
    found = [Danger(FORK_BOMB, line[:200])] if is_fork_bomb(line) else []
    for command in commands_of(line):
        kind = danger_of(command)
        if kind is not None:
            found.append(Danger(kind, shown(command)))
    return found


def danger_of(command: Command) -> str | None:
    """The kind of the first row that fits, or None."""
    program = program_of(command)
    for kind, programs, test in _COMPILED:
        if programs.fullmatch(program) and test(command):
            return kind
    return None


_ANY = r".*"
_SHELL_OR_INTERPRETER = rf"(?:{'|'.join(sorted(SHELLS))}|{INTERPRETERS.pattern}|source|\.|eval)"

_ROOT_OR_HOME = re.compile(r"^(?:/|~|\$HOME)/*$")
_SED_RUNS = (
    r"(?:^|[;\n}])(?:\d{1,9}|\$)?(?:,(?:\d{1,9}|\$))?e(?:\s|$)"
    r"|^s/[^/]*/[^/]*/[gpiI\d]*e|^s\|[^|]*\|[^|]*\|[gpiI\d]*e|^s([,#])[^,#]*\1[^,#]*\1[gpiI\d]*e"
)
"""The command `e` of GNU sed and the flag `e` of its `s` run a text as a command."""

TABLE: tuple[Pattern, ...] = (
    Pattern("runs a program whose name is made at run time", _ANY, name_is_made),
    Pattern("gets other rights", r"sudo|doas|su|pkexec|run0|runuser|gosu", always),
    Pattern("deletes broadly", r"rm|srm", deletes_broadly),
    Pattern("deletes broadly", r"find", finds_and_deletes),
    Pattern("deletes what another program lists", r"xargs|parallel", fed_with_deletion),
    Pattern("destroys content for good", r"shred|wipe|srm|scrub", always),
    Pattern(
        "formats or repartitions a disk",
        r"mkfs(?:\..+)?|mke2fs|mkswap|newfs(?:_.+)?|wipefs|blkdiscard",
        always,
    ),
    Pattern(
        "formats or repartitions a disk",
        r"fdisk|sfdisk|cfdisk|gdisk|sgdisk|parted|cryptsetup|diskutil|format(?:\.com)?",
        always,
    ),
    Pattern("writes over a disk or file outside", r"dd", dd_writes),
    Pattern("opens a shell over the network", _ANY, opens_network_shell),
    Pattern("writes to a device", _ANY, writes_to(DEVICE)),
    Pattern("writes to a device", r"tee|cp|mv|install|cat", argument(DEVICE, last=True)),
    Pattern(
        "opens a shell over the network", r"nc|ncat|netcat|socat", mentions(r"^-[a-z]*[ec]$|exec:|system:")
    ),
    Pattern("runs what it downloads", _SHELL_OR_INTERPRETER, runs_fetched),
    Pattern("runs text from a pipe", "|".join(sorted(SHELLS)), is_fed),
    Pattern("runs text from a pipe", INTERPRETERS.pattern, is_fed),
    Pattern("runs text from a pipe", r"source|\.", is_fed),
    Pattern("changes files of the system", _ANY, writes_to(SYSTEM_FILE)),
    Pattern("changes files of the system", r"cp|mv|ln|install|rsync", argument(SYSTEM_FILE, last=True)),
    Pattern("changes files of the system", r"cp|mv|ln|install|curl|wget|sort", goes_to(SYSTEM_FILE)),
    Pattern("changes files of the system", r"tee|rm|unlink|truncate|touch|rmdir", argument(SYSTEM_FILE)),
    Pattern(
        "changes files of the system",
        r"sed|perl",
        lambda c: bool(options_of(c) & {"i", "--in-place"}) and argument(SYSTEM_FILE)(c),
    ),
    Pattern("reads credentials", _ANY, reads_credentials),
    Pattern("reads credentials", r"security", asks_for_secrets),
    Pattern(
        "reads credentials",
        r"gh|gcloud|aws|vault|pass",
        words("auth token", "auth print-access-token", "show"),
    ),
    Pattern(
        "overwrites history that others have",
        r"git",
        git(
            "push",
            flags=("f", "--force", "--force-with-lease", "--mirror", "--delete", "d", "--prune"),
            refspec="+",
        ),
    ),
    Pattern("deletes a branch or tag of others", r"git", git("push", refspec=":", flags=("--delete",))),
    Pattern("throws away work", r"git", git("reset", flags=("--hard", "--merge"))),
    Pattern("throws away work", r"git", git("clean", flags=("f", "--force"))),
    Pattern(
        "throws away work", r"git", git("checkout", "switch", flags=("f", "--force", "--discard-changes"))
    ),
    Pattern(
        "throws away work",
        r"git",
        git("stash clear", "stash drop"),
    ),
    Pattern("throws away work", r"git", git_overwrites_files),
    Pattern("throws away work", r"git", git("branch", flags=("D",))),
    Pattern(
        "deletes broadly", r"rsync", lambda c: has("--delete")(c) and argument(_ROOT_OR_HOME, last=True)(c)
    ),
    Pattern(
        "throws away history", r"git", git("filter-branch", "filter-repo", "reflog expire", "update-ref")
    ),
    Pattern("changes rights of a whole tree", r"chmod|chown|chgrp|chattr|setfacl", has("R", "--recursive")),
    Pattern("opens files to everyone", r"chmod", argument(EVERYONE)),
    Pattern("lets a program run with other rights", r"chmod", argument(SET_ID)),
    Pattern("lets a program run with other rights", r"setcap", always),
    Pattern("stops the machine", r"shutdown|reboot|halt|poweroff", always),
    Pattern("stops the machine", r"init|telinit", words("0", "1", "6", "s", "S")),
    Pattern(
        "stops or changes services",
        r"systemctl",
        lambda c: (
            not words(
                "status",
                "show",
                "list-units",
                "list-unit-files",
                "is-active",
                "is-enabled",
                "cat",
                "get-default",
            )(c)
            and bool(plain_arguments(c))
        ),
    ),
    Pattern(
        "stops or changes services",
        r"service|launchctl|rc-service|update-rc\.d|sc",
        mentions(r"^(?:stop|restart|disable|remove|unload|bootout|delete|reload)$"),
    ),
    Pattern("stops processes by name", r"killall|pkill|killall5|skill", always),
    Pattern(
        "stops every process", r"kill", lambda c: "-1" in arguments_of(c)[1:] or arguments_of(c) == ["-1"]
    ),
    Pattern(
        "changes accounts",
        r"useradd|userdel|usermod|groupadd|groupdel|adduser|deluser|passwd|chpasswd|visudo|chsh",
        always,
    ),
    Pattern(
        "changes the kernel or its mounts",
        r"mount|umount|insmod|rmmod|modprobe|kexec|swapoff|losetup",
        lambda c: bool(plain_arguments(c)) or program_of(c) == "swapoff",
    ),
    Pattern("changes the kernel or its mounts", r"sysctl", has("w", "p", "--write", "--load")),
    Pattern(
        "changes the firewall or network",
        r"ip6?tables|nft|ufw|firewall-cmd|route|ifconfig",
        lambda c: bool(arguments_of(c)) and not has("L", "S", "--list")(c),
    ),
    Pattern("changes timed jobs", r"crontab", lambda c: not has("l")(c)),
    Pattern("changes timed jobs", r"at|batch", lambda c: not has("l", "q")(c)),
    Pattern(
        "publishes a package",
        r"npm|pnpm|yarn|cargo|poetry|uv|gem|twine|flit|hatch",
        words("publish", "push", "upload", "unpublish", "yank", "npm publish"),
    ),
    Pattern("publishes an image", r"docker|podman", words("push", "image push")),
    Pattern(
        "deletes containers or volumes",
        r"docker|podman",
        words(
            "system prune",
            "volume rm",
            "volume prune",
            "container prune",
            "image prune",
            "rm",
            "rmi",
            "compose down",
        ),
    ),
    Pattern("deletes containers or volumes", r"docker-compose|podman-compose", words("down", "rm")),
    Pattern(
        "has the rights of the host",
        r"docker|podman",
        mentions(r"^--privileged$|^(?:-v|--volume=)?/:/|(?:source|src)=/(?:,|$)|docker\.sock"),
    ),
    Pattern(
        "changes a cluster or cloud",
        r"kubectl|oc|helm",
        words("delete", "drain", "replace", "uninstall", "scale", "cordon"),
    ),
    Pattern(
        "changes a cluster or cloud", r"terraform|tofu|pulumi|cdk", words("destroy", "apply", "up", "deploy")
    ),
    Pattern(
        "changes a cluster or cloud",
        r"aws|gcloud|az|gsutil",
        mentions(r"^(?:delete|rm|rb|terminate|destroy|remove|purge)(?:-.*)?$"),
    ),
    Pattern(
        "destroys data in a database",
        r"psql|mysql|mariadb|sqlite3|mongo(?:sh)?|clickhouse-client|sqlcmd",
        destroys_data,
    ),
    Pattern("destroys data in a database", r"dropdb|dropuser", always),
    Pattern("destroys data in a database", r"redis-cli", mentions(r"^flush(?:all|db)$")),
    Pattern(
        "deletes files from inside a program",
        INTERPRETERS.pattern,
        mentions(r"\brmtree\s*\(|\brm_rf\b|\bunlink\s*\(|\brmSync\s*\(|\bremove_tree\b|\bos\.remove\s*\("),
    ),
    Pattern(
        "runs a shell command from inside a program",
        INTERPRETERS.pattern,
        mentions(
            r"\bos\.(?:system|popen|exec[lv]p?e?|spawn\w{1,5}|execute)\s*\(|\bsubprocess\b|\bpopen\s*\("
            r"|\bexecv?p?e?Sync\s*\(|\bchild_process\b|\b(?:system|shell_exec|passthru|proc_open)\b|\bexecvp?e?\("
        ),
    ),
    Pattern("runs a shell command from inside a program", r"perl\d*|ruby|php", mentions(r"`|\bexec\b")),
    Pattern(
        "runs a shell command from inside a program",
        r"[gmn]?awk",
        mentions(r"\bsystem\s*\(|\|\s*getline|\|\s*\"(?:ba|z|da)?sh\b"),
    ),
    Pattern("runs a shell command from inside a program", r"g?sed", mentions(_SED_RUNS)),
    Pattern("runs a shell command from inside a program", r"n?vim?|vim|ex|view", mentions(r"(?:^|[:|])\s*!")),
    Pattern(
        "runs a shell command from inside a program", r"gdb|lldb", mentions(r"^(?:shell|!|platform shell)\b")
    ),
)
"""The reviewed rows; the first that fits names the danger."""

_COMPILED = tuple((row.kind, re.compile(row.programs), row.test) for row in TABLE)
