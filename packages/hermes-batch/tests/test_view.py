"""The page of a run: which rows are in it, and that nothing from them is markup."""

import asyncio
import base64
import json
import re
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hermes_batch import BatchRunner
from hermes_batch.cli import main
from hermes_batch.records import Record, Turn, encode_record
from hermes_batch.row_records import bad_row_record
from hermes_batch.rows import BadRow
from hermes_batch.run_files import RunFiles
from hermes_batch.testing import ScriptedAgents, conversation, failed_conversation
from hermes_batch.view import view_run
from hermes_batch.view_page import PAGE_FILES
from hermes_batch.view_rows import packed_rows, row_text
from hermes_messages import ErrorKind
from hermes_messages.protocols import ConversationResult

BLOCK = re.compile(rb'<script type="text/plain" data-kind="(\w+)">([A-Za-z0-9+/=]*)</script>')
HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(1)> \u2028 \x00\x1b[2J --> ]]> \U0001f600"
)
EMPTY = bad_row_record(BadRow(index=0, line=1, content_hash="h", reason="no JSON"))


def data_of(page: bytes) -> dict[str, list[Any]]:
    """The blocks of a page by their kind, as its program reads them."""
    found: dict[str, list[Any]] = {}
    for kind, text in BLOCK.findall(page):
        value = json.loads(zlib.decompress(base64.b64decode(text), -zlib.MAX_WBITS))
        found.setdefault(kind.decode(), []).append(value)
    return found


def lines_of(page: bytes) -> list[tuple[int, str, int, str]]:
    """Place, id, status and reason of each row in a page."""
    return [tuple(line[:4]) for block in data_of(page)["lines"] for line in block]


def behave(prompt: str) -> ConversationResult:
    match prompt.partition(" ")[0]:
        case "fail":
            return failed_conversation(prompt, error="HTTP 400", kind=ErrorKind.FORMAT)
        case "silent":
            return conversation(prompt, answer="a")
        case _:
            return conversation(prompt, answer="a", echo="x", reasoning="because")


def run(tmp_path: Path, prompts: list[str], **options: Any) -> RunFiles:
    dataset = tmp_path / "p.jsonl"
    dataset.write_text("".join(json.dumps({"prompt": text, "id": f"id {text}"}) + "\n" for text in prompts))
    agents = ScriptedAgents(options.pop("behave", behave))
    runner = BatchRunner(dataset, run_name="r", output_dir=tmp_path, agent_factory=agents, **options)
    asyncio.run(runner.run(resume=True))
    return runner.files


def viewed(files: RunFiles) -> bytes:
    return asyncio.run(view_run(files)).target.read_bytes()


def test_rows_of_every_status_appear_once_in_their_places(tmp_path: Path) -> None:
    run(tmp_path, ["good", "fail", "silent", "fail again"])
    files = run(tmp_path, ["new", "good", "silent", "fail", "good"], max_samples=4)
    page = viewed(files)
    assert lines_of(page) == [
        (0, "id new", 0, "text_response"),
        (1, "id good", 0, "text_response"),
        (2, "id silent", 2, "no_reasoning"),
        (3, "id fail", 1, "provider_error:format"),
    ]
    assert data_of(page)["summary"][0]["total"] == 4
    assert lines_of(page) == lines_of(viewed(files))


def test_a_row_that_went_well_at_the_second_try_is_good(tmp_path: Path) -> None:
    run(tmp_path, ["fail", "fail"])
    files = run(
        tmp_path,
        ["fail", "fail"],
        retry_failed=True,
        behave=lambda prompt: conversation(prompt, answer="a", reasoning="r"),
    )
    assert [(index, status) for index, _, status, _ in lines_of(viewed(files))] == [(0, 0), (1, 0)]


@pytest.mark.parametrize("dataset", [None, '{"prompt": "another"}\n', "no row at all\n"])
def test_without_its_dataset_a_run_is_still_to_be_seen(tmp_path: Path, dataset: str | None) -> None:
    files = run(tmp_path, ["good", "fail", "good"])
    if dataset is None:
        (tmp_path / "p.jsonl").unlink()
    else:
        (tmp_path / "p.jsonl").write_text(dataset)
    assert [(index, status) for index, _, status, _ in lines_of(viewed(files))] == [(0, 0), (1, 1), (2, 0)]


def test_trajectories_alone_can_be_seen(tmp_path: Path) -> None:
    files = run(tmp_path, ["good", "fail", "good"])
    for shard in files.shards.iterdir():
        shard.unlink()
    assert [index for index, *_ in lines_of(viewed(files))] == [0, 2]


def test_a_run_that_is_at_work_is_shown_as_far_as_it_is(tmp_path: Path) -> None:
    files = run(tmp_path, ["good", "fail"])
    shard = next(files.shards.iterdir())
    torn = shard.read_bytes() + b'{"prompt_index": 2, "id": "cut o'
    shard.write_bytes(torn)
    page = viewed(files)
    assert [index for index, *_ in lines_of(page)] == [0, 1]
    assert shard.read_bytes() == torn
    assert data_of(page)["summary"][0]["damaged"] == 1


def test_nothing_that_was_said_is_markup(tmp_path: Path) -> None:
    def said(prompt: str) -> ConversationResult:
        return conversation(prompt, answer=HOSTILE, echo="x", reasoning=HOSTILE)

    page = viewed(run(tmp_path, [HOSTILE], behave=said))
    assert page.count(b"<script") == len(BLOCK.findall(page)) + 1
    assert b"alert(1)" not in page
    assert b"<img" not in page
    (row,) = data_of(page)["texts"][0]
    kinds = [part[0] for part in row[2]]
    assert kinds == ["system", "user", "assistant", "tool", "assistant"]
    assert row[2][1][1] == HOSTILE
    assert row[2][2][1] == row[2][4][2] == HOSTILE


def test_the_page_asks_for_nothing_and_allows_its_own_program_only(tmp_path: Path) -> None:
    page = viewed(run(tmp_path, ["good"])).decode()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; ")
    assert "unsafe" not in policy[1]
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", page) == []
    assert re.findall(r"<link|@import|url\(|\bfetch\(|XMLHttpRequest|innerHTML|\beval\(", page) == []


def test_a_step_that_can_not_be_read_is_shown_as_it_stands() -> None:
    turns = (
        Turn("human", "a"),
        Turn("gpt", "<think>\n</think>\n<tool_call>\nno json\n</tool_call>"),
        Turn("x", "y"),
    )
    assert row_text(replace(EMPTY, conversations=turns)).parts == [
        ["other", "human", "a"],
        ["other", "gpt", turns[1].value],
        ["other", "x", "y"],
    ]


def test_a_huge_text_is_cut_and_says_so() -> None:
    turns = (Turn("human", "a" * 1_000_000),)
    ((_, text),) = row_text(replace(EMPTY, conversations=turns)).parts
    assert isinstance(text, str)
    assert len(text) < 201_000
    assert text.endswith("… 800,000 more characters are left out of this page.")


def test_a_large_row_is_packed_in_pieces() -> None:
    turns = tuple(Turn("human", f"{number} " * 20_000) for number in range(40))
    record = replace(EMPTY, conversations=turns)
    pieces = list(packed_rows([(0, record)]))
    assert len(pieces) > 10
    assert len(data_of(b"".join(pieces))["texts"][0][0][2]) == 40


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    assert _peak(tmp_path / "long", 4_000) < _peak(tmp_path / "short", 400) + 2_000_000


def _peak(directory: Path, rows: int) -> int:
    files = RunFiles(directory, "r")
    files.shards.mkdir(parents=True)
    record: Record = replace(EMPTY, conversations=(Turn("human", "word " * 1_000),))
    with (files.shards / "shard-00001.jsonl").open("wb") as shard:
        for number in range(rows):
            shard.write(encode_record(replace(record, prompt_index=number, row_hash=f"{number:032x}")))
    tracemalloc.start()
    try:
        assert asyncio.run(view_run(files)).rows == rows
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_command_line_takes_a_name_or_a_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = run(tmp_path, ["good", "fail"])
    for call in (
        ["r", "--output-dir", str(tmp_path)],
        [str(files.directory)],
        ["--run-name", "r", "--output-dir", str(tmp_path)],
    ):
        assert main(["view", *call]) == 0
        assert capsys.readouterr().out == f"2 rows (0 pending) in {files.directory / 'view.html'}\n"
    assert main(["view", str(files.directory), "--output", str(tmp_path / "page.html")]) == 0
    assert lines_of((tmp_path / "page.html").read_bytes()) == lines_of(viewed(files))


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ([], "RUN or --run-name, one of them"),
        (["r", "--run-name", "r"], "RUN or --run-name, one of them"),
        (["typo"], "there is no run at"),
        (["empty"], "holds no run"),
        (["r", "--output", "none/page.html"], "there is no directory"),
        (["r", "--output", "."], "no page could be made at"),
    ],
    ids=str,
)
def test_what_can_not_be_shown_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], call: list[str], told: str
) -> None:
    run(tmp_path, ["good"])
    (tmp_path / "empty").mkdir()
    assert main(["view", *call, "--output-dir", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_a_page_that_can_not_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = run(tmp_path, ["good"])
    before = viewed(files)

    def failing(*_: object) -> bytes:
        raise OSError("the disk is full")

    monkeypatch.setattr("hermes_batch.view.page_end", failing)
    with pytest.raises(OSError, match="disk is full"):
        asyncio.run(view_run(files))
    assert (files.directory / "view.html").read_bytes() == before
    assert not [path for path in files.directory.iterdir() if path.suffix == ".tmp"]


def test_the_parts_of_the_page_are_beside_the_package() -> None:
    from hermes_batch import view

    assert {path.name for path in (Path(view.__file__).parent / "page").iterdir()} == set(PAGE_FILES)
