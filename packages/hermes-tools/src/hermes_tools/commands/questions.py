"""What the rows of the table of dangers ask about a command. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

from hermes_tools.commands.unwrapping import SHELLS, plain_arguments, program_of
from hermes_tools.commands.words import Command

__all__ = [
    "DEVICE",
    "EVERYONE",
    "SET_ID",
    "SYSTEM_FILE",
    "Question",
    "always",
    "argument",
    "arguments_of",
    "asks_for_secrets",
    "dd_writes",
    "deletes_broadly",
    "destroys_data",
    "fed_with_deletion",
    "finds_and_deletes",
    "goes_to",
    "has",
    "is_fed",
    "is_fork_bomb",
    "mentions",
    "name_is_made",
    "opens_network_shell",
    "options_of",
    "reads_credentials",
    "runs_fetched",
    "words",
    "writes_to",
]

_LONGEST_PATH = 4_096
"""Linux opens no longer path (`PATH_MAX`); what stands behind so many characters is not looked at."""

Question = Callable[[Command], bool]


def always(_: Command) -> bool:
    """Whatever it is called with."""
    return True


def arguments_of(command: Command) -> list[str]:
    """The words after the program."""
    return [word.text for word in command.words[1:]]


def options_of(command: Command) -> set[str]:
    """Short options one by one, long ones whole, up to `--`: `-rf --force` gives r, f, --force."""
    found: set[str] = set()
    for text in arguments_of(command):
        if text == "--":
            break
        if text.startswith("--"):
            found.add(text.partition("=")[0])
        elif text.startswith("-"):
            found.update(text[1:])
    return found


def has(*flags: str) -> Question:
    """Any of these options is given; long ones may be shortened as GNU programs allow."""
    wanted = set(flags)

    def test(command: Command) -> bool:
        given = options_of(command)
        return bool(given & wanted) or any(
            flag.startswith(text) for flag in wanted for text in given if len(text) > 4 and text[:2] == "--"
        )

    return test


def words(*alternatives: str) -> Question:
    """One of these sequences stands at the start of the arguments, options left out (`system prune`)."""
    sequences = [tuple(alternative.split()) for alternative in alternatives]

    def test(command: Command) -> bool:
        given = _without_values(command)
        return any(given[: len(sequence)] == sequence for sequence in sequences)

    return test


_WITH_VALUE = frozenset(
    ("-n", "--namespace", "--context", "--kubeconfig", "--kube-context", "-H", "--host", "--project-name")
) | {"--profile", "--region", "--project", "--file", "-f", "-C", "--prefix"}
"""Options before a subcommand that take the next word, of programs with subcommands."""


def _without_values(command: Command) -> tuple[str, ...]:
    texts = arguments_of(command)
    values = {at + 1 for at, text in enumerate(texts) if text in _WITH_VALUE}
    kept = [text for at, text in enumerate(texts) if at not in values]
    return tuple(text for text in kept if not text.startswith("-"))


def mentions(pattern: str) -> Question:
    """An argument, or text that is fed in, holds this regular expression, in upper or lower case."""
    compiled = re.compile(pattern, re.IGNORECASE)

    def test(command: Command) -> bool:
        return any(compiled.search(text) for text in [*arguments_of(command), *command.inputs])

    return test


_TEMPORARY = ("tmp", "var/tmp", "private/tmp")
_DEEP_ENOUGH = 4


def _is_broad(path: str) -> bool:
    """Whether deleting `path` could take more with it than one folder of a project."""
    text = re.sub(r"/{2,}", "/", path)
    text = re.sub(r"^\$\(mktemp[^()]*\)", "/tmp/made", text)  # noqa: S108 - a text that is looked at
    if text.startswith("$"):  # of a variable nobody knows; an empty one makes "$X/*" the whole disk
        text = re.sub(r"^\$(?:TMPDIR|PWD)/(?=[^/*.])", "/tmp/", text)  # noqa: S108 - a text that is looked at
        if text.startswith("$"):
            return True
    parts = [part for part in re.sub(r"\[[^]/]*\]", "*", text).split("/") if part not in ("", ".")]
    named = [part for part in parts if part.strip("*?.")]
    if ".." in parts or parts[-1:] == [".git"]:
        return True
    if text.startswith("~"):
        return len(named) <= 1 + 1 or named[1].startswith(".")
    if not text.startswith("/"):
        return not named
    inside = "/".join(named)
    if any(inside.startswith(f"{folder}/") for folder in _TEMPORARY):
        return False
    return len(named) < _DEEP_ENOUGH


def deletes_broadly(command: Command) -> bool:
    """`rm -r` of something that is more than a folder of a project."""
    flags = options_of(command)
    if "--no-preserve-root" in flags:
        return True
    if not flags & {"r", "R"} and not any("--recursive".startswith(flag) for flag in flags if flag[2:]):
        return False
    paths = plain_arguments(command)
    return any(_is_broad(path) or _is_broad(_in_folder(command.folder, path)) for path in paths)


def _in_folder(folder: str, path: str) -> str:
    return f"{folder}/{path}" if folder and not path.startswith(("/", "~", "$")) else "x"


def finds_and_deletes(command: Command) -> bool:
    """`find` that starts broadly and deletes what it finds."""
    texts = arguments_of(command)
    deletes = "-delete" in texts or any(
        text in ("-exec", "-execdir", "-ok", "-okdir")
        and following.rpartition("/")[2] in ("rm", "shred", "unlink")
        for text, following in itertools.pairwise(texts)
    )
    starts = []
    for text in texts:
        if text.startswith(("-", "(", "!")):
            break
        starts.append(text)
    return deletes and (not starts or any(map(_is_broad, starts)))


def fed_with_deletion(command: Command) -> bool:
    """`... | xargs rm -r`: what is deleted comes out of another program."""
    names = [text.rpartition("/")[2] for text in arguments_of(command)]
    if "rm" not in names:
        return False
    options = names[names.index("rm") + 1 :]
    return any(text.startswith("-") and set(text) & set("rRf") for text in options) or any(
        program_of(inner) == "find" and any(map(_is_broad, arguments_of(inner)[:1]))
        for inner in command.upstream
    )


DEVICE = re.compile(r"/dev/(?!null$|zero$|full$|stdin$|stdout$|stderr$|tty$|fd/|shm/|u?random$|pts/)")
_WRITES = (">", ">>", ">|", "&>", "&>>", "<>", ">&")
SYSTEM_FILE = re.compile(
    r"^(?:/(?:etc|boot|usr|s?bin|lib(?:32|64)?|sys|proc/sys|System|Library)(?:/|$)"
    r"|(?:~|\$HOME|/root|/home/[^/]+)/\.(?:bashrc|bash_profile|profile|zshrc|zprofile|zshenv|ssh/|config/autostart/"
    r"|config/systemd/|local/bin/|gitconfig))"
)


def writes_to(pattern: re.Pattern[str]) -> Question:
    """A redirection goes there."""

    def test(command: Command) -> bool:
        return any(
            redirect.operator in _WRITES and pattern.search(redirect.target.text)
            for redirect in command.redirects
        )

    return test


def goes_to(pattern: re.Pattern[str]) -> Question:
    """The value of an option that names where something is written: `-t DIR`, `-o FILE`, `--output=FILE`."""

    def test(command: Command) -> bool:
        texts = arguments_of(command)
        values = [after for text, after in itertools.pairwise(texts) if _OUTPUT.fullmatch(text)]
        values += [match[1] for text in texts if (match := _OUTPUT_VALUE.match(text))]
        return any(pattern.search(value[:_LONGEST_PATH]) for value in values)

    return test


_OUTPUT = re.compile(r"-[a-zA-Z]{0,9}[toO]|--(?:target-directory|output|output-document)")
_OUTPUT_VALUE = re.compile(r"(?:-[toO]|--(?:target-directory|output|output-document)=)([/~$].*)", re.DOTALL)


def argument(pattern: re.Pattern[str], *, last: bool = False) -> Question:
    """A plain argument (or the last one) holds this regular expression."""

    def test(command: Command) -> bool:
        given = plain_arguments(command)
        return any(pattern.search(text[:_LONGEST_PATH]) for text in (given[-1:] if last else given))

    return test


def dd_writes(command: Command) -> bool:
    """`dd` that writes to a device or outside the working directory."""
    targets = [text[3:] for text in arguments_of(command) if text.startswith("of=")]
    return any(DEVICE.match(target) or target.startswith(("/", "~", "$")) for target in targets)


_FETCHERS = frozenset(
    ("curl", "wget", "fetch", "aria2c", "http", "https", "lynx", "scp", "ftp", "nc", "ncat")
)


def is_fed(command: Command) -> bool:
    """Whether a shell or interpreter runs what comes out of a pipe (not: a script of its own)."""
    flags = options_of(command)
    given = {"c"} if program_of(command) in SHELLS else {"c", "e", "m", "r"}
    if not command.upstream or flags & given:
        return False
    arguments = plain_arguments(command)
    return not arguments or arguments[0] in ("-", "/dev/stdin") or "s" in flags


def runs_fetched(command: Command) -> bool:
    """What a download gives is run: through a pipe, `<(...)` or `"$(...)"`."""
    made_by = {id(word.commands): word.commands for word in command.words[1:]}
    made_by |= {id(redirect): redirect.target.commands for redirect in command.redirects}
    if is_fed(command):
        made_by[0] = command.upstream
    fetched = {program_of(inner) for commands in made_by.values() for inner in commands}
    return bool(fetched & _FETCHERS)


_USUAL_NAME = re.compile(r"\$(?:PYTHON|CC|CXX|MAKE|EDITOR|VISUAL|PAGER|BROWSER|NODE|GO|CARGO|UV)\d?")
_MADE_OF_A_RANGE = re.compile(r"\{[^{},]*\.\.[^{},]*\}")


def name_is_made(command: Command) -> bool:
    """The program's name comes out of another command or a file name pattern."""
    first = command.words[0] if command.words else None
    if first is None:
        return False
    name = program_of(command)
    return (
        (first.pattern and first.text not in ("[", "[["))
        or first.text.startswith("$(")
        or ("$" in name and name not in SHELLS and not _USUAL_NAME.fullmatch(name))
        or name == "{}"
        or _MADE_OF_A_RANGE.search(name[:200]) is not None
    )


_CREDENTIALS = re.compile(
    r"(?:^|[/=:@])(?:\.ssh(?:/|$)(?!known_hosts|config$|[^/]*\.pub$)|\.aws/(?:credentials|config)|\.netrc|_netrc"
    r"|\.git-credentials|\.pgpass|\.my\.cnf|\.npmrc|\.pypirc|\.gnupg(?:/|$)|\.kube/config|\.docker/config\.json"
    r"|\.config/(?:gh/hosts\.yml|gcloud(?:/|$)|rclone/rclone\.conf)|\.azure(?:/|$)|id_(?:rsa|dsa|ecdsa|ed25519)$"
    r"|\.env(?:$|\.(?!example|sample|template|dist)[\w.-]+$)|\.vault-token|\.password-store(?:/|$)"
    r"|\.bash_history$|\.zsh_history$|Login Data$|Cookies$)"
    r"|(?:^|[=@])/etc/(?:shadow|gshadow|sudoers|ssl/private)|^/proc/(?:\d+|self|\*)/environ|\.(?:pem|p12|pfx|kdbx|keytab)$",
    re.IGNORECASE,
)


def reads_credentials(command: Command) -> bool:
    """A file that holds credentials as a rule is named."""
    texts = [*arguments_of(command), *(redirect.target.text for redirect in command.redirects)]
    return any(_CREDENTIALS.search(text[:_LONGEST_PATH]) for text in texts)


def asks_for_secrets(command: Command) -> bool:
    """The key chain of macOS is asked for a password."""
    return plain_arguments(command)[:1] in (
        ["find-generic-password"],
        ["find-internet-password"],
        ["dump-keychain"],
    )


EVERYONE = re.compile(
    r"^(?:[0-7]?[0-7][0-7][2367]$|(?=[ugoa]*[oa])[ugoa]*[+=](?=[rwxXst]*w)|\+(?=[rwxXst]*w))"
)
SET_ID = re.compile(r"^(?:[2-7][0-7]{3}|[ugoa]*[+=][rwxX]*s[rwxX]*)$")
_SQL = re.compile(
    r"\b(?:drop\s+(?:table|database|schema)|truncate\s+(?:table\s+)?\w|delete\s+from\s+[\w.\"]+\s*(?:;|$|\"|'))",
    re.IGNORECASE,
)


_MONGO = re.compile(r"\.(?:dropDatabase|drop)\(\s{0,9}\)|\.(?:deleteMany|remove)\(\s{0,9}\{\s{0,9}\}")


def destroys_data(command: Command) -> bool:
    """SQL that drops or empties a table, in an argument or fed in."""
    fed = [text[:_LONGEST_PATH] for inner in command.upstream for text in arguments_of(inner)]
    texts = [*arguments_of(command), *command.inputs, *fed]
    return any(_SQL.search(text) or _MONGO.search(text) for text in texts)


def opens_network_shell(command: Command) -> bool:
    """bash's `/dev/tcp/host/port` is used."""
    texts = [*arguments_of(command), *(redirect.target.text for redirect in command.redirects)]
    return any(text.startswith(("/dev/tcp/", "/dev/udp/")) for text in texts)


_FUNCTION = re.compile(r"([\w:.@-]{1,30})\(\)\{")


def is_fork_bomb(line: str) -> bool:
    """Whether a function in `line` starts itself more than once, in the background."""
    dense = re.sub(r"\s+", "", line[:10_000])
    for match in _FUNCTION.finditer(dense):
        body = dense[match.end() : match.end() + 300].partition("}")[0]
        name = match.group(1)
        if "&" in body and body.count(name) > 1 and f"{name}|{name}" in body:
            return True
        if f"{name}&{name}" in body:
            return True
    return False
