"""What a wire must know of a whole log to encode one segment or to choose a parameter.

Each message is looked at once for each log, however often the log is sent.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from hermes_messages import AssistantMessage, History, MessageFormatError, MessageLog, ToolSpec

__all__ = ["LogFacts", "facts_of", "last_answer"]


class LogFacts:
    """What is known of one log.

    `renamed`: for assistant messages (by identity; the log keeps them alive) whose call ids repeat those of
    an earlier round, what stands behind their ids on the wire: "`tool_use` ids must be unique". `called`:
    the names of all tools that were called, in order. `tools`: those that were last sent with the log.
    """

    __slots__ = ("_seen", "called", "length", "renamed", "tools")

    def __init__(self) -> None:
        self.length: int = 0
        self._seen: set[str] = set()
        self.renamed: dict[int, str] = {}
        self.called: dict[str, None] = {}
        self.tools: tuple[ToolSpec, ...] = ()

    def read(self, history: History) -> None:
        """Look at what was added since the last time."""
        for position in range(self.length, history.logged):
            message = history[position]
            if isinstance(message, AssistantMessage) and message.tool_calls:
                ids = [call.id for call in message.tool_calls]
                if not self._seen.isdisjoint(ids):
                    self.renamed[id(message)] = f"-{position}"
                self._seen.update(ids)
                self.called.update(dict.fromkeys(call.name for call in message.tool_calls))
        self.length = max(self.length, history.logged)


def facts_of(logs: WeakKeyDictionary[MessageLog, LogFacts], history: History) -> LogFacts:
    """The facts of the log of `history`, up to date. Raises `MessageFormatError` for what is no history."""
    try:
        log = history.log
    except AttributeError:
        raise MessageFormatError(f"a History is needed here, not {type(history).__name__}") from None
    facts = logs.get(log)
    if facts is None:
        facts = logs[log] = LogFacts()
    facts.read(history)
    return facts


def last_answer(history: History) -> AssistantMessage | None:
    """The newest assistant message."""
    for position in range(len(history) - 1, -1, -1):
        message = history[position]
        if isinstance(message, AssistantMessage):
            return message
    return None
