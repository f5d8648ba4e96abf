"""A server that takes a statement and never answers: stopped, or stuck, with its machine well.

No setting of the connection notices that, for the machine acknowledges every packet. So each wait for an
answer has a limit. Past it the socket is shut down here, and the driver meets a connection that is lost: that
path is there anyway, while a cancelled query would wait for the server to acknowledge the cancellation.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import AsyncConnection

from hermes_store.backend import Row

__all__ = ["NoAnswerError", "answered_within"]


class NoAnswerError(psycopg.OperationalError):
    """The server gave no answer in time; the connection is closed. Never leaves the back end."""


@contextmanager
def answered_within(connection: AsyncConnection[Row], limit_s: float) -> Iterator[None]:
    """A block that waits for an answer on `connection`, at most `limit_s` seconds. Raises `NoAnswerError`."""
    given_up: list[bool] = []

    def give_up() -> None:
        given_up.append(True)
        if not connection.closed:
            with socket.socket(fileno=os.dup(connection.pgconn.socket)) as ours:
                ours.shutdown(socket.SHUT_RDWR)

    timer = asyncio.get_running_loop().call_later(limit_s, give_up)
    try:
        yield
    except psycopg.Error as error:
        if given_up:
            raise NoAnswerError(f"the server gave no answer within {limit_s:g} s") from error
        raise
    finally:
        timer.cancel()
