"""When the context is compressed, and what stays word for word."""

from __future__ import annotations

from msgspec import Struct

from hermes_messages import ConfigurationError

__all__ = ["CompressionSettings"]


class CompressionSettings(Struct, frozen=True, kw_only=True):
    """The bounds of compression. Shares are of the model's context window; sizes in tokens unless said.

    It begins when the prompt is expected to pass `threshold`. Of the newest messages, whole rounds that take
    up to `keep_recent` stay word for word. In them, tool results of more than `result_characters` are cut to
    their beginning and end, save those of the round that is being worked on. The last round in which a tool
    of `keep_tools` was called stays as well: such tools keep their state in it. `keep_images` is the number
    of images that are still shown afterwards.

    An attempt takes `timeout_s` seconds at most; there are `per_turn` in a turn at most, and three for one
    answer. One that fails, or saves less than the share `least_saving` of the prompt, is not repeated for
    `cooldown_s` seconds unless the host refuses the prompt.
    """

    threshold: float = 0.75
    keep_recent: float = 0.25
    result_characters: int = 12_000
    keep_tools: tuple[str, ...] = ("todo",)
    keep_images: int = 3
    timeout_s: float = 120.0
    per_turn: int = 20
    cooldown_s: float = 60.0
    least_saving: float = 0.1

    def __post_init__(self) -> None:
        """Raises `ConfigurationError`."""
        if not 0 < self.keep_recent < self.threshold <= 1:
            raise ConfigurationError(
                "compression: 0 < keep_recent < threshold <= 1 must hold, not "
                f"keep_recent={self.keep_recent}, threshold={self.threshold}"
            )
        if not 0 <= self.least_saving < 1 or self.timeout_s <= 0 or self.cooldown_s < 0:
            raise ConfigurationError("compression: least_saving, timeout_s or cooldown_s is out of range")
        if self.per_turn < 1 or self.keep_images < 0 or self.result_characters < _SHORTEST_RESULT:
            raise ConfigurationError(
                "compression: per_turn must be at least 1, keep_images at least 0 and result_characters at "
                f"least {_SHORTEST_RESULT}"
            )


_SHORTEST_RESULT = 200
