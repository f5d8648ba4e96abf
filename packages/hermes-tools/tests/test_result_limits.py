"""What becomes of results that are too large, or hold what must not be shown."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from hermes_messages.testing import ToolDouble
from hermes_tools import (
    tool,
)


def private_text(path: str) -> str | None:
    """The text of a file that nobody else may read, or None when it is gone."""
    file = Path(path)
    if not file.exists():
        return None
    assert (file.stat().st_mode | file.parent.stat().st_mode) & 0o077 == 0
    return file.read_text()


def test_a_result_too_large_is_cut_and_the_rest_can_be_read_from_a_file(bench: Any, run_async: Any) -> None:
    text = "\n".join(f"line {number}" for number in range(200_000))

    @tool(description="D.", scheduling="parallel")
    async def floods() -> str:
        return text

    async def main() -> None:
        executor = bench.executor("file", tools=(floods,), settings={"result_limit": 2_000})
        [result] = (await bench.outcome(executor, bench.call("floods"))).results
        assert len(result.content) < 2_300
        assert result.content.startswith("line 0\n")
        assert result.content.endswith("line 199999")
        path = result.content.split("all of it is in ")[1].split(" ...]")[0]
        page = {"path": path, "offset": 100_001, "limit": 2}
        [read] = (await bench.outcome(executor, bench.call("read_file", page))).results
        assert read.content.startswith("line 100000\nline 100001\n[lines 100001 to 100002")
        [write] = (
            await bench.outcome(executor, bench.call("write_file", {"path": path, "content": "x"}))
        ).results
        assert write.status == "error"
        assert private_text(path) == text
        await executor.release("task")
        assert private_text(path) is None
        await executor.release("task")
        await executor.close()

    run_async(main())


def test_a_single_line_of_ten_megabytes_is_cut_and_can_still_be_read(bench: Any, run_async: Any) -> None:
    text = base64.b64encode(b"0123456789" * 750_000).decode()

    @tool(description="D.", scheduling="parallel")
    async def encodes() -> str:
        return text

    async def main() -> None:
        executor = bench.executor("file", tools=(encodes,))
        [result] = (await bench.outcome(executor, bench.call("encodes"))).results
        assert len(result.content) < 30_300
        assert result.content.startswith(text[:1_000])
        assert result.content.endswith(text[-1_000:])
        path = result.content.split("all of it is in ")[1].split(" ...]")[0]
        assert private_text(path) == text
        [read] = (await bench.outcome(executor, bench.call("read_file", {"path": path}))).results
        assert read.status == "ok"
        assert text[:1_000] in read.content
        await executor.close()

    run_async(main())


def test_the_results_of_a_round_share_its_limit_and_none_is_left_empty(bench: Any) -> None:
    @tool(description="D.", scheduling="parallel")
    async def floods(n: int) -> str:
        return "x" * n

    sizes = [100, 50_000, 50_000, 10, 50_000]
    results = bench.run(
        *(bench.call("floods", {"n": n}) for n in sizes), tools=(floods,), settings={"round_limit": 9_000}
    )
    lengths = [len(result.content) for result in results]
    assert lengths[0] == 100
    assert lengths[3] == 10
    assert sum(lengths) < 9_000 + 3 * 200
    assert min(lengths[1], lengths[2], lengths[4]) > 2_000
    many = bench.run(
        *(bench.call("floods", {"n": 5_000}) for _ in range(30)),
        tools=(floods,),
        settings={"round_limit": 300},
    )
    assert min(len(result.content) for result in many) >= 400


def test_invisible_text_in_tool_output_is_stripped_and_flags_stay(bench: Any) -> None:
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")
    flag = "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"
    double = ToolDouble("page", [f"a{hidden}b {flag} \0"])
    [result] = bench.run(bench.call("page"), tools=(double,))
    assert result.content == f"ab {flag} \u2400"


def test_credentials_of_the_environment_are_hidden_in_results(bench: Any) -> None:
    double = ToolDouble("page", ["key=sk-12345678 url=postgres://u:hunter2hunter2@h/db short"])
    [result] = bench.run(
        bench.call("page"),
        tools=(double,),
        environment={"X_API_KEY": "sk-12345678", "DB": "postgres://u:hunter2hunter2@h/db", "A_KEY": "short"},
    )
    assert result.content == "key=[hidden] url=postgres://u:[hidden]@h/db short"
