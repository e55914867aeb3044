import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.tools.contract import ToolRefusal
from agents.tools.files import view

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
GIF = b"GIF89a" + struct.pack("<HH", 3, 2) + b"\0\0\0,\0\0\0\0\x03\0\x02\0\0\x02\x02D\x01\0;"
JPEG = (
    b"\xff\xd8\xff\xe0\x00\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0"
    b"\xff\xc0\x00\x0b\x08"
    + struct.pack(">HH", 5, 7)
    + b"\x01\x01\x11\0\xff\xda\x00\x02\x00\xff\xd9"
)
WEBP = b"RIFF" + struct.pack("<I", 22 + 8) + b"WEBPVP8X" + struct.pack("<I", 10) + b"\0\0\0\0"
WEBP += (11).to_bytes(3, "little") + (12).to_bytes(3, "little") + b"\0" * 8
WHOLE = [
    (PNG, "image/png", (1, 1)),
    (GIF, "image/gif", (3, 2)),
    (JPEG, "image/jpeg", (7, 5)),
    (WEBP, "image/webp", (12, 13)),
]


@pytest.mark.parametrize(("raw", "kind", "size"), WHOLE)
def test_it_knows_an_image_and_its_size(raw: bytes, kind: str, size: tuple[int, int]) -> None:
    assert view.image_type(raw) == kind
    assert view.image_size(raw, kind) == size


@pytest.mark.parametrize(("raw", "kind"), [(raw, kind) for raw, kind, _ in WHOLE])
def test_it_refuses_a_part_of_an_image(raw: bytes, kind: str) -> None:
    for end in (12, len(raw) // 2):
        with pytest.raises(ToolRefusal, match="damaged or incomplete"):
            view.image_size(raw[:end], kind)


def test_it_refuses_what_is_too_large() -> None:
    wide = PNG[:16] + struct.pack(">II", 9_000, 1) + PNG[24:]
    with pytest.raises(ToolRefusal, match="9,000 x 1 pixels"):
        view.image_size(wide, "image/png")
    with pytest.raises(ToolRefusal, match="bytes"):
        view.image_size(PNG + b"\0" * 4_000_000, "image/png")


@given(st.binary(max_size=100), st.sampled_from(WHOLE))
def test_it_reads_any_bytes_without_breaking(
    rubbish: bytes, whole: tuple[bytes, str, object]
) -> None:
    raw, kind, _ = whole
    for content in (raw[:12] + rubbish, raw[:20] + rubbish + raw[20:]):
        try:
            view.image_size(content, kind)
        except ToolRefusal:
            continue


@pytest.mark.parametrize("raw", [b"", b"words", b"RIFF\0\0\0\0WAVE", b"%PDF-1.7", b"<svg/>"])
def test_it_takes_nothing_else_for_an_image(raw: bytes) -> None:
    assert view.image_type(raw) == view.unsupported_image_name(raw) == ""
