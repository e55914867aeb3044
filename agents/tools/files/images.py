"""What kind of image some bytes are, and whether a model could take them.

Pure. The bytes decide, never the name. An image that is broken or too large is
refused here: sent to a provider, it would fail this request and, being part of
the conversation from then on, every later one.
"""

from __future__ import annotations

import struct

from agents.tools.contract import ToolRefusal
from agents.tools.limits import MAX_IMAGE_BYTES, MAX_IMAGE_PIXELS

_KINDS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
# Images that no provider takes, so that their name can be told.
_OTHERS = (
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
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # JPEG: where the size stands


def mime_type(raw: bytes) -> str:
    """Empty for what is no image that a model takes."""
    if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _KINDS if raw.startswith(magic)), "")


def other_kind(raw: bytes) -> str:
    """The name of an image format that no model takes; empty for anything else."""
    return next((name for at, magic, name in _OTHERS if raw.startswith(magic, at)), "")


def checked_size(raw: bytes, kind: str) -> tuple[int, int]:
    """Its width and height. Raises ``ToolRefusal`` for what a provider would not take."""
    if len(raw) > MAX_IMAGE_BYTES:
        raise ToolRefusal(
            f"The image is too large: {len(raw):,} bytes; {MAX_IMAGE_BYTES:,} are allowed."
        )
    try:
        width, height = _READERS[kind](raw)
    except (struct.error, IndexError):
        width = height = 0
    if not width or not height:
        raise ToolRefusal(f"The image is broken or cut off: it is not a complete {kind}.")
    if max(width, height) > MAX_IMAGE_PIXELS:
        raise ToolRefusal(
            f"The image is too large: {width:,} x {height:,} pixels; "
            f"{MAX_IMAGE_PIXELS:,} are allowed on each side."
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
        if marker == 0xFF:  # filling
            at += 1
        elif marker in _FRAMES:
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


_READERS = {"image/png": _png, "image/jpeg": _jpeg, "image/gif": _gif, "image/webp": _webp}
