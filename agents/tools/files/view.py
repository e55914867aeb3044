"""Shows lines of a text file, numbered, or an image.

The bytes of an image decide its type, never its name. A broken or too large image is refused here:
at a provider it would fail this request, and every later one, because it would stay in the
conversation.
"""

from __future__ import annotations

import asyncio
import base64
import difflib
import os
import struct
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from agents.llm.contract import ToolSpec
from agents.skills.skill import Skill, is_skill_file, skill_of_file
from agents.tools import arguments, limits
from agents.tools.contract import (
    FileMark,
    Repetition,
    RequiredPermission,
    ToolContext,
    ToolOutcome,
    ToolRefusal,
    load_description,
)
from agents.tools.files import approval_snapshot, text_file
from agents.tools.files.paths import is_inside, resolve

_NAMES_LOOKED_AT = 2_000

_IMAGE_TYPES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
# Formats that no provider accepts, to name them in error messages.
_UNSUPPORTED_IMAGES = (
    (0, b"BM", "BMP"),
    (0, b"II*\0", "TIFF"),
    (0, b"MM\0*", "TIFF"),
    (0, b"\0\0\1\0", "ICO"),
    (4, b"ftypavif", "AVIF"),
    (4, b"ftypheic", "HEIC"),
    (4, b"ftypmif1", "HEIF"),
    (0, b"\0\0\0\x0cjP  ", "JPEG 2000"),
    (0, b"8BPS", "Photoshop"),
)
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {
    0xC4,
    0xC8,
    0xCC,
}  # JPEG: the markers before the size


@dataclass(frozen=True, slots=True)
class ViewArgs:
    file_path: str
    offset: int
    limit: int


@dataclass(frozen=True, slots=True)
class _Seen:
    path: Path
    mark: FileMark
    outcome: ToolOutcome


class View:
    repetition = Repetition.PURE
    spec = ToolSpec(
        name="view",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "file_path": {"type": "string", "description": "The file to read."},
                "offset": {"type": "integer", "description": "Lines to skip (default 0)."},
                "limit": {
                    "type": "integer",
                    "description": f"Lines to show (default {limits.VIEW_LINES}).",
                },
            },
            "required": ["file_path"],
        },
    )

    def parse(self, given: Mapping[str, Any]) -> ViewArgs:
        most = limits.MAX_VIEW_LINES
        return ViewArgs(
            arguments.text(given, "file_path", max_bytes=limits.MAX_PATH_BYTES, blank=False),
            arguments.count(given, "offset", default=0, most=limits.MAX_VIEW_BYTES),
            arguments.count(given, "limit", default=0, most=most) or limits.VIEW_LINES,
        )

    async def required_permission(
        self, args: ViewArgs, context: ToolContext
    ) -> RequiredPermission | None:
        path = await asyncio.to_thread(resolve, args.file_path, context)
        approval_snapshot.remember(context, path)
        if is_inside(path, context.working_dir) or is_skill_file(path, context.skills):
            return None
        # Whether the file exists is reported only after permission.
        return RequiredPermission(
            tool_name=self.spec.name,
            action="read",
            path=str(path),
            description=f"Read file outside of the working directory: {path}",
            params={"file_path": args.file_path, "offset": args.offset, "limit": args.limit},
        )

    async def run(self, args: ViewArgs, context: ToolContext) -> ToolOutcome:
        seen = await asyncio.to_thread(_look, args, context)
        await context.files.record_read(str(seen.path), seen.mark)
        context.languages.touch(str(seen.path))
        return seen.outcome


def _look(args: ViewArgs, context: ToolContext) -> _Seen:
    path = resolve(args.file_path, context)
    approval_snapshot.check(context, path)
    try:
        raw, mark = text_file.read_bytes(path, max_bytes=limits.MAX_VIEW_BYTES)
    except FileNotFoundError:
        raise ToolRefusal(f"{path} does not exist.{_suggested(path)}") from None
    kind = image_type(raw)
    if kind:
        return _Seen(path, mark, _picture(path, raw, kind, context))
    if name := unsupported_image_name(raw):
        raise ToolRefusal(
            f"{path} is a {name} image, which models do not accept. Convert it to PNG first."
        )
    metadata = {"file_path": str(path), **_skill_metadata(skill_of_file(path, context.skills))}
    return _Seen(
        path, mark, _numbered(path, text_file.decode(path, raw, mark).text, args, metadata)
    )


def _skill_metadata(skill: Skill | None) -> dict[str, str]:
    """Returns the metadata by which clients recognize a skill's file."""
    if skill is None:
        return {}
    return {
        "resource_type": "skill",
        "resource_name": skill.name,
        "resource_description": skill.description,
    }


def _picture(path: Path, raw: bytes, kind: str, context: ToolContext) -> ToolOutcome:
    if not context.sees_images:
        raise ToolRefusal(
            f"{path} is an image ({kind}, {len(raw):,} bytes), and this model cannot see images."
        )
    width, height = image_size(raw, kind)
    return ToolOutcome(
        f"The image {path} ({kind}, {width} x {height} pixels, {len(raw):,} bytes).",
        metadata={"file_path": str(path), "content": ""},
        data=base64.b64encode(raw).decode("ascii"),
        mime_type=kind,
    )


def _numbered(path: Path, text: str, args: ViewArgs, metadata: Mapping[str, str]) -> ToolOutcome:
    lines = text.removesuffix("\n").split("\n") if text else []
    total = len(lines)
    if args.offset and args.offset >= total:
        raise ToolRefusal(
            f"{path} has {total:,} lines; an offset of {args.offset:,} is past its end."
        )
    cut = [
        limits.cut_line(line.removesuffix("\r"), limits.VIEW_LINE_CHARS)
        for line in lines[args.offset : args.offset + args.limit]
    ]
    shown = cut[: bisect_right(list(accumulate(map(len, cut))), limits.VIEW_CHARS)]
    last = args.offset + len(shown)
    numbered = "\n".join(f"{n:>6}|{line}" for n, line in enumerate(shown, start=args.offset + 1))
    content = f"<file>\n{numbered}\n</file>" if shown else f"{path} is empty."
    if last < total:
        content += f"\n\n({total - last:,} more lines follow; use offset {last} to continue.)"
    return ToolOutcome(content, metadata={**metadata, "content": "\n".join(shown)})


def _suggested(path: Path) -> str:
    """Suggests names in the same folder that the model may have meant."""
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in islice(entries, _NAMES_LOOKED_AT)]
    except OSError:
        return " Its folder does not exist either."
    wanted = path.name.lower()
    by_lower = {name.lower(): name for name in sorted(names)}
    close = difflib.get_close_matches(wanted, by_lower)
    close += [
        n
        for n in by_lower
        if n not in close and min(len(n), len(wanted)) > 2 and (wanted in n or n in wanted)
    ]
    if not close:
        return ""
    found = ", ".join(str(path.parent / by_lower[name]) for name in close[:3])
    return f" Did you mean: {found}?"


def image_type(raw: bytes) -> str:
    """Returns the MIME type of an image; empty for anything that models do not accept."""
    if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _IMAGE_TYPES if raw.startswith(magic)), "")


def unsupported_image_name(raw: bytes) -> str:
    """Returns the name of an image format that no model accepts; empty for anything else."""
    return next((name for at, magic, name in _UNSUPPORTED_IMAGES if raw.startswith(magic, at)), "")


def image_size(raw: bytes, kind: str) -> tuple[int, int]:
    """Returns width and height. Raises ``ToolRefusal`` for an image that providers reject."""
    if len(raw) > limits.MAX_IMAGE_BYTES:
        raise ToolRefusal(
            f"The image is too large: {len(raw):,} bytes; {limits.MAX_IMAGE_BYTES:,} are allowed."
        )
    try:
        width, height = _SIZE_READERS[kind](raw)
    except (struct.error, IndexError):
        width = height = 0
    if not width or not height:
        raise ToolRefusal(f"The image is damaged or incomplete: it is not a whole {kind}.")
    if max(width, height) > limits.MAX_IMAGE_PIXELS:
        raise ToolRefusal(
            f"The image is too large: {width:,} x {height:,} pixels; "
            f"{limits.MAX_IMAGE_PIXELS:,} are allowed on each side."
        )
    return width, height


def _png(raw: bytes) -> tuple[int, int]:
    whole = raw[12:16] == b"IHDR" and b"IDAT" in raw and b"IEND" in raw[-64:]
    return struct.unpack_from(">II", raw, 16) if whole else (0, 0)


def _gif(raw: bytes) -> tuple[int, int]:
    return struct.unpack_from("<HH", raw, 6) if b";" in raw[-64:] else (0, 0)


def _jpeg(raw: bytes) -> tuple[int, int]:
    if b"\xff\xd9" not in raw[-4096:]:
        return 0, 0
    at = 2
    while raw[at] == 0xFF:
        marker = raw[at + 1]
        if marker == 0xFF:  # padding
            at += 1
        elif marker in _JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", raw, at + 5)
            return width, height
        else:
            at += 2 + max(2, struct.unpack_from(">H", raw, at + 2)[0])
    return 0, 0


def _webp(raw: bytes) -> tuple[int, int]:
    if struct.unpack_from("<I", raw, 4)[0] + 8 > len(raw):
        return 0, 0
    match raw[12:16]:
        case b"VP8X":
            width = int.from_bytes(raw[24:27], "little") + 1
            return width, int.from_bytes(raw[27:30], "little") + 1
        case b"VP8L":
            bits = struct.unpack_from("<I", raw, 21)[0]
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", raw, 26)
            return width & 0x3FFF, height & 0x3FFF
        case _:
            return 0, 0


_SIZE_READERS = {"image/png": _png, "image/jpeg": _jpeg, "image/gif": _gif, "image/webp": _webp}
