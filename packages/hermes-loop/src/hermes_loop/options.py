"""The settings of an agent: checked when it is made, before anything happens. Pure."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, get_args

import msgspec
from msgspec import Raw, Struct

from hermes_loop.budget import Budget, IterationBudget
from hermes_loop.checks import check_members, check_provider
from hermes_loop.compression.control import CompressionControl
from hermes_loop.events import Callbacks
from hermes_loop.output_type import OutputContract
from hermes_loop.route_specs import RouteSpec
from hermes_loop.runtime import RuntimeProvider, SupportsWholeTurn
from hermes_messages import (
    ConfigurationError,
    InvariantError,
    JsonValue,
    ReasoningEffort,
    SystemMessage,
    Transcript,
    TranscriptState,
)
from hermes_messages.messages import Message
from hermes_messages.openai_shape import messages_from_dicts
from hermes_messages.protocols import Provider, SessionInfo, SessionStore, Tool, ToolExecutor

__all__ = [
    "AgentOptions",
    "UnexpectedOptionError",
    "check_count",
    "check_other_options",
    "provider_of",
    "read_effort",
    "read_overrides",
    "read_prefill",
    "read_trajectory_dir",
]


class UnexpectedOptionError(ConfigurationError, TypeError):
    """A keyword that `AIAgent` does not know; a `TypeError` too, as for any other call."""


class AgentOptions(Struct, frozen=True, kw_only=True):
    """What an agent was made with, checked. `api_key` never shows in its repr."""

    provider: str | Provider | None
    model: str | None
    fallbacks: tuple[RouteSpec, ...]
    tools: ToolExecutor | tuple[Tool, ...] | None
    base_url: str | None
    api_key: str | None
    max_iterations: int
    iteration_budget: IterationBudget | None
    budget: Budget
    compression: CompressionControl | None
    runtime: SupportsWholeTurn | None
    enabled_toolsets: tuple[str, ...]
    disabled_toolsets: tuple[str, ...]
    session_db: str | SessionStore | None
    trajectory_dir: str | None
    ephemeral_system_prompt: str | None
    system_prompt: str | None
    identity: str | None
    context_files: tuple[str, ...]
    prefill: tuple[Message, ...]
    max_tokens: int | None
    temperature: float | None
    seed: int | None
    reasoning_effort: ReasoningEffort | None
    extra_body: Raw | None
    output: OutputContract | None
    cwd: str | None
    hooks: tuple[object, ...]
    skip_memory: bool
    callbacks: Callbacks
    provider_settings: Mapping[str, JsonValue]
    tool_settings: Mapping[str, JsonValue]
    mcp_servers: Mapping[str, JsonValue]
    approval_policy: Mapping[str, JsonValue]
    rerun_idempotent: bool
    checkpoints_enabled: bool
    session_info: SessionInfo

    def __repr__(self) -> str:
        return f"AgentOptions(provider={self.provider!r}, model={self.model!r})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [("provider", self.provider), ("model", self.model)]

    def label(self, session_id: str) -> str:
        """How the agent of this session is shown to a person."""
        return f"<AIAgent session_id={session_id!r} {self!r}>"

    def check(self) -> None:
        """Raises `ConfigurationError` for settings that contradict each other, and for objects that are not
        what they are given for."""
        if type(self.checkpoints_enabled) is not bool:
            raise ConfigurationError(
                f"checkpoints_enabled must be True or False, not {self.checkpoints_enabled!r}"
            )
        if self.provider is not None and not isinstance(self.provider, str):
            check_provider("provider=", self.provider)
            self._no_effect("provider", "base_url", self.base_url)
            self._no_effect("provider", "api_key", self.api_key)
            self._no_effect("provider", "provider_settings", self.provider_settings)
        if self.runtime is not None:
            for name in ("fallbacks", "prefill", "max_tokens", "temperature", "seed", "reasoning_effort"):
                self._no_effect("runtime", name, getattr(self, name))
            self._no_effect("runtime", "request_overrides", self.extra_body)
        if self.session_db is not None and not isinstance(self.session_db, str):
            check_members("session_db=", self.session_db, STORE_METHODS)
        if self.tools is not None and not isinstance(self.tools, tuple):
            check_members("tools=", self.tools, EXECUTOR_METHODS)
            self._no_effect("tools", "enabled_toolsets", self.enabled_toolsets)
            self._no_effect("tools", "disabled_toolsets", self.disabled_toolsets)
            self._no_effect("tools", "tool_settings", self.tool_settings)
            self._no_effect("tools", "mcp_servers", self.mcp_servers)
            self._no_effect("tools", "approval_policy", self.approval_policy)
            self._no_effect("tools", "checkpoints_enabled", self.checkpoints_enabled)

    @staticmethod
    def _no_effect(given: str, name: str, value: object) -> None:
        if value:
            raise ConfigurationError(
                f"{name}= has no effect where {given}= is an object; configure the object instead"
            )


EXECUTOR_METHODS: Final = ("open", "refresh", "execute", "release", "close")
STORE_METHODS: Final = (
    "ensure_session",
    "get_messages",
    "append_messages_batch",
    "begin_tool_round",
    "set_tool_result",
    "update_session_meta",
    "update_token_counts",
    "close",
)


# Names that users of agents know, which this version does not act on, each with the values that ask for
# nothing. Any other value is refused: a setting is never silently ignored.
NOT_AVAILABLE: Final[Mapping[str, tuple[object, ...]]] = {
    "plugins": (None, (), []),
    # It prints nothing, whatever is asked for.
    "quiet_mode": (None, False, True),
    "verbose_logging": (None, False),
}


def check_other_options(others: Mapping[str, object], known: Iterable[str]) -> None:
    """Refuse keywords that are unknown, and known ones whose value this version can not honour.

    Raises `UnexpectedOptionError` with the nearest name, `ConfigurationError`.
    """
    names = [*known, *NOT_AVAILABLE]
    for name, value in others.items():
        if name not in NOT_AVAILABLE:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UnexpectedOptionError(f"AIAgent has no parameter {name!r}{hint}")
        if value not in NOT_AVAILABLE[name]:
            raise ConfigurationError(f"{name}= is not available in this version; leave it out")


def provider_of(
    provider: str | Provider | None, runtime: SupportsWholeTurn | None, model: str | None
) -> str | Provider | None:
    """The provider, or what stands in its place where a `runtime` does the turns.

    Raises `ConfigurationError`.
    """
    if runtime is None:
        return provider
    check_members("runtime=", runtime, ("name", "run_whole_turn"))
    if provider is not None:
        raise ConfigurationError("give runtime= or provider=, not both")
    return RuntimeProvider(runtime, model)


def check_count(name: str, value: int) -> int:
    """`value`, if it is a whole number of at least 1. Raises `ConfigurationError`."""
    if type(value) is not int or value < 1:
        raise ConfigurationError(f"{name} must be a whole number of at least 1, not {value!r}")
    return value


def read_effort(config: Mapping[str, object] | None, effort: str | None) -> ReasoningEffort | None:
    """The reasoning effort from `reasoning_config={"enabled": ..., "effort": ...}` or `effort`.

    Raises `ConfigurationError`.
    """
    if config is None and effort is None:
        return None
    if config is not None and effort is not None:
        raise ConfigurationError("give reasoning_config= or reasoning_effort=, not both")
    wanted: object = effort
    if config is not None:
        unknown = set(config) - {"enabled", "effort"}
        if unknown:
            raise ConfigurationError(f"reasoning_config knows 'enabled' and 'effort', not {sorted(unknown)}")
        wanted = "none" if config.get("enabled") is False else config.get("effort")
    for known in get_args(ReasoningEffort):
        if wanted == known:
            value: ReasoningEffort = known
            return value
    if wanted is None:
        return None
    raise ConfigurationError(f"reasoning effort {wanted!r} is none of {get_args(ReasoningEffort)}")


def read_overrides(overrides: Mapping[str, object] | None) -> Raw | None:
    """The host's own request fields as one JSON object. Raises `ConfigurationError`."""
    if not overrides:
        return None
    try:
        return Raw(msgspec.json.encode(overrides))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"request_overrides must be a JSON object: {error}") from None


def read_prefill(messages: Sequence[Message | Mapping[str, JsonValue]] | None) -> tuple[Message, ...]:
    """Messages to put between the system prompt and the conversation.

    Raises `MessageFormatError`, `ConfigurationError`.
    """
    if not messages:
        return ()
    read: list[Message] = []
    for message in messages:
        if not isinstance(message, Mapping | Message):
            raise ConfigurationError(
                f"prefill_messages must hold messages or dicts, not {type(message).__name__}"
            )
        read.extend(messages_from_dicts([message]) if isinstance(message, Mapping) else [message])
    try:
        transcript = Transcript(read)
    except InvariantError as error:
        raise ConfigurationError(f"prefill_messages: {error}") from error
    if isinstance(read[0], SystemMessage):
        raise ConfigurationError("prefill_messages must not hold a system message; use system_prompt=")
    if transcript.state is TranscriptState.RESULTS_OWED:
        raise ConfigurationError("prefill_messages end with tool calls that have no results")
    return tuple(read)


def read_trajectory_dir(save: bool | str | os.PathLike[str]) -> str | None:
    """Where trajectories go: nowhere, the current directory, or a directory."""
    if save is False:
        return None
    return "." if save is True else os.fspath(save)
