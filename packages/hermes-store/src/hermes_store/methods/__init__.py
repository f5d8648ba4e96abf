"""The public methods of a session store, by subject, over any back end."""

__all__: list[str] = []
