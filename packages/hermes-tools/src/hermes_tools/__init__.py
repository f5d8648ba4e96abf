"""Declare, schedule, guard and run the tools of an LLM agent."""
