"""Declare, schedule and run the tools of an LLM agent."""

from hermes_tools.tool import FunctionTool, tool

__all__ = ["FunctionTool", "tool"]
