"""Commands in a container of their task, through the command line of docker or podman."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from hermes_messages import ConfigurationError
from hermes_messages.argument_text import JsonValue
from hermes_tools.containers.settings import ContainerSettings

__all__ = ["ContainerSettings", "check_containers", "missing_images"]


async def check_containers(given: Mapping[str, JsonValue], *, image: str | None) -> None:
    """Find out that containers can be had with the settings in `given`, and `image` if one is named.

    For hosts that make many agents, to do before the first. Raises `ContainerError`, and `ConfigurationError`
    for settings that can not be meant.
    """
    from hermes_tools.containers.engine import ContainerEngine  # with it comes what runs processes

    await ContainerEngine(_settings(given, image)).check(image=image is not None)


async def missing_images(given: Mapping[str, JsonValue], images: Sequence[str]) -> list[str]:
    """Which of `images` are not on this machine. Nothing is fetched. Raises as `check_containers`."""
    from hermes_tools.containers.engine import ContainerEngine

    return await ContainerEngine(_settings(given, None)).missing(images)


def _settings(given: Mapping[str, JsonValue], image: str | None) -> ContainerSettings:
    try:
        settings = msgspec.convert({**given, "image": image or "none"}, ContainerSettings)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"container settings: {error}") from None
    return settings.checked()
