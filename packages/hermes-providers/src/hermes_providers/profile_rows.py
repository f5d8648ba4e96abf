"""One row per host. Beside each rule stands where it comes from."""

from __future__ import annotations

from hermes_providers.efforts import MODEL_EFFORTS
from hermes_providers.profiles import AuthHeader, CallIdRule, ChatQuirks, Profile

__all__ = ["PROFILES"]

_OPENAI_QUIRKS = ChatQuirks(
    # https://developers.openai.com/api/reference/resources/chat/subresources/completions/methods/create:
    # max_tokens is deprecated, and refused by reasoning models.
    max_tokens_key="max_completion_tokens",
    names=True,
    json_arguments=False,
    # "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40, but
    # got a string with length 53 instead."
    call_ids=CallIdRule(max_length=40),
    cache_key="prompt_cache_key",
    strong_efforts=MODEL_EFFORTS,
)

_OWN_SERVER = ChatQuirks(
    # Chat templates of open models often demand strict alternation of roles.
    merge_user_turns=True,
    # One grammar for tools and schema at once keeps a model from calling tools.
    response_format="without_tools",
)

_VENDORS: tuple[Profile, ...] = (
    Profile(
        name="anthropic",
        base_url="https://api.anthropic.com",
        wire="anthropic_messages",
        # https://platform.claude.com/docs/en/api/overview#authentication
        auth=AuthHeader("x-api-key", ""),
        key_variables=("ANTHROPIC_API_KEY",),
        # For `settings={"wire": "openai_chat"}`, Anthropic's own compatible endpoint.
        quirks=ChatQuirks(path="/v1/chat/completions", response_format="none", seed_option=False),
    ),
    Profile(
        name="azure-openai",
        # https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle: the address is
        # https://RESOURCE.openai.azure.com/openai/v1, the model is the deployment's name.
        base_url=None,
        auth=AuthHeader("api-key", ""),
        key_variables=("AZURE_OPENAI_API_KEY",),
        quirks=_OPENAI_QUIRKS,
    ),
    Profile(
        name="deepseek",
        base_url="https://api.deepseek.com",
        key_variables=("DEEPSEEK_API_KEY",),
        # https://api-docs.deepseek.com/quick_start/pricing: `deepseek-v4-flash` is an older name of the same.
        default_model="deepseek-flash",
        quirks=ChatQuirks(
            # https://api-docs.deepseek.com/guides/thinking_mode: the reasoning of messages with calls must go
            # back in all later requests, else 400; of others it may. Effort is a field beside the switch:
            # "low, medium will be mapped to high, xhigh will be mapped to max".
            reasoning_echo="reasoning_content",
            reasoning_echo_missing=" ",
            reasoning_option="thinking_and_effort",
            strong_efforts=(("", ("max",)),),
            reasoning_read=("reasoning_content",),
            empty_content="empty_string",
            # https://api-docs.deepseek.com/guides/vision: images, which the Pro model does not take.
            user_parts=("image",),
            blind_models=("deepseek-v4-pro",),
            # https://api-docs.deepseek.com/guides/json_mode: JSON without a schema.
            response_format="json_object",
            # https://api-docs.deepseek.com/api/create-chat-completion: finish_reason.
            error_finishes=("error", "insufficient_system_resource"),
            seed_option=False,
            parallel_option=False,
        ),
    ),
    Profile(
        name="google",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        wire="gemini",
        # https://ai.google.dev/gemini-api/docs/api-key
        auth=AuthHeader("x-goog-api-key", ""),
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        # For `settings={"wire": "openai_chat"}`: https://ai.google.dev/gemini-api/docs/openai
        quirks=ChatQuirks(path="/openai/chat/completions", seed_option=False, parallel_option=False),
    ),
    Profile(
        name="mistral",
        base_url="https://api.mistral.ai/v1",
        key_variables=("MISTRAL_API_KEY",),
        default_model="mistral-medium-latest",
        quirks=ChatQuirks(
            # "Tool call id was turn1_0 but must be a-z, A-Z, 0-9, with a length of 9."
            call_ids=CallIdRule(max_length=9, allowed="[a-zA-Z0-9]", exact=True),
            # https://docs.mistral.ai/api/endpoint/chat: random_seed; no stream_options, usage is in the last
            # chunk always.
            seed_key="random_seed",
            stream_usage=False,
            # "Expected last role User or Tool": users that follow each other are joined.
            merge_user_turns=True,
            empty_content="empty_string",
            # https://docs.mistral.ai/inference/conversations/reasoning: `reasoning_effort` for models that
            # reason, which answer with chunks of type `thinking`; others refuse it, which is remembered.
        ),
    ),
    Profile(
        name="moonshot",
        base_url="https://api.moonshot.ai/v1",
        key_variables=("MOONSHOT_API_KEY",),
        default_model="kimi-k2.6",
        quirks=ChatQuirks(
            # "thinking is enabled but reasoning_content is missing in assistant tool call message":
            # https://platform.kimi.ai/docs/guide/use-kimi-k2-thinking-model
            reasoning_echo="reasoning_content",
            reasoning_echo_missing=" ",
            reasoning_read=("reasoning_content",),
            reasoning_option="thinking",
            # https://platform.kimi.ai/docs/guide/use-thinking-effort: `reasoning_effort` low, high or max,
            # which is what holds when nothing is said or something else.
            effort_models=("kimi-k3",),
            strong_efforts=(("^kimi-k3", ("max",)),),
            # https://platform.kimi.ai/docs/api/chat: json_object.
            response_format="json_object",
            cache_key="prompt_cache_key",
            seed_option=False,
            parallel_option=False,
        ),
    ),
    Profile(
        name="openai",
        base_url="https://api.openai.com/v1",
        key_variables=("OPENAI_API_KEY",),
        # https://developers.openai.com/api/docs/deprecations: what stands for GPT-4.1 mini, which ends in
        # January 2027.
        default_model="gpt-6-luna",
        quirks=_OPENAI_QUIRKS,
        # https://developers.openai.com/api/docs/models/gpt-6-sol: chat completions take functions only with
        # the effort "none", which the newest models do not have. "Function tools with reasoning_effort are
        # not supported for gpt-5.4 in /v1/chat/completions. Please use /v1/responses instead." The others
        # were never on chat completions.
        model_wires=((r"^(ft:)?gpt-(5\.([4-9]|\d\d)|[6-9]|\d\d)|-pro\b|codex", "openai_responses"),),
    ),
    Profile(
        name="xai",
        base_url="https://api.x.ai/v1",
        key_variables=("XAI_API_KEY",),
        # https://docs.x.ai/developers/model-capabilities/text/reasoning: reasoning_content; reasoning_effort
        # where a model has it, else 400, which is remembered. https://docs.x.ai/developers/grok-4-7: chat
        # completions go on being served beside Responses; its cache key is a header there (`x-grok-conv-id`),
        # so none is sent.
        quirks=ChatQuirks(
            max_tokens_key="max_completion_tokens",
            names=True,
            reasoning_read=("reasoning_content",),
            strong_efforts=MODEL_EFFORTS,
        ),
    ),
    Profile(
        name="zai",
        base_url="https://api.z.ai/api/paas/v4",
        key_variables=("ZAI_API_KEY", "Z_AI_API_KEY"),
        quirks=ChatQuirks(
            # https://docs.z.ai/guides/capabilities/thinking-mode: a switch; reasoning of a round goes back.
            reasoning_option="thinking",
            effort_models=("glm-5.3",),  # which can not be kept from thinking, and has low, high and max
            strong_efforts=(("^glm-5.3", ("max",)),),
            reasoning_echo="reasoning_content",
            reasoning_read=("reasoning_content",),
            # https://docs.z.ai/api-reference/llm/chat-completion: tool_choice is auto only; json_object; no
            # seed, no stream_options; the finish reason network_error.
            tool_choice_option=False,
            response_format="json_object",
            stream_usage=False,
            seed_option=False,
            parallel_option=False,
            error_finishes=("error", "network_error"),
        ),
    ),
)

_ROUTERS: tuple[Profile, ...] = (
    Profile(
        name="fireworks",
        base_url="https://api.fireworks.ai/inference/v1",
        key_variables=("FIREWORKS_API_KEY",),
        # https://docs.fireworks.ai/guides/reasoning: reasoning comes as reasoning_content, is asked for with
        # reasoning_effort, whose values are the model's, and goes back for interleaved thinking.
        # https://docs.fireworks.ai/structured-responses/structured-response-formatting: json_schema is a
        # grammar, so tools and schema do not share a request.
        quirks=ChatQuirks(
            reasoning_echo="reasoning_content",
            response_format="without_tools",
            strong_efforts=(("deepseek-v4|glm-5p[23]", ("max",)),),
        ),
    ),
    Profile(
        name="groq",
        base_url="https://api.groq.com/openai/v1",
        key_variables=("GROQ_API_KEY",),
        quirks=ChatQuirks(
            # https://console.groq.com/docs/openai: messages[].name is refused.
            max_tokens_key="max_completion_tokens",
            # https://console.groq.com/docs/structured-outputs: few models have them, and neither with
            # streaming nor with tools.
            response_format="output_tool",
            # https://console.groq.com/docs/reasoning: the field is called `reasoning`; without tools it comes
            # in think tags, unless `reasoning_format` (extra_body) says otherwise.
            reasoning_read=("reasoning", "reasoning_content"),
            user_parts=("image",),
        ),
    ),
    Profile(
        name="huggingface",
        # https://huggingface.co/docs/inference-providers/tasks/chat-completion: max_tokens, seed, stop,
        # response_format, stream_options, tools, tool_choice and reasoning_effort are in its specification,
        # parallel_tool_calls is not. The host behind it varies, so little more is assumed.
        base_url="https://router.huggingface.co/v1",
        key_variables=("HF_TOKEN", "HUGGINGFACE_API_KEY"),
        quirks=ChatQuirks(response_format="without_tools", user_parts=("image",), parallel_option=False),
    ),
    Profile(
        name="nvidia",
        base_url="https://integrate.api.nvidia.com/v1",
        key_variables=("NVIDIA_API_KEY",),
        # https://docs.nvidia.com/nim/large-language-models/2.1.6/reference/api-reference: chat completions of
        # vLLM (since 2.1 also of SGLang), so one grammar for a request and vLLM's field for reasoning.
        quirks=ChatQuirks(
            response_format="without_tools", merge_user_turns=True, empty_content="empty_string"
        ),
    ),
    Profile(
        name="openrouter",
        base_url="https://openrouter.ai/api/v1",
        key_variables=("OPENROUTER_API_KEY",),
        default_model="openai/gpt-6-luna",
        routing=True,
        quirks=ChatQuirks(
            # https://openrouter.ai/docs/guides/best-practices/reasoning-tokens: blocks go back unchanged, in
            # order.
            replay_field="reasoning_details",
            reasoning_option="reasoning_object",
            # https://openrouter.ai/docs/client-sdks/python/components/chatrequesteffort: all efforts,
            # whatever the model has; the router finds the nearest.
            strong_efforts=(("", ("xhigh", "max")),),
            reasoning_read=("reasoning", "reasoning_content"),
            # https://openrouter.ai/docs/guides/best-practices/prompt-caching: `session_id` keeps a
            # conversation with one host; Anthropic's and Alibaba's models cache only what is marked.
            cache_key="session_id",
            cache_markers=("anthropic/", "qwen/"),
        ),
    ),
    Profile(
        name="together",
        base_url="https://api.together.ai/v1",
        key_variables=("TOGETHER_API_KEY",),
        # https://docs.together.ai/docs/inference/openai-compatibility;
        # https://docs.together.ai/docs/inference/chat/structured-outputs: a schema in response_format;
        # https://docs.together.ai/docs/inference/chat/reasoning: the field is called `reasoning`, the effort
        # reasoning_effort; hybrid models take `reasoning: {"enabled": ...}` (extra_body) to switch it off.
        # https://docs.together.ai/docs/glm-5.3-quickstart: low, medium, high and max.
        quirks=ChatQuirks(
            strong_efforts=((r"GLM-5\.3", ("max",)),),
            response_format="without_tools",
            reasoning_read=("reasoning", "reasoning_content"),
            user_parts=("image",),
        ),
    ),
)

_OWN_SERVERS: tuple[Profile, ...] = (
    Profile(
        name="custom",
        base_url=None,
        # A key of another host must not reach this one, so no well-known variable is read.
        key_variables=("HERMES_CUSTOM_API_KEY",),
        needs_key=False,
        quirks=_OWN_SERVER,
    ),
    Profile(
        name="llamacpp",
        base_url="http://127.0.0.1:8080/v1",
        key_variables=("LLAMA_API_KEY",),
        needs_key=False,
        counts_tokens="llamacpp",
        quirks=ChatQuirks(
            merge_user_turns=True,
            # The server puts a missing content into its templates as the word "None" in some versions.
            empty_content="empty_string",
            response_format="without_tools",
            reasoning_option="none",
            # https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md
            reasoning_read=("reasoning_content",),
        ),
    ),
    Profile(
        name="lmstudio",
        # https://lmstudio.ai/docs/developer/openai-compat
        base_url="http://127.0.0.1:1234/v1",
        key_variables=("LM_API_TOKEN",),
        needs_key=False,
        quirks=ChatQuirks(
            merge_user_turns=True,
            empty_content="empty_string",
            response_format="without_tools",
            user_parts=("image",),
        ),
    ),
    Profile(
        name="ollama",
        # https://docs.ollama.com/api/openai-compatibility
        base_url="http://127.0.0.1:11434/v1",
        key_variables=("OLLAMA_API_KEY",),
        needs_key=False,
        quirks=ChatQuirks(
            response_format="without_tools",
            empty_content="empty_string",
            tool_choice_option=False,
            parallel_option=False,
            reasoning_read=("reasoning", "reasoning_content"),
            user_parts=("image",),
        ),
    ),
    Profile(
        name="vllm",
        # https://docs.vllm.ai/en/latest/serving/online_serving/openai_compatible_server/
        base_url="http://127.0.0.1:8000/v1",
        key_variables=("VLLM_API_KEY",),
        needs_key=False,
        quirks=ChatQuirks(
            merge_user_turns=True,
            response_format="without_tools",
            # https://docs.vllm.ai/en/stable/features/reasoning_outputs/: `reasoning` used to be called
            # `reasoning_content`.
            reasoning_read=("reasoning", "reasoning_content"),
            # https://docs.vllm.ai/en/stable/features/interleaved_thinking/: it goes back in that field;
            # templates that know nothing of it leave it out.
            reasoning_echo="reasoning",
            user_parts=("image", "audio"),
        ),
    ),
)

PROFILES: dict[str, Profile] = {profile.name: profile for profile in (*_VENDORS, *_ROUTERS, *_OWN_SERVERS)}
"""All rows by name."""
