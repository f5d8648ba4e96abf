"""Commands in a container of their task, through the command line of docker or podman."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hermes_messages import ConfigurationError
from hermes_messages.argument_text import JsonValue
from hermes_tools.containers.settings import ContainerSettings

__all__ = ["ContainerSettings", "check_containers"]


async def check_containers(given: Mapping[str, JsonValue], *, image: str | None) -> None:
    """Find out that containers can be had with the settings in `given`, and `image` if one is named.

    For hosts that make many agents, to do before the first. Raises `ContainerError`, and `ConfigurationError`
    for settings that can not be meant.
    """
    from hermes_tools.containers.engine import ContainerEngine  # with it comes what runs processes

    try:
        settings = msgspec.convert({**given, "image": image or "none"}, ContainerSettings)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"container settings: {error}") from None
    await ContainerEngine(settings.checked()).check(image=image is not None)
