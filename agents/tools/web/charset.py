"""A page's bytes as text: by its byte order mark, its header, its own word, else by trying.

Pure. Only the web's own encodings are taken; Python knows others that cost much
time or are no text at all.
"""

from __future__ import annotations

import codecs
import re

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_META = re.compile(
    rb"<meta[^>]{0,300}?charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([\w.:-]{1,40})", re.IGNORECASE
)
_DECLARED = re.compile(rb"\A\s{0,9}<\?xml[^>]{0,200}?encoding=[\"']([\w.:-]{1,40})", re.IGNORECASE)
_LOOKED_AT = 4_096
_KNOWN = re.compile(
    r"utf-8|utf-16(-[lb]e)?|ascii|iso8859-\d+|cp(125\d|866|874|932|949|1361)|koi8-[ru]|tis-620"
    r"|mac-(roman|cyrillic)|gb2312|gbk|gb18030|big5|big5hkscs|euc_jp|shift_jis|iso2022_jp|euc_kr"
)


def decoded(body: bytes, declared: str, *, is_html: bool, is_cut: bool = False) -> str:
    """Never raises: what cannot be read becomes a replacement character."""
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(encoding, errors="replace")
    name = _codec(declared)
    if not name and is_html:
        head = body[:_LOOKED_AT]
        found = _META.search(head) or _DECLARED.search(head)
        name = _codec(found[1].decode("ascii")) if found else ""
        if name.startswith("utf-16"):  # it was read as ASCII: it cannot be
            name = "utf-8"
    if name:
        return body.decode(name, errors="replace")
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        if is_cut and error.reason == "unexpected end of data":
            return body.decode(errors="replace")  # cut within a character
        return body.decode("cp1252", errors="replace")


def _codec(label: str) -> str:
    try:
        name = codecs.lookup(label.strip().strip("\"'")).name if label else ""
    except (LookupError, ValueError, UnicodeError):
        return ""
    if not _KNOWN.fullmatch(name):
        return ""
    # The web means Windows' larger set where it says either.
    return "cp1252" if name in ("iso8859-1", "ascii") else name
