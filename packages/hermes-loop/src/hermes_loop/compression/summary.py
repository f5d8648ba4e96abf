"""The default compressor: a model writes a summary of the older part; the user's words stay as they were."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

from hermes_loop.compression.protocol import Compressed, CompressionContext, CompressionPlan
from hermes_loop.compression.render import (
    SUMMARY_TASK,
    Summary,
    fit_quotes,
    quotes_of,
    render_parts,
    summary_message,
)
from hermes_messages import (
    ChatRequest,
    ChatResponse,
    ErrorKind,
    History,
    Message,
    ProviderError,
    ResponseDone,
    SystemMessage,
    UserMessage,
    content_text,
)
from hermes_messages.protocols import Provider

__all__ = ["SummaryCompressor"]

_UNKNOWN_WINDOW = 16_000
_MOST_PARTS = 8
_AGAIN = frozenset(
    {ErrorKind.RATE_LIMIT, ErrorKind.OVERLOADED, ErrorKind.SERVER, ErrorKind.TRANSPORT, ErrorKind.TIMEOUT}
)
_PAUSE_S = 2.0
_LONGEST_PAUSE_S = 20.0


class SummaryCompressor:
    """Asks a model for a summary; None for `provider` and `model` means those of the turn.

    A provider given here is the host's: it is opened at the first use and not closed. `prompt` is the task as
    the model reads it. A long part is summed up piece by piece, each with the summary of those before it.
    """

    def __init__(
        self,
        *,
        provider: Provider | None = None,
        model: str | None = None,
        prompt: str = SUMMARY_TASK,
        max_tokens: int | None = None,
    ) -> None:
        self._provider = provider
        self._model = model
        self._prompt = prompt
        self._max_tokens = max_tokens

    async def compress(
        self, messages: Sequence[Message], plan: CompressionPlan, context: CompressionContext
    ) -> Compressed:
        """One user message: the summary, and all that the user said, of which the longest texts are cut only
        where they would not fit. Raises `ProviderError`."""
        provider = self._provider or context.provider
        model = (
            self._model or (provider.default_model if self._provider is not None else None) or context.model
        )
        if self._provider is not None:
            await provider.open()
        older = messages[plan.begin : plan.end]
        window = provider.model_info(model).context_window or _UNKNOWN_WINDOW
        limit = self._max_tokens or max(512, min(plan.target_tokens, window // 8))
        summary = ""
        for part in render_parts(older, max(1_000, window // 2 - limit), _MOST_PARTS):
            said = f"EARLIER SUMMARY: {summary}\n{part}" if summary else part
            request = ChatRequest(
                model=model,
                history=History.of([SystemMessage(self._prompt), UserMessage(said)]),
                max_tokens=limit,
                session_id=context.session_id,
            )
            response = await _answer(provider, request, context)
            context.report(provider, request, response)
            summary = content_text(response.message.content).strip()
            if not summary:
                raise ProviderError("the summary came back empty", kind=ErrorKind.UNKNOWN)
        quotes = fit_quotes(quotes_of(older), plan.words_tokens)
        return Compressed((summary_message(Summary(summary, quotes)),))


async def _answer(provider: Provider, request: ChatRequest, context: CompressionContext) -> ChatResponse:
    """The answer, asked for once more when the first failure may pass."""
    try:
        return await _ask(provider, request)
    except ProviderError as error:
        pause = _PAUSE_S if error.retry_after_s is None else error.retry_after_s
        if error.kind not in _AGAIN or pause > _LONGEST_PAUSE_S:
            raise
    await context.sleep(pause)
    return await _ask(provider, request)


async def _ask(provider: Provider, request: ChatRequest) -> ChatResponse:
    async with aclosing(provider.stream(request)) as events:
        async for event in events:
            if isinstance(event, ResponseDone):
                return event.response
    raise ProviderError("the stream ended without a response", kind=ErrorKind.TRANSPORT)
