"""The phases of a turn, one module each."""

__all__: list[str] = []
