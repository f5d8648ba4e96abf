"""All that this wheel does with files. Everything goes through aiofiles; `calls` says what that hands on."""

from __future__ import annotations

from hermes_batch.files.directories import (
    OwnDirectory,
    is_directory,
    list_names,
    make_directory,
    make_private_directories,
    make_temporary_directory,
    path_exists,
    remove_leftovers,
    remove_tree,
    remove_trees,
    sync_directory,
)
from hermes_batch.files.locks import FileLock
from hermes_batch.files.reading import (
    ReadFile,
    check_readable,
    file_chunks,
    file_line_batches,
    read_bytes,
    read_start,
)
from hermes_batch.files.writing import AppendFile, cut_torn_tail, replace_by_writer, replace_file

__all__ = [
    "AppendFile",
    "FileLock",
    "OwnDirectory",
    "ReadFile",
    "check_readable",
    "cut_torn_tail",
    "file_chunks",
    "file_line_batches",
    "is_directory",
    "list_names",
    "make_directory",
    "make_private_directories",
    "make_temporary_directory",
    "path_exists",
    "read_bytes",
    "read_start",
    "remove_leftovers",
    "remove_tree",
    "remove_trees",
    "replace_by_writer",
    "replace_file",
    "sync_directory",
]
