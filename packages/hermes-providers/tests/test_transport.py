from __future__ import annotations

import ssl

import httpcore
import httpx
import pytest

from hermes_messages import ErrorKind
from hermes_providers import HttpOptions, Timeouts
from hermes_providers.engines.httpx_engine import _provider_error
from hermes_providers.timeouts import StreamClock


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


def test_the_total_limit_holds_for_an_answer_of_several_requests() -> None:
    clock = StreamClock(Timeouts(first_event_s=60, total_s=10), now=107.0, began=100.0)
    assert clock.begin_wait(107.0) == 110.0
    assert "total_s" in clock.explanation
    assert StreamClock(Timeouts(first_event_s=60, total_s=10), now=107.0).begin_wait(107.0) == 117.0
    assert (
        StreamClock(Timeouts(first_event_s=2, total_s=None), now=107.0, began=1.0).begin_wait(107.0) == 109.0
    )
