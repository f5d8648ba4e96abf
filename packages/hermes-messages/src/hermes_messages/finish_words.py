"""The hosts' words for why a response ended, as one table. It is open: an unknown word is a normal end.

Sources: OpenAI `finish_reason`, Responses `status` and `incomplete_details.reason`, Anthropic `stop_reason`,
Gemini `finishReason`, Bedrock `stopReason`, Mistral and Zhipu `finish_reason`, and what local servers send.
A word for an error (`error`) never gets here: a wire raises it as a `ProviderError`.
"""

from __future__ import annotations

from functools import lru_cache

from hermes_messages.exchange import FinishReason

__all__ = ["FINISH_WORDS", "finish_of_word"]

FINISH_WORDS: dict[str, FinishReason] = {
    "stop": FinishReason.STOP,
    "end": FinishReason.STOP,
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "completed": FinishReason.STOP,
    "pause_turn": FinishReason.STOP,
    "tool_calls": FinishReason.TOOL_CALLS,
    "tool_call": FinishReason.TOOL_CALLS,
    "tool_use": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "max_output_tokens": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "incomplete": FinishReason.LENGTH,
    "continuation": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
    "content_filtered": FinishReason.CONTENT_FILTER,
    "refusal": FinishReason.CONTENT_FILTER,
    "safety": FinishReason.CONTENT_FILTER,
    "recitation": FinishReason.CONTENT_FILTER,
    "blocklist": FinishReason.CONTENT_FILTER,
    "prohibited_content": FinishReason.CONTENT_FILTER,
    "spii": FinishReason.CONTENT_FILTER,
    "image_safety": FinishReason.CONTENT_FILTER,
    "image_prohibited_content": FinishReason.CONTENT_FILTER,
    "image_recitation": FinishReason.CONTENT_FILTER,
    "language": FinishReason.CONTENT_FILTER,
    "model_armor": FinishReason.CONTENT_FILTER,
    "escalation": FinishReason.CONTENT_FILTER,
    "pup_limited_disabled": FinishReason.CONTENT_FILTER,
    "guardrail_intervened": FinishReason.CONTENT_FILTER,
    "sensitive": FinishReason.CONTENT_FILTER,
    "malformed_function_call": FinishReason.MALFORMED_CALL,
    "malformed_tool_call": FinishReason.MALFORMED_CALL,
    "unexpected_tool_call": FinishReason.MALFORMED_CALL,
    "too_many_tool_calls": FinishReason.MALFORMED_CALL,
    "malformed_response": FinishReason.MALFORMED_CALL,
}


@lru_cache(maxsize=256)
def finish_of_word(word: str | None) -> FinishReason | None:
    """What `word` means, in any case; None for no word. A word that nobody knows is `STOP`."""
    if word is None or not word.strip():
        return None
    return FINISH_WORDS.get(word.strip().lower(), FinishReason.STOP)
