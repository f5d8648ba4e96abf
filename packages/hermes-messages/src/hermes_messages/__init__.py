"""Message models, transcript invariants and the Protocols that join the layers of an LLM agent."""
