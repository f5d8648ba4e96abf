"""The wordings for a request that is too large: more output than the model may give, or too long a prompt.

Rows as in `hermes_providers.error_patterns`, of which this is a part.
"""

from __future__ import annotations

import re

from hermes_messages import ErrorKind
from hermes_providers.error_pattern import ErrorPattern, row

__all__ = ["CONTEXT_OVERFLOW", "OUTPUT_CAP", "OUTPUT_LIMITS", "room_for_output"]

OUTPUT_CAP: tuple[ErrorPattern, ...] = (
    row(
        ErrorKind.OUTPUT_CAP,
        r"max(?:_completion)?_tokens is too large",
        "OpenAI",
        400,
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you "
        "provided 100000.",
    ),
    row(
        ErrorKind.OUTPUT_CAP,
        r"maximum allowed number of output tokens",
        "Anthropic",
        400,
        "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for "
        "claude-sonnet-4",
    ),
    row(
        ErrorKind.OUTPUT_CAP,
        r"`?max_(?:completion_)?tokens`? must be less than or equal to",
        "Groq",
        400,
        "`max_completion_tokens` must be less than or equal to `32768`, the maximum value for "
        "`max_completion_tokens` is less than the `context_window` for this model",
    ),
    row(
        ErrorKind.OUTPUT_CAP,
        r"valid range of max_tokens",
        "DeepSeek",
        400,
        "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
    ),
)

OUTPUT_LIMITS: tuple[re.Pattern[str], ...] = (
    re.compile(r"supports at most (\d+) completion tokens"),
    re.compile(r"max_tokens: \d+ > (\d+), which is the maximum"),
    re.compile(r"must be less than or equal to `?(\d+)"),
    re.compile(r"valid range of max_tokens is \[\d+, ?(\d+)\]"),
)
"""Where the texts of `OUTPUT_CAP` say how much is allowed."""

_SUMS: tuple[re.Pattern[str], ...] = (
    # OpenAI, OpenRouter, and vLLM before 0.10
    re.compile(
        r"context length (?:is|of) (?P<window>\d{1,9}) tokens\. However, you requested (?:about )?"
        r"(?P<sum>\d{1,9}) tokens \(.{0,80}?(?P<output>\d{1,9}) in the (?:output|completion)\)"
    ),
    # vLLM
    re.compile(
        r"context length is (?P<window>\d{1,9}) tokens and your request has (?P<input>\d{1,9}) input tokens"
    ),
    re.compile(
        r"context length is (?P<window>\d{1,9}) tokens\. However, you requested \d{1,9} output tokens and "
        r"your prompt contains (?:at least )?(?P<input>\d{1,9}) input tokens"
    ),
    # Anthropic
    re.compile(r"exceed context limit: (?P<input>\d{1,9}) \+ \d{1,9} > (?P<window>\d{1,9})"),
    # Hugging Face
    re.compile(r"must be <= (?P<window>\d{1,9})\. Given: (?P<input>\d{1,9}) `inputs` tokens"),
)


def room_for_output(message: str) -> int | None:
    """What `max_tokens` may be, where a text of `CONTEXT_OVERFLOW` says that prompt and answer together are
    too large, and the prompt alone takes less than half of the window: a shorter one would not help then. A
    little is left free, since hosts count the prompt differently from one request to the next."""
    for pattern in _SUMS:
        match = pattern.search(message)
        if match is not None:
            said = {name: int(value) for name, value in match.groupdict().items()}
            window = said["window"]
            prompt = said["input"] if "input" in said else said["sum"] - said["output"]
            room = window - prompt - window // 64
            return room if 0 <= prompt < window // 2 and room > 0 else None
    return None


CONTEXT_OVERFLOW: tuple[ErrorPattern, ...] = (
    row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"prompt is too long",
        "Anthropic",
        400,
        "prompt is too long: 213462 tokens > 200000 maximum",
    ),
    row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"exceed context limit",
        "Anthropic",
        400,
        "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000, decrease input length "
        "or `max_tokens` and try again",
    ),
    row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"exceed(?:s|ed)? the (?:model'?s? )?context (?:window|length)|context_length_exceeded",
        "OpenAI",
        400,
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
    ),
    row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"input token count.{0,40}exceeds the maximum",
        "Google",
        400,
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    ),
    row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"maximum prompt length is",
        "xAI",
        400,
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    ),
    row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"reduce (?:the length of the messages|your message size)",
        "Groq",
        400,
        "Please reduce the length of the messages or completion.",
    ),
    row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"maximum context length (?:is|of)",
        "OpenRouter",
        400,
        "This endpoint's maximum context length is 131072 tokens. However, you requested about 150000 tokens "
        "(149000 of text input, 1000 in the output).",
    ),
    row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"exceeds? the available context size|exceed_context_size_error",
        "llama.cpp",
        400,
        "the request exceeds the available context size. try increasing the context size or enable "
        "context shift",
    ),
    row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"greater than the context length",
        "LM Studio",
        400,
        "The number of tokens to keep from the initial prompt is greater than the context length.",
    ),
    row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"context window exceeds limit",
        "MiniMax",
        400,
        "invalid params, context window exceeds limit (2013)",
    ),
    row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"exceeded model token limit",
        "Moonshot",
        400,
        "Invalid request: Your request exceeded model token limit: 131072 (requested: 140000)",
    ),
    row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"too large for model with \d+ maximum context length",
        "Mistral",
        400,
        "Prompt contains 140000 tokens and 0 draft tokens, too large for model with 131072 maximum "
        "context length",
    ),
    row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"maximum allowed input length",
        "Together",
        400,
        "The input (140000 tokens) is longer than the model's maximum allowed input length (131072 tokens).",
    ),
    row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"longer than the model'?s? (?:maximum )?context length",
        "Together",
        400,
        "The input (250000 tokens) is longer than the model's context length (200000 tokens).",
    ),
    row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"tokens \+ `?max_new_tokens`? must be <=",
        "Hugging Face",
        422,
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4031 `inputs` "
        "tokens and 200 `max_new_tokens`",
    ),
    row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"exceeded (?:max )?context length by",
        "Ollama",
        400,
        "prompt too long; exceeded max context length by 1200 tokens",
    ),
    row(
        # In the middle of an answer, or for a prompt that leaves no room for one.
        ErrorKind.CONTEXT_OVERFLOW,
        r"context size has been exceeded",
        "llama.cpp",
        500,
        "Context size has been exceeded.",
    ),
    row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"max_model_len",
        "vLLM",
        400,
        "The decoder prompt (length 40000) is longer than the maximum model length. Make sure that "
        "`max_model_len` is no smaller than the number of text tokens.",
    ),
    row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"tokens in request more than max tokens allowed",
        "Z.AI",
        400,
        "tokens in request more than max tokens allowed",
    ),
    row(ErrorKind.CONTEXT_OVERFLOW, r"prompt exceeds max length", "Z.AI", 400, "Prompt exceeds max length"),
    row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"超过(?:模型)?最大长度|超出最大长度",
        "Alibaba",
        400,
        "输入内容超过最大长度",
    ),
    row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"input is too long for (?:the )?requested model",
        "Amazon Bedrock",
        400,
        "Input is too long for requested model.",
    ),
    row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"prompt token count of \d+ exceeds the limit",
        "GitHub Copilot",
        400,
        "prompt token count of 140000 exceeds the limit of 128000",
    ),
    row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"range of input length should be",
        "Alibaba",
        400,
        "Range of input length should be [1, 129024]",
    ),
)
