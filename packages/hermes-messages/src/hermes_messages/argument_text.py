"""The text of a tool call's arguments: a strict reading, and a tolerant one for a closed list of defects.

Models write almost-JSON in a handful of ways. `parse_arguments_tolerantly` accepts exactly these and
reports which ones it met; everything else is an `ArgumentsError` with the parser's position:

    defect             example                 read as
    empty              ``                      {}              only for a call that was finished
    raw_control        {"a":"x<newline>y"}     {"a":"x\\ny"}
    unquoted_word      {"a": listt"}           {"a":"listt"}   one word where a value belongs
    trailing_quotes    {}\"\"                    {}
    trailing_junk      {"a":1} and so on       {"a":1}

What looks like one of these but could mean something else still fails: words that other languages read as
a value (`True`, `None`, `NaN`), two words, keys without quotes, another object or list behind the first
(calls run together), further keys behind a brace that came too early, and anything in a response that was
cut off.

Both readings refuse what JSON parsers disagree about: a key given twice in one object, NaN and infinity
(also as a number too large to hold), an integer of more than 4,300 digits, and nesting deeper than
`MAX_DEPTH`. Integers are exact at any size below that.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct

from hermes_messages.errors import ArgumentsError

if TYPE_CHECKING:
    from json import JSONDecoder

__all__ = [
    "MAX_DEPTH",
    "ArgumentDefect",
    "JsonObject",
    "JsonValue",
    "TolerantArguments",
    "parse_arguments",
    "parse_arguments_tolerantly",
]

if TYPE_CHECKING:
    JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
    """Anything that JSON can hold."""
else:  # a type that names itself says nothing to msgspec, which decodes structs that hold such values
    JsonValue = Any
JsonObject: TypeAlias = dict[str, JsonValue]
"""A JSON object: arguments of a call, metadata, settings."""

MAX_DEPTH: Final = 128
"""How deep lists and objects may be nested; well inside what every JSON parser takes."""


class ArgumentDefect(StrEnum):
    """The closed list of defects that the tolerant reading accepts."""

    EMPTY = "empty"
    """No text at all, read as `{}`."""
    RAW_CONTROL = "raw_control"
    """A line feed, tab or other control character inside a string, not escaped."""
    UNQUOTED_WORD = "unquoted_word"
    """One word without its quotes where a value belongs."""
    TRAILING_QUOTES = "trailing_quotes"
    """Quotes behind the closing brace."""
    TRAILING_JUNK = "trailing_junk"
    """Words behind the closing brace, which are left out."""


class TolerantArguments(Struct, frozen=True):
    """Arguments and the defects that had to be overlooked to read them, in the order of the list above."""

    arguments: JsonObject
    """The object as the tool gets it."""
    defects: tuple[ArgumentDefect, ...] = ()
    """Empty: the strict reading would have taken the text too."""


def parse_arguments(text: str, *, truncated: bool = False) -> JsonObject:
    """The JSON object in `text`, read strictly.

    `truncated` is what the finish reason of the response said; it only shapes the error.
    Raises `ArgumentsError` for text that is no JSON object, with the position where it went wrong.
    """
    too_deep = _position_too_deep(text)
    if too_deep is not None:
        raise ArgumentsError("nested too deeply", text=text, position=too_deep, truncated=truncated)
    try:
        value = _decoded(text)
    except _RefusedError as error:
        raise ArgumentsError(str(error), text=text, truncated=truncated) from None
    except ValueError as error:
        reason, position = _explained(error)
        raise ArgumentsError(reason, text=text, position=position, truncated=truncated) from None
    if isinstance(value, dict):
        return value
    raise ArgumentsError(f"it is {_kind(value)}", text=text, position=0, truncated=truncated)


def parse_arguments_tolerantly(text: str, *, truncated: bool = False) -> TolerantArguments:
    """The JSON object in `text`, overlooking the defects of `ArgumentDefect` and no others.

    A response that was cut off is read strictly: half a call must never run.
    Raises `ArgumentsError` with the position at which the strict reading failed.
    """
    try:
        return TolerantArguments(parse_arguments(text, truncated=truncated))
    except ArgumentsError as error:
        if truncated:
            raise
        found = _overlook_defects(text)
        if found is None:
            raise error from None
        return found


class _RefusedError(ValueError):
    """Valid to some parsers, refused here."""


_decoders: list[JSONDecoder] = []


def _decoder() -> JSONDecoder:
    """The one strict decoder, made at first use: `json` costs a tenth of this package's import time."""
    if not _decoders:
        import json

        _decoders.append(
            json.JSONDecoder(
                object_pairs_hook=_unique_keys, parse_constant=_refuse_constant, parse_float=_finite_float
            )
        )
    return _decoders[0]


def _decoded(text: str) -> JsonValue:
    """`decode` looks for blanks around the value, of which a model that writes an object has none."""
    decoder = _decoder()
    if text[:1] == "{":
        value: JsonValue
        value, end = decoder.raw_decode(text)
        if end == len(text):
            return value
    value = decoder.decode(text)
    return value


def _unique_keys(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RefusedError(f"the key {key!r} is given twice")
            seen.add(key)
    return found


def _refuse_constant(name: str) -> JsonValue:
    raise _RefusedError(f"{name} is no JSON value")


def _finite_float(digits: str) -> float:
    value = float(digits)
    if value in {float("inf"), float("-inf")}:
        raise _RefusedError(f"the number {digits[:40]} is too large")
    return value


def _explained(error: ValueError) -> tuple[str, int | None]:
    """Reason and position of what the JSON parser raised; it has no position for overlong integers."""
    import json

    if isinstance(error, json.JSONDecodeError):
        return error.msg.removesuffix(" at"), error.pos
    return str(error).partition(";")[0], None


def _kind(value: JsonValue) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "a number"


def _position_too_deep(text: str) -> int | None:
    """Where `text` is nested deeper than `MAX_DEPTH`; brackets inside strings do not count."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return None
    depth = 0
    for token in _TOKEN.finditer(text):
        match token.group()[:1]:
            case "[" | "{":
                depth += 1
                if depth > MAX_DEPTH:
                    return token.start()
            case "]" | "}":
                depth -= 1
            case _:
                pass
    return None


# Strings come first and are taken whole, an unclosed one to the end, so that nothing inside one is ever
# looked at. No two alternatives can take the same text, which keeps this linear.
_TOKEN: Final = re.compile(
    r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[{}\[\]:,]|[^\s{}\[\]:,"]++|\s++',
    re.DOTALL,
)
_PLAIN: Final = re.compile(r"true|false|null|-?[0-9][0-9.eE+-]*")
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_VALUE_WORDS: Final = frozenset(
    {"true", "false", "null", "none", "nil", "undefined", "nan", "infinity", "inf"}
)
_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _overlook_defects(text: str) -> TolerantArguments | None:
    if not text.strip():
        return TolerantArguments({}, (ArgumentDefect.EMPTY,))
    mended = _Mender(text)
    if not mended.run():
        return None
    try:
        arguments = parse_arguments("".join(mended.pieces))
    except ArgumentsError:
        return None
    order = list(ArgumentDefect)
    return TolerantArguments(arguments, tuple(sorted(mended.defects, key=order.index)))


class _Mender:
    """Copies one object token by token into `pieces`, mending what is on the list; never inside a string."""

    __slots__ = ("_containers", "_position", "_previous", "_text", "defects", "pieces")

    def __init__(self, text: str) -> None:
        self._text = text
        self._containers: list[str] = []
        self._previous = ""
        self._position = 0
        self.pieces: list[str] = []
        self.defects: set[ArgumentDefect] = set()

    def run(self) -> bool:
        """Whether an object was found that may be read on; the strict parser has the last word."""
        if not self._text.lstrip().startswith("{"):
            return False
        while self._position < len(self._text):
            token = _TOKEN.match(self._text, self._position)
            if token is None or not self._take(token):
                return False
            if self._previous == "}" and not self._containers:
                return self._accept_tail(self._text[self._position :].strip())
        return False

    def _take(self, match: re.Match[str]) -> bool:
        """Copy one token; False for one that can not be read and is not on the list."""
        token, self._position = match.group(), match.end()
        if token.isspace():
            self.pieces.append(token)
            return True
        if token[0] in "{[":
            self._containers.append(token)
        elif token[0] in "}]":
            if self._containers:
                self._containers.pop()
        elif token[0] == '"':
            token = self._without_raw_controls(token)
        elif token[0] not in ":," and not _PLAIN.fullmatch(token):
            if not self._is_lone_word(token):
                return False
            self.defects.add(ArgumentDefect.UNQUOTED_WORD)
            token = f'"{token}"'
        self.pieces.append(token)
        self._previous = token[0]
        return True

    def _without_raw_controls(self, token: str) -> str:
        if not _CONTROL.search(token):
            return token
        self.defects.add(ArgumentDefect.RAW_CONTROL)
        return _CONTROL.sub(lambda match: _ESCAPES.get(match.group(), f"\\u{ord(match.group()):04x}"), token)

    def _is_lone_word(self, token: str) -> bool:
        """Whether `token`, just taken, is a whole value; a stray quote behind it is passed over."""
        if not _WORD.fullmatch(token) or token.lower() in _VALUE_WORDS or not self._containers:
            return False
        in_list = self._containers[-1] == "["
        if self._previous != ":" and not (in_list and self._previous in {"[", ","}):
            return False
        if self._text.startswith('"', self._position):
            self._position += 1
        rest = _TOKEN.match(self._text, self._position)
        if rest is not None and rest.group().isspace():
            rest = _TOKEN.match(self._text, rest.end())
        return rest is not None and rest.group() in {",", "}", "]"}

    def _accept_tail(self, tail: str) -> bool:
        if not tail:
            return True
        if "{" in tail or tail[0] in "[,:":
            return False
        only_quotes = not tail.strip("\"' \n\t")
        self.defects.add(ArgumentDefect.TRAILING_QUOTES if only_quotes else ArgumentDefect.TRAILING_JUNK)
        return True
