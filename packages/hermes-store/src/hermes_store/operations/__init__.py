"""What the store does, written once for every back end: each function is an operation (see `backend`)."""

__all__: list[str] = []
