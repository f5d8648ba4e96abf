"""Compression as an agent has it: how, by whom, and when again after a failure."""

from __future__ import annotations

from typing import Final

from hermes_loop.compression.protocol import Compressor
from hermes_loop.compression.settings import CompressionSettings
from hermes_loop.compression.summary import SummaryCompressor
from hermes_messages import ConfigurationError
from hermes_messages.abilities import supports

__all__ = ["CompressionControl", "read_compression"]


_USUAL: Final = CompressionSettings()


class CompressionControl:
    """Shared by the turns of one agent."""

    def __init__(self, settings: CompressionSettings, compressor: Compressor) -> None:
        self.settings = settings
        self.compressor = compressor
        self.not_before: float | None = None

    def failed(self, now: float) -> None:
        """An attempt failed at `now`, in seconds of the clock that turns are given."""
        self.not_before = now + self.settings.cooldown_s


def read_compression(
    compression: bool | CompressionSettings, compressor: Compressor | None
) -> CompressionControl | None:
    """What `AIAgent(compression=, compressor=)` says. Raises `ConfigurationError`."""
    if compressor is not None and not supports(compressor, Compressor):
        raise ConfigurationError(
            f"compressor must have a method compress, not be a {type(compressor).__name__}"
        )
    if compression is False:
        if compressor is not None:
            raise ConfigurationError("a compressor is given although compression is off")
        return None
    if compression is not True and not isinstance(compression, CompressionSettings):
        raise ConfigurationError(
            f"compression must be a bool or CompressionSettings, not {type(compression).__name__}"
        )
    settings = _USUAL if compression is True else compression
    return CompressionControl(settings, compressor or SummaryCompressor())
