"""Commands in a container of their task, through the command line of docker or podman."""

from hermes_tools.containers.settings import ContainerSettings

__all__ = ["ContainerSettings"]
