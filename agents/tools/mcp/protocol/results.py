"""Converts a server's lists and results to this project's types, bounded and cleaned."""

from __future__ import annotations

import binascii
from collections.abc import Iterable
from typing import Any

import mcp_types as types
import orjson

from agents.tools.contract import ToolOutcome
from agents.tools.limits import MAX_IMAGE_BYTES, cut_middle
from agents.tools.mcp import limits
from agents.tools.mcp.contract import (
    McpFailed,
    OfferedPrompt,
    OfferedResource,
    OfferedTool,
    PromptArgument,
    ResourceContent,
)
from agents.tools.mcp.schemas import safe_schema
from workspaces.storable import storable_text

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_SHOWN_CHARS = 200


def tools_of(listed: Iterable[types.Tool]) -> tuple[OfferedTool, ...]:
    return tuple(
        OfferedTool(
            tool.name,
            plain(tool.description or tool.title or "", limits.MAX_DESCRIPTION_CHARS),
            safe_schema(tool.input_schema),
            _is_repeatable(tool.annotations),
        )
        for tool in listed
        if _is_name(tool.name)
    )


def _is_repeatable(hints: types.ToolAnnotations | None) -> bool:
    return hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)


def prompts_of(listed: Iterable[types.Prompt]) -> tuple[OfferedPrompt, ...]:
    return tuple(
        OfferedPrompt(
            prompt.name,
            plain(prompt.title or "", limits.MAX_TITLE_CHARS),
            plain(prompt.description or "", limits.MAX_DESCRIPTION_CHARS),
            tuple(
                PromptArgument(
                    name=argument.name,
                    description=plain(argument.description or "", limits.MAX_DESCRIPTION_CHARS),
                    required=bool(argument.required),
                )
                for argument in (prompt.arguments or [])[: limits.MAX_ARGUMENTS]
                if _is_name(argument.name)
            ),
        )
        for prompt in listed
        if _is_name(prompt.name)
    )


def resources_of(listed: Iterable[types.Resource]) -> tuple[OfferedResource, ...]:
    return tuple(
        OfferedResource(
            resource.uri,
            plain(resource.title or resource.name, limits.MAX_TITLE_CHARS),
            plain(resource.description or "", limits.MAX_DESCRIPTION_CHARS),
            plain(resource.mime_type or "", limits.MAX_NAME_CHARS),
        )
        for resource in listed
        if len(resource.uri) <= limits.MAX_URI_CHARS
    )


def outcome_of(result: types.CallToolResult, *, sees_images: bool) -> ToolOutcome:
    """Returns the tool result for the model, with at most one image."""
    texts: list[str] = []
    data = mime_type = ""
    for item in result.content[: limits.MAX_ITEMS]:
        if isinstance(item, types.ImageContent) and not data:
            text = _image_fault(item, sees_images=sees_images)
            if not text:
                data, mime_type = item.data, item.mime_type
                continue
        else:
            text = _text_of(item)
        texts.append(text)
    if len(result.content) > limits.MAX_ITEMS:
        texts.append(f"[{len(result.content) - limits.MAX_ITEMS:,} more parts were left out.]")
    if not result.content and result.structured_content is not None:
        texts.append(orjson.dumps(result.structured_content, default=str).decode())
    text = "\n".join(texts)
    if not text:
        text = f"The tool returned an image ({mime_type})." if data else "no output"
    return ToolOutcome(
        cut_middle(plain(text), limits.MAX_RESULT_CHARS),
        is_error=bool(result.is_error),
        data=data,
        mime_type=mime_type,
    )


def prompt_text_of(result: types.GetPromptResult) -> str:
    """Returns the text of the prompt's user messages."""
    texts = [
        _text_of(message.content)
        for message in result.messages[: limits.MAX_ITEMS]
        if message.role == "user"
    ]
    return cut_middle(plain("\n".join(texts)), limits.MAX_RESULT_CHARS)


def contents_of(result: types.ReadResourceResult) -> tuple[ResourceContent, ...]:
    """Returns the contents of a resource.

    Raises ``McpFailed`` if they are too large, or not base64 where that is required.
    """
    contents: list[ResourceContent] = []
    size = 0
    for item in result.contents[: limits.MAX_ITEMS]:
        text = plain(item.text) if isinstance(item, types.TextResourceContents) else ""
        blob = item.blob if isinstance(item, types.BlobResourceContents) else ""
        if blob and not _is_base64(blob):
            raise McpFailed(
                f"The resource {_short(item.uri)} is declared as base64, but is not valid base64."
            )
        size += len(text) + len(blob)
        if size > limits.MAX_RESOURCE_BYTES:
            raise McpFailed(f"The resource has more than {limits.MAX_RESOURCE_BYTES:,} bytes.")
        mime_type = plain(item.mime_type or "", limits.MAX_NAME_CHARS)
        contents.append(ResourceContent(item.uri, mime_type, text, blob))
    return tuple(contents)


def plain(text: str, limit: int | None = None) -> str:
    """Replaces NUL and lone surrogates, which stores and providers reject; cuts to ``limit``."""
    clean = storable_text(text)
    if not clean.isascii():
        clean = clean.encode("utf-8", "replace").decode()
    return clean if limit is None or len(clean) <= limit else f"{clean[: limit - 1]}…"


def _text_of(item: Any) -> str:
    match item:
        case types.TextContent():
            return item.text
        case types.ImageContent() | types.AudioContent():
            kind = "image" if isinstance(item, types.ImageContent) else "audio"
            return f"[{kind} left out: {_short(item.mime_type)}]"
        case types.ResourceLink():
            return f"[resource {_short(item.name)}: {_short(item.uri)}]"
        case types.EmbeddedResource(resource=types.TextResourceContents() as inner):
            return inner.text
        case types.EmbeddedResource(resource=inner):
            mime_type = inner.mime_type or "binary"
            return f"[resource {_short(inner.uri)} left out: {_short(mime_type)}]"
        case _:
            return "[a part of an unknown kind was left out]"


def _image_fault(image: types.ImageContent, *, sees_images: bool) -> str:
    if image.mime_type not in _IMAGES:
        return f"[image left out: {_short(image.mime_type)} is not shown to models]"
    if not sees_images:
        return "[image left out: this model cannot see images]"
    if len(image.data) * 3 // 4 > MAX_IMAGE_BYTES:
        return f"[image left out: it has more than {MAX_IMAGE_BYTES:,} bytes]"
    return "" if image.data and _is_base64(image.data) else "[image left out: it is not base64]"


def _is_base64(text: str) -> bool:
    try:
        binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return False
    return True


def _short(text: str) -> str:
    return plain(text, _SHOWN_CHARS)


def _is_name(name: str) -> bool:
    return 0 < len(name) <= limits.MAX_NAME_CHARS and name.isprintable()
