"""What the page on migrating promises is there in the same source tree."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from batch_runner import BatchRunner
from hermes_messages.protocols import ConversationResult
from hermes_state import SessionDB
from run_agent import AIAgent

pytestmark = pytest.mark.needs("workspace")

PAGE = (Path(__file__).parents[2] / "docs/migrating.md").read_text()


def listed(heading: str) -> set[str]:
    """The names in backquotes of the section under `heading`."""
    section = PAGE.partition(f"\n### {heading}\n")[2].partition("\n#")[0]
    return set(re.findall(r"`(\w+)`", section))


def parameters(function: object) -> set[str]:
    assert callable(function)
    return set(inspect.signature(function).parameters)


def methods(of: type, names: set[str]) -> set[str]:
    """Those of `names` that are methods of the class."""
    return {name for name in names if callable(inspect.getattr_static(of, name, None))}


def test_the_names_that_the_page_promises_are_there() -> None:
    assert listed("AIAgent: parameters") <= parameters(AIAgent.__init__)
    assert listed("AIAgent: parameters")
    assert listed("AIAgent: methods") == methods(AIAgent, listed("AIAgent: methods"))
    assert listed("Keys of a result") == set(ConversationResult.__annotations__)
    assert listed("SessionDB: methods") == methods(SessionDB, listed("SessionDB: methods"))
    assert listed("BatchRunner: parameters") <= parameters(BatchRunner.__init__)
