from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_providers import ServerSentEvent, SSEParser
from hermes_providers.streaming.sse import EventTooLargeError
from wire_help import cut


def read(*chunks: bytes) -> list[ServerSentEvent]:
    parser = SSEParser()
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    return events + parser.close()


def data(*chunks: bytes) -> list[bytes]:
    return [event.data for event in read(*chunks)]


def test_keep_alive_comment_and_blank_line_dispatch_nothing() -> None:
    assert data(b"id: 1\ndata: {}\n\n: ping\n\n\n\n:\n\n") == [b"{}"]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_end_is_one(end: bytes) -> None:
    assert data(b"data: a" + end + end + b"data: b" + end + end) == [b"a", b"b"]


def test_cut_between_cr_and_lf() -> None:
    assert data(b'data:{"a":1}\r', b"\n\r", b"\ndata: 2\r\n\r\n") == [b'{"a":1}', b"2"]


def test_lone_cr_dispatches_without_waiting_for_more() -> None:
    parser = SSEParser()
    assert [event.data for event in parser.feed(b"data: a\r\r")] == [b"a"]
    assert parser.feed(b"\n") == []
    assert [event.data for event in parser.feed(b"data: b\r\r")] == [b"b"]


def test_character_cut_in_the_middle() -> None:
    line = "data: 大别山\n\n".encode()
    for place in range(len(line)):
        assert data(line[:place], line[place:]) == ["大别山".encode()]


def test_several_data_lines_are_joined_by_lf() -> None:
    assert data(b"data: {\ndata: }\n\n") == [b"{\n}"]


def test_one_optional_space() -> None:
    assert data(b"data:x\n\n", b"data:  x\n\n") == [b"x", b" x"]


def test_leading_byte_order_mark_also_cut() -> None:
    assert data(b"\xef\xbb\xbfdata: a\n\n") == [b"a"]
    assert data(b"\xef", b"\xbb", b"\xbfdata: a\n\n") == [b"a"]


def test_unicode_line_separators_inside_json_stay() -> None:
    text = '{"t":"a\u2028b\u2029c\u0085d\x0b\x0c\x1c"}'.encode()
    assert data(b"data: " + text + b"\n\n") == [text]


def test_several_events_in_one_chunk() -> None:
    assert data(b"data: 1\n\ndata: 2\n\nevent: error\ndata: 3\n\n") == [b"1", b"2", b"3"]


def test_event_name_belongs_to_one_event() -> None:
    assert [event.name for event in read(b"event: error\ndata: 1\n\ndata: 2\n\n")] == ["error", ""]
    assert [event.name for event in read(b"event: x\n\ndata: 2\n\n")] == [""]


@pytest.mark.parametrize("tail", [b"data: last", b"data: last\n", b"data: last\r"])
def test_end_without_blank_line_keeps_the_last_event(tail: bytes) -> None:
    assert read(b"data: 1\n\n" + tail)[-1] == ServerSentEvent(b"last", terminated=False)


def test_lines_that_are_no_field_are_remembered_and_bounded() -> None:
    parser = SSEParser()
    parser.feed(b"upstream connect error\nretry: 5\nid: 1\n")
    assert parser.stray == b"upstream connect error\n"
    for _ in range(10):
        parser.feed(b"x" * 1000 + b"\n")
    assert len(parser.stray) <= 4100


def test_event_size_is_bounded() -> None:
    with pytest.raises(EventTooLargeError):
        SSEParser(max_event_bytes=100).feed(b"data: " + b"x" * 200)
    parser = SSEParser(max_event_bytes=100)
    with pytest.raises(EventTooLargeError):
        parser.feed(b"data: xxxx\n" * 50)
    parser = SSEParser(max_event_bytes=100)
    for _ in range(50):  # many small events are no large one
        assert parser.feed(b"data: 0123456789\n\n")


STREAMS = st.lists(
    st.sampled_from(
        [
            b"data: a",
            b"data: b\n\n",
            b"data:",
            b"data",
            b":c",
            b"event: e",
            b"id: 1",
            b"\xef\xbb\xbf",
            b"stray",
            b"\n",
            b"\r",
            b"\r\n",
            b"\n\n",
            "data: 汉\u2028".encode(),
        ]
    ),
    max_size=30,
).map(b"".join)


@given(STREAMS, st.lists(st.integers(min_value=0), max_size=20))
def test_any_cutting_gives_the_same_events(stream: bytes, places: list[int]) -> None:
    whole = read(stream)
    assert read(*cut(stream, places)) == whole
    assert read(*[stream[i : i + 1] for i in range(len(stream))]) == whole


def test_an_event_of_empty_lines_is_bounded_as_well() -> None:
    parser = SSEParser(max_event_bytes=1000)
    for _ in range(1000):
        parser.feed(b"data\n")
    with pytest.raises(EventTooLargeError):
        parser.feed(b"data\n")
    parser = SSEParser(max_event_bytes=1000)
    for _ in range(2000):
        assert parser.feed(b"data: x\n\n") == [ServerSentEvent(b"x")]


def test_an_event_of_many_lines_costs_no_more_for_each_line() -> None:
    parser = SSEParser()
    for _ in range(200_000):  # it was half a minute for a tenth of them, and with the square of their number
        parser.feed(b"data: x\n" * 4)
    assert parser.feed(b"\n")[0].data.count(b"\n") == 799_999
