"""BatchRunner: prompts in, tool-use training trajectories out, nothing lost."""
