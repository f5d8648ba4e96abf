"""The text of a tool call's arguments: a strict reading, and a tolerant one for a closed list of defects.

Models write almost-JSON in a handful of ways. `parse_arguments_tolerantly` accepts exactly these and
reports which one it met; everything else is an `ArgumentsError` with the parser's position:

    defect             example                 read as
    empty              ``                      {}              only for a call that was finished
    raw_control        {"a":"x<newline>y"}     {"a":"x\\ny"}
    trailing_quotes    {}\"\"                    {}
    trailing_junk      {"a":1} and so on       {"a":1}
    unquoted_word      {"a": listt"}           {"a":"listt"}
"""

from __future__ import annotations

import json
import re
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from hermes_messages.errors import ArgumentsError

__all__ = [
    "ArgumentDefect",
    "JsonObject",
    "JsonValue",
    "TolerantArguments",
    "parse_arguments",
    "parse_arguments_tolerantly",
]

JsonValue: TypeAlias = "None | bool | int | float | str | list[JsonValue] | dict[str, JsonValue]"
JsonObject: TypeAlias = dict[str, JsonValue]


class ArgumentDefect(StrEnum):
    """The closed list of defects that the tolerant reading accepts."""

    EMPTY = "empty"
    RAW_CONTROL = "raw_control"
    TRAILING_QUOTES = "trailing_quotes"
    TRAILING_JUNK = "trailing_junk"
    UNQUOTED_WORD = "unquoted_word"


class TolerantArguments(Struct, frozen=True):
    """Arguments and the defects that had to be overlooked to read them, in the order met."""

    arguments: JsonObject
    defects: tuple[ArgumentDefect, ...] = ()


def _reject_constant(name: str) -> JsonValue:
    raise ValueError(f"{name} is no JSON value")


_STRICT = json.JSONDecoder(parse_constant=_reject_constant)
_LENIENT = json.JSONDecoder(strict=False, parse_constant=_reject_constant)
_UNQUOTED_WORD = re.compile(r'([:,\[]\s*)([A-Za-z_][A-Za-z0-9_\- ]*)"?(?=\s*[,}\]])')
_JSON_WORDS = frozenset({"true", "false", "null"})


def parse_arguments(text: str, *, truncated: bool = False) -> JsonObject:
    """The JSON object in `text`, read strictly.

    `truncated` is what the finish reason of the response said; it only shapes the error.
    Raises `ArgumentsError` for text that is no JSON object, with the position where it went wrong.
    """
    try:
        value: JsonValue = _STRICT.decode(text)
    except json.JSONDecodeError as error:
        raise ArgumentsError(error.msg, text=text, position=error.pos, truncated=truncated) from None
    except ValueError as error:
        raise ArgumentsError(str(error), text=text, truncated=truncated) from None
    except RecursionError:
        raise ArgumentsError("nested too deeply", text=text, truncated=truncated) from None
    return _require_object(value, text, truncated=truncated)


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


def _overlook_defects(text: str) -> TolerantArguments | None:
    if not text.strip():
        return TolerantArguments({}, (ArgumentDefect.EMPTY,))
    for candidate, first in ((text, ()), (_quote_words(text), (ArgumentDefect.UNQUOTED_WORD,))):
        if candidate is None:
            continue
        found = _decode_prefix(candidate, first)
        if found is not None:
            return found
    return None


def _decode_prefix(text: str, defects: tuple[ArgumentDefect, ...]) -> TolerantArguments | None:
    """One object at the start of `text`, raw control characters and a tail allowed."""
    start = len(text) - len(text.lstrip())
    for decoder, more in ((_STRICT, ()), (_LENIENT, (ArgumentDefect.RAW_CONTROL,))):
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if not isinstance(value, dict):
            return None
        tail = text[end:].strip()
        if not tail:
            trailing: tuple[ArgumentDefect, ...] = ()
        elif not tail.strip("\"' "):
            trailing = (ArgumentDefect.TRAILING_QUOTES,)
        else:
            trailing = (ArgumentDefect.TRAILING_JUNK,)
        return TolerantArguments(value, (*defects, *more, *trailing))
    return None


def _quote_words(text: str) -> str | None:
    """`text` with bare words in value position quoted, or None when there is none outside strings."""

    def quoted(match: re.Match[str]) -> str:
        word = match.group(2).strip()
        return match.group(0) if word in _JSON_WORDS else f"{match.group(1)}{json.dumps(word)}"

    changed = _UNQUOTED_WORD.sub(quoted, text)
    return changed if changed != text else None


def _require_object(value: JsonValue, text: str, *, truncated: bool) -> JsonObject:
    if isinstance(value, dict):
        return value
    kinds = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    kind = kinds.get(type(value), "null")
    raise ArgumentsError(f"it is {kind}", text=text, position=0, truncated=truncated)
