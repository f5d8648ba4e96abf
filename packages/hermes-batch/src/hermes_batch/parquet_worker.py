"""Parquet files, read and written by a process of their own: pyarrow blocks, and an event loop must not.

    python -m hermes_batch.parquet_worker read FILE         rows as JSON lines on standard output
    python -m hermes_batch.parquet_worker write FILE        JSON lines on standard input into FILE

A failure is one line on standard error and exit code 1.
"""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

import msgspec

__all__ = ["main"]

_ROWS_AT_ONCE = 256


def read_parquet(path: Path) -> None:
    """Write the rows of `path` to standard output."""
    import pyarrow.parquet as pq

    encode = msgspec.json.Encoder().encode
    write = sys.stdout.buffer.write
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, use_threads=False):
            for row in batch.to_pylist():
                write(encode(row) + b"\n")
    sys.stdout.buffer.flush()


def write_parquet(path: Path) -> None:
    """Read rows from standard input; the first of them settle the columns and their types."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    decode = msgspec.json.Decoder().decode
    lines = iter(sys.stdin.buffer)
    writer = None
    try:
        while rows := [decode(line) for line in islice(lines, _ROWS_AT_ONCE)]:
            table = pa.Table.from_pylist(rows, schema=None if writer is None else writer.schema)
            if writer is None:
                writer = pq.ParquetWriter(path, table.schema, compression="zstd")
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()


def main(arguments: list[str]) -> int:
    """Do what the command line says; the exit code."""
    job = {"read": read_parquet, "write": write_parquet}[arguments[0]]
    try:
        job(Path(arguments[1]))
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except Exception as error:  # noqa: BLE001 - the parent makes an error of its own of this line
        sys.stderr.write(" ".join(f"{type(error).__name__}: {error}".split())[:500] + "\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
