"""How llama.cpp's server counts: it writes the prompt out with the model's template, then splits it.

https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md: POST /apply-template takes the body
of a chat completion and gives `prompt`; POST /tokenize takes `content` and gives `tokens`.
"""

from __future__ import annotations

import msgspec

from hermes_messages import ChatRequest
from hermes_providers.credentials import join_url
from hermes_providers.profiles import ChatQuirks
from hermes_providers.wire.base import CountRequest
from hermes_providers.wire.openai_chat_request import ChatRequestBuilder

__all__ = ["LlamaCppTokenCounter"]


class LlamaCppTokenCounter:
    """Asks twice. `base_url` is that of the chat completions; these two live beside its `/v1`."""

    def __init__(self, base_url: str, provider: str, host: str, quirks: ChatQuirks) -> None:
        self._root = base_url.removesuffix("/v1")
        # A builder of its own: counting must not change what the other one has kept.
        self._builder = ChatRequestBuilder(base_url=base_url, provider=provider, host=host, quirks=quirks)

    def first(self, request: ChatRequest) -> CountRequest:
        """The prompt that the request becomes."""
        return CountRequest(join_url(self._root, "/apply-template"), self._builder.build(request))

    def read(self, answer: bytes) -> CountRequest | int | None:
        """The prompt, to be split; then the number of tokens."""
        try:
            said = msgspec.json.decode(answer, type=_Answer)
        except msgspec.MsgspecError:
            return None
        if said.tokens is not None:
            return len(said.tokens)
        if said.prompt is None:
            return None
        asked = {"content": said.prompt, "add_special": True, "parse_special": True}
        return CountRequest(join_url(self._root, "/tokenize"), msgspec.json.encode(asked))


class _Answer(msgspec.Struct):
    prompt: str | None = None
    tokens: list[object] | None = None
