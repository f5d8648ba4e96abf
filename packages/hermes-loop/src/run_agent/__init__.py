"""Drop-in module: `from run_agent import AIAgent`."""

from hermes_loop import AIAgent

__all__ = ["AIAgent"]
