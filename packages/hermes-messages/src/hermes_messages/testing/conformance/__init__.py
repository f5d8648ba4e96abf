"""Checks that an implementation keeps the promises of a Protocol. Run them in a test of your own.

>>> import asyncio
>>> from hermes_messages.testing import MemoryStore, check_store
>>> asyncio.run(check_store(MemoryStore))
"""

from hermes_messages.testing.conformance.approval_checks import check_approvals
from hermes_messages.testing.conformance.executor_checks import check_executor
from hermes_messages.testing.conformance.provider_checks import check_provider
from hermes_messages.testing.conformance.report import BrokenPromise, ConformanceError
from hermes_messages.testing.conformance.store_checks import check_store

__all__ = [
    "BrokenPromise",
    "ConformanceError",
    "check_approvals",
    "check_executor",
    "check_provider",
    "check_store",
]
