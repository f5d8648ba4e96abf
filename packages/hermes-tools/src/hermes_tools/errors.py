"""Errors that happen inside this wheel. Those of a running tool become results that the model reads.

HermesError
|-- ArgumentsMismatchError   the model: arguments that do not fit the tool's schema
|-- ToolFailure              a tool: it did not do its work; the text is what the model is told
`-- PathRefusedError         the model: a path outside the workspace, or one that is no regular file
"""

from __future__ import annotations

from hermes_messages import HermesError, ToolStatus

__all__ = ["ArgumentsMismatchError", "PathRefusedError", "ToolFailure"]


class ArgumentsMismatchError(HermesError):
    """Arguments that are a JSON object but do not fit the schema. The text holds the path (`$.limit`)."""


class ToolFailure(HermesError):  # noqa: N818 - a result rather than a fault; tools raise it by this name
    """Raised by a tool that ends without having done its work.

    `text` is given to the model as it stands; `status` says how the call ended (`error`, `timed_out`, ...).
    """

    def __init__(self, text: str, *, status: ToolStatus = "error") -> None:
        self.text = text
        self.status = status
        super().__init__(text)


class PathRefusedError(HermesError):
    """A path that a file tool may not use. Nothing was read or written."""
