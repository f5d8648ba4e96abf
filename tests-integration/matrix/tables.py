"""Cells as a table of plain text; pure."""

from __future__ import annotations

from collections.abc import Sequence

from cells import Filled

__all__ = ["grid"]


def grid(filled: Sequence[Filled]) -> str:
    """Rows and columns in the order of the cells; a failed cell says FAILED, one that was not tried a dot."""
    rows = list(dict.fromkeys(cell.row for cell in filled))
    columns = list(dict.fromkeys(cell.column for cell in filled))
    texts = {(cell.row, cell.column): shown(cell) for cell in filled}
    lines = [["", *columns], *([row, *(texts.get((row, column), ".") for column in columns)] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def shown(cell: Filled) -> str:
    """What a cell shows."""
    return f"FAILED ({cell.ended.text})" if cell.ended.status == "FAILED" else cell.ended.text
