"""Where the key of a request comes from: a fixed one, a function, or several that take turns."""

from __future__ import annotations

import asyncio
import inspect
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, runtime_checkable

from hermes_messages import ConfigurationError, ErrorKind, ProviderError
from hermes_messages.abilities import supports
from hermes_providers.credentials import Secret, check_key
from hermes_providers.rotation import AllResting, Rotation

__all__ = ["FixedKey", "KeyFunction", "KeyInput", "KeyPool", "KeySource", "key_source"]

KeyCallable = Callable[[], str] | Callable[[], Awaitable[str]]
"""Returns the key, or can be awaited for it."""

_REMEMBERED = 8


@runtime_checkable
class KeySource(Protocol):
    """Gives each request its key. Nothing that it holds may be in its repr."""

    async def get(self) -> Secret | None:
        """The key for the next request; None sends none. Raises `ProviderError` when there is none to use."""
        ...

    def report(self, key: Secret | None, error: ProviderError) -> bool:
        """Told of a request that failed; whether another key could be used at once."""
        ...

    async def renew(self, refused: Secret | None) -> Secret | None:
        """Another key than `refused`, which the host refused; None when there is none. Raises as `get`."""
        ...

    def secrets(self) -> tuple[str, ...]:
        """Every key that may have been sent: what must never be shown."""
        ...


KeyInput = str | KeyCallable | Sequence[str] | KeySource
"""What a user may give as a key."""


def key_source(given: KeyInput) -> KeySource:
    """The source that `given` is: a key, a function that returns one or can be awaited for one, several keys,
    or a source itself. Raises `ConfigurationError` for a key that no header can carry."""
    if isinstance(given, str):
        return FixedKey(check_key(given, source="key"))
    if supports(given, KeySource):
        return given
    if callable(given):
        return KeyFunction(given)
    several: object = given
    if not isinstance(several, list | tuple):
        raise ConfigurationError(
            f"a key is a str, a function, several in a list, or a KeySource, not {type(given).__name__}; "
            "nothing was sent"
        )
    return KeyPool(given)


class FixedKey:
    """One key, or none."""

    def __init__(self, key: Secret | None) -> None:
        self._key = key

    def __repr__(self) -> str:
        return "FixedKey(none)" if self._key is None else "FixedKey(***)"

    async def get(self) -> Secret | None:
        """The key."""
        return self._key

    def report(self, key: Secret | None, error: ProviderError) -> bool:  # noqa: ARG002 - part of the Protocol
        """There is no other key."""
        return False

    async def renew(self, refused: Secret | None) -> Secret | None:  # noqa: ARG002 - the Protocol
        """There is no other key."""
        return None

    def secrets(self) -> tuple[str, ...]:
        """The key."""
        return () if self._key is None else (self._key.reveal(),)


class KeyFunction:
    """A key from a function, plain or to be awaited.

    It is called for every request, unless its last key is younger than `keep_s` seconds; and once more in the
    call whose key the host refused. A plain function is called on the event loop, so it must not block.
    """

    def __init__(self, function: KeyCallable, *, keep_s: float = 0.0) -> None:
        self._function = function
        self._keep_s = keep_s
        self._key: Secret | None = None
        self._got_at = 0.0
        self._seen: deque[str] = deque(maxlen=_REMEMBERED)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._calling = asyncio.Lock()

    def __repr__(self) -> str:
        return f"KeyFunction(keep_s={self._keep_s})"

    async def get(self) -> Secret | None:
        """The kept key while it is young enough, else a new one."""
        if not self._keep_s:
            return await self._call()
        async with self._lock():
            if self._key is None or time.monotonic() - self._got_at >= self._keep_s:
                await self._call()
            return self._key

    def report(self, key: Secret | None, error: ProviderError) -> bool:  # noqa: ARG002 - part of the Protocol
        """What to do about a refused key, `renew` says."""
        return False

    async def renew(self, refused: Secret | None) -> Secret | None:
        """The function's next key, or the one that another request got since."""
        async with self._lock():
            key = self._key
            if key is None or refused is None or key.reveal() == refused.reveal():
                key = await self._call()
            return None if refused is not None and key.reveal() == refused.reveal() else key

    def secrets(self) -> tuple[str, ...]:
        """The last keys that the function gave."""
        return tuple(self._seen)

    def _lock(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._calling = loop, asyncio.Lock()
        return self._calling

    async def _call(self) -> Secret:
        try:
            given = self._function()
            value = await given if inspect.isawaitable(given) else given
        except Exception as error:  # noqa: BLE001 - the host's code
            # Its text may hold what it was about to return, so only its class and place are told.
            [*_, last] = traceback.extract_tb(error.__traceback__)
            raised = f"{type(error).__name__} ({last.filename}:{last.lineno} in {last.name})"
            raise _no_key(f"the function for the API key failed with {raised}") from None
        if not isinstance(value, str):
            raise _no_key(f"the function for the API key gave {type(value).__name__} instead of str")
        try:
            key = check_key(value, source="the key function")
        except ConfigurationError as error:
            raise _no_key(str(error)) from None
        self._key, self._got_at = key, time.monotonic()
        if key.reveal() not in self._seen:
            self._seen.append(key.reveal())
        return key


class KeyPool:
    """Several keys of one host in turn. A key that was limited, refused or out of credit rests.

    While all rest, a request fails without being sent; the error says when the first is ready.
    """

    def __init__(self, keys: Sequence[str], *, clock: Callable[[], float] = time.monotonic) -> None:
        if not keys:
            raise ConfigurationError("a pool of keys needs at least one key")
        self._keys = [
            check_key(key, source=f"keys[{place}]") for place, key in enumerate(dict.fromkeys(keys))
        ]
        self._rotation = Rotation(len(self._keys))
        self._clock = clock

    def __repr__(self) -> str:
        return f"KeyPool({len(self._keys)} keys)"

    async def get(self) -> Secret | None:
        """The next key that does not rest."""
        now = self._clock()
        match self._rotation.pick(now):
            case AllResting(ready_at=ready_at, kind=kind):
                raise ProviderError(
                    f"all {len(self._keys)} keys rest because of {kind}; nothing was sent",
                    kind=kind,
                    retry_after_s=max(0.0, ready_at - now),
                )
            case place:
                return self._keys[place]

    def report(self, key: Secret | None, error: ProviderError) -> bool:
        """Let the key rest when the failure was its own."""
        if key is None or key not in self._keys:
            return False
        now = self._clock()
        rests = self._rotation.rest(self._keys.index(key), error.kind, error.retry_after_s, now)
        return rests and self._rotation.any_ready(now)

    async def renew(self, refused: Secret | None) -> Secret | None:  # noqa: ARG002 - rests by now
        """The next key that does not rest."""
        return await self.get() if self._rotation.any_ready(self._clock()) else None

    def secrets(self) -> tuple[str, ...]:
        """All keys."""
        return tuple(key.reveal() for key in self._keys)


def _no_key(what: str) -> ProviderError:
    return ProviderError(f"{what}; nothing was sent", kind=ErrorKind.AUTH)
