"""The histograms of the conventions, with the boundaries that they name.

Source: semantic-conventions-genai, docs/gen-ai/gen-ai-metrics.md.
"""

from __future__ import annotations

from typing import Final

from opentelemetry.metrics import Histogram, Meter

__all__ = ["Instruments"]

_SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TURN_SECONDS: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6)
_TOKENS: Final = tuple(4**power for power in range(14))


class Instruments:
    """Made once for each hook."""

    def __init__(self, meter: Meter) -> None:
        def seconds(name: str, text: str, boundaries: tuple[float, ...] = _SECONDS) -> Histogram:
            return meter.create_histogram(
                name, unit="s", description=text, explicit_bucket_boundaries_advisory=boundaries
            )

        self.chat: Histogram = seconds("gen_ai.client.operation.duration", "GenAI operation duration.")
        self.first_chunk: Histogram = seconds(
            "gen_ai.client.operation.time_to_first_chunk", "Time to receive the first chunk."
        )
        self.turn: Histogram = seconds(
            "gen_ai.invoke_agent.duration", "Duration of an agent invocation.", _TURN_SECONDS
        )
        self.tool: Histogram = seconds("gen_ai.execute_tool.duration", "Duration of a tool execution.")
        self.tokens: Histogram = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
