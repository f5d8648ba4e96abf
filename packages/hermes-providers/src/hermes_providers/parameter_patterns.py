"""The wordings by which hosts refuse a parameter, and where its name stands in them."""

from __future__ import annotations

import re

from hermes_messages import ErrorKind
from hermes_providers.error_pattern import ErrorPattern, row

__all__ = ["PARAMETER_NAMES", "UNSUPPORTED_PARAMETER"]

UNSUPPORTED_PARAMETER: tuple[ErrorPattern, ...] = (
    row(
        ErrorKind.UNSUPPORTED_PARAMETER,
        r"unsupported[ _]parameter",
        "OpenAI",
        400,
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
        "'max_completion_tokens' instead.",
    ),
    row(
        ErrorKind.UNSUPPORTED_PARAMETER,
        r"unsupported[ _]value",
        "OpenAI",
        400,
        "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) "
        "value is supported.",
    ),
    row(
        ErrorKind.UNSUPPORTED_PARAMETER,
        r"encrypted content is not supported",
        "OpenAI",
        400,
        "Encrypted content is not supported with this model.",
    ),
    row(
        ErrorKind.UNSUPPORTED_PARAMETER,
        r"unrecognized request argument|unknown[ _]parameter",
        "OpenAI",
        400,
        "Unrecognized request argument supplied: reasoning_effort",
    ),
    row(
        ErrorKind.UNSUPPORTED_PARAMETER,
        r"is deprecated for this model",
        "Anthropic",
        400,
        "`temperature` is deprecated for this model.",
    ),
    row(
        ErrorKind.UNSUPPORTED_PARAMETER,
        r"\"thinking\.type\.\w+\" is not supported for this model",
        "Anthropic",
        400,
        '"thinking.type.disabled" is not supported for this model. Use "thinking.type.adaptive" and '
        '"output_config.effort" to control thinking behavior.',
    ),
    row(
        ErrorKind.UNSUPPORTED_PARAMETER,
        r"does not support (?:the )?(?:parameters?|tools|function calling)",
        "Ollama",
        400,
        "registry.ollama.ai/library/gemma:2b does not support tools",
    ),
    row(
        ErrorKind.UNSUPPORTED_PARAMETER,
        r"property '[\w.]+' is unsupported",
        "Groq",
        400,
        "property 'reasoning_effort' is unsupported",
    ),
    row(
        ErrorKind.UNSUPPORTED_PARAMETER,
        r"argument not supported on this model",
        "xAI",
        400,
        "Argument not supported on this model: stop",
    ),
    row(
        # Of a field of the body itself; one deeper inside is a malformed message.
        ErrorKind.UNSUPPORTED_PARAMETER,
        r"^\w+: extra inputs are not permitted",
        "Anthropic",
        400,
        "context_management: Extra inputs are not permitted",
    ),
    row(
        ErrorKind.UNSUPPORTED_PARAMETER,
        r"^unknown name \"\w+\"",
        "Google",
        400,
        'Unknown name "seed": Cannot find field.',
    ),
    row(
        ErrorKind.UNSUPPORTED_PARAMETER,
        r"thinking (?:level|budget).{0,20} is not supported",
        "Google",
        400,
        "Thinking level MINIMAL is not supported for this model.",
    ),
    row(
        ErrorKind.UNSUPPORTED_PARAMETER,
        r"no endpoints found that support",
        "OpenRouter",
        404,
        "No endpoints found that support tool use. To learn more about provider routing, visit the docs.",
    ),
)

PARAMETER_NAMES: tuple[re.Pattern[str], ...] = (
    re.compile(r"unsupported (?:parameter|value)s?: '([\w.\[\]]+)'", re.IGNORECASE),
    re.compile(r"(?:argument supplied|unknown parameter|on this model): ['\"`]?([\w.]+)", re.IGNORECASE),
    re.compile(r"^[`'\"]?([\w.]+)[`'\"]? (?:is deprecated|is not supported|may only be set)", re.IGNORECASE),
    re.compile(
        r"(?:property|parameter|name|field) ['\"`]?([\w.]+)['\"`]? ?(?:is (?:not |un)supported|:)",
        re.IGNORECASE,
    ),
    re.compile(r"does not support (?:the )?parameters? ['\"`]?([\w.]*\w)", re.IGNORECASE),
    re.compile(r"^(\w+): extra inputs", re.IGNORECASE),
    re.compile(r"^(thinking) (?:level|budget)", re.IGNORECASE),
)
"""Where the name of a refused parameter stands in the texts above; tried in this order."""
