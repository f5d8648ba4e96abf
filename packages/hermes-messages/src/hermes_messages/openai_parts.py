"""Reading the content parts of OpenAI dicts."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from hermes_messages.argument_text import JsonValue
from hermes_messages.openai_quirks import Notebook, QuirkKind
from hermes_messages.parts import AudioPart, FilePart, ImagePart, OpaquePart, Part, TextPart

__all__ = ["read_part"]


def read_part(notes: Notebook, value: JsonValue, path: str) -> Part | None:
    """The part in `value`, opaque if of unknown kind, None for a null. Raises `MessageFormatError`."""
    if value is None:
        notes.note(QuirkKind.NULL_KEY, path)
        return None
    if isinstance(value, str):
        notes.note(QuirkKind.BARE_PART, path)
        return TextPart(notes.clean(value, path))
    if not isinstance(value, Mapping):
        raise notes.error(f"a content part must be an object, not {type(value).__name__}", path)
    part: Part | None = None
    match value.get("type"):
        case "text":
            part = _text_part(notes, value, path)
        case "image_url":
            part = _image_part(notes, value, path)
        case "input_audio":
            part = _audio_part(notes, value, path)
        case "file":
            part = _file_part(notes, value, path)
        case _:
            pass
    if part is None:
        notes.note(QuirkKind.UNKNOWN_PART, path)
        return OpaquePart(Raw(notes.encoded(value, path)))
    return part


def _text_part(notes: Notebook, value: Mapping[str, JsonValue], path: str) -> TextPart | None:
    text = value.get("text")
    if text is None and "text" in value:
        notes.note(QuirkKind.NULL_CONTENT, f"{path}.text")
        text = ""
    if not isinstance(text, str):
        return None
    others = {key: item for key, item in value.items() if key not in {"type", "text"}}
    return TextPart(notes.clean(text, f"{path}.text"), notes.raw(others, path))


def _image_part(notes: Notebook, value: Mapping[str, JsonValue], path: str) -> ImagePart | None:
    inner = value.get("image_url")
    if isinstance(inner, str):
        notes.note(QuirkKind.BARE_PART, f"{path}.image_url")
        inner = {"url": inner}
    if not isinstance(inner, Mapping) or not isinstance(url := inner.get("url"), str):
        return None
    detail = inner.get("detail")
    known = {"url", "detail"} if detail is None or isinstance(detail, str) else {"url"}
    return ImagePart(
        notes.clean(url, f"{path}.image_url.url"),
        notes.clean(detail, f"{path}.image_url.detail") if isinstance(detail, str) else None,
        _nested_extra(notes, value, "image_url", inner, known, path),
    )


def _audio_part(notes: Notebook, value: Mapping[str, JsonValue], path: str) -> AudioPart | None:
    inner = value.get("input_audio")
    if not isinstance(inner, Mapping):
        return None
    data, form = inner.get("data"), inner.get("format")
    if not isinstance(data, str) or not isinstance(form, str):
        return None
    extra = _nested_extra(notes, value, "input_audio", inner, {"data", "format"}, path)
    return AudioPart(
        notes.clean(data, f"{path}.input_audio.data"),
        notes.clean(form, f"{path}.input_audio.format"),
        extra,
    )


def _file_part(notes: Notebook, value: Mapping[str, JsonValue], path: str) -> FilePart | None:
    inner = value.get("file")
    if not isinstance(inner, Mapping):
        return None
    known: dict[str, str | None] = {}
    for key in ("file_id", "filename", "file_data"):
        item = inner.get(key)
        if item is None:
            known[key] = None
        elif isinstance(item, str):
            known[key] = notes.clean(item, f"{path}.file.{key}")
    return FilePart(
        known.get("file_id"),
        known.get("filename"),
        known.get("file_data"),
        _nested_extra(notes, value, "file", inner, set(known), path),
    )


def _nested_extra(
    notes: Notebook,
    value: Mapping[str, JsonValue],
    key: str,
    inner: Mapping[str, JsonValue],
    known: set[str],
    path: str,
) -> Raw | None:
    extra: dict[str, JsonValue] = {k: v for k, v in value.items() if k not in {"type", key}}
    more: dict[str, JsonValue] = {k: v for k, v in inner.items() if k not in known}
    if more:
        extra[key] = more
    return notes.raw(extra, path)
