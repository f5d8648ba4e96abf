"""OpenTelemetry spans and metrics of turns (extra `otel`): the hook of the name `otel`.

Names follow the semantic conventions for generative AI, version 0.1.0
(https://github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai), which are in development; what
they have no name for begins with `hermes.`. Only opentelemetry-api is needed: without an SDK that the host
sets up, nothing is recorded.
"""

from functools import lru_cache

from hermes_messages import MissingDependencyError

try:
    import opentelemetry.trace as _trace  # noqa: F401 - whether it is there is the question
except ImportError as _error:
    raise MissingDependencyError(
        "the hook 'otel' needs opentelemetry-api, which", "pip install 'hermes-loop[otel]'"
    ) from _error

from hermes_loop.otel.hook import OpenTelemetryHook

__all__ = ["OpenTelemetryHook", "shared_hook"]


@lru_cache(maxsize=1)
def shared_hook() -> OpenTelemetryHook:
    """The hook of the name `otel`: one for all agents of the process."""
    return OpenTelemetryHook()
