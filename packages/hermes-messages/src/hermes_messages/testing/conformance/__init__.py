"""Checks that an implementation keeps the promises of a Protocol. Run them in a test of your own.

>>> import asyncio
>>> from hermes_messages.testing import MemoryStore, check_store
>>> asyncio.run(check_store(MemoryStore))
"""

from hermes_messages.testing.conformance.approval_checks import (
    AskingExecutor,
    MakeAskingExecutor,
    check_approvals,
)
from hermes_messages.testing.conformance.executor_checks import MakeExecutor, check_executor
from hermes_messages.testing.conformance.provider_checks import MakeProvider, check_provider
from hermes_messages.testing.conformance.report import BrokenPromise, ConformanceError
from hermes_messages.testing.conformance.store_checks import check_store
from hermes_messages.testing.conformance.store_samples import MakeStore

__all__ = [
    "AskingExecutor",
    "BrokenPromise",
    "ConformanceError",
    "MakeAskingExecutor",
    "MakeExecutor",
    "MakeProvider",
    "MakeStore",
    "check_approvals",
    "check_executor",
    "check_provider",
    "check_store",
]
