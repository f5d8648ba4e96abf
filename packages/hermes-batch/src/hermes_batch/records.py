"""The record that a row leaves behind: one JSON line, the same keys and types in every row.

Free-form data is JSON text inside a string, and nothing is null, so that table readers which infer types
from the first rows (Arrow, `datasets`) never meet a second type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Struct

__all__ = [
    "Record",
    "RecordStatus",
    "ToolStats",
    "Turn",
    "decode_record",
    "encode_record",
]

RecordStatus = Literal["ok", "error", "discarded"]
"""`ok`: the row has a trajectory; `error`: its agent failed; `discarded`: what came was not to be kept."""


class ToolStats(Struct, frozen=True):
    """How often a tool was called, and how the calls ended."""

    count: int = 0
    """All calls."""
    success: int = 0
    """Calls whose result has the status `ok`."""
    failure: int = 0
    """All others: failed, denied, stopped, without a result."""


class Turn(Struct, frozen=True, rename={"from_": "from"}):
    """One step of a conversation as training data has it; `from_` is `system`, `human`, `gpt` or `tool`."""

    from_: str
    value: str
    """Text; reasoning, calls and results stand in tags in it."""


class Record(Struct, frozen=True, kw_only=True):
    """What became of one row.

    `tool_stats` and `tool_error_counts` name every tool that the agent had, those never called with zeros (in
    `trajectories.jsonl` every tool of the run). Figures
    that the host did not give are 0 with `usage_known` or `cost_known` false. `duration_s` is in seconds.
    `metadata` is the row's own, as JSON text. `run_again` is true when the host could not be reached, so
    that nothing was paid and the row is run again on resume.
    """

    prompt_index: int
    """The place of the row in the dataset, from 0."""
    id: str
    """The id that the row gives itself, or ""."""
    row_hash: str
    """The hash of what the row asks: the same row is known again by it after a change of the dataset."""
    status: RecordStatus
    """How the row ended."""
    reason: str
    """Why the turn ended (`TurnExitReason`), or why there is no trajectory."""
    error: str
    """For people; "" where nothing failed."""
    conversations: tuple[Turn, ...]
    """The trajectory; empty where there is none."""
    completed: bool
    """The model gave its final answer."""
    partial: bool
    """What there is, is not the whole answer."""
    run_again: bool
    api_calls: int
    """Requests to models for this row."""
    toolsets_used: tuple[str, ...]
    """The toolsets that the agent was given."""
    tool_stats: Mapping[str, ToolStats]
    tool_error_counts: Mapping[str, int]
    model: str
    """The model that was asked last, "" when none was."""
    provider: str
    """The host that was asked last, "" when none was."""
    session_id: str
    """The session of the row, which is in the store where the run keeps one."""
    input_tokens: int
    """All tokens of the requests, cached ones included."""
    output_tokens: int
    """All tokens of the answers, reasoning included."""
    usage_known: bool
    cost_usd: float
    """In US dollars."""
    cost_known: bool
    duration_s: float
    finished_at: str
    """UTC, in the form of ISO 8601."""
    metadata: str


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)


def encode_record(record: Record) -> bytes:
    """The record as one line, its line feed included."""
    return _encoder.encode(record) + b"\n"


def decode_record(line: bytes | memoryview) -> Record:
    """The inverse of `encode_record`. Raises `msgspec.DecodeError` for a line that is no record."""
    return _decoder.decode(line)
