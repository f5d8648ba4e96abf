"""A cluster of our own on this machine, held by a process that ends it and removes its files (holding.py).

Ray can start one in the process that asks (`ray.init`), but leaves its files behind, and gives a machine up
whose agents, two programs in Python, take more than 15 seconds to start.
"""

__all__: list[str] = []
