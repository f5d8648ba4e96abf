"""What the model is told of a server's answer: text as it stands, everything else as a note. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ReadResourceResult,
    Resource,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

__all__ = ["resource_list_text", "resource_text", "result_text"]


def result_text(result: CallToolResult) -> str:
    """All blocks of `result`, and its structured content unless a block says the same."""
    parts = [_block_text(block) for block in result.content]
    structured = result.structured_content
    if structured is not None and not _says_the_same(result.content, structured):
        parts.append(msgspec.json.encode(structured).decode())
    return "\n".join(part for part in parts if part) or "[the server sent no content]"


def resource_text(result: ReadResourceResult) -> str:
    """The contents of a resource that was read."""
    return "\n".join(_contents_text(part) for part in result.contents) or "[the resource is empty]"


def resource_list_text(resources: Iterable[Resource]) -> str:
    """One line for each resource."""
    return "\n".join(_about(resource) for resource in resources) or "[the server has no resources]"


def _block_text(block: ContentBlock) -> str:
    match block:
        case TextContent(text=text):
            return text
        case ImageContent(data=data, mime_type=kind) | AudioContent(data=data, mime_type=kind):
            return f"[{block.type}: {kind}, {_decoded_size(data):,} bytes, not shown]"
        case ResourceLink():
            return f"[resource link: {_about(block)}]"
        case EmbeddedResource(resource=contents):
            return _contents_text(contents)


def _contents_text(contents: TextResourceContents | BlobResourceContents) -> str:
    kind = f" ({contents.mime_type})" if contents.mime_type else ""
    if isinstance(contents, TextResourceContents):
        return f"[resource {contents.uri}{kind}]\n{contents.text}"
    return f"[resource {contents.uri}{kind}: {_decoded_size(contents.blob):,} bytes, not shown]"


def _about(resource: Resource) -> str:
    described = f": {resource.description}" if resource.description else ""
    kind = f" ({resource.mime_type})" if resource.mime_type else ""
    return f"{resource.uri} {resource.title or resource.name}{kind}{described}"


def _decoded_size(data: str) -> int:
    """The length in bytes of what base64 text stands for."""
    return len(data) * 3 // 4 - data[-2:].count("=")


def _says_the_same(blocks: Iterable[ContentBlock], structured: object) -> bool:
    """Whether a text block is `structured` written as JSON, as servers should send for old clients, or is
    the only thing in it."""
    texts = [block.text for block in blocks if isinstance(block, TextContent)]
    if isinstance(structured, dict) and len(structured) == 1 and next(iter(structured.values())) in texts:
        return True
    return any(_is_json_of(text, structured) for text in texts)


def _is_json_of(text: str, value: object) -> bool:
    if text.lstrip()[:1] not in tuple('{["tfn-0123456789'):
        return False
    try:
        return bool(msgspec.json.decode(text) == value)
    except (msgspec.DecodeError, RecursionError):
        return False
