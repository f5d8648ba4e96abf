"""Errors that happen inside this wheel. Those of a running tool become results that the model reads.

HermesError
|-- ArgumentsMismatchError   the model: arguments that do not fit the tool's schema
|-- ContainerError           the machine: containers that can not be had, or an image (a ConfigurationError)
|-- ToolFailure              a tool: it did not do its work; the text is what the model is told
|   |-- FilesLostError       the machine: the container with the files went away in the middle
|   `-- FileNotWrittenError  the file system: no space left, no permission; the old file stands
`-- PathRefusedError         the model: a path outside the workspace, or one that is no regular file
"""

from __future__ import annotations

from hermes_messages import ConfigurationError, HermesError, ToolStatus

__all__ = [
    "ArgumentsMismatchError",
    "ContainerError",
    "FileNotWrittenError",
    "FilesLostError",
    "PathRefusedError",
    "ToolFailure",
]


class ArgumentsMismatchError(HermesError):
    """Arguments that are a JSON object but do not fit the schema. The text holds the path (`$.limit`)."""


class ContainerError(ConfigurationError):
    """The program that runs containers, its daemon or an image is not there, or does not do what is asked.

    Raised by `Executor.open` before any call runs; a call that needs the container later fails with the text.
    """


class ToolFailure(HermesError):  # noqa: N818 - a result rather than a fault; tools raise it by this name
    """Raised by a tool that ends without having done its work.

    `text` is given to the model as it stands; `status` says how the call ended (`error`, `timed_out`, ...).
    """

    def __init__(self, text: str, *, status: ToolStatus = "error") -> None:
        self.text = text
        self.status = status
        super().__init__(text)


class FilesLostError(ToolFailure):
    """The place of the files went away in the middle of a call; the text says what is known of the file."""


class PathRefusedError(HermesError):
    """A path that a file tool may not use. Nothing was read or written."""


class FileNotWrittenError(ToolFailure):
    """A file that the system did not let us write (disk full, size limit, permission).

    `path` is the file, `reason` what the system said.
    `kept` says what is there now: each file is replaced in one step, so it is the old one or nothing.
    """

    def __init__(self, path: str, reason: str, kept: str) -> None:
        self.path = path
        self.reason = reason
        self.kept = kept
        super().__init__(f"{path} could not be written: {reason}; {kept}")
