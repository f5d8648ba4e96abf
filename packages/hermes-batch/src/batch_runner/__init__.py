"""The name that code written for Hermes imports; everything is in `hermes_batch`."""

from hermes_batch import BatchRunner

__all__ = ["BatchRunner"]
