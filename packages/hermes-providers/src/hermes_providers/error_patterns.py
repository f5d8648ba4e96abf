"""The wordings by which hosts say what went wrong, as a table. The first row that matches decides.

Each row holds the verbatim text of a vendor, and the HTTP status it came with (200 for an error inside a
stream). A test runs every text through the table, so a pattern can not rot apart from what it is for.
"""

from __future__ import annotations

import re

from msgspec import Struct

from hermes_messages import ErrorKind

__all__ = ["ERROR_PATTERNS", "ErrorPattern"]


class ErrorPattern(Struct, frozen=True):
    """A wording: `pattern` is searched, without regard to case, in message, type and code of an error."""

    kind: ErrorKind
    pattern: re.Pattern[str]
    vendor: str
    status: int
    verbatim: str


def _row(kind: ErrorKind, pattern: str, vendor: str, status: int, verbatim: str) -> ErrorPattern:
    return ErrorPattern(kind, re.compile(pattern, re.IGNORECASE), vendor, status, verbatim)


_FIRST: tuple[ErrorPattern, ...] = (
    # Texts that hold the words of another kind too; they stand before everything.
    _row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"extra usage is required for long context",
        "Anthropic",
        429,
        "Extra usage is required for long context requests.",
    ),
    _row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"request too large for .*tokens per min",
        "OpenAI",
        429,
        "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested "
        "41012. The input or output tokens must be reduced in order to run successfully.",
    ),
    _row(
        ErrorKind.RATE_LIMIT,
        r"quota exceeded for metric|please retry in [\d.]+ ?m?s",
        "Google",
        429,
        "You exceeded your current quota, please check your plan and billing details. * Quota exceeded for "
        "metric: generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 10 "
        "Please retry in 34.074824224s.",
    ),
    _row(
        ErrorKind.RATE_LIMIT,
        r"too many tokens per|tokens per (?:minute|day|min\b)",
        "Groq",
        429,
        "Rate limit reached for model `llama-3.3-70b-versatile` on tokens per minute (TPM): Limit 12000, "
        "Used 11800, Requested 900. Please try again in 3.5s.",
    ),
    _row(
        ErrorKind.RATE_LIMIT,
        r"too many tokens, please wait",
        "Amazon Bedrock",
        429,
        "Too many tokens, please wait before trying again.",
    ),
)

_BILLING: tuple[ErrorPattern, ...] = (
    _row(
        ErrorKind.BILLING,
        r"insufficient_quota|exceeded your current quota",
        "OpenAI",
        429,
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    _row(
        ErrorKind.BILLING,
        r"credit balance is too low",
        "Anthropic",
        400,
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade "
        "or purchase credits.",
    ),
    _row(
        ErrorKind.BILLING,
        r"requires more credits|insufficient credits",
        "OpenRouter",
        402,
        "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can "
        "only afford 1209.",
    ),
    _row(ErrorKind.BILLING, r"insufficient (?:account )?balance", "DeepSeek", 402, "Insufficient Balance"),
    _row(
        ErrorKind.BILLING,
        r"billing_hard_limit_reached|billing hard limit",
        "OpenAI",
        400,
        "Billing hard limit has been reached",
    ),
    _row(ErrorKind.BILLING, r"余额不足|欠费", "Z.AI", 429, "余额不足或无可用资源包,请充值。"),
    _row(
        ErrorKind.BILLING,
        r"used all available credits|monthly (?:included )?(?:credits|spending limit)",
        "xAI",
        429,
        "Your team has either used all available credits or reached its monthly spending limit.",
    ),
)

_POLICY: tuple[ErrorPattern, ...] = (
    _row(
        ErrorKind.CONTENT_POLICY,
        r"content_policy_violation|safety system",
        "OpenAI",
        400,
        "Your request was rejected as a result of our safety system.",
    ),
    _row(
        ErrorKind.CONTENT_POLICY,
        r"content management policy|content_?filter",
        "Azure OpenAI",
        400,
        "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
    ),
    _row(
        ErrorKind.CONTENT_POLICY,
        r"violat\w+ (?:our|the) (?:usage|content) polic",
        "OpenAI",
        400,
        "Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
    ),
    _row(
        ErrorKind.CONTENT_POLICY,
        r"requires moderation|input was flagged",
        "OpenRouter",
        403,
        'openai/gpt-4o requires moderation on OpenAI. Your input was flagged for "violence/graphic".',
    ),
    _row(
        ErrorKind.CONTENT_POLICY,
        r"data_inspection_failed|inappropriate content",
        "Alibaba",
        400,
        "Input data may contain inappropriate content.",
    ),
)

_OUTPUT_CAP: tuple[ErrorPattern, ...] = (
    _row(
        ErrorKind.OUTPUT_CAP,
        r"max(?:_completion)?_tokens is too large",
        "OpenAI",
        400,
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you "
        "provided 100000.",
    ),
    _row(
        ErrorKind.OUTPUT_CAP,
        r"maximum allowed number of output tokens",
        "Anthropic",
        400,
        "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for "
        "claude-sonnet-4",
    ),
    _row(
        ErrorKind.OUTPUT_CAP,
        r"`?max_(?:completion_)?tokens`? must be less than or equal to",
        "Groq",
        400,
        "`max_completion_tokens` must be less than or equal to `32768`, the maximum value for "
        "`max_completion_tokens` is less than the `context_window` for this model",
    ),
    _row(
        ErrorKind.OUTPUT_CAP,
        r"valid range of max_tokens",
        "DeepSeek",
        400,
        "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
    ),
)

_OVERFLOW: tuple[ErrorPattern, ...] = (
    _row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"prompt is too long",
        "Anthropic",
        400,
        "prompt is too long: 213462 tokens > 200000 maximum",
    ),
    _row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"exceed(?:s|ed)? the (?:model'?s? )?context (?:window|length)|context_length_exceeded",
        "OpenAI",
        400,
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
    ),
    _row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"input token count.{0,40}exceeds the maximum",
        "Google",
        400,
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    ),
    _row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"maximum prompt length is",
        "xAI",
        400,
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    ),
    _row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"reduce (?:the length of the messages|your message size)",
        "Groq",
        400,
        "Please reduce the length of the messages or completion.",
    ),
    _row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"maximum context length (?:is|of)",
        "OpenRouter",
        400,
        "This endpoint's maximum context length is 131072 tokens. However, you requested about 150000 tokens "
        "(149000 of text input, 1000 in the output).",
    ),
    _row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"exceeds? the available context size|exceed_context_size_error",
        "llama.cpp",
        400,
        "the request exceeds the available context size. try increasing the context size or enable "
        "context shift",
    ),
    _row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"greater than the context length",
        "LM Studio",
        400,
        "The number of tokens to keep from the initial prompt is greater than the context length.",
    ),
    _row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"context window exceeds limit",
        "MiniMax",
        400,
        "invalid params, context window exceeds limit (2013)",
    ),
    _row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"exceeded model token limit",
        "Moonshot",
        400,
        "Invalid request: Your request exceeded model token limit: 131072 (requested: 140000)",
    ),
    _row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"too large for model with \d+ maximum context length",
        "Mistral",
        400,
        "Prompt contains 140000 tokens and 0 draft tokens, too large for model with 131072 maximum "
        "context length",
    ),
    _row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"maximum allowed input length",
        "Together",
        400,
        "The input (140000 tokens) is longer than the model's maximum allowed input length (131072 tokens).",
    ),
    _row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"max_model_len",
        "vLLM",
        400,
        "The decoder prompt (length 40000) is longer than the maximum model length. Make sure that "
        "`max_model_len` is no smaller than the number of text tokens.",
    ),
    _row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"tokens in request more than max tokens allowed",
        "Z.AI",
        400,
        "tokens in request more than max tokens allowed",
    ),
    _row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"超过(?:模型)?最大长度|超出最大长度",
        "Alibaba",
        400,
        "输入内容超过最大长度",
    ),
    _row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"input is too long for (?:the )?requested model",
        "Amazon Bedrock",
        400,
        "Input is too long for requested model.",
    ),
    _row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"prompt token count of \d+ exceeds the limit",
        "GitHub Copilot",
        400,
        "prompt token count of 140000 exceeds the limit of 128000",
    ),
    _row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"range of input length should be",
        "Alibaba",
        400,
        "Range of input length should be [1, 129024]",
    ),
)

_UNSUPPORTED: tuple[ErrorPattern, ...] = (
    _row(
        ErrorKind.UNSUPPORTED_PARAMETER,
        r"unsupported[ _]parameter",
        "OpenAI",
        400,
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
        "'max_completion_tokens' instead.",
    ),
    _row(
        ErrorKind.UNSUPPORTED_PARAMETER,
        r"unsupported[ _]value",
        "OpenAI",
        400,
        "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) "
        "value is supported.",
    ),
    _row(
        ErrorKind.UNSUPPORTED_PARAMETER,
        r"unrecognized request argument|unknown[ _]parameter",
        "OpenAI",
        400,
        "Unrecognized request argument supplied: reasoning_effort",
    ),
    _row(
        ErrorKind.UNSUPPORTED_PARAMETER,
        r"is deprecated for this model",
        "Anthropic",
        400,
        "`temperature` is deprecated for this model.",
    ),
    _row(
        ErrorKind.UNSUPPORTED_PARAMETER,
        r"does not support (?:the )?(?:parameters?|tools|function calling)",
        "Ollama",
        400,
        "registry.ollama.ai/library/gemma:2b does not support tools",
    ),
    _row(
        ErrorKind.UNSUPPORTED_PARAMETER,
        r"no endpoints found that support",
        "OpenRouter",
        404,
        "No endpoints found that support tool use. To learn more about provider routing, visit the docs.",
    ),
)

_NOT_FOUND: tuple[ErrorPattern, ...] = (
    _row(
        ErrorKind.NOT_FOUND,
        r"model_not_found|the model .{1,120} does not exist",
        "OpenAI",
        404,
        "The model `gpt-9` does not exist or you do not have access to it.",
    ),
    _row(
        ErrorKind.NOT_FOUND,
        r"is not a valid model id|no endpoints found for",
        "OpenRouter",
        400,
        "acme/none is not a valid model ID",
    ),
    _row(
        ErrorKind.NOT_FOUND,
        r"model ['\"`].{1,120}['\"`] not found",
        "Ollama",
        404,
        "model 'llama9' not found",
    ),
    _row(ErrorKind.NOT_FOUND, r"model not exist", "DeepSeek", 400, "Model Not Exist"),
)

_AUTH: tuple[ErrorPattern, ...] = (
    _row(
        ErrorKind.AUTH,
        r"incorrect api key|invalid[ _]api[ _]key",
        "OpenAI",
        401,
        "Incorrect API key provided: ***. You can find your API key at "
        "https://platform.openai.com/account/api-keys.",
    ),
    _row(
        ErrorKind.AUTH,
        r"no (?:auth )?credentials found|no cookie auth",
        "OpenRouter",
        401,
        "No auth credentials found",
    ),
    _row(ErrorKind.AUTH, r"invalid x-api-key|authentication_error", "Anthropic", 401, "invalid x-api-key"),
    _row(
        ErrorKind.AUTH,
        r"api key not valid|api_key_invalid",
        "Google",
        400,
        "API key not valid. Please pass a valid API key.",
    ),
    _row(
        ErrorKind.AUTH,
        r"authentication fails",
        "DeepSeek",
        401,
        "Authentication Fails (no such user)",
    ),
)

_OVERLOADED: tuple[ErrorPattern, ...] = (
    _row(ErrorKind.OVERLOADED, r"overloaded", "Anthropic", 529, "Overloaded"),
    _row(
        ErrorKind.OVERLOADED,
        r"high (?:demand|load)|at capacity|no available capacity",
        "Google",
        503,
        "This model is currently experiencing high demand. Spikes in demand are usually temporary.",
    ),
    _row(
        ErrorKind.OVERLOADED,
        r"(?:server|service|engine) is (?:currently |too )?busy",
        "DeepSeek",
        503,
        "Server is busy, please try again later.",
    ),
    _row(ErrorKind.OVERLOADED, r"loading model", "llama.cpp", 503, "Loading model"),
    _row(
        ErrorKind.OVERLOADED,
        r"no instances available|capacity exceeded",
        "Mistral",
        429,
        "Service tier capacity exceeded for this model.",
    ),
)

_RATE_LIMIT: tuple[ErrorPattern, ...] = (
    _row(
        ErrorKind.RATE_LIMIT,
        r"rate[-_ ]limit",
        "OpenRouter",
        429,
        "meta-llama/llama-3.3-70b is temporarily rate-limited upstream. Please retry shortly.",
    ),
    _row(ErrorKind.RATE_LIMIT, r"too many requests", "Mistral", 429, "Too many requests"),
    _row(
        ErrorKind.RATE_LIMIT,
        r"resource[ _](?:has been )?exhausted",
        "Google",
        429,
        "Resource has been exhausted (e.g. check quota).",
    ),
)

_FORMAT: tuple[ErrorPattern, ...] = (
    _row(
        ErrorKind.FORMAT,
        r"must be followed by tool messages|must be a response to a preceding message",
        "OpenAI",
        400,
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
        "'tool_call_id'.",
    ),
    _row(
        ErrorKind.FORMAT,
        r"system message must be at the beginning",
        "Qwen template",
        500,
        "System message must be at the beginning.",
    ),
    _row(
        ErrorKind.FORMAT,
        r"conversation roles must alternate",
        "Mistral template",
        500,
        "Conversation roles must alternate user/assistant/user/assistant/...",
    ),
    _row(
        ErrorKind.FORMAT,
        r"failed to parse tool call arguments|invalid tool call arguments",
        "llama.cpp",
        500,
        "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] parse error",
    ),
    _row(
        ErrorKind.FORMAT,
        r"extra inputs are not permitted",
        "Anthropic",
        400,
        "messages.1.content.0.text.citations: Extra inputs are not permitted",
    ),
)

_TIMEOUT: tuple[ErrorPattern, ...] = (
    _row(
        ErrorKind.TIMEOUT,
        r"(?:request|upstream|gateway|operation|response) (?:has )?time(?:d[ -]?out|out)",
        "Envoy",
        504,
        "upstream request timeout",
    ),
)

ERROR_PATTERNS: tuple[ErrorPattern, ...] = (
    *_FIRST,
    *_BILLING,
    *_POLICY,
    *_OUTPUT_CAP,
    *_OVERFLOW,
    *_UNSUPPORTED,
    *_NOT_FOUND,
    *_AUTH,
    *_OVERLOADED,
    *_RATE_LIMIT,
    *_FORMAT,
    *_TIMEOUT,
)
"""All rows, in the order in which they are tried."""
