"""Wire formats: each is a pure request builder and a pure response reader."""

from hermes_providers.wire.base import RequestBuilder, ResponseReader

__all__ = ["RequestBuilder", "ResponseReader"]
