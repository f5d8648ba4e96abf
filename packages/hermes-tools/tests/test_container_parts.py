"""What is decided about containers without one: settings, words of commands, and the end in a stream."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_messages import ConfigurationError
from hermes_messages.protocols import ExecutorOptions
from hermes_tools import build_executor
from hermes_tools.containers.script import CommandEnd, CommandStream
from hermes_tools.containers.settings import ContainerSettings, container_name, run_words


def test_settings_that_can_not_be_meant_are_refused(bench: Any) -> None:
    refused: list[dict[str, Any]] = [
        {"image": ""},
        {"image": "--privileged"},
        {"image": "a", "pids": 0},
        {"image": "a", "x": 1},
    ]
    for wrong in refused:
        with pytest.raises(ConfigurationError):
            build_executor(
                ("terminal",), ExecutorOptions(cwd=str(bench.workspace), settings={"container": wrong})
            )


def test_names_and_paths_of_any_kind_become_words_that_are_read_as_they_are_meant() -> None:
    assert container_name("a b/c:d" + "x" * 200, "f") == "hermes-a-b-c-d" + "x" * 73 + "-f"
    settings = ContainerSettings(
        image="i", user="root", cpus=1.5, environment={"A": "b"}, options=("--gpus", "all")
    )
    words = run_words(settings, name="n", cwd='/a,"b', labels={}, we_are=(5, 6))
    assert 'type=bind,"source=/a,""b","target=/a,""b"' in words
    assert "--cap-drop" not in words
    assert words[words.index("--cpus") + 1] == "1.5"
    assert words[-5:-2] == ["--entrypoint", "/bin/sh", "i"]
    rootless = run_words(
        ContainerSettings(image="i", cli="/x/podman"), name="n", cwd="/", labels={}, we_are=(5, 6)
    )
    assert "--userns=keep-id" in rootless


# -- the stream -------------------------------------------------------------------------------------------

MARK = "@hermes-0f"
PIECES = st.lists(
    st.sampled_from([b"@hermes-0", b"@", b"hermes-0f", b"line\n", b"@hermes-0e 1\n", b"\n"]), max_size=8
)


@given(PIECES, PIECES, st.lists(st.integers(0, 30), max_size=20))
def test_however_the_stream_is_cut_the_commands_own_bytes_come_through(
    first: list[bytes], second: list[bytes], cuts: list[int]
) -> None:
    own = b"".join(first) + b"." + b"".join(second)
    said = b"@hermes-0f start 7\n" + b"".join(first) + b".@hermes-0f end 3 1\n" + b"".join(second)
    own = b"".join(first) + b"." + b"".join(second)
    if MARK.encode() in own:
        return
    stream = CommandStream(MARK)
    read = b""
    rest = said
    for cut in cuts:
        read += stream.feed(rest[:cut])
        rest = rest[cut:]
    read += stream.feed(rest) + stream.finish()
    assert (read, stream.pid, stream.end) == (own, 7, CommandEnd(3, left=True))
