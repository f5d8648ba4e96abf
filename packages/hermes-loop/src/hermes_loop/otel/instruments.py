"""The instruments of the conventions, with the boundaries that they name.

Source: semantic-conventions-genai 0.1.0, docs/gen-ai: client-inference.md, gen-ai-metrics.md.
"""

from __future__ import annotations

from typing import Final

from opentelemetry.metrics import Counter, Histogram, Meter

from hermes_loop.otel.attributes import Attributes
from hermes_messages import Usage

__all__ = ["Instruments"]

_SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TURN_SECONDS: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6)
_TOKENS: Final = tuple(4**power for power in range(14))
_CALLS: Final = tuple(2**power for power in range(8))
_UNKNOWN: Final[Attributes] = {"gen_ai.token.modality": "unknown"}
"""No host tells the kinds of tokens in a way that all share."""


class Instruments:
    """Made once for each hook."""

    def __init__(self, meter: Meter) -> None:
        def histogram(name: str, unit: str, text: str, boundaries: tuple[float, ...]) -> Histogram:
            return meter.create_histogram(
                name, unit=unit, description=text, explicit_bucket_boundaries_advisory=boundaries
            )

        self.chat: Histogram = histogram(
            "gen_ai.client.inference.duration", "s", "Duration of a request to a model.", _SECONDS
        )
        self.first_chunk: Histogram = histogram(
            "gen_ai.client.inference.time_to_first_chunk", "s", "Time to the first chunk.", _SECONDS
        )
        self.turn: Histogram = histogram(
            "gen_ai.invoke_agent.duration", "s", "Duration of an agent invocation.", _TURN_SECONDS
        )
        self.turn_requests: Histogram = histogram(
            "gen_ai.invoke_agent.inference_calls",
            "{inference_call}",
            "Requests to models in an agent invocation.",
            _CALLS,
        )
        self.turn_tools: Histogram = histogram(
            "gen_ai.invoke_agent.tool_calls", "{tool_call}", "Tool calls in an agent invocation.", _CALLS
        )
        self.tool: Histogram = histogram(
            "gen_ai.execute_tool.duration", "s", "Duration of a tool execution.", _SECONDS
        )
        self._sizes: dict[str, Histogram] = {
            kind: histogram(
                f"gen_ai.client.inference.operation.{kind}",
                "{token}",
                f"{kind.replace('_', ' ')} of one request.",
                _TOKENS,
            )
            for kind in ("input_tokens", "output_tokens")
        }
        self._sums: dict[str, Counter] = {
            kind: meter.create_counter(
                f"gen_ai.client.inference.usage.{kind}", unit="{token}", description="Tokens used."
            )
            for kind in (
                "input_tokens",
                "output_tokens",
                "cache_read.input_tokens",
                "cache_write.input_tokens",
                "reasoning.output_tokens",
            )
        }

    def count_tokens(self, usage: Usage | None, attributes: Attributes, problem: str | None = None) -> None:
        """Of one request; as the conventions want it what is not known counts as 0 here."""
        used = usage or Usage()
        known = {
            "input_tokens": used.input_tokens,
            "output_tokens": used.output_tokens,
            "cache_read.input_tokens": used.cache_read_tokens,
            "cache_write.input_tokens": used.cache_write_tokens,
            "reasoning.output_tokens": used.reasoning_tokens,
        }
        for kind, counter in self._sums.items():
            counter.add(known[kind] or 0, {**attributes, **_UNKNOWN})
        failed: Attributes = {} if problem is None else {"error.type": problem}
        for kind, size in self._sizes.items():
            size.record(known[kind] or 0, {**attributes, **failed})
