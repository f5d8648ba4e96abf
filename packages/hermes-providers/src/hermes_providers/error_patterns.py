"""The wordings by which hosts say what went wrong, as a table. The first row that matches decides.

Each row holds the verbatim text of a vendor, and the HTTP status it came with (200 for an error inside a
stream). A test runs every text through the table, so a pattern can not rot apart from what it is for.
"""

from __future__ import annotations

from hermes_messages import ErrorKind
from hermes_providers.error_pattern import ErrorPattern, row
from hermes_providers.parameter_patterns import UNSUPPORTED_PARAMETER
from hermes_providers.size_patterns import CONTEXT_OVERFLOW, OUTPUT_CAP

__all__ = ["ERROR_PATTERNS", "ErrorPattern"]

_FIRST: tuple[ErrorPattern, ...] = (
    # Texts that hold the words of another kind too; they stand before everything.
    row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"extra usage is required for long context",
        "Anthropic",
        429,
        "Extra usage is required for long context requests.",
    ),
    row(
        ErrorKind.CONTEXT_OVERFLOW,
        r"request too large for .*tokens per min",
        "OpenAI",
        429,
        "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested "
        "41012. The input or output tokens must be reduced in order to run successfully.",
    ),
    row(
        ErrorKind.RATE_LIMIT,
        r"quota exceeded for metric|please retry in [\d.]+ ?m?s",
        "Google",
        429,
        "You exceeded your current quota, please check your plan and billing details. * Quota exceeded for "
        "metric: generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 10 "
        "Please retry in 34.074824224s.",
    ),
    row(
        ErrorKind.RATE_LIMIT,
        r"too many tokens per|tokens per (?:minute|day|min\b)",
        "Groq",
        429,
        "Rate limit reached for model `llama-3.3-70b-versatile` on tokens per minute (TPM): Limit 12000, "
        "Used 11800, Requested 900. Please try again in 3.5s.",
    ),
    row(
        ErrorKind.RATE_LIMIT,
        r"too many tokens, please wait",
        "Amazon Bedrock",
        429,
        "Too many tokens, please wait before trying again.",
    ),
)

_BILLING: tuple[ErrorPattern, ...] = (
    row(
        ErrorKind.BILLING,
        r"insufficient_quota|exceeded your current quota",
        "OpenAI",
        429,
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    row(
        ErrorKind.BILLING,
        r"credit balance is too low",
        "Anthropic",
        400,
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade "
        "or purchase credits.",
    ),
    row(
        # "enforced_spend_limit_reached" is the code of the same; a rate limit's status and no Retry-After.
        ErrorKind.BILLING,
        r"reached your (?:specified )?(?:workspace )?api usage limits|spend_limit_reached",
        "Anthropic",
        429,
        "You have reached your API usage limits: your organization has crossed its monthly API usage "
        "threshold, set based on your organization's API tier. You will regain access on 2026-09-01 at "
        "00:00 UTC.",
    ),
    row(
        ErrorKind.BILLING,
        r"billing_not_active|check your billing details on our website",
        "OpenAI",
        429,
        "Your account is not active, please check your billing details on our website.",
    ),
    row(
        ErrorKind.BILLING,
        r"requires more credits|insufficient credits",
        "OpenRouter",
        402,
        "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can "
        "only afford 1209.",
    ),
    row(ErrorKind.BILLING, r"insufficient (?:account )?balance", "DeepSeek", 402, "Insufficient Balance"),
    row(
        ErrorKind.BILLING,
        r"billing_hard_limit_reached|billing hard limit",
        "OpenAI",
        400,
        "Billing hard limit has been reached",
    ),
    row(ErrorKind.BILLING, r"余额不足|欠费", "Z.AI", 429, "余额不足或无可用资源包,请充值。"),
    row(
        ErrorKind.BILLING,
        r"used all available credits|monthly (?:included )?(?:credits|spending limit)",
        "xAI",
        429,
        "Your team has either used all available credits or reached its monthly spending limit.",
    ),
)

_POLICY: tuple[ErrorPattern, ...] = (
    row(
        ErrorKind.CONTENT_POLICY,
        r"content_policy_violation|safety system",
        "OpenAI",
        400,
        "Your request was rejected as a result of our safety system.",
    ),
    row(
        ErrorKind.CONTENT_POLICY,
        r"content management policy|content_?filter",
        "Azure OpenAI",
        400,
        "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
    ),
    row(
        ErrorKind.CONTENT_POLICY,
        r"violat\w+ (?:our|the) (?:usage|content) polic",
        "OpenAI",
        400,
        "Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
    ),
    row(
        ErrorKind.CONTENT_POLICY,
        r"requires moderation|input was flagged",
        "OpenRouter",
        403,
        'openai/gpt-4o requires moderation on OpenAI. Your input was flagged for "violence/graphic".',
    ),
    row(
        ErrorKind.CONTENT_POLICY,
        r"data_inspection_failed|inappropriate content",
        "Alibaba",
        400,
        "Input data may contain inappropriate content.",
    ),
)

_NOT_FOUND: tuple[ErrorPattern, ...] = (
    row(
        ErrorKind.NOT_FOUND,
        r"model_not_found|the model .{1,120} does not exist",
        "OpenAI",
        404,
        "The model `gpt-9` does not exist or you do not have access to it.",
    ),
    row(
        ErrorKind.NOT_FOUND,
        r"is not a valid model id|no endpoints found for",
        "OpenRouter",
        400,
        "acme/none is not a valid model ID",
    ),
    row(
        ErrorKind.NOT_FOUND,
        r"model ['\"`].{1,120}['\"`] not found",
        "Ollama",
        404,
        "model 'llama9' not found",
    ),
    row(ErrorKind.NOT_FOUND, r"model not exist", "DeepSeek", 400, "Model Not Exist"),
)

_AUTH: tuple[ErrorPattern, ...] = (
    row(
        ErrorKind.AUTH,
        r"incorrect api key|invalid[ _]api[ _]key",
        "OpenAI",
        401,
        "Incorrect API key provided: ***. You can find your API key at "
        "https://platform.openai.com/account/api-keys.",
    ),
    row(
        ErrorKind.AUTH,
        r"no (?:auth )?credentials found|no cookie auth",
        "OpenRouter",
        401,
        "No auth credentials found",
    ),
    row(ErrorKind.AUTH, r"invalid x-api-key|authentication_error", "Anthropic", 401, "invalid x-api-key"),
    row(
        ErrorKind.AUTH,
        r"api key not valid|api_key_invalid",
        "Google",
        400,
        "API key not valid. Please pass a valid API key.",
    ),
    row(
        ErrorKind.AUTH,
        r"authentication fails",
        "DeepSeek",
        401,
        "Authentication Fails (no such user)",
    ),
)

_OVERLOADED: tuple[ErrorPattern, ...] = (
    row(ErrorKind.OVERLOADED, r"overloaded", "Anthropic", 529, "Overloaded"),
    row(
        ErrorKind.OVERLOADED,
        r"high (?:demand|load)|at capacity|no available capacity",
        "Google",
        503,
        "This model is currently experiencing high demand. Spikes in demand are usually temporary.",
    ),
    row(
        ErrorKind.OVERLOADED,
        r"(?:server|service|engine) is (?:currently |too )?busy",
        "DeepSeek",
        503,
        "Server is busy, please try again later.",
    ),
    row(ErrorKind.OVERLOADED, r"loading model", "llama.cpp", 503, "Loading model"),
    row(
        # The finish reason of a stream that broke off.
        ErrorKind.OVERLOADED,
        r"insufficient_system_resource",
        "DeepSeek",
        200,
        "insufficient_system_resource",
    ),
    row(
        ErrorKind.OVERLOADED,
        r"no instances available|capacity exceeded",
        "Mistral",
        429,
        "Service tier capacity exceeded for this model.",
    ),
)

_RATE_LIMIT: tuple[ErrorPattern, ...] = (
    row(
        ErrorKind.RATE_LIMIT,
        r"rate[-_ ]limit",
        "OpenRouter",
        429,
        "meta-llama/llama-3.3-70b is temporarily rate-limited upstream. Please retry shortly.",
    ),
    row(ErrorKind.RATE_LIMIT, r"too many requests", "Mistral", 429, "Too many requests"),
    row(
        ErrorKind.RATE_LIMIT,
        r"resource[ _](?:has been )?exhausted",
        "Google",
        429,
        "Resource has been exhausted (e.g. check quota).",
    ),
)

_FORMAT: tuple[ErrorPattern, ...] = (
    row(
        ErrorKind.FORMAT,
        r"must be followed by tool messages|must be a response to a preceding message",
        "OpenAI",
        400,
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
        "'tool_call_id'.",
    ),
    row(
        ErrorKind.FORMAT,
        r"is bound to a different conversation",
        "Anthropic",
        400,
        "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different "
        "conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "
        '"drop_block". That setting requires the `thinking-binding-controls-2026-08-01` value in the '
        "`anthropic-beta` header.",
    ),
    row(
        ErrorKind.FORMAT,
        r"system message must be at the beginning",
        "Qwen template",
        500,
        "System message must be at the beginning.",
    ),
    row(
        ErrorKind.FORMAT,
        r"conversation roles must alternate",
        "Mistral template",
        500,
        "Conversation roles must alternate user/assistant/user/assistant/...",
    ),
    row(
        ErrorKind.FORMAT,
        r"failed to parse tool call arguments|invalid tool call arguments",
        "llama.cpp",
        500,
        "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] parse error",
    ),
    row(
        ErrorKind.FORMAT,
        r"extra inputs are not permitted",
        "Anthropic",
        400,
        "messages.1.content.0.text.citations: Extra inputs are not permitted",
    ),
)

_TIMEOUT: tuple[ErrorPattern, ...] = (
    row(
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
    *OUTPUT_CAP,
    *CONTEXT_OVERFLOW,
    *UNSUPPORTED_PARAMETER,
    *_NOT_FOUND,
    *_AUTH,
    *_OVERLOADED,
    *_RATE_LIMIT,
    *_FORMAT,
    *_TIMEOUT,
)
"""All rows, in the order in which they are tried."""
