"""A record as a row of a training set, in the shapes that trainers read. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, get_args

from hermes_batch.records import Record, Turn
from hermes_batch.trajectory_fitting import fit_messages
from hermes_messages import Message, ToolSpec
from hermes_messages.argument_text import JsonValue
from hermes_messages.openai_row import to_openai_row
from hermes_messages.trajectory import from_trajectory, to_trajectory, tools_from_trajectory

__all__ = ["EXPORT_FORMATS", "ExportFormat", "RowsPer", "export_rows"]

ExportFormat = Literal["sharegpt", "openai", "chatml"]
"""`sharegpt`: `conversations` of `from` and `value`. `openai`: `messages` and `tools`, see
`hermes_messages.openai_row`. `chatml`: one `text` of `<|im_start|>role ... <|im_end|>` blocks."""

RowsPer = Literal["conversation", "turn"]
"""`turn`: a row for each user message, with all that was said before it, up to the answer."""

EXPORT_FORMATS: Final[tuple[ExportFormat, ...]] = get_args(ExportFormat)

_ROLES: Final = {"system": "system", "human": "user", "gpt": "assistant", "tool": "tool"}


def export_rows(
    record: Record,
    form: ExportFormat,
    rows_per: RowsPer = "conversation",
    max_tokens: int | None = None,
) -> Iterator[Mapping[str, JsonValue] | None]:
    """The rows that `record` becomes; each has the same columns of the same types. None stands for one that
    can not be brought within `max_tokens` (see `hermes_batch.trajectory_fitting`)."""
    for steps in _samples(record.conversations, rows_per):
        fitted = steps if max_tokens is None else _fitted(steps, max_tokens)
        yield None if fitted is None else _row(record.id, fitted, form)


def _row(row_id: str, steps: Sequence[Turn], form: ExportFormat) -> Mapping[str, JsonValue]:
    match form:
        case "sharegpt":
            return {"id": row_id, "conversations": _plain(steps)}
        case "openai":
            messages, tools = _read(steps)
            row = to_openai_row(messages, tools)
            listed: list[JsonValue] = [
                {key: str(value) for key, value in message.items()} for message in row["messages"]
            ]
            return {"id": row_id, "messages": listed, "tools": row["tools"]}
        case "chatml":
            return {"id": row_id, "text": "".join(_block(step) for step in steps)}


def _read(steps: Sequence[Turn]) -> tuple[list[Message], list[ToolSpec]]:
    plain = [{"from": step.from_, "value": step.value} for step in steps]
    return from_trajectory(plain), tools_from_trajectory(plain)


def _fitted(steps: Sequence[Turn], max_tokens: int) -> Sequence[Turn] | None:
    messages, tools = _read(steps)
    fitted = fit_messages(messages, tools, max_tokens)
    if fitted is None or fitted is messages:
        return None if fitted is None else steps
    return [Turn(step["from"], step["value"]) for step in to_trajectory(fitted, tools)]


def _samples(steps: Sequence[Turn], rows_per: RowsPer) -> Iterator[Sequence[Turn]]:
    if rows_per == "turn":
        asked = [place for place, step in enumerate(steps) if step.from_ == "human"]
        for place in asked[1:]:
            if any(step.from_ == "gpt" for step in steps[:place]):
                yield steps[:place]
    yield steps


def _plain(steps: Sequence[Turn]) -> list[JsonValue]:
    return [{"from": step.from_, "value": step.value} for step in steps]


def _block(step: Turn) -> str:
    # A mark inside a text would end its block early: a zero-width space keeps it a text.
    text = step.value.replace("<|im_", "<|\u200bim_")
    return f"<|im_start|>{_ROLES.get(step.from_, step.from_)}\n{text}<|im_end|>\n"
