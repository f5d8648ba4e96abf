"""Every fenced code block of the documentation is run as a reader would run it.

The pages are README.md, packages/*/README.md and docs/**/*.md. A block's info string is its language and then
`key=value` attributes (quote a value that has spaces):

    ```python                               run; the blocks of one page share a namespace, in order, as if
                                            typed one after the other; top-level `await` is allowed
    ```python no-run="needs a paid host"    only compiled; the reason is for the reader of the source
    ```sh                                   run by bash -euo pipefail; each command is in COMMANDS
    ```console                              the same for the lines that begin with `$ `; the others are output
    ```sh covered-by=tests-integration/packaging/test_runner.py::test_name
                                            not run here: the named test runs it, and must exist
    ```json  ```jsonl  ```toml              parsed
    ```text  ```mermaid  ```{include}       left alone, as is any directive of the site; a block of any other
                                            or no language is an error

Blocks run in a folder of their own that holds a copy of examples/, with the variables of the fixture
`doc_environment` (conftest.py), where a block that names a model host gets its counterpart.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("README.md", "packages/*/README.md", "docs/**/*.md")
    for path in ROOT.glob(pattern)
)
COMMANDS = {
    "cat",
    "cd",
    "cp",
    "echo",
    "grep",
    "head",
    "hermes-batch",
    "ls",
    "mkdir",
    "python",
    "sort",
    "tail",
    "wc",
}
LEFT_ALONE = {"text", "mermaid"}
SHELL = {"sh", "bash", "console"}
TIME_LIMIT_S = 600.0


class BlockError(Exception):
    """A block is not as the rules above say, or did not run; the message begins with its place."""


@dataclass(frozen=True)
class Block:
    """One fenced block; `line` is that of its first line of content."""

    page: str
    line: int
    language: str
    attributes: dict[str, str]
    text: str

    @property
    def place(self) -> str:
        """Where the block is, for messages."""
        return f"{self.page}:{self.line}"


def blocks_of(page: str, markdown: str) -> list[Block]:
    """All fenced blocks of a page, in order."""
    found: list[Block] = []
    opened: tuple[int, str, str, int] | None = None  # line, fence, info string, indentation
    lines = markdown.splitlines()
    for number, line in enumerate(lines, 1):
        fence = re.match(r"( *)(`{3,}|~{3,})\s*([^`]*)$", line)
        if opened is None and fence:
            opened = (number, fence[2], fence[3].strip(), len(fence[1]))
        elif opened is not None and fence and fence[2].startswith(opened[1]) and not fence[3]:
            start, _, info, indent = opened
            text = "\n".join(content[indent:] for content in lines[start : number - 1]) + "\n"
            language, attributes = read_info(f"{page}:{start}", info)
            found.append(Block(page, start + 1, language, attributes, text))
            opened = None
    if opened is not None:
        raise BlockError(f"{page}:{opened[0]}: the block is never closed")
    return found


def read_info(place: str, info: str) -> tuple[str, dict[str, str]]:
    """Language and attributes of an info string."""
    words = shlex.split(info)
    if not words:
        raise BlockError(f"{place}: the block names no language (use `text`)")
    if words[0].startswith("{"):
        return words[0], {}
    attributes = {name: value for name, _, value in (word.partition("=") for word in words[1:])}
    unknown = set(attributes) - {"no-run", "covered-by"}
    if unknown or not all(attributes.values()):
        raise BlockError(f"{place}: unknown attribute or one without a value in {info!r}")
    return words[0], attributes


def check_block(block: Block, root: Path) -> None:
    """What can be said of a block without running it."""
    match block.language:
        case "python":
            check_python(block)
        case "json":
            json.loads(block.text)
        case "jsonl":
            for line in block.text.splitlines():
                json.loads(line)
        case "toml":
            tomllib.loads(block.text)
        case language if language in LEFT_ALONE or language.startswith("{"):
            pass
        case language if language not in SHELL:
            raise BlockError(f"{block.place}: unknown language {language!r} (use `text` if it is none)")
        case _ if "covered-by" in block.attributes:
            check_covering_test(block, root)
        case _:
            for command in commands(block):
                if command not in COMMANDS:
                    raise BlockError(
                        f"{block.place}: {command!r} is not run here: add `covered-by=PATH::TEST`"
                    )


def check_python(block: Block) -> None:
    """A Python block compiles."""
    try:
        compile(block.text, block.place, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as error:
        raise BlockError(f"{block.place}: {error}") from error


def check_covering_test(block: Block, root: Path) -> None:
    """The test that a block names is there."""
    path, _, name = block.attributes["covered-by"].partition("::")
    file = root / path
    code = file.read_text("utf-8") if file.is_file() and file.name.startswith("test_") else ""
    tree = ast.parse(code)
    if not any(
        isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and n.name == name for n in ast.walk(tree)
    ):
        raise BlockError(f"{block.place}: there is no test {path}::{name}")


def script(block: Block) -> str:
    """What a shell block tells the reader to type."""
    if block.language != "console":
        return block.text
    return "\n".join(line[2:] for line in block.text.splitlines() if line.startswith("$ ")) + "\n"


def commands(block: Block) -> Iterator[str]:
    """The first word of each command, assignments before it left out."""
    text = re.sub(r"\\\n", " ", script(block))
    for line in text.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        first = True
        for word in lexer:
            if first and not re.match(r"\w+=", word):
                yield word
                first = False
            if set(word) <= set("|;&"):
                first = True


PYTHON_RUNNER = """
import ast, asyncio, inspect, json, sys

blocks = json.load(sys.stdin)
namespace = {"__name__": "__main__"}
with asyncio.Runner() as runner:
    for page, line, text in blocks:
        tree = ast.increment_lineno(ast.parse(text, page), line - 1)
        code = compile(tree, page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        outcome = eval(code, namespace)
        if inspect.iscoroutine(outcome):
            runner.run(outcome)
"""


def run_python(blocks: list[Block], folder: Path, env: dict[str, str]) -> None:
    """Run the Python blocks of one page, in one process."""
    wanted = [
        [b.page, b.line, b.text] for b in blocks if b.language == "python" and "no-run" not in b.attributes
    ]
    if wanted:
        run([sys.executable, "-c", PYTHON_RUNNER], json.dumps(wanted), folder, env, blocks[0].page)


def run_shell(blocks: list[Block], folder: Path, env: dict[str, str]) -> None:
    """Run the shell blocks of one page that no other test covers."""
    for block in blocks:
        if block.language in SHELL and "covered-by" not in block.attributes:
            run(["bash", "-euo", "pipefail", "-c", script(block)], "", folder, env, block.place)


def run(command: list[str], given: str, folder: Path, env: dict[str, str], place: str) -> None:
    """Run one process to its good end."""
    done = subprocess.run(
        command,
        input=given,
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )
    if done.returncode:
        raise BlockError(f"{place}: exit code {done.returncode}\n{done.stdout}{done.stderr}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where blocks run: nothing but a copy of the examples."""
    place = tmp_path / "work"
    place.mkdir()
    if (ROOT / "examples").is_dir():
        shutil.copytree(ROOT / "examples", place / "examples")
    return place


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_are_sound(page: str) -> None:
    for block in blocks_of(page, (ROOT / page).read_text("utf-8")):
        check_block(block, ROOT)


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_run(page: str, folder: Path, doc_environment: dict[str, str]) -> None:
    blocks = blocks_of(page, (ROOT / page).read_text("utf-8"))
    run_python(blocks, folder, doc_environment)
    run_shell(blocks, folder, doc_environment)


# That the runner itself can fail, and does what it says:


def page_of(*blocks: tuple[str, str]) -> list[Block]:
    markdown = "# Page\n\n" + "\n".join(f"```{info}\n{text}\n```\n" for info, text in blocks)
    return blocks_of("page.md", markdown)


def test_blocks_of_a_page_share_names_and_the_loop(folder: Path, doc_environment: dict[str, str]) -> None:
    blocks = page_of(
        ("python", "import asyncio\nevent = asyncio.Event()"),
        ("python", "task = asyncio.create_task(event.wait())\nawait asyncio.sleep(0)"),
        ("python", "event.set()\nassert await task\nopen('out.txt', 'w').close()"),
    )
    run_python(blocks, folder, doc_environment)
    assert (folder / "out.txt").exists()


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("x = 1\nassert x == 2", 5, "AssertionError"),
        ("import asyncio\nawait asyncio.sleep(0)\nundefined", 6, "NameError"),
        ("import warnings\nwarnings.warn('old', DeprecationWarning)", 5, "DeprecationWarning"),
    ],
)
def test_a_failing_python_block_is_told_with_its_line(
    text: str, line: int, what: str, folder: Path, doc_environment: dict[str, str]
) -> None:
    with pytest.raises(BlockError, match=rf'(?s)File "page.md", line {line}.*{what}'):
        run_python(page_of(("python", text)), folder, doc_environment)


def test_a_block_that_is_not_run_is_compiled_all_the_same(
    folder: Path, doc_environment: dict[str, str]
) -> None:
    blocks = page_of(('python no-run="needs a paid host"', "await undefined()"))
    check_block(blocks[0], ROOT)
    run_python(blocks, folder, doc_environment)
    with pytest.raises(BlockError, match=r"page.md:4: "):
        check_block(page_of(("python no-run=reason", "x ="))[0], ROOT)


def test_shell_blocks_run_and_a_failing_one_is_told(folder: Path, doc_environment: dict[str, str]) -> None:
    good = page_of(("console", "$ echo hello > out.txt\nhello"), ("sh", "grep -q hello out.txt"))
    run_shell(good, folder, doc_environment)
    with pytest.raises(BlockError, match=r"page\.md:4: exit code 1"):
        run_shell(page_of(("sh", "cat missing.txt | head -1")), folder, doc_environment)


@pytest.mark.parametrize(
    ("info", "text", "what"),
    [
        ("sh", "curl http://127.0.0.1/", "'curl' is not run here"),
        ("sh", "echo a | curl -d - http://127.0.0.1/", "'curl' is not run here"),
        ("console", "$ A=1 curl \\\n  http://127.0.0.1/", "'curl' is not run here"),
        ("sh covered-by=tests-integration/nowhere/test_x.py::test_y", "make demo", "there is no test"),
        (f"sh covered-by={Path(__file__).relative_to(ROOT)}::test_none", "make demo", "there is no test"),
        ("ruby", "puts 1", "unknown language"),
        ("python", "def f(:", "invalid syntax"),
    ],
)
def test_an_unsound_block_is_told(info: str, text: str, what: str) -> None:
    with pytest.raises(BlockError, match=what):
        check_block(page_of((info, text))[0], ROOT)


@pytest.mark.parametrize("markdown", ["```\nx\n```\n", "```python skip\nx\n```\n", "```python\nx\n"])
def test_a_malformed_fence_is_told(markdown: str) -> None:
    with pytest.raises(BlockError, match=r"page\.md:1: "):
        blocks_of("page.md", markdown)


@pytest.mark.parametrize(("language", "text"), [("json", "{"), ("jsonl", "{}\n}"), ("toml", "a =")])
def test_data_blocks_are_parsed(language: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        check_block(page_of((language, text))[0], ROOT)


def test_a_covered_block_names_a_test_that_exists() -> None:
    name = test_a_covered_block_names_a_test_that_exists.__name__
    check_block(page_of((f"sh covered-by={Path(__file__).relative_to(ROOT)}::{name}", "make demo"))[0], ROOT)


def test_nested_and_indented_fences_are_read() -> None:
    blocks = blocks_of(
        "page.md", "1. item\n\n   ```python\n   x = 1\n   ```\n\n````text\n```python\n```\n````\n"
    )
    assert [(b.language, b.line, b.text) for b in blocks] == [
        ("python", 4, "x = 1\n"),
        ("text", 8, "```python\n```\n"),
    ]
