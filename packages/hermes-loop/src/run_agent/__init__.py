"""AIAgent: the turn loop of an LLM agent as a phase machine, native async."""
