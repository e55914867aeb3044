"""Unpacks a compressed body piece by piece, so that a small one cannot fill the memory.

Pure. Whoever reads stops when he has enough; what is not asked for is never unpacked.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from agents.tools.contract import ToolRefusal

SPOKEN = "gzip, deflate"
_PIECE = 128 * 1024


class Decoder:
    def __init__(self, encoding: str) -> None:
        """Raises ``ToolRefusal`` for an encoding that was not asked for."""
        self._encoding = encoding.strip().lower()
        if self._encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise ToolRefusal("The server's answer has a content encoding that was not requested.")
        self._inflate: zlib._Decompress | None = None

    @property
    def is_whole(self) -> bool:
        """Whether a packed body has come to its end."""
        return self._inflate is None or self._inflate.eof

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Raises ``ToolRefusal`` where the body is broken."""
        if self._encoding in ("", "identity"):
            if chunk:
                yield chunk
            return
        try:
            yield from self._unpacked(chunk)
        except zlib.error:
            raise ToolRefusal("The server's answer is packed and broken.") from None

    def _unpacked(self, chunk: bytes) -> Iterator[bytes]:
        while chunk:
            if self._inflate is None:
                self._inflate = zlib.decompressobj(self._window(chunk))
            piece = self._inflate.decompress(chunk, _PIECE)
            if piece:
                yield piece
            chunk = self._inflate.unconsumed_tail
            if self._inflate.eof:
                chunk = self._inflate.unused_data
                # gzip may be several packets one after the other; anything else is filling.
                if self._encoding == "deflate" or not chunk.startswith(b"\x1f\x8b"):
                    return
                self._inflate = None
            elif not piece and not chunk:
                return

    def _window(self, chunk: bytes) -> int:
        if self._encoding != "deflate":
            return 16 + zlib.MAX_WBITS
        # "deflate" means a zlib head; some servers leave it out.
        has_head = chunk[0] & 0x0F == 8 and (
            len(chunk) < 2 or (chunk[0] * 256 + chunk[1]) % 31 == 0
        )
        return zlib.MAX_WBITS if has_head else -zlib.MAX_WBITS
