"""Message models, transcript invariants and the Protocols that join the layers of an LLM agent.

>>> from hermes_messages import AssistantMessage, ToolCall, ToolMessage, Transcript, UserMessage
>>> transcript = Transcript([UserMessage("How warm is it?")])
>>> transcript.append(AssistantMessage(tool_calls=(ToolCall("call_1", "weather", '{"city": "Ulm"}'),)))
>>> transcript.append(UserMessage("Hurry!"))
Traceback (most recent call last):
    ...
hermes_messages.errors.InvariantError: message 2, call 'call_1': a user message while the results of tool \
calls are owed [results_owed]
>>> transcript.append(ToolMessage("call_1", "21 degrees"))
>>> transcript.append(AssistantMessage("It is 21 degrees in Ulm."))
>>> transcript.state
<TranscriptState.ANSWERED: 'answered'>
"""

# What every program needs is loaded at once; the names under `_LAZY` load their module at first use. `repair`
# here is the function; loading its module first would leave the module under that name.

from typing import TYPE_CHECKING, Final

from hermes_messages.argument_text import (
    ArgumentDefect,
    JsonObject,
    JsonValue,
    TolerantArguments,
    parse_arguments,
    parse_arguments_tolerantly,
)
from hermes_messages.errors import (
    ArgumentsError,
    ConfigurationError,
    ErrorKind,
    HermesError,
    InvariantError,
    LeaseLostError,
    MessageFormatError,
    MissingDependencyError,
    ProviderError,
    SessionNotFoundError,
    StoreBusyError,
    StoreError,
    StoreSchemaError,
    ToolDeclarationError,
    TurnStoppedError,
    UnknownNameError,
)
from hermes_messages.exchange import (
    ChatRequest,
    ChatResponse,
    FinishReason,
    ModelInfo,
    PartialToolCall,
    ReasoningDelta,
    ReasoningEffort,
    ResponseDone,
    StreamEvent,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallStarted,
    ToolChoice,
    ToolSpec,
)
from hermes_messages.history import (
    History,
    MessageLog,
)
from hermes_messages.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolStatus,
    UserMessage,
    decode_message,
    decode_messages,
    encode_message,
    encode_messages,
)
from hermes_messages.parts import (
    AudioPart,
    Content,
    FilePart,
    ImagePart,
    OpaquePart,
    Origin,
    Part,
    Replay,
    TextPart,
    content_text,
)
from hermes_messages.repair import RepairChange, RepairKind, RepairResult, repair
from hermes_messages.stable_bytes import (
    EncodedHistory,
    HistoryEncoder,
    segments,
)
from hermes_messages.transcript import (
    Transcript,
    validate,
)
from hermes_messages.transcript_rules import (
    TranscriptRule,
    TranscriptState,
)
from hermes_messages.usage import (
    Usage,
    add_usage,
)

if TYPE_CHECKING:
    from hermes_messages.assembler import StreamAssembler
    from hermes_messages.hygiene import clean_text
    from hermes_messages.openai_json import messages_from_json, read_json, to_json
    from hermes_messages.openai_quirks import Quirk, QuirkKind
    from hermes_messages.openai_reading import ReadResult, messages_from_dicts, read_dicts
    from hermes_messages.openai_row import OpenAIRow, from_openai_row, to_openai_row
    from hermes_messages.openai_shape import to_dicts
    from hermes_messages.tokens import TokenEstimator, estimate_tokens
    from hermes_messages.trajectory import from_trajectory, to_trajectory, tools_from_trajectory

__all__ = [
    "ArgumentDefect",
    "ArgumentsError",
    "AssistantMessage",
    "AudioPart",
    "ChatRequest",
    "ChatResponse",
    "ConfigurationError",
    "Content",
    "EncodedHistory",
    "ErrorKind",
    "FilePart",
    "FinishReason",
    "HermesError",
    "History",
    "HistoryEncoder",
    "ImagePart",
    "InvariantError",
    "JsonObject",
    "JsonValue",
    "LeaseLostError",
    "Message",
    "MessageFormatError",
    "MessageLog",
    "MissingDependencyError",
    "ModelInfo",
    "OpaquePart",
    "OpenAIRow",
    "Origin",
    "Part",
    "PartialToolCall",
    "ProviderError",
    "Quirk",
    "QuirkKind",
    "ReadResult",
    "ReasoningDelta",
    "ReasoningEffort",
    "RepairChange",
    "RepairKind",
    "RepairResult",
    "Replay",
    "ResponseDone",
    "SessionNotFoundError",
    "StoreBusyError",
    "StoreError",
    "StoreSchemaError",
    "StreamAssembler",
    "StreamEvent",
    "SystemMessage",
    "TextDelta",
    "TextPart",
    "TokenEstimator",
    "TolerantArguments",
    "ToolCall",
    "ToolCallArgumentsDelta",
    "ToolCallStarted",
    "ToolChoice",
    "ToolDeclarationError",
    "ToolMessage",
    "ToolSpec",
    "ToolStatus",
    "Transcript",
    "TranscriptRule",
    "TranscriptState",
    "TurnStoppedError",
    "UnknownNameError",
    "Usage",
    "UserMessage",
    "add_usage",
    "clean_text",
    "content_text",
    "decode_message",
    "decode_messages",
    "encode_message",
    "encode_messages",
    "estimate_tokens",
    "from_openai_row",
    "from_trajectory",
    "messages_from_dicts",
    "messages_from_json",
    "parse_arguments",
    "parse_arguments_tolerantly",
    "read_dicts",
    "read_json",
    "repair",
    "segments",
    "to_dicts",
    "to_json",
    "to_openai_row",
    "to_trajectory",
    "tools_from_trajectory",
    "validate",
]

_LAZY: Final[dict[str, str]] = {
    "StreamAssembler": "hermes_messages.assembler",
    "clean_text": "hermes_messages.hygiene",
    "messages_from_json": "hermes_messages.openai_json",
    "read_json": "hermes_messages.openai_json",
    "to_json": "hermes_messages.openai_json",
    "Quirk": "hermes_messages.openai_quirks",
    "QuirkKind": "hermes_messages.openai_quirks",
    "ReadResult": "hermes_messages.openai_reading",
    "messages_from_dicts": "hermes_messages.openai_reading",
    "read_dicts": "hermes_messages.openai_reading",
    "OpenAIRow": "hermes_messages.openai_row",
    "from_openai_row": "hermes_messages.openai_row",
    "to_openai_row": "hermes_messages.openai_row",
    "to_dicts": "hermes_messages.openai_shape",
    "TokenEstimator": "hermes_messages.tokens",
    "estimate_tokens": "hermes_messages.tokens",
    "from_trajectory": "hermes_messages.trajectory",
    "to_trajectory": "hermes_messages.trajectory",
    "tools_from_trajectory": "hermes_messages.trajectory",
}


def __getattr__(name: str) -> object:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = vars(import_module(module))[name]
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
