"""The output of one command: start and end in memory, all of it in a file once it is too long to show."""

from __future__ import annotations

import asyncio
import logging

from hermes_messages.hygiene import clean_text
from hermes_tools.context import CallContext
from hermes_tools.files import OpenFile
from hermes_tools.output_limits import HeadAndTail
from hermes_tools.secrets import SecretMasker
from hermes_tools.terminal_text import TerminalText

__all__ = ["CommandOutput", "CommandText"]

logger: logging.Logger = logging.getLogger(__name__)

SHOWN_CHARS = 24_000
FILE_LIMIT_BYTES = 64 * 1024 * 1024


class CommandText:
    """From the bytes of a command to text that may be shown and kept: plain, visible, without credentials."""

    def __init__(self, masker: SecretMasker) -> None:
        self._text = TerminalText()
        self._masker = masker
        self._unmasked = ""

    def feed(self, data: bytes) -> str:
        """The text that is certain by now."""
        masked, self._unmasked = self._masker.mask_stream(self._unmasked + clean_text(self._text.feed(data)))
        return masked

    def finish(self) -> str:
        """The rest, after the last piece."""
        rest, self._unmasked = self._unmasked + clean_text(self._text.finish()), ""
        return self._masker.mask(rest)

    def held_back(self) -> str:
        """What is not certain yet, as it stands."""
        return self._masker.mask(self._unmasked + self._text.held_back())


class CommandOutput:
    """Takes bytes, keeps text. Credentials are hidden before anything is kept."""

    def __init__(self, context: CallContext) -> None:
        self._resources = context.resources
        self._text = CommandText(context.masker)
        self._shown = HeadAndTail(SHOWN_CHARS)
        self._early: list[str] | None = []
        self._file: OpenFile | None = None
        self._path = ""
        self._file_bytes = 0
        self.closed: bool = False
        self._lock = asyncio.Lock()
        self.bytes_read: int = 0

    async def feed(self, data: bytes) -> None:
        """Take the next piece; after `close` it is dropped."""
        self.bytes_read += len(data)
        async with self._lock:
            if not self.closed:
                await self._keep(self._text.feed(data))

    async def close(self) -> None:
        """Take no more; what was held back is kept, the file is complete."""
        async with self._lock:
            if not self.closed:
                self.closed = True
                await self._keep(self._text.finish())
            if self._file is not None:
                await self._file.close()

    def text(self) -> str:
        """What can be shown, as it stands."""
        if self._path and self._file_bytes >= FILE_LIMIT_BYTES:
            where = f"the first {FILE_LIMIT_BYTES // (1024 * 1024)} MB are in {self._path}"
        elif self._path:
            where = f"all of it is in {self._path}"
        else:
            where = "they could not be kept"
        note = f"[... {{left_out}} characters left out; {where.replace('{', '{{').replace('}', '}}')} ...]"
        held_back = "" if self.closed else self._text.held_back()
        return self._shown.text(note) + held_back[-SHOWN_CHARS:]

    async def _keep(self, masked: str) -> None:
        if not masked:
            return
        self._shown.feed(masked)
        if self._early is not None:
            self._early.append(masked)
            if self._shown.total <= SHOWN_CHARS:
                return
            masked, self._early = "".join(self._early), None
        await self._spill(masked)

    async def _spill(self, text: str) -> None:
        if self._file_bytes >= FILE_LIMIT_BYTES:
            return
        data = text.encode("utf-8", errors="replace")[: FILE_LIMIT_BYTES - self._file_bytes]
        try:
            if self._file is None:
                self._file = await self._resources.new_file("terminal")
                self._path = self._file.path
            await self._file.write(data)
            self._file_bytes += len(data)
        except OSError as error:
            logger.warning("the output of a command could not be kept in a file: %s", error)
            self._path = ""
            self._file_bytes = FILE_LIMIT_BYTES
