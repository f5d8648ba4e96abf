"""What the driver and the gateway say to each other, and what a worker is given and gives back. Pure.

A frame is its length (4 bytes, big-endian) and MessagePack. Rows, records and options travel as JSON inside,
since their numbers may be larger than MessagePack has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from hermes_batch.agent_options import AgentOptions
from hermes_batch.row_settings import RowSettings
from hermes_batch.rows import PromptRow
from hermes_messages import ConfigurationError

__all__ = [
    "HEADER_BYTES",
    "Begin",
    "Cancel",
    "Connected",
    "Done",
    "FromGateway",
    "Gone",
    "Kill",
    "Lost",
    "NotConnected",
    "Opened",
    "Ready",
    "Refused",
    "RunRow",
    "Secrets",
    "StartWorker",
    "Stopped",
    "ToGateway",
    "Trouble",
    "WorkerJob",
    "body_bytes",
    "decode_from_gateway",
    "decode_job",
    "decode_row",
    "decode_to_gateway",
    "encode_job",
    "encode_row",
    "frame",
]

HEADER_BYTES: Final = 4


class Begin(Struct, frozen=True, tag=True):
    """Connect. `address` is `auto` or `host:port`."""

    address: str


class StartWorker(Struct, frozen=True, tag=True):
    """Start an actor that has `cpus` and runs at most `slots` rows at once; `job` and `secrets` are its
    own to read."""

    worker: int
    cpus: float
    slots: int
    job: bytes
    secrets: bytes


class RunRow(Struct, frozen=True, tag=True):
    """Run a row; `number` is this attempt's, never used twice."""

    worker: int
    number: int
    row: bytes


class Cancel(Struct, frozen=True, tag=True):
    """End an attempt; `Stopped` tells when it has ended, unless it came to a result before."""

    worker: int
    number: int


class Kill(Struct, frozen=True, tag=True):
    """End a worker, whatever it does."""

    worker: int


ToGateway = Begin | StartWorker | RunRow | Cancel | Kill


class Connected(Struct, frozen=True, tag=True):
    """There is a cluster, of so many machines."""

    machines: int


class NotConnected(Struct, frozen=True, tag=True):
    """There is none, and why."""

    reason: str


class Ready(Struct, frozen=True, tag=True):
    """A worker takes rows."""

    worker: int


class Refused(Struct, frozen=True, tag=True):
    """A worker can not make agents; `configuration`: because of what was asked for."""

    worker: int
    configuration: bool
    reason: str


class Done(Struct, frozen=True, tag=True):
    """The record of an attempt."""

    number: int
    record: bytes


class Trouble(Struct, frozen=True, tag=True):
    """An attempt failed for a reason that is the machine's, not the row's."""

    number: int
    reason: str


class Stopped(Struct, frozen=True, tag=True):
    """An attempt ended by its cancellation."""

    number: int


class Lost(Struct, frozen=True, tag=True):
    """A worker is gone, and with it every row that it ran."""

    worker: int
    reason: str


class Gone(Struct, frozen=True, tag=True):
    """The cluster is gone, as far as the gateway is concerned."""

    reason: str


FromGateway = Connected | NotConnected | Ready | Refused | Done | Trouble | Stopped | Lost | Gone


class Opened(Struct, frozen=True, tag=True):
    """A worker's own word that it can make agents."""


class Secrets(Struct, frozen=True):
    """What of the options may hold credentials, kept apart: it is an argument of one call, small enough that
    Ray never puts it into its object store, and stands in no actor's description."""

    api_key: str | None = None
    base_url: str | None = None
    provider_settings: Mapping[str, object] = {}
    fallback_models: tuple[str | Mapping[str, object], ...] = ()
    container_settings: Mapping[str, object] = {}

    def __repr__(self) -> str:
        return "Secrets(...)"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return []


class WorkerJob(Struct, frozen=True):
    """What a worker has to know of a run. One of `factory` (a name, looked for also in the directories
    `paths`) and `options` says who makes agents."""

    settings: RowSettings
    paths: tuple[str, ...] = ()
    factory: str | None = None
    options: AgentOptions | None = None


_to_gateway: Final[msgspec.msgpack.Decoder[ToGateway]] = msgspec.msgpack.Decoder(ToGateway)
_from_gateway: Final[msgspec.msgpack.Decoder[FromGateway]] = msgspec.msgpack.Decoder(FromGateway)
_SECRET: Final = Secrets.__struct_fields__
_MOST_SECRET_BYTES: Final = 64 * 1024


def frame(message: ToGateway | FromGateway) -> bytes:
    """A message as it is written."""
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(HEADER_BYTES, "big") + body


def body_bytes(header: bytes) -> int:
    """How long the body after this header is."""
    return int.from_bytes(header, "big")


def decode_to_gateway(body: bytes) -> ToGateway:
    """The body of a frame for the gateway. Raises `msgspec.DecodeError`."""
    return _to_gateway.decode(body)


def decode_from_gateway(body: bytes) -> FromGateway:
    """The body of a frame of the gateway. Raises `msgspec.DecodeError`."""
    return _from_gateway.decode(body)


def encode_row(row: PromptRow) -> bytes:
    """A row for a worker."""
    return msgspec.json.encode(row)


def decode_row(data: bytes) -> PromptRow:
    """The inverse of `encode_row`. Raises `msgspec.DecodeError`."""
    return msgspec.json.decode(data, type=PromptRow)


def encode_job(
    settings: RowSettings, agents: AgentOptions | str, paths: Sequence[str]
) -> tuple[bytes, bytes]:
    """A job without its secrets, and the secrets. Sessions are not kept: no disk is the workers' and ours.

    Raises `ConfigurationError` for provider settings that are no JSON, or longer than such things are.
    """
    secrets = Secrets()
    job = WorkerJob(settings, tuple(paths))
    if isinstance(agents, str):
        job = msgspec.structs.replace(job, factory=agents)
    else:
        secrets = Secrets(**{name: getattr(agents, name) for name in _SECRET})
        public = msgspec.structs.replace(agents, state_db=None, **msgspec.structs.asdict(Secrets()))
        job = msgspec.structs.replace(job, options=public)
    try:
        encoded = msgspec.msgpack.encode(job), msgspec.json.encode(secrets)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigurationError(
            f"the options of the agents can not go to another machine: {error}"
        ) from None
    if len(encoded[1]) > _MOST_SECRET_BYTES:
        raise ConfigurationError(
            f"the settings of provider and containers take {len(encoded[1])} bytes; 64 KB may be sent"
        )
    return encoded


def decode_job(job: bytes, secrets: bytes) -> WorkerJob:
    """The job with its secrets. Raises `msgspec.DecodeError`."""
    given = msgspec.msgpack.decode(job, type=WorkerJob)
    if given.options is None:
        return given
    kept = msgspec.json.decode(secrets, type=Secrets)
    options = msgspec.structs.replace(given.options, **msgspec.structs.asdict(kept))
    return msgspec.structs.replace(given, options=options)
