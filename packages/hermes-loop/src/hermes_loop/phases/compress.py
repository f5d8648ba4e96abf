"""`compress_context`: the older part of the conversation gives way to something shorter."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from hermes_loop.accounting import account_for_summary
from hermes_loop.compression.plan import (
    Kept,
    joined,
    kept_rounds,
    plan_compression,
    shortened_tail,
    worth_a_summary,
)
from hermes_loop.compression.protocol import Compressed, CompressionContext, CompressionPlan
from hermes_loop.events import ContextCompressed, StatusChanged, SummaryCallEnded
from hermes_loop.phases.persist import save_owed, stop_for_store_error
from hermes_loop.shielding import is_being_cancelled
from hermes_loop.turn_log import log_phase
from hermes_loop.turn_state import TurnDeps, TurnState
from hermes_loop.verdicts import Recheck, Stop
from hermes_messages import (
    ChatRequest,
    ChatResponse,
    HermesError,
    Message,
    StoreError,
    SystemMessage,
    Transcript,
    estimate_tokens,
)
from hermes_messages.abilities import supports
from hermes_messages.openai_shape import to_dicts
from hermes_messages.protocols import NewMessage, Provider, StoredMessage, SupportsCompression

__all__ = ["can_compress", "compress_context"]


class _TookTooLongError(HermesError):
    """The compressor's time is over."""


class _NoGainError(HermesError):
    """The attempt came to nothing; the conversation is as it was."""


def can_compress(turn: TurnState, deps: TurnDeps, *, refused: bool) -> bool:
    """Whether an attempt may be made: not too often in a turn nor for one answer, and after a failure not at
    once, unless the host `refused` the prompt as it is."""
    control = deps.compression
    if control is None or turn.summary_call or turn.compressions >= control.settings.per_turn:
        return False
    if turn.rechecks >= deps.limits.rechecks:
        return False
    return refused or control.not_before is None or deps.clock.monotonic() >= control.not_before


async def compress_context(turn: TurnState, deps: TurnDeps, *, reason: str, required: bool) -> Recheck | Stop:
    """Make the context shorter and assemble the request anew.

    An attempt that fails leaves the conversation as it was: the turn goes on with it, or stops when the host
    has `required` a shorter one. One that takes too long ends the turn.
    """
    control = deps.compression
    assert control is not None
    turn.compressions += 1
    await turn.events.emit(StatusChanged("compression", f"{reason}; making the conversation shorter"))
    before = turn.conversation.prompt_tokens(turn.snapshot.tools)
    try:
        new = await _shorter(turn, deps)
        if new is None:
            return turn.interruption() or Stop("interrupted")
        stop = await _adopt(turn, deps, new)
    except _TookTooLongError as error:
        control.failed(deps.clock.monotonic())
        return Stop("context_compression_timeout", str(error))
    except HermesError as error:
        control.failed(deps.clock.monotonic())
        log_phase(turn, "compress_context", "Failed", logging.WARNING, str(error))
        if required:
            text = f"the conversation is too long for the model, and it could not be made shorter: {error}"
            return Stop("context_overflow", text)
        return Recheck("the context could not be compressed", "context")
    if stop is not None:
        return stop
    after = turn.conversation.prompt_tokens(turn.snapshot.tools)
    log_phase(turn, "compress_context", "Compressed", logging.INFO, f"about {before} to {after} tokens")
    await turn.events.emit(ContextCompressed(before, after))
    return Recheck("the context was compressed", "context")


async def _shorter(turn: TurnState, deps: TurnDeps) -> list[Kept] | None:
    """The new conversation; None after an interrupt. Raises `HermesError`."""
    control = deps.compression
    assert control is not None
    settings = control.settings
    messages = turn.conversation.messages
    size = estimate_tokens(messages)
    prompt = estimate_tokens(turn.conversation.history(), turn.snapshot.tools)
    least = int(prompt * settings.least_saving)
    plan = plan_compression(messages, _room(turn, size, prompt), settings)
    tail = shortened_tail(messages, plan.end, settings.result_characters)
    saved = estimate_tokens(messages[plan.end :]) - estimate_tokens([message for message, _ in tail])
    compressed = Compressed(tuple(messages[plan.begin : plan.end]))
    rounds: list[Kept] = []
    if worth_a_summary(messages, plan, saved, least):
        answer = await _ask(turn, deps, messages, plan)
        if answer is None:
            return None
        compressed = answer
        rounds = kept_rounds(messages, plan, settings.keep_tools, settings.result_characters)
    new = joined(compressed.messages, rounds, tail, messages, settings.keep_images)
    _check(new, size, least)
    return new


def _room(turn: TurnState, size: int, prompt: int) -> int:
    """What the model's window leaves for the messages, in the units of an uncorrected estimate, by which they
    are `size` long and the whole prompt is `prompt`."""
    window = turn.route.info.context_window
    if window is None:
        return size
    in_these_units = window * prompt // max(turn.conversation.prompt_tokens(turn.snapshot.tools), 1)
    return max(1, min(size, in_these_units - (prompt - size)))


async def _ask(
    turn: TurnState, deps: TurnDeps, messages: Sequence[Message], plan: CompressionPlan
) -> Compressed | None:
    """What the compressor says; None after an interrupt. Its own time-out is a failure like others."""
    control = deps.compression
    assert control is not None
    context = CompressionContext(
        session_id=turn.session_id,
        provider=turn.route.provider,
        model=turn.route.model,
        sleep=deps.clock.sleep,
        report=partial(_account_for_summary, turn),
    )
    answer: Compressed | None = None
    deadline = asyncio.timeout(control.settings.timeout_s)
    try:
        with turn.interrupt.scope():
            async with deadline:
                await deps.routes.open(turn.route)
                answer = _whole(await control.compressor.compress(messages, plan, context))
    except asyncio.CancelledError as error:
        if is_being_cancelled():
            raise
        raise _NoGainError(f"something that the compressor awaited was cancelled ({error!r})") from error
    except TimeoutError as error:
        if deadline.expired():
            limit = f"{control.settings.timeout_s:g} s"
            raise _TookTooLongError(f"making the conversation shorter took over {limit}") from None
        raise _NoGainError(f"the compressor gave up: {error!r}") from error
    except HermesError:
        raise
    except Exception as error:  # the compressor may be the host's own
        raise _NoGainError(f"the compressor failed: {type(error).__name__}: {error}") from error
    return answer


def _account_for_summary(
    turn: TurnState, provider: Provider, request: ChatRequest, response: ChatResponse
) -> None:
    account_for_summary(turn, provider, request, response)
    turn.events.tell(SummaryCallEnded(provider.name, request, response))


def _whole(answer: object) -> Compressed:
    """Raises `TypeError`, `InvariantError` for what can be no beginning of a conversation."""
    if not isinstance(answer, Compressed):
        raise TypeError(f"it must return Compressed, not {type(answer).__name__}")
    if any(isinstance(message, SystemMessage) for message in Transcript(answer.messages)):
        raise TypeError("a system message is no part of a conversation")
    return answer


def _check(new: Sequence[Kept], size: int, least: int) -> None:
    """Raise `HermesError` unless `new` is a valid conversation that is `least` tokens shorter than before."""
    Transcript(message for message, _ in new)
    shorter = estimate_tokens([message for message, _ in new])
    if shorter >= size or size - shorter < least:
        raise _NoGainError(f"about {size} tokens would have become {shorter}")


async def _adopt(turn: TurnState, deps: TurnDeps, new: Sequence[Kept]) -> Stop | None:
    """Let `new` take the place of the conversation, in the store first. A write whose end is not known makes
    the next turn read what is stored."""
    conversation = turn.conversation
    stop = await save_owed(turn)
    if stop is not None:
        return stop
    archive: object = deps.store
    if deps.store is not None and supports(archive, SupportsCompression):
        try:
            rows = await deps.store.get_messages(turn.session_id)
            named = _named(turn, conversation.messages, rows, new)
            await archive.archive_and_compact(turn.session_id, named, lease=turn.lease.token)
        except StoreError as error:
            conversation.left_at(None)
            return stop_for_store_error(turn, error)
        except BaseException:
            conversation.left_at(None)
            raise
    conversation.replace([message for message, _ in new])
    turn.last_input_tokens = None
    return None


def _named(
    turn: TurnState, old: Sequence[Message], rows: Sequence[StoredMessage], new: Sequence[Kept]
) -> list[NewMessage]:
    """`new` with identities: that of the stored message where one is the same, else a new one. Where the host
    gave only the newest part of what is stored, the rest stays in front of it as it is."""
    shift = len(rows) - len(old)
    named: list[NewMessage] = []
    if shift > 0 and all(
        _alike(row.message, message) for row, message in zip(rows[shift:], old, strict=True)
    ):
        named += [NewMessage(row.uid, row.message) for row in rows[:shift]]
    for message, place in new:
        row = rows[place + shift] if place is not None and 0 <= place + shift < len(rows) else None
        same = row is not None and place is not None and _alike(row.message, old[place])
        named.append(NewMessage(row.uid if same and row is not None else turn.next_uid(), message))
    return named


def _alike(stored: Message, message: Message) -> bool:
    """A host hands a history over in the plain shape, which does not tell everything that is stored."""
    return stored == message or to_dicts([stored]) == to_dicts([message])
