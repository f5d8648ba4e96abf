"""What an agent remembers between turns: the transcript as it is sent, and what of it is not durable yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hermes_loop.journal import Journal, RoundRecord
from hermes_messages import (
    AssistantMessage,
    History,
    JsonObject,
    Message,
    SystemMessage,
    TokenEstimator,
    ToolMessage,
    ToolSpec,
    Transcript,
    TranscriptState,
)
from hermes_messages.openai_row import tool_definition
from hermes_messages.openai_shape import to_dicts
from hermes_messages.protocols import PendingApproval, SessionRecord

__all__ = ["Conversation"]


class Conversation:
    """One ordered conversation.

    `sent` is what the model sees: system message, prefill, then the messages of the conversation. It only
    grows, so that each request begins with the bytes of the one before. `replace` starts it anew.
    """

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.system_prompt: str | None = None
        self._left_at: tuple[int, float] | None = None
        self.open_round: RoundRecord | None = None
        self._sent = Transcript()
        self._front: tuple[Message, ...] = ()
        self._estimator: TokenEstimator | None = None
        self._estimated_tools: tuple[ToolSpec, ...] = ()
        self._estimated = 0
        self._rows: list[JsonObject] = []
        self._rows_of: Transcript | None = None
        self._tool_rows: Sequence[JsonObject] = ()
        self._tool_rows_of: tuple[ToolSpec, ...] = ()

    @property
    def state(self) -> TranscriptState:
        """Where the conversation stands."""
        return self._sent.state

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation itself: no system message, no prefill. A view, which costs nothing."""
        return self._sent.history().after(len(self._front))

    @property
    def pending(self) -> tuple[PendingApproval, ...]:
        """The calls of the open round that wait for a decision."""
        return self.open_round.pending if self.open_round is not None else ()

    def known_messages(self) -> tuple[Message, ...]:
        """The conversation with what is there of the results of an open round."""
        return (*self._sent.since(len(self._front)), *self._results_so_far())

    def rows(self) -> list[JsonObject]:
        """`known_messages` in OpenAI's shape: a new list of dicts that are kept, for each is made once."""
        if self._rows_of is not self._sent:
            self._rows_of, self._rows = self._sent, []
        self._rows += to_dicts(self._sent.since(len(self._front) + len(self._rows)))
        return [*self._rows, *to_dicts(self._results_so_far())]

    def tool_rows(self, tools: tuple[ToolSpec, ...]) -> list[JsonObject]:
        """The definitions of `tools` in OpenAI's shape, kept while the tools are the same."""
        if tools is not self._tool_rows_of:
            self._tool_rows_of, self._tool_rows = tools, [tool_definition(tool) for tool in tools]
        return list(self._tool_rows)

    def _results_so_far(self) -> list[ToolMessage]:
        results = self.open_round.results if self.open_round is not None else ()
        return [result for result in results if result is not None]

    def history(self) -> History:
        """Everything that the model sees."""
        return self._sent.history()

    def prompt_tokens(self, tools: tuple[ToolSpec, ...]) -> int:
        """About how many tokens a request with `tools` is now; costs what is new since the last time."""
        if self._estimator is None or tools != self._estimated_tools:
            self._estimator, self._estimated_tools, self._estimated = TokenEstimator(tools), tools, 0
        self._estimator.add(self._sent.since(self._estimated))
        self._estimated = len(self._sent)
        return self._estimator.total

    def calibrate(self, real_prompt_tokens: int) -> None:
        """What the host counted for all of this and the tools, as it stands."""
        if self._estimator is not None and self._estimated == len(self._sent):
            self._estimator.calibrate(real_prompt_tokens)

    def is_current(self, record: SessionRecord | None) -> bool:
        """Whether nobody wrote the session since the last turn left it: `record` tells of as many messages,
        and of the same time."""
        return record is not None and self._left_at == (record.message_count, record.updated_at)

    def left_at(self, record: SessionRecord | None) -> None:
        """The session as a turn leaves it. Where it does not hold what is remembered here, or with None, the
        next turn reads it."""
        if record is not None and record.message_count == len(self.known_messages()) - len(
            self.journal.owed()
        ):
            self._left_at = (record.message_count, record.updated_at)
        else:
            self._left_at = None

    def ends_like(self, stored: Sequence[Message]) -> bool:
        """Whether what the store holds ends with all of this but what is still owed to the store: nobody else
        wrote the session since, although another lease was given out."""
        owed = {id(message) for message in self.journal.owed()}
        acknowledged = [message for message in self.known_messages() if id(message) not in owed]
        if not acknowledged:
            return not stored
        return list(stored[-len(acknowledged) :]) == acknowledged

    def set_front(self, system_text: str, prefill: Iterable[Message]) -> None:
        """Put the system text and the prefill in front; nothing happens when they are there already."""
        front: tuple[Message, ...] = (*([SystemMessage(system_text)] if system_text else []), *prefill)
        if front != self._front:
            messages = tuple(self.messages)
            self._sent = Transcript((*front, *messages))
            self._front = front
            self._estimator = None

    def replace(self, messages: Iterable[Message]) -> None:
        """Go on from `messages` instead of what was remembered. Raises `InvariantError`, changing nothing."""
        self._sent = Transcript((*self._front, *messages))
        self.open_round = None
        self._estimator = None

    def append(self, uid: str, message: Message) -> None:
        """Add a message that belongs to no tool round; it is owed to the store from here on."""
        self._sent.append(message)
        self.journal.add(uid, message)

    def open_tool_round(self, uid: str, message: AssistantMessage) -> RoundRecord:
        """Add an assistant message with calls; the round stays open until `close_tool_round`."""
        self._sent.append(message)
        self.open_round = self.journal.add_round(uid, message)
        return self.open_round

    def reopen_tool_round(self, record: RoundRecord) -> None:
        """Add the assistant message of a round that was read from the store and is not finished."""
        self._sent.append(record.message)
        self.open_round = record
        self.journal.adopt(record)

    def fill_tool_round(self, fill: Iterable[ToolMessage]) -> None:
        """Take results from `fill`, which holds one for each call, for calls that have none and do not wait
        for a decision. The round stays open."""
        record = self.open_round
        if record is None:
            return
        waiting = {item.position for item in record.pending}
        for position, spare in enumerate(fill):
            if record.results[position] is None and position not in waiting:
                record.results[position] = spare

    def close_tool_round(self, fill: Iterable[ToolMessage]) -> None:
        """Add the results in the order of the calls; a place still empty takes its result from `fill`, which
        holds one for each call."""
        record = self.open_round
        if record is None:
            return
        for position, spare in enumerate(fill):
            result = record.results[position]
            if result is None:
                result = record.results[position] = spare
            self._sent.append(result)
        record.pending = ()
        self.open_round = None
