"""Every error that a user of the Hermes layers can meet.

Catch `HermesError` to catch them all. The classes below are the ones that cross a joint between two
layers; each wheel may derive narrower ones for what happens inside it.

    HermesError
    |-- ConfigurationError         the caller: a value that can not work, found before any side effect
    |   |-- UnknownNameError       a name that nothing answers to, with the nearest known ones
    |   `-- MissingDependencyError a wheel or extra that is not installed, with the line that installs it
    |-- MessageFormatError         the caller: a dict that is no chat message
    |-- InvariantError             the caller: a message that may not stand where it was put
    |-- ArgumentsError             the model: tool-call arguments that are no JSON object
    |-- ProviderError              the model's host, or the way to it
    |-- ToolDeclarationError       the caller: a function that can not become a tool
    |-- TurnStoppedError           a hook of the host's: it ends the turn that called it
    `-- StoreError                 the session store's environment
        |-- StoreBusyError         another writer held the database longer than the wait
        |-- StoreSchemaError       a database of another version, or no session database
        |-- SessionNotFoundError   no session has this id
        `-- LeaseLostError         a write under a lease that someone else holds by now
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

__all__ = [
    "ArgumentsError",
    "ConfigurationError",
    "ErrorKind",
    "HermesError",
    "InvariantError",
    "LeaseLostError",
    "MessageFormatError",
    "MissingDependencyError",
    "ProviderError",
    "SessionNotFoundError",
    "StoreBusyError",
    "StoreError",
    "StoreSchemaError",
    "ToolDeclarationError",
    "TurnStoppedError",
    "UnknownNameError",
]


class HermesError(Exception):
    """Root of all errors of the Hermes layers. Its text says what happened, what was kept, what to do."""

    def __reduce__(self) -> tuple[Callable[..., HermesError], tuple[object, ...], dict[str, object]]:
        # Subclasses build their text from facts, so copying and pickling must not call __init__ again.
        return _restored, (type(self), *self.args), self.__dict__


def _restored(kind: type[HermesError], *args: object) -> HermesError:
    return kind.__new__(kind, *args)


class ConfigurationError(HermesError):
    """A setting that can not work. Raised before anything was opened, written or sent."""


class UnknownNameError(ConfigurationError):
    """A `name` of a `kind` (`provider`, `toolset`, `store`, ...) that nothing answers to.

    `known` are all names of that kind, sorted; `near` the at most three of them that look like it.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = "") -> None:
        import difflib  # only on the way to an error: it would be a tenth of this package's import time

        self.kind = kind
        self.name = name
        self.known: tuple[str, ...] = tuple(sorted(known))
        self.near: tuple[str, ...] = tuple(difflib.get_close_matches(name, self.known, n=3))
        text = f"unknown {kind} {name!r}"
        if self.near:
            text += f"; did you mean {' or '.join(repr(near) for near in self.near)}?"
        if self.known:
            text += f" (known: {', '.join(self.known)})"
        if hint:
            text += f"; {hint}"
        super().__init__(text)


class MissingDependencyError(ConfigurationError):
    """Something is not installed: `what` names it for people, `install` is the command that installs it."""

    def __init__(self, what: str, install: str) -> None:
        self.what = what
        self.install = install
        super().__init__(f"{what} is not installed; install it with: {install}")


class MessageFormatError(HermesError):
    """A dict that can not be read as a chat message. `index` counts from 0 (None: it is not about
    one message), `path` is like `$.role`, `reason` the message without the two."""

    def __init__(self, reason: str, *, index: int | None = None, path: str = "$") -> None:
        self.reason = reason
        self.index = index
        self.path = path
        where = f"message {index}, {path}" if index is not None else path
        super().__init__(f"{where}: {reason}")


class InvariantError(HermesError):
    """A message that may not stand at this place of a transcript; the transcript is as it was before.

    `rule` is the name of the broken rule (one of `TranscriptRule`), `index` the place of the message counted
    from 0, `call_id` the tool call concerned, if any. `explanation` is the rule in words, for this message.
    """

    def __init__(self, rule: str, explanation: str, *, index: int, call_id: str | None = None) -> None:
        self.rule = rule
        self.explanation = explanation
        self.index = index
        self.call_id = call_id
        of_call = f", call {call_id!r}" if call_id is not None else ""
        super().__init__(f"message {index}{of_call}: {explanation} [{rule}]")


class ArgumentsError(HermesError):
    """Tool-call arguments that are not one JSON object: `text` is all of them, `reason` what is wrong.

    `position` is the character at which the text stops making sense. `truncated` is true only when the
    response's finish reason said that the output was cut off.
    """

    def __init__(
        self, reason: str, *, text: str, position: int | None = None, truncated: bool = False
    ) -> None:
        self.reason = reason
        self.text = text
        self.position = position
        self.truncated = truncated
        at = f" at character {position}" if position is not None else ""
        cut = "; the response was cut off by the output limit" if truncated else ""
        super().__init__(f"the arguments are not a JSON object: {reason}{at}{cut}")


class ErrorKind(StrEnum):
    """What kind of failure a provider met; the loop decides from this alone what to do next."""

    RATE_LIMIT = "rate_limit"
    """Too many requests or tokens for now; waiting helps."""
    OVERLOADED = "overloaded"
    """The host has more to do than it can, whoever asks; waiting helps."""
    BILLING = "billing"
    """No credit, or a limit of spending is reached."""
    AUTH = "auth"
    """The credential is missing, wrong, or not allowed to do this."""
    NOT_FOUND = "not_found"
    """No such model or address on this host."""
    CONTEXT_OVERFLOW = "context_overflow"
    """The prompt does not fit into the model's window; a shorter one might."""
    OUTPUT_CAP = "output_cap"
    """`max_tokens` is more than the host allows (`ProviderError.output_limit`)."""
    UNSUPPORTED_PARAMETER = "unsupported_parameter"
    """The host refuses a parameter (`ProviderError.parameter`)."""
    FORMAT = "format"
    """The host calls the request malformed; the same bytes are refused again."""
    CONTENT_POLICY = "content_policy"
    """The host refuses for what the conversation says."""
    TRANSPORT = "transport"
    """No connection, or it broke: nobody knows whether the host did the work."""
    TIMEOUT = "timeout"
    """The host was silent for longer than it may be."""
    SERVER = "server"
    """The host failed on its own side (most of 5xx)."""
    UNKNOWN = "unknown"
    """None of the above could be read from the answer; the loop asks once more."""


class ProviderError(HermesError):
    """A request that a provider did not answer, or answered with an error (also inside a 200 or a stream).

    `status` is the HTTP status, `code` the host's own error code, `request_id` what the host's support asks
    for, `retry_after_s` the wait that the host asked for in seconds (0 also where a refused credential was
    one of several and another is ready), `body` the start of the answer's body with credentials masked.
    `kind` alone decides what is done next. No text of the conversation was changed.

    `parameter` names the request parameter that a host refused, where it says which. `left_out` is true when
    the provider leaves that parameter out of later requests of the same model: sending the same request
    once more makes sense then, and only then. `output_limit` is the largest `max_tokens` that the host
    says it allows.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: ErrorKind = ErrorKind.UNKNOWN,
        status: int | None = None,
        code: str | None = None,
        request_id: str | None = None,
        retry_after_s: float | None = None,
        body: str = "",
        parameter: str | None = None,
        left_out: bool = False,
        output_limit: int | None = None,
    ) -> None:
        self.kind = kind
        self.status = status
        self.code = code
        self.request_id = request_id
        self.retry_after_s = retry_after_s
        self.body = body
        self.parameter = parameter
        self.left_out = left_out
        self.output_limit = output_limit
        super().__init__(message)


class ToolDeclarationError(HermesError):
    """A function or object that can not be registered as a tool."""


class TurnStoppedError(HermesError):
    """Raised by a hook to end the turn: its text is the result's error. What was stored by then is kept."""


class StoreError(HermesError):
    """A session store could not do what was asked; what was acknowledged before is kept."""


class StoreBusyError(StoreError):
    """Another writer held the database longer than the allowed wait. Nothing of this write was kept."""


class StoreSchemaError(StoreError):
    """The database has a schema that this version does not know. Nothing in it was touched."""


class SessionNotFoundError(StoreError):
    """No session has the id `session_id`; what was to be written to it was not."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"no session {session_id!r} in this store; create it with ensure_session()")


class LeaseLostError(StoreError):
    """A write under a turn lease that expired and was taken by someone else. The write was refused."""
