"""The page of a run in a real browser: headless Chromium, driven over its DevTools protocol.

With HERMES_SCREENSHOTS set to a directory, what the page looks like is kept there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Page, running_browser
from msgspec.structs import replace

from hermes_batch.records import Record, RecordStatus, ToolStats, Turn, encode_record
from hermes_batch.run_files import RunFiles
from hermes_batch.view import view_run
from hermes_messages import AssistantMessage, Message, ToolCall, ToolMessage, ToolSpec, UserMessage
from hermes_messages.trajectory import to_trajectory

READY = "document.documentElement.dataset.ready === 'yes'"
ROWS = 10_000
HOSTILE_ROW = 7
LONG_ROW = 8
HOSTILE_MARKUP = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
HOSTILE = f"{HOSTILE_MARKUP} a\u2028b\x1b[2J \u202ecba"
TOOL = ToolSpec.from_schema("read_file", "Read a file.", {"type": "object", "properties": {}})


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """One browser for all tests."""
    with running_browser(tmp_path_factory.mktemp("chromium"), READY) as page:
        yield page


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run of 10,000 rows."""
    return page_of(tmp_path_factory.mktemp("large"), ROWS)


@pytest.fixture
def page(browser: Page, large: Path) -> Iterator[Page]:
    """The page of the large run, just opened; nothing went wrong in it when the test has ended."""
    browser.complaints.clear()
    browser.requests.clear()
    browser.look()
    browser.open(large)
    yield browser
    browser.look()
    assert browser.complaints == []
    assert set(browser.requests) <= {large.as_uri(), "about:blank"}


def page_of(directory: Path, rows: int) -> Path:
    files = RunFiles(directory, "many")
    files.shards.mkdir(parents=True)
    with (files.shards / "shard-00001.jsonl").open("wb") as shard:
        for index in range(rows):
            shard.write(encode_record(record_at(index)))
    return asyncio.run(view_run(files)).target


def record_at(index: int) -> Record:
    """Of ten rows one failed at once, one had no reasoning, one has a failed call."""
    kind = index % 10
    status: RecordStatus = {1: "error", 2: "discarded"}.get(kind, "ok")  # type: ignore[assignment]
    failed = kind == 3
    said: list[Message] = []
    if kind != 1:
        said = conversation_at(index, failed=failed, reasoning=kind != 2)
    return Record(
        prompt_index=index, id=f"task-{index}", row_hash=f"{index:032x}", status=status,
        reason={1: "row_timeout", 2: "no_reasoning"}.get(kind, "text_response"),
        error="the row took too long\nmore of it" if kind == 1 else "",
        conversations=tuple(Turn(step["from"], step["value"]) for step in to_trajectory(said, [TOOL])),
        completed=kind > 1, partial=False, run_again=False, api_calls=2, toolsets_used=("file",),
        tool_stats={"read_file": ToolStats(1, 1 - failed, int(failed)), "never": ToolStats()} if said else {},
        tool_error_counts={}, model="model-1", provider="host", session_id="s",
        input_tokens=100 + index % 900, output_tokens=20 + index % 50, usage_known=kind != 1,
        cost_usd=0.001, cost_known=kind != 1, duration_s=1 + index % 40 / 7, finished_at="", metadata="{}",
    )  # fmt: skip


def conversation_at(index: int, *, failed: bool, reasoning: bool) -> list[Message]:
    hostile = index == HOSTILE_ROW
    result = "Error: no such file" if failed else HOSTILE if hostile else f"line of the file {index} " * 20
    call = ToolCall("call_1", "read_file", json.dumps({"path": f"notes/{index}.txt"}))
    thought = f"I should read the file first. {HOSTILE if hostile else ''}" if reasoning else None
    answer = f"The answer is unicorn{index}." if index % 5_000 == 4_999 else f"The answer is {index}."
    said: list[Message] = [
        UserMessage(HOSTILE if hostile else f"What stands in file {index}?"),
        AssistantMessage("Let me see.", tool_calls=(call,), reasoning=thought),
        ToolMessage("call_1", result, name="read_file"),
        AssistantMessage(HOSTILE if hostile else answer, reasoning=thought),
    ]
    if index == LONG_ROW:
        said += [UserMessage("more"), AssistantMessage("long " * 20_000, reasoning="r")] * 200
    return said


SHOWN_ROWS = "document.querySelectorAll('[role=option]').length"
READING = "!document.getElementById('detail').hidden"
COUNT = "document.getElementById('count').textContent"


def test_ten_thousand_rows_are_never_in_one_document(page: Page) -> None:
    assert page.value(COUNT) == "10,000 rows"
    assert page.value(SHOWN_ROWS) < 60
    assert page.value("document.querySelectorAll('*').length") < 2_000
    page.press("G")
    page.wait("document.getElementById('row-9999')")
    assert (
        page.value("document.querySelector('[aria-selected=true]').getAttribute('aria-posinset')") == "10000"
    )
    assert page.value(SHOWN_ROWS) < 60
    page.wait(READING)
    assert page.text("#detail h2").startswith("Row 9999")
    page.value("document.getElementById('list').scrollTop = 380000")
    page.wait("document.getElementById('row-5003')")
    assert page.value(SHOWN_ROWS) < 60


def test_the_overview_adds_up(page: Page) -> None:
    figures = page.text("#figures").split("\n")
    assert figures[figures.index("Rows") + 1] == "10,000"
    assert figures[figures.index("Good") + 1] == "80.0 %"
    assert figures[figures.index("With reasoning") + 1] == "80.0 %"
    plots = page.text("#plots")
    for told in ("ok 8,000", "discarded 1,000", "error 1,000", "row_timeout", "9K · 1K failed", "median"):
        assert told in plots
    titles = "[...document.querySelectorAll('figcaption')].map((node) => node.textContent)"
    assert page.value(titles) == [
        "Outcomes", "Tool calls", "Reasoning", "Time of a row", "Tokens of a row", "Model calls of a row",
    ]  # fmt: skip
    bars = "[...document.querySelectorAll('.plot-time-of-a-row g title')].map((node) => node.textContent)"
    assert sum(int(bar.split(": ")[1].split()[0].replace(",", "")) for bar in page.value(bars)) == ROWS
    assert page.value("document.querySelectorAll('#plots svg[role=img][aria-label]').length") == 6
    frames = "[...document.querySelectorAll('#plots figure')].map((node) => getComputedStyle(node).padding)"
    assert len(set(page.value(frames))) == 1


def test_search_finds_what_was_said_anywhere(page: Page) -> None:
    page.press("/", *"unicorn4999")
    page.wait(f"{COUNT} === '1 of 10,000 rows'")
    assert "What stands in file 4999?" in page.text("#row-0")
    page.press("Enter")
    page.wait(READING)
    assert page.text("#detail mark") == "unicorn4999"
    page.press("/", *'"the row took" task-21')
    page.wait(f"{COUNT} === '12 of 10,000 rows'")  # 21, 211, and 2101 to 2191 by tens
    page.value("document.getElementById('clear').click()")
    page.wait(f"{COUNT} === '10,000 rows'")


@pytest.mark.parametrize(
    ("control", "value", "left", "not_good"),
    [
        ("tool", "read_file", 9_000, 1_000),
        ("reason", "row_timeout", 1_000, 1_000),
        ("reasoning", "with", 8_000, 0),
        ("reasoning", "without", 1_000, 1_000),
        ("reasoning", "unanswered", 1_000, 1_000),
    ],
)
def test_filters_leave_the_rows_that_fit(
    page: Page, control: str, value: str, left: int, not_good: int
) -> None:
    page.choose(control, value)
    page.wait(f"{COUNT} === '{left:,} of 10,000 rows'")
    assert f"{left:,} rows of 10,000" in page.text("#scope")
    page.value("document.querySelector('[data-status=ok]').click()")
    page.wait(f"{COUNT} === '{not_good:,} of 10,000 rows'")
    assert page.value("document.querySelectorAll('#rows .badge.ok').length") == 0


def test_a_line_of_a_plot_is_a_filter(page: Page) -> None:
    page.value(
        "[...document.querySelectorAll('.barline')].find((one) => /row_timeout/.test(one.innerText)).click()"
    )
    page.wait(f"{COUNT} === '1,000 of 10,000 rows'")
    assert page.value("document.getElementById('reason').value") == "row_timeout"


def test_the_order_can_be_chosen(page: Page) -> None:
    page.choose("order", "slow")
    page.wait("document.querySelector('#row-0 .place').innerText === '#39'")


def test_calls_results_reasoning_and_errors_are_told_apart(page: Page) -> None:
    page.press("j", "j", "j", "j")
    page.wait(f"{READING} && document.querySelector('#detail h2').innerText.startsWith('Row 3')")
    kinds = (
        "[...document.querySelectorAll('#detail .step')].map((node) => node.className.replace('step ', ''))"
    )
    assert page.value(kinds) == ["system", "user", "assistant", "call", "result failed", "assistant"]
    assert "notes/3.txt" in page.text("#detail .call")
    assert page.value("document.querySelectorAll('#detail details.reasoning[open]').length") == 0
    page.press("r")
    assert page.value("document.querySelectorAll('#detail details.reasoning[open]').length") == 2
    page.press("k", "k")
    page.wait("document.querySelector('#detail h2').innerText.startsWith('Row 1')")
    assert "the row took too long" in page.text("#detail .trouble.error")
    assert "Nothing was said in this row." in page.text("#detail")


def test_keys_lead_in_and_out(page: Page) -> None:
    page.press("?")
    assert page.value("document.getElementById('help').open")
    page.press("Escape")
    assert not page.value("document.getElementById('help').open")
    page.press("j", "j", "k")
    page.wait("document.getElementById('list').getAttribute('aria-activedescendant') === 'row-0'")
    page.press("Enter")
    page.wait("document.activeElement.innerText.startsWith('Row 0')")
    page.press("j")
    page.wait("document.activeElement.innerText.startsWith('Row 1')")
    page.press("Escape")
    assert page.value("document.activeElement.id") == "list"
    assert page.value(READING)
    page.press("Escape")
    assert not page.value(READING)
    page.press("/", "j")
    assert page.value("document.getElementById('query').value") == "j"
    page.press("Escape")
    assert page.value("document.activeElement.id") == "list"


def test_nothing_that_was_said_runs_or_hides(page: Page, large: Path) -> None:
    page.open(large, f"#row={HOSTILE_ROW}")
    page.wait(READING)
    page.press("r")
    assert page.value("window.hacked") is None
    assert page.value("document.querySelectorAll('#detail img, #detail script, #rows img').length") == 0
    shown = page.text("#detail")
    assert shown.count("</script><script>window.hacked = 1</script><img") == 5
    assert "a⟨U+2028⟩b⟨U+001B⟩[2J ⟨U+202E⟩cba" in shown
    # Even markup that gets in would not run: the page's policy knows its own program only.
    page.value("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hacked = 1\">')")
    page.wait("document.querySelector('body > img')")
    for _ in range(100):
        if page.complaints:
            break
        page.wait("true")
    assert page.value("window.hacked") is None
    assert all("Content Security Policy" in complaint for complaint in page.complaints)
    assert page.complaints
    page.complaints.clear()
    page.requests.clear()


def test_a_long_row_is_shown_in_parts(page: Page, large: Path) -> None:
    page.open(large, f"#row={LONG_ROW}")
    page.wait(READING)
    assert page.value("document.querySelectorAll('#detail .step').length") < 200
    assert page.value("document.getElementById('detail').textContent.length") < 1_000_000
    page.value("document.querySelector('#detail .prose + .more').click()")
    assert (
        page.value(
            "Math.max(...[...document.querySelectorAll('.prose')].map((node) => node.textContent.length))"
        )
        == 100_000
    )
    page.value("document.querySelector('#detail .steps > .more').click()")
    assert page.value("document.querySelectorAll('#detail .step').length") > 200


BACKGROUND = "getComputedStyle(document.body).backgroundColor"


def test_colours_follow_the_system_and_the_switch(page: Page) -> None:
    light = page.value(BACKGROUND)
    page.look(dark=True)
    dark = page.value(BACKGROUND)
    assert light != dark
    page.value("document.getElementById('theme').click()")
    assert page.value(BACKGROUND) == light
    page.value("document.getElementById('theme').click()")
    page.look(dark=False)
    assert page.value(BACKGROUND) == dark
    page.value("document.getElementById('theme').click()")
    assert page.value(BACKGROUND) == light


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("Error: there is no tool 'x'.", True),
        ("Denied, and not run: no", True),
        ("Timed out after 5 s.\n\nso far", True),
        ("some lines\n[exit code 137, SIGKILL]", True),
        ('{"exit_code": 1, "output": ""}', True),
        ('{"success": false}', True),
        ('{"error": null, "output": "the error was found"}', False),
        ("[no output, exit code 0]", False),
        ("The error stands in line 3.", False),
    ],
)
def test_the_text_of_a_result_tells_whether_the_call_failed(
    browser: Page, tmp_path: Path, text: str, failed: bool
) -> None:
    said: list[Message] = [
        UserMessage("a"),
        AssistantMessage(tool_calls=(ToolCall("c", "t", "{}"),)),
        ToolMessage("c", text),
    ]
    turns = tuple(Turn(step["from"], step["value"]) for step in to_trajectory(said))
    files = RunFiles(tmp_path, "one")
    files.directory.mkdir()
    files.trajectories.write_bytes(encode_record(replace(record_at(0), conversations=turns)))
    browser.look()
    browser.open(asyncio.run(view_run(files)).target, "#row=0")
    browser.wait(READING)
    assert browser.value("document.querySelectorAll('#detail .result.failed').length") == int(failed)


CONTRASTS = """
(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (colour) => rgba(colour).slice(0, 3).map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (rgba(colour)[3] === 255) return colour;
    }
    return "white";
  };
  const low = [];
  for (const node of document.querySelectorAll("body *")) {
    const said = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!said || !node.checkVisibility() || node.closest("script")) continue;
    const style = getComputedStyle(node);
    const front = light(node instanceof SVGElement ? style.fill : style.color);
    const back = light(behind(node));
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    const told = `${node.tagName}.${node.className} ${ratio.toFixed(2)} ${node.textContent.slice(0, 30)}`;
    if (ratio < 4.5) low.push(told);
  }
  return low;
})()
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_stands_out_from_what_is_behind_it(page: Page, large: Path, dark: bool) -> None:
    page.look(dark=dark, still=True)
    page.open(large)
    assert page.value(CONTRASTS) == []
    page.screenshot(f"overview-{'dark' if dark else 'light'}")
    for row in (1, 2, 3):
        page.open(large, f"#row={row}")
        page.wait(READING)
        page.press("r")
        assert page.value(CONTRASTS) == []
        page.screenshot(f"row-{row}-{'dark' if dark else 'light'}")


def test_who_wants_no_motion_gets_none(page: Page) -> None:
    page.look(still=True)
    durations = "[...document.querySelectorAll('*')].map((node) => getComputedStyle(node).transitionDuration)"
    assert set(page.value(durations)) == {"0s"}
    page.look()
    assert set(page.value(durations)) > {"0s"}


def test_everything_that_can_be_pressed_has_a_name(page: Page) -> None:
    tree = page.send("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "listbox", "option", "searchbox", "combobox", "image", "dialog"}
    found = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in tree
        if not node["ignored"] and node["role"]["value"] in roles
    ]
    assert {role for role, _ in found} >= {"button", "listbox", "option", "searchbox", "combobox", "image"}
    assert [role for role, name in found if not name.strip()] == []


def test_a_narrow_window_shows_one_thing_at_a_time(page: Page, large: Path) -> None:
    page.look(width=390, height=800)
    page.open(large)
    parts = "[document.documentElement, document.getElementById('main')]"
    too_wide = f"{parts}.some((part) => part.scrollWidth > innerWidth)"
    assert not page.value("document.getElementById('list').checkVisibility()")
    assert not page.value(too_wide)
    page.screenshot("narrow-overview")
    page.value("document.getElementById('to-rows').click()")
    assert page.value("document.getElementById('list').checkVisibility()")
    page.screenshot("narrow-rows")
    page.press("j", "Enter")
    page.wait(f"{READING} && document.activeElement.tagName === 'H2'")
    assert not page.value(too_wide)
    page.screenshot("narrow-row")
    page.press("Escape")
    assert page.value("document.getElementById('list').checkVisibility()")


def test_an_empty_run_is_a_page_too(browser: Page, tmp_path: Path) -> None:
    files = RunFiles(tmp_path, "empty")
    files.shards.mkdir(parents=True)
    (files.shards / "shard-00001.jsonl").write_bytes(b"")
    browser.complaints.clear()
    browser.look()
    browser.open(asyncio.run(view_run(files)).target)
    assert browser.value(COUNT) == "0 rows"
    browser.press("j", "G", "Enter", "/", *"word")
    browser.wait(f"{COUNT} === '0 of 0 rows'")
    assert browser.complaints == []


@pytest.mark.parametrize("width", [1500, 1200, 800, 390])
def test_figures_fill_their_lines_and_no_name_of_a_mark_lies_on_a_bar(
    page: Page, large: Path, width: int
) -> None:
    page.look(width=width, height=1_000)
    page.open(large)
    page.wait("document.querySelectorAll('#figures div').length === 7")
    free = page.value(
        """(() => {
          const box = document.getElementById('figures').getBoundingClientRect();
          const ends = new Map();
          for (const tile of document.querySelectorAll('#figures div')) {
            const place = tile.getBoundingClientRect();
            ends.set(Math.round(place.top), Math.max(ends.get(Math.round(place.top)) ?? 0, place.right));
          }
          return Math.max(...[...ends.values()].map((end) => box.right - end));
        })()"""
    )
    assert free < 3, "a line of figures ends before its frame"
    covered = page.value(
        """[...document.querySelectorAll('#plots svg')].flatMap((svg) => {
          const bars = [...svg.querySelectorAll('rect:not(.hit)')].map((bar) => bar.getBoundingClientRect());
          return [...svg.querySelectorAll('.marklabel')].filter((name) => {
            const place = name.getBoundingClientRect();
            return bars.some((bar) => bar.height && bar.left < place.right && place.left < bar.right
              && bar.top < place.bottom && place.top < bar.bottom);
          }).map((name) => name.textContent);
        })"""
    )
    assert covered == []
    outside = page.value(
        """[...document.querySelectorAll('#plots .marklabel')].filter((name) => {
          const [place, card] = [name, name.closest('figure')].map((part) => part.getBoundingClientRect());
          return place.left < card.left || place.right > card.right;
        }).length"""
    )
    assert outside == 0
    page.screenshot(f"overview-{width}")
