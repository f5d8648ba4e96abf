"""A server's question to the user, put through the host's `clarify` callback, one field at a time.

https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from mcp_types import ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult

from hermes_messages.hygiene import clean_text
from hermes_messages.protocols import ClarifyCallback

__all__ = ["DECLINE", "Question", "ask_user", "form_questions"]

DECLINE = "decline"
_MOST_FIELDS = 20
_TRIES = 2
_LONGEST_TEXT = 2_000

Value = str | int | float | bool | list[str] | None


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a form. `options` maps what the user may choose to the value that it stands for."""

    field: str
    text: str
    kind: str = "string"
    options: Mapping[str, Value] = {}
    required: bool = False
    default: Value = None

    def value_of(self, answer: str) -> Value:
        """The value that `answer` means; None leaves the field out. Raises `ValueError` with the reason."""
        answer = answer.strip()
        if not answer:
            if self.required and self.default is None:
                raise ValueError("an answer is needed")
            return self.default
        if self.kind == "array":
            return [str(self._option(part.strip())) for part in answer.split(",") if part.strip()]
        if self.options:
            return self._option(answer)
        if self.kind == "integer":
            return int(answer)
        return float(answer) if self.kind == "number" else answer

    def _option(self, answer: str) -> Value:
        if answer in self.options:
            return self.options[answer]
        for label, value in self.options.items():
            if answer.casefold() in (label.casefold(), str(value).casefold()):
                return value
        raise ValueError(f"choose one of: {', '.join(self.options)}")


def form_questions(schema: Mapping[str, Any]) -> tuple[Question, ...]:
    """The fields of a form's schema, in order, 20 at most. Raises `ValueError` where there are more."""
    properties = schema.get("properties") or {}
    required = schema.get("required") or ()
    if not isinstance(properties, Mapping) or len(properties) > _MOST_FIELDS:
        raise ValueError(f"a form of more than {_MOST_FIELDS} fields")
    return tuple(
        _question(name, field, required=name in required)
        for name, field in properties.items()
        if isinstance(field, Mapping)
    )


def _question(name: str, field: Mapping[str, Any], *, required: bool) -> Question:
    title, about = field.get("title") or name, field.get("description")
    text = f"{title}: {about}" if about else str(title)
    if not required:
        text += " (may be left empty)"
    kind = str(field.get("type", "string"))
    return Question(
        field=name,
        text=text,
        kind=kind,
        options={"yes": True, "no": False} if kind == "boolean" else _options(field),
        required=required,
        default=field.get("default"),
    )


def _options(field: Mapping[str, Any]) -> dict[str, Value]:
    """The choices of a field by their titles: `enum` with `enumNames`, or `oneOf`/`anyOf` of constants."""
    if isinstance(items := field.get("items"), Mapping):
        return _options(items)
    if values := field.get("enum"):
        titles = field.get("enumNames") or values
        return {str(title): str(value) for title, value in zip(titles, values, strict=False)}
    constants = field.get("oneOf") or field.get("anyOf") or ()
    return {str(one.get("title", one["const"])): str(one["const"]) for one in constants if "const" in one}


async def ask_user(
    server: str, params: ElicitRequestFormParams | ElicitRequestURLParams, clarify: ClarifyCallback
) -> ElicitResult:
    """Put the question and give the answer back. The answer `decline` to the first question refuses all."""
    opening = clean_text(f"The MCP server {server!r} asks: {params.message}")[:_LONGEST_TEXT]
    if isinstance(params, ElicitRequestURLParams):
        text = f"{opening}\nIt wants you to open this address yourself: {clean_text(params.url)}"
        answer = await clarify(text, ("done", DECLINE))
        return ElicitResult(action="accept" if answer.strip().casefold() == "done" else "decline")
    try:
        questions = form_questions(params.requested_schema)
    except (ValueError, TypeError, KeyError):
        return ElicitResult(action="cancel")
    if not questions:
        answer = await clarify(opening, ("accept", DECLINE))
        accepted = answer.strip().casefold() == "accept"
        return ElicitResult(action="accept", content={}) if accepted else ElicitResult(action="decline")
    return await _fill_in(opening, questions, clarify)


async def _fill_in(opening: str, questions: tuple[Question, ...], clarify: ClarifyCallback) -> ElicitResult:
    content: dict[str, Value] = {}
    for number, question in enumerate(questions):
        text = clean_text(f"{opening}\n{question.text}")
        choices = tuple(question.options)
        if number == 0:
            text += f"\n(Answer {DECLINE!r} to refuse.)"
            choices = (*choices, DECLINE) if choices else ()
        for _ in range(_TRIES):
            answer = await clarify(text, choices)
            if number == 0 and answer.strip().casefold() == DECLINE:
                return ElicitResult(action="decline")
            try:
                value = question.value_of(answer)
            except ValueError as error:
                text = f"{text}\nThat can not be used: {error}"
                continue
            if value is not None:
                content[question.field] = value
            break
        else:
            return ElicitResult(action="cancel")
    return ElicitResult(action="accept", content=content)
