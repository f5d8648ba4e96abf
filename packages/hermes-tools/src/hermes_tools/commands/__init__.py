"""Shell command lines taken apart, to say before they run what a person should see."""

from hermes_tools.commands.dangers import Danger, danger_of, dangers_of
from hermes_tools.commands.unwrapping import commands_of, shown
from hermes_tools.commands.words import Command, UnreadableCommandError

__all__ = ["Command", "Danger", "UnreadableCommandError", "commands_of", "danger_of", "dangers_of", "shown"]
