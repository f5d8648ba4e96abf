"""What a final answer has to be: the schema that the host is shown, and the value of an answer. Pure.

A msgspec struct, dataclass or TypedDict is checked by msgspec, whole. Of a JSON schema given as a dict the
parts named in `hermes_loop.schema_check` are checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import Raw

from hermes_loop.schema_check import find_misfit
from hermes_messages import ConfigurationError, HermesError, JsonObject, JsonValue

__all__ = ["OutputContract", "OutputMisfitError", "correction", "read_output_type"]

_FENCED: Final = re.compile(r"```[a-zA-Z]*\n(.*?)```", re.DOTALL)


class OutputMisfitError(HermesError):
    """An answer is not what was asked for."""


class OutputContract:
    """The form of an answer. `schema` is the same bytes in every request."""

    def __init__(self, schema: JsonObject, read: Callable[[bytes], object]) -> None:
        self.schema: Raw = Raw(msgspec.json.encode(schema))
        self._read = read

    @property
    def instruction(self) -> str:
        """What the model is told, for hosts that can not enforce a schema while tools are offered."""
        return (
            "When you give your final answer, give one JSON object that fits this JSON schema, "
            "and nothing else:\n" + bytes(self.schema).decode()
        )

    def parse(self, text: str) -> object:
        """The value of an answer. Raises `OutputMisfitError`, whose text tells a model what is wrong."""
        error: Exception | None = None
        for candidate in _candidates(text):
            try:
                return self._read(candidate.encode())
            except msgspec.ValidationError as misfit:
                raise OutputMisfitError(str(misfit)) from None
            except RecursionError:
                raise OutputMisfitError("it is nested too deep") from None
            except (msgspec.DecodeError, UnicodeError) as broken:
                error = error or broken
        raise OutputMisfitError(f"it is not JSON: {error}") from None


def correction(problem: str) -> str:
    """What the model is asked after an answer that does not fit."""
    return (
        f"Your answer could not be used: {problem}. Give the final answer again: "
        "one JSON object that fits the schema, and nothing else."
    )


def read_output_type(given: object) -> OutputContract | None:
    """The contract for what a host gave as `output_type=`. Raises `ConfigurationError`."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        return _of_schema(given)
    if not isinstance(given, type):
        raise ConfigurationError(
            f"output_type must be a struct, a dataclass, a TypedDict or a JSON schema, not {given!r:.100}"
        )
    try:
        schema = _inlined(msgspec.json.schema(given))
        decoder: msgspec.json.Decoder[object] = msgspec.json.Decoder(given)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"output_type={given.__name__}: {error}") from None
    if schema.get("type") != "object":
        raise ConfigurationError(
            f"output_type={given.__name__} is not an object in JSON; put the value into a field of a struct"
        )
    return OutputContract(schema, decoder.decode)


def _of_schema(given: Mapping[object, object]) -> OutputContract:
    try:
        schema = msgspec.json.decode(msgspec.json.encode(given), type=dict[str, object])
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise ConfigurationError(f"output_type= got a dict that is no JSON: {error}") from None
    if schema.get("type") != "object":
        raise ConfigurationError('output_type= got a JSON schema whose "type" is not "object"')
    plain: JsonObject = schema  # type: ignore[assignment]  # it was decoded from JSON

    def read(data: bytes) -> object:
        value: JsonValue = msgspec.json.decode(data)
        misfit = find_misfit(value, plain)
        if misfit is not None:
            raise msgspec.ValidationError(misfit)
        return value

    return OutputContract(plain, read)


def _inlined(schema: dict[str, object]) -> JsonObject:
    """`schema` with an object at its top: some hosts take no reference there."""
    plain: JsonObject = schema  # type: ignore[assignment]  # msgspec makes JSON
    reference, definitions = plain.get("$ref"), plain.get("$defs")
    if not isinstance(reference, str) or not isinstance(definitions, dict):
        return plain
    name = reference.removeprefix("#/$defs/")
    top = definitions.get(name)
    if not isinstance(top, dict):
        return plain
    is_recursive = f'"{reference}"'.encode() in msgspec.json.encode(definitions)
    rest = {key: value for key, value in definitions.items() if is_recursive or key != name}
    return {**top, "$defs": rest} if rest else top


def _candidates(text: str) -> list[str]:
    """The text itself, what stands in its code fences, and what stands between its outer braces."""
    found = [text.strip(), *(block.strip() for block in _FENCED.findall(text))]
    first, last = text.find("{"), text.rfind("}")
    if 0 <= first < last:
        found.append(text[first : last + 1])
    return found
