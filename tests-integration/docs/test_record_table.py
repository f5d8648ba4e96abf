"""The table of a record's fields in the README of hermes-batch names all of them, in their order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hermes_batch import Record

pytestmark = pytest.mark.needs("workspace")

README = Path(__file__).parents[2] / "packages/hermes-batch/README.md"


def test_the_table_of_a_record_names_every_field_once_and_in_order() -> None:
    _, _, table = README.read_text().partition("| field | type | what it is |\n")
    rows = table.split("\n\n")[0].splitlines()[1:]
    named = [name for row in rows for name in re.findall("`([a-z_]+)`", row.split("|")[1])]
    assert named == list(Record.__struct_fields__)
