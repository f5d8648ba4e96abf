"""What deltas come to, which several modules of tests ask."""

from collections.abc import Iterable

from hermes_messages import ChatResponse, Origin, StreamEvent
from hermes_messages.assembler import StreamAssembler
from hermes_messages.deltas import Delta

__all__ = ["ORIGIN", "assemble"]

ORIGIN = Origin("p", "h", "m")


def assemble(
    deltas: Iterable[Delta],
    *,
    complete: bool = True,
    think_tags: bool = True,
    starts_inside: bool = False,
) -> tuple[list[StreamEvent], ChatResponse]:
    assembler = StreamAssembler(ORIGIN, "openai_chat", think_tags=think_tags, starts_inside=starts_inside)
    events = [event for delta in deltas for event in assembler.feed(delta)]
    events += assembler.flush()
    return events, assembler.finish(complete=complete)
