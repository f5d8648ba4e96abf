"""The bytes that a command puts out, as text fit for a model and a database. Pure.

Colours and other control sequences go (ECMA-48, section 5.4), a progress bar that rewrites its line is left
with its last state, bytes that are no UTF-8 are shown as `\\xNN`, NUL as a visible sign.
"""

from __future__ import annotations

import codecs
import re

from hermes_tools.text_shape import make_visible

__all__ = ["TerminalText"]

_CONTROL_SEQUENCE = re.compile(
    r"\x1b(?:"
    r"\[[0-?]{0,256}[ -/]{0,16}[@-~]"  # CSI: colours, cursor movement
    r"|\][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)"  # OSC: titles, links
    r"|[PX^_][^\x1b]{0,4096}\x1b\\"  # DCS, SOS, PM, APC
    r"|[ -/]{0,16}[0-OQ-WYZ\\`-~]"  # two characters: charset selection, save cursor
    r"|(?!(?:"  # nothing of the kind, unless it is one of these and has only begun
    r"\[[0-?]{0,256}[ -/]{0,16}|\][^\x07\x1b\n]{0,4096}\x1b?|[PX^_][^\x1b]{0,4096}\x1b?|[ -/]{0,16}"
    r")\Z)"
    r")"
)
_OTHER_CONTROLS = re.compile(r"[\x01-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_LONGEST_LINE = 1 << 16


class TerminalText:
    """Turns pieces of output into pieces of text. What may still change (the last line) is held back."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="backslashreplace")
        self._raw = ""
        self._line = ""

    def feed(self, data: bytes) -> str:
        """The text that is certain by now."""
        return self._advance(self._decoder.decode(data))

    def finish(self) -> str:
        """The rest, after the last piece."""
        text = self._advance(self._decoder.decode(b"", final=True))
        rest = self._line + _tidy(self._raw.replace("\x1b", ""))
        self._raw = self._line = ""
        return text + _last_state(rest)

    def held_back(self) -> str:
        """The line that is still being written, as it stands."""
        return _last_state(self._line)

    def _advance(self, text: str) -> str:
        complete, self._raw = _split_sequences(self._raw + text)
        *lines, rest = (self._line + _tidy(complete)).split("\n")
        self._line = _visible_part(rest)
        certain = "".join(f"{_last_state(line)}\n" for line in lines)
        if len(self._line) > _LONGEST_LINE:
            certain += _last_state(self._line)
            self._line = ""
        return certain


def _split_sequences(text: str) -> tuple[str, str]:
    """`text` without control sequences, and a sequence at its end that has only begun."""
    text = _CONTROL_SEQUENCE.sub("", text)
    start = text.find("\x1b")
    return (text, "") if start < 0 else (text[:start], text[start:])


def _tidy(text: str) -> str:
    """Without control characters that have no meaning in a stored text."""
    return make_visible(_OTHER_CONTROLS.sub("", text))


def _visible_part(line: str) -> str:
    """A line so far without what a carriage return overwrites; the return itself may precede a newline."""
    body = line.rstrip("\r")
    return body.rsplit("\r", 1)[-1] + ("\r" if len(body) < len(line) else "")


def _last_state(line: str) -> str:
    """A line as a terminal shows it in the end."""
    line = line.rstrip("\r").rsplit("\r", 1)[-1]
    if "\b" not in line:
        return line
    shown: list[str] = []
    for letter in line:
        if letter != "\b":
            shown.append(letter)
        elif shown:
            shown.pop()
    return "".join(shown)
