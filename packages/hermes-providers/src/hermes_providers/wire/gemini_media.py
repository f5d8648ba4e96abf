"""Images, sounds and files as parts of a Gemini content.

"Blob" and "FileData" (ai.google.dev/api/caching): bytes go in base64 with their media type, addresses with a
media type where it can be told.
"""

from __future__ import annotations

import base64
from pathlib import PurePosixPath
from urllib.parse import unquote_to_bytes, urlsplit

from hermes_messages.parts import AudioPart, FilePart, ImagePart

__all__ = ["media_part"]

_AUDIO_TYPES = {"wav": "audio/wav", "mp3": "audio/mp3", "ogg": "audio/ogg", "flac": "audio/flac"}
_IMAGE_TYPE = "image/png"
_FILE_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".heic": "image/heic",
    ".heif": "image/heif",
    ".gif": "image/gif",
    ".pdf": "application/pdf",
    ".txt": "text/plain",
    ".md": "text/markdown",
    ".csv": "text/csv",
    ".html": "text/html",
    ".xml": "text/xml",
    ".json": "application/json",
    ".mp3": "audio/mp3",
    ".wav": "audio/wav",
    ".ogg": "audio/ogg",
    ".flac": "audio/flac",
    ".mp4": "video/mp4",
    ".mpeg": "video/mpeg",
    ".mov": "video/quicktime",
    ".webm": "video/webm",
}
"""Media types by the end of a name. The standard library's table is read from files of the machine."""


def media_part(part: ImagePart | AudioPart | FilePart) -> dict[str, object]:
    """The part as `inlineData` or `fileData`."""
    match part:
        case ImagePart(url=url):
            return _inline(url, _IMAGE_TYPE) if url.startswith("data:") else _file(url)
        case AudioPart(data=data, format=kind):
            return _blob(_AUDIO_TYPES.get(kind, f"audio/{kind}"), data)
        case FilePart(data=str() as data):
            guessed = _type_of(part.filename or "") or "application/octet-stream"
            return _inline(data, guessed) if data.startswith("data:") else _blob(guessed, data)
        case FilePart():
            return _file(part.file_id or "", part.filename)


def _inline(address: str, default_type: str) -> dict[str, object]:
    """The bytes in a `data:` address (RFC 2397)."""
    head, _, data = address.removeprefix("data:").partition(",")
    media_type, *parameters = head.split(";")
    if "base64" not in (parameter.strip().lower() for parameter in parameters):
        data = base64.b64encode(unquote_to_bytes(data)).decode()
    return _blob(media_type.strip() or default_type, data)


def _blob(media_type: str, data: str) -> dict[str, object]:
    return {"inlineData": {"mimeType": media_type, "data": data}}


def _file(address: str, filename: str | None = None) -> dict[str, object]:
    guessed = _type_of(filename or urlsplit(address).path)
    described: dict[str, object] = {} if guessed is None else {"mimeType": guessed}
    return {"fileData": described | {"fileUri": address}}


def _type_of(name: str) -> str | None:
    return _FILE_TYPES.get(PurePosixPath(name).suffix.lower())
