from __future__ import annotations

import copy
import inspect
import pickle
import re

import pytest

import hermes_messages.errors as errors
from hermes_messages import (
    ArgumentsError,
    ErrorKind,
    HermesError,
    InvariantError,
    MessageFormatError,
    MissingDependencyError,
    ProviderError,
    SessionNotFoundError,
    UnknownNameError,
)

EXAMPLES = [
    HermesError("x"),
    UnknownNameError("toolset", "flie", ["file", "terminal"], hint="see the README"),
    MissingDependencyError("hermes-store", "pip install hermes-store"),
    MessageFormatError("no role", index=3, path="$.role"),
    InvariantError("results_owed", "too early", index=2, call_id="a"),
    ArgumentsError("it is null", text="null", position=0, truncated=True),
    ProviderError("busy", kind=ErrorKind.OVERLOADED, status=503, retry_after_s=1.5),
    SessionNotFoundError("s1"),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_errors_survive_a_process_border(error: HermesError) -> None:
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)


def test_the_drawn_tree_is_the_real_one() -> None:
    drawn = re.findall(
        r"^ *(?:\|--|`--|\|   [|`]--)? ?(\w+Error)\b", inspect.getdoc(errors) or "", re.MULTILINE
    )
    drawn += re.findall(r"[|`]-- (\w+Error)", inspect.getdoc(errors) or "")
    real = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, HermesError)
    }
    assert set(drawn) == real
    assert real <= set(errors.__all__)


def test_unknown_name_says_what_is_near() -> None:
    error = UnknownNameError("toolset", "flie", iter(["file", "terminal"]))
    assert error.near == ("file",)
    assert str(error) == "unknown toolset 'flie'; did you mean 'file'? (known: file, terminal)"
