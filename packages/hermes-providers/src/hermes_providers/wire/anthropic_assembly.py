"""The content blocks of one response: what they say, and whole again for the next request."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from hermes_messages.deltas import Delta, ReasoningChunk, TextChunk, ToolCallChunk
from hermes_providers.streaming.json_bytes import dump
from hermes_providers.wire.anthropic_replay import text_of
from hermes_providers.wire.joined_text import JoinedText
from hermes_providers.wire.output_tool import AnswerText, is_answer_tool
from hermes_providers.wire.valid_arguments import valid_arguments

__all__ = ["ContentReader"]

_EMPTY = frozenset({b"", b"{}", b"null"})


class _Block:
    """One block that grows. `kind` "answer" is the output tool, whose arguments are the text."""

    __slots__ = ("answer", "citations", "fields", "kind", "open", "pieces", "signature", "wire_index")

    def __init__(self, kind: str, fields: dict[str, Raw], wire_index: int) -> None:
        self.kind = kind
        self.fields = fields
        self.wire_index = wire_index
        self.pieces: list[str] = []
        self.signature = ""
        self.citations: list[Raw] = []
        self.answer = AnswerText(text_of(fields, "name")) if kind == "answer" else None
        self.open = True


class ContentReader:
    """Takes the blocks' events. An index that is missing or unknown means the block begun last."""

    __slots__ = ("_blocks", "_by_index", "_offset", "_spoken", "_thought")

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._by_index: dict[int, _Block] = {}
        self._offset = 0
        self._spoken = JoinedText()
        self._thought = JoinedText()

    def start(self, index: object, fields: dict[str, Raw]) -> list[Delta]:
        """A block begins; it may hold all or some of its content already."""
        kind = text_of(fields, "type")
        if kind == "tool_use" and is_answer_tool(text_of(fields, "name")):
            kind = "answer"
        deltas = self.stop(index) if self._known(index) is not None else []
        block = self._begin(kind, fields, index)
        match kind:
            case "text":
                block.citations = _items(fields.get("citations"))
                deltas += self._say(block, text_of(fields, "text"))
            case "thinking":
                block.signature = text_of(fields, "signature")
                deltas += self._think(block, text_of(fields, "thinking"))
            case "tool_use":
                call_id, name = text_of(fields, "id") or None, text_of(fields, "name") or None
                deltas.append(ToolCallChunk(block.wire_index, call_id, name))
            case _:
                pass
        return deltas

    def text(self, index: object, text: str) -> list[Delta]:
        """More text, of a block that may never have begun."""
        block = self._at(index, "text")
        return self._say(block, text)

    def thinking(self, index: object, text: str) -> list[Delta]:
        """More thinking."""
        block = self._at(index, "thinking")
        return self._think(block, text)

    def arguments(self, index: object, text: str) -> list[Delta]:
        """More of a tool's input; input of a server's own tool says nothing to us."""
        block = self._at(index, "tool_use")
        return self._give(block, text)

    def signature(self, index: object, signature: str) -> None:
        """The signature of a thinking block, whole."""
        block = self._known(index)
        if block is not None and block.kind == "thinking":
            block.signature = signature

    def citation(self, index: object, citation: Raw) -> None:
        """A citation of a text block."""
        block = self._known(index)
        if block is not None and block.kind == "text" and bytes(citation):
            block.citations.append(Raw(bytes(citation)))

    def stop(self, index: object) -> list[Delta]:
        """A block is whole."""
        block = self._known(index)
        return [] if block is None else self._end(block)

    def stop_all(self) -> list[Delta]:
        """Nothing more comes."""
        return [delta for block in self._blocks for delta in self._end(block)]

    def begin_anew(self) -> None:
        """What comes from now on is of another reply, whose indices begin at 0 again."""
        self._offset = len(self._blocks)
        self._by_index.clear()

    def all_blocks(self) -> list[Raw]:
        """All blocks in order, calls without their input."""
        return [_whole(block) for block in self._blocks]

    def has_calls(self) -> bool:
        """Whether there are calls for us, the one with the answer among them."""
        return any(block.kind in {"tool_use", "answer"} for block in self._blocks)

    def replay_blocks(self) -> list[Raw]:
        """All blocks in order; none when the message's text and calls say the same."""
        kinds = [block.kind for block in self._blocks if block.kind != "answer"]
        calls_from = kinds.index("tool_use") if "tool_use" in kinds else len(kinds)
        plain = set(kinds[:calls_from]) <= {"text"} and set(kinds[calls_from:]) <= {"tool_use"}
        if plain and not any(block.citations for block in self._blocks):
            return []
        return self.all_blocks()

    def _known(self, index: object) -> _Block | None:
        if isinstance(index, int):
            return self._by_index.get(index)
        return self._blocks[-1] if self._blocks else None

    def _at(self, index: object, kind: str) -> _Block:
        """The block that a fragment of `kind` belongs to; a new one where the index names another kind."""
        block = self._known(index)
        if block is None or not _takes(block.kind, kind):
            block = self._begin(kind, {"type": Raw(dump(kind))}, index)
        return block

    def _begin(self, kind: str, fields: dict[str, Raw], index: object) -> _Block:
        wire_index = index if isinstance(index, int) else len(self._blocks) - self._offset
        kept = {name: Raw(bytes(value)) for name, value in fields.items()}  # not a view of the whole event
        block = self._by_index[wire_index] = _Block(kind, kept, self._offset + wire_index)
        self._blocks.append(block)
        if kind not in {"text", "answer"}:
            self._spoken.interrupt()
        if kind != "thinking":
            self._thought.interrupt()
        return block

    def _say(self, block: _Block, text: str) -> list[Delta]:
        block.pieces.append(text)
        return [TextChunk(self._spoken.add(text))] if text else []

    def _think(self, block: _Block, text: str) -> list[Delta]:
        if block.pieces and not text:
            return []
        block.pieces.append(text)
        return [ReasoningChunk(self._thought.add(text))]

    def _give(self, block: _Block, text: str) -> list[Delta]:
        if not text:
            return []
        if block.answer is not None:
            return self._say(block, block.answer.feed(text))
        block.pieces.append(text)
        return [ToolCallChunk(block.wire_index, arguments=text)] if block.kind == "tool_use" else []

    def _end(self, block: _Block) -> list[Delta]:
        """Input that came whole with the block's start, and no input at all, are told now."""
        if not block.open:
            return []
        block.open = False
        if block.kind not in {"tool_use", "answer"} or block.pieces:
            return []
        said = bytes(block.fields.get("input", b""))
        if said.startswith(b'"'):  # the object as a text
            said = text_of(block.fields, "input").encode()
        return self._give(block, "{}" if said in _EMPTY else said.decode())


def _items(raw: Raw | None) -> list[Raw]:
    """The items of a list; none of anything else."""
    try:
        return [] if raw is None else [Raw(bytes(item)) for item in msgspec.json.decode(raw, type=list[Raw])]
    except msgspec.MsgspecError:
        return []


def _takes(kind: str, fragment: str) -> bool:
    """Whether a block of `kind` takes a fragment of text, thinking or tool input."""
    match fragment:
        case "text":
            return kind in {"text", "answer"}
        case "thinking":
            return kind == "thinking"
        case _:
            return kind not in {"text", "thinking", "redacted_thinking"}


def _whole(block: _Block) -> Raw:
    """The block with all that came. A call stands without its input, which the message has."""
    text = "".join(block.pieces)
    fields: dict[str, object] = dict(block.fields)
    match block.kind:
        case "text" | "answer":
            fields = {"type": "text", "text": text}
            if block.citations:
                fields["citations"] = block.citations
        case "thinking":
            fields |= {"thinking": text, "signature": block.signature}
        case "tool_use":
            fields.pop("input", None)
        case _:
            if text:
                fields["input"] = Raw(valid_arguments(text).encode())  # a cut can leave half an object
    return Raw(dump(fields))
