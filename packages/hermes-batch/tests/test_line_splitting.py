"""Lines are the same wherever the chunks are cut, and long ones never stay in memory."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from hermes_batch.line_splitting import BoundedLineSplitter, LineSplitter, LongLine

LONGEST = 8


def known_as(line: bytes) -> bytes | LongLine:
    return line if len(line) <= LONGEST else LongLine(len(line), hashlib.sha256(line).hexdigest())


@given(st.lists(st.binary(max_size=LONGEST) | st.sampled_from([b"\n", b"a\n", b"\n\n", b"\n" + b"x" * 7])))
def test_long_lines_are_known_by_length_and_content_and_the_others_are_whole(chunks: list[bytes]) -> None:
    *lines, last = b"".join(chunks).split(b"\n")
    plain, bounded = LineSplitter(), BoundedLineSplitter(LONGEST)
    assert [line for chunk in chunks for line in plain.feed(chunk)] == lines
    assert plain.rest() == last
    assert [line for chunk in chunks for line in bounded.feed(chunk)] == [known_as(line) for line in lines]
    assert bounded.rest() == known_as(last)
