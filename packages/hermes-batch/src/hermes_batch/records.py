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
    success: int = 0
    failure: int = 0


class Turn(Struct, frozen=True, rename={"from_": "from"}):
    """One step of a conversation as training data has it; `from_` is `system`, `human`, `gpt` or `tool`."""

    from_: str
    value: str


class Record(Struct, frozen=True, kw_only=True):
    """What became of one row.

    `tool_stats` and `tool_error_counts` name every tool that the agent had, those never called with zeros (in
    `trajectories.jsonl` every tool of the run). Figures
    that the host did not give are 0 with `usage_known` or `cost_known` false. `duration_s` is in seconds.
    `metadata` is the row's own, as JSON text. `run_again` is true when the host could not be reached, so
    that nothing was paid and the row is run again on resume.
    """

    prompt_index: int
    id: str
    row_hash: str
    status: RecordStatus
    reason: str
    error: str
    conversations: tuple[Turn, ...]
    completed: bool
    partial: bool
    run_again: bool
    api_calls: int
    toolsets_used: tuple[str, ...]
    tool_stats: Mapping[str, ToolStats]
    tool_error_counts: Mapping[str, int]
    model: str
    provider: str
    session_id: str
    input_tokens: int
    output_tokens: int
    usage_known: bool
    cost_usd: float
    cost_known: bool
    duration_s: float
    finished_at: str
    metadata: str


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)


def encode_record(record: Record) -> bytes:
    """The record as one line, its line feed included."""
    return _encoder.encode(record) + b"\n"


def decode_record(line: bytes | memoryview) -> Record:
    """The inverse of `encode_record`. Raises `msgspec.DecodeError` for a line that is no record."""
    return _decoder.decode(line)
