"""The executor's own options."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hermes_messages import ConfigurationError, JsonValue, UnknownNameError
from hermes_tools.approval_policy import ApprovalPolicy
from hermes_tools.containers.settings import ContainerSettings

__all__ = ["ExecutorSettings"]


_CHECKPOINT_NUMBERS = ("checkpoint_file_limit", "checkpoint_files_limit", "checkpoint_keep")


class ExecutorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How rounds are run. Sizes are in characters, times in seconds.

    `parallel_limit`: calls that run at once. `result_limit`, `round_limit`: what the model is shown of one
    result and of all results of a round. `timeout_s`: for tools that set none themselves; None: no limit.
    `stop_limit_s`: how long a tool that is stopped may take to end before it is left behind with a warning.
    `repeat_limit`: after how many failures in a row the same call is refused; 0 never refuses.
    `turn_call_limit`: how many calls one turn may make; None: no limit. `approval_policy`: what runs, what is
    asked about, what is denied (`{"rules": [{"action": "deny", "pattern": "git push*"}]}`).
    `extra_roots`: directories outside the working directory that file tools may use as well.
    `toolset_groups`: names of the host's own for several toolsets or groups (`{"work": ["file", "web"]}`).
    `disabled_tools`: tools that are left out of their toolsets. `container`: shell commands and file tools
    work in a container of their task (`{"image": "python:3.13", "network": "bridge"}`: `ContainerSettings`).
    `checkpoints`: whether a snapshot is taken before tools that change files, those named in
    `checkpoint_tools` and those that say so themselves; the others are as in `hermes_tools.Checkpoints`.
    """

    parallel_limit: int = 8
    result_limit: int = 30_000
    round_limit: int = 120_000
    timeout_s: float | None = None
    stop_limit_s: float = 4.0
    repeat_limit: int = 3
    turn_call_limit: int | None = None
    approval_policy: ApprovalPolicy = ApprovalPolicy()
    extra_roots: tuple[str, ...] = ()
    toolset_groups: Mapping[str, tuple[str, ...]] = {}
    disabled_tools: tuple[str, ...] = ()
    container: ContainerSettings | None = None
    checkpoints: bool = False
    checkpoint_tools: tuple[str, ...] = ("write_file", "patch", "terminal", "process")
    checkpoint_directory: str | None = None
    """Where snapshots are kept; None: `$HERMES_HOME/checkpoints`."""
    checkpoint_file_limit: int = 10_000_000
    """Larger files are left out, in bytes."""
    checkpoint_files_limit: int = 20_000
    """Where more files are new or changed, no snapshot is taken and the tool runs all the same."""
    checkpoint_keep: int = 50
    """Snapshots of a directory that are kept, the latest ones."""

    @classmethod
    def from_mapping(cls, given: Mapping[str, JsonValue]) -> ExecutorSettings:
        """Read settings by name. Raises `UnknownNameError`, `ConfigurationError`."""
        for name in given:
            if name not in cls.__struct_fields__:
                raise UnknownNameError("executor setting", name, cls.__struct_fields__)
        try:
            settings = msgspec.convert(dict(given), cls)
        except msgspec.ValidationError as error:
            raise ConfigurationError(f"executor settings: {error}") from None
        return settings.checked()

    def checked(self) -> ExecutorSettings:
        """These settings. Raises `ConfigurationError` for numbers that can not work."""
        given = msgspec.structs.asdict(self)
        for name in (
            "parallel_limit",
            "result_limit",
            "round_limit",
            "stop_limit_s",
            "turn_call_limit",
            *_CHECKPOINT_NUMBERS,
        ):
            if given[name] is not None and given[name] <= 0:
                raise ConfigurationError(f"executor setting {name} must be above 0")
        if self.repeat_limit < 0 or (self.timeout_s is not None and self.timeout_s <= 0):
            raise ConfigurationError("executor settings: repeat_limit from 0, timeout_s above 0 (or None)")
        self.approval_policy.checked()
        if self.container is not None:
            self.container.checked()
        return self
