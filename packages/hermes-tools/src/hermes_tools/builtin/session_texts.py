"""Text for the system prompt that stays the same as long as a session lasts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

__all__ = ["SessionTexts"]

MAX_SESSIONS = 64


class SessionTexts:
    """One text for each session, made when the session is first seen. A prompt that changes within a
    conversation would cost the host's prompt cache, so what is found out later waits for the next one."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self.current: str = ""

    async def settle(self, session_id: str, make: Callable[[], Awaitable[str]]) -> None:
        """Make `current` the text of this session."""
        if session_id not in self._texts:
            self._texts[session_id] = await make()
            if len(self._texts) > MAX_SESSIONS:
                del self._texts[next(iter(self._texts))]
        self.current = self._texts[session_id]
