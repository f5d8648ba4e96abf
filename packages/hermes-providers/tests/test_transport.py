from __future__ import annotations

import asyncio
import logging
import ssl

import httpcore
import httpx
import pytest

from hermes_messages import ErrorKind
from hermes_providers import HttpOptions, Timeouts
from hermes_providers.engines.httpx_engine import _provider_error
from hermes_providers.outlast import finish, join
from hermes_providers.timeouts import StreamClock
from wire_help import run


def untrusted() -> httpcore.ConnectError:
    error = httpcore.ConnectError("handshake")
    error.__cause__ = ssl.SSLCertVerificationError("self-signed")
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (httpcore.ConnectTimeout(""), ErrorKind.TIMEOUT),
        (httpcore.ReadTimeout(""), ErrorKind.TIMEOUT),
        (httpcore.ConnectError("refused"), ErrorKind.TRANSPORT),
        (httpcore.ReadError(""), ErrorKind.TRANSPORT),
        (httpcore.RemoteProtocolError("peer closed"), ErrorKind.TRANSPORT),
        (httpcore.ProxyError("407"), ErrorKind.TRANSPORT),
        (httpx.DecodingError("gzip"), ErrorKind.TRANSPORT),
        (httpcore.LocalProtocolError("bad header"), ErrorKind.FORMAT),
        (untrusted(), ErrorKind.AUTH),
    ],
)
def test_transport_errors_are_told_apart_by_what_a_repetition_can_mend(
    error: Exception, kind: ErrorKind
) -> None:
    made = _provider_error(error, "h.example:443")
    assert made.kind is kind
    assert "h.example:443" in str(made)
    assert not str(made).endswith(": ")  # an error without a text is told by its class


def test_password_of_a_proxy_is_not_shown() -> None:
    options = HttpOptions(proxy="http://u:hunter2@proxy.example")
    assert "hunter2" not in repr(options) + repr(dict(options.__rich_repr__()))


def test_clock_of_a_stream() -> None:
    clock = StreamClock(
        Timeouts(first_event_s=10, between_events_s=3, after_finish_s=1, total_s=14), now=100.0
    )
    assert clock.begin_wait(105.0) == 110.0
    clock.event_came()
    assert clock.begin_wait(106.0) == 109.0
    assert clock.begin_wait(108.0) == 109.0  # a comment came: no event
    clock.event_came()
    assert clock.begin_wait(113.0) == 114.0
    assert "total_s" in clock.explanation
    endless = StreamClock(Timeouts(first_event_s=None, between_events_s=None), now=0.0)
    assert endless.begin_wait(0.0) is None


def test_clean_up_runs_to_its_end_however_often_it_is_cancelled() -> None:
    async def main() -> None:
        steps: list[str] = []

        async def clean_up() -> None:
            for number in range(5):
                await asyncio.sleep(0)
                steps.append(str(number))

        task = asyncio.ensure_future(finish(clean_up(), 5))
        for _ in range(4):
            await asyncio.sleep(0)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert steps == ["0", "1", "2", "3", "4"]

    run(main())


def test_error_of_the_clean_up_is_raised() -> None:
    async def broken() -> None:
        raise ValueError("no")

    async def main() -> None:
        await finish(broken(), 5)

    with pytest.raises(ValueError, match="no"):
        run(main())


def test_task_that_ignores_its_cancellation_is_left_behind_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        release = asyncio.Event()

        async def stubborn() -> None:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

        task = asyncio.ensure_future(stubborn())
        await asyncio.sleep(0)
        await join(task, 0.05)
        assert not task.done()
        release.set()
        await task

    with caplog.at_level(logging.WARNING):
        run(main())
    assert "left behind" in caplog.text


def test_the_total_limit_holds_for_an_answer_of_several_requests() -> None:
    clock = StreamClock(Timeouts(first_event_s=60, total_s=10), now=107.0, began=100.0)
    assert clock.begin_wait(107.0) == 110.0
    assert "total_s" in clock.explanation
    assert StreamClock(Timeouts(first_event_s=60, total_s=10), now=107.0).begin_wait(107.0) == 117.0
    assert (
        StreamClock(Timeouts(first_event_s=2, total_s=None), now=107.0, began=1.0).begin_wait(107.0) == 109.0
    )
