"""Turns files, images and commands into text or images for the model.

Pure. A text file becomes a fenced block with its name, cut at ``FILE_LIMIT``. An image
goes only to a model that accepts images. A note replaces anything that cannot be sent,
so that the model is aware of it.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from dataclasses import dataclass
from typing import assert_never

from agents.llm.history import UserTurn
from workspaces.log.parts import (
    Binary,
    Finish,
    ImageUrl,
    Part,
    Reasoning,
    ShellCommand,
    Text,
    ToolCall,
    ToolResult,
)

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
TEXT_TYPES = re.compile(
    r"text/.*|application/(json|xml|yaml|x-yaml|toml|javascript|x-sh|sql|x-ndjson)|.*\+(json|xml)",
    re.IGNORECASE,
)
FILE_LIMIT = 1_000_000  # characters of an attached file that go to the model
DATA_URL = re.compile(r"data:(image/[a-z]+);base64,(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Image:
    """An image as base64 with its type, or as a URL."""

    mime_type: str = ""
    data: str = ""
    url: str = ""
    detail: str = ""

    @property
    def address(self) -> str:
        """Its URL, which is a data URL if it has no other."""
        return self.url or f"data:{self.mime_type};base64,{self.data}"


ModelContent = str | Image


def user_parts(turn: UserTurn, *, sees: bool) -> list[ModelContent]:
    """Returns a prompt's content in order; neighbouring texts stay apart from each other.

    Otherwise a prompt would run into the text of a file.
    """
    content = [item for part in turn.parts if (item := _content_of(part, sees=sees))]
    return content or ["(an empty message)"]


def result_parts(result: ToolResult, *, sees: bool) -> tuple[str, Image | None]:
    """Returns a tool result's text, never empty, and its image if the model accepts images."""
    image = _image("its result", result.mime_type, result.data, sees) if result.data else None
    words = [result.content] if result.content.strip() else []
    if isinstance(image, str):
        words.append(image)
    text = "\n".join(words)
    if isinstance(image, Image):
        return text or "(an image)", image
    return text or "(no output)", None


def _content_of(part: Part, *, sees: bool) -> ModelContent:
    match part:
        case Text():
            return part.text
        case Binary():
            return _file(part, sees=sees)
        case ImageUrl():
            return _image_url(part, sees=sees)
        case ShellCommand():
            return _command(part)
        case Reasoning() | ToolCall() | ToolResult() | Finish():
            return ""  # not part of a prompt
        case _:
            assert_never(part)


def _file(part: Binary, *, sees: bool) -> ModelContent:
    name = _one_line(part.path) or "attachment"
    if part.mime_type.lower().startswith("image/"):
        return _image(f"`{name}`", part.mime_type, part.data, sees)
    if not TEXT_TYPES.fullmatch(part.mime_type.partition(";")[0].strip()):
        kind = _one_line(part.mime_type)
        return f"[The user attached the file `{name}` ({kind}), which cannot be shown here.]"
    try:
        text = b64decode(part.data, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return f"[The user attached the file `{name}`, but it arrived damaged.]"
    cut = ""
    if len(text) > FILE_LIMIT:
        text, cut = text[:FILE_LIMIT], f"\n[Cut after {FILE_LIMIT:,} characters.]"
    return f"The user attached the file `{name}`:\n{_fenced(text)}{cut}"


def _image(name: str, mime_type: str, data: str, sees: bool) -> ModelContent:
    kind = mime_type.partition(";")[0].strip().lower().replace("image/jpg", "image/jpeg")
    if not sees:
        return f"[There is an image, {name}, but this model cannot see images.]"
    if kind not in IMAGE_TYPES:
        return f"[There is an image, {name}, of a kind that cannot be shown: {_one_line(kind)}.]"
    try:
        # A provider refuses a conversation with a broken image, now and in every later step.
        binascii.a2b_base64(data, strict_mode=True)
    except (binascii.Error, ValueError):
        return f"[There is an image, {name}, but it arrived damaged.]"
    return Image(kind, data)


def _image_url(part: ImageUrl, *, sees: bool) -> ModelContent:
    if match := DATA_URL.fullmatch(part.url):
        return _image("pasted by the user", match[1], match[2], sees)
    if not sees:
        return f"[There is an image at {part.url[:2000]}, but this model cannot see images.]"
    if not part.url.startswith(("https://", "http://")):
        return "[There is an image whose address cannot be used.]"
    return Image(url=part.url, detail=part.detail)


def _command(part: ShellCommand) -> str:
    output = _fenced(part.output) if part.output.strip() else "(no output)"
    return (
        f"The user ran a shell command:\n{_fenced(part.command)}\n"
        f"It ended with exit code {part.exit_code} and printed:\n{output}"
    )


def _fenced(text: str) -> str:
    """Puts the text in a fence that is longer than any fence inside it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text.rstrip()}\n{fence}"


def _one_line(text: str) -> str:
    return " ".join(text.replace("`", "'").split())[:300]
