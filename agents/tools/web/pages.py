"""A text page of the web: asked for, read within bounds, decoded.

Imports aiohttp: import it on first use.
"""

from __future__ import annotations

import asyncio
import codecs
import re
from dataclasses import dataclass
from http import HTTPStatus

from agents.tools.contract import ToolRefusal
from agents.tools.limits import MAX_PAGE_BYTES
from agents.tools.web.fetching import Request, Web, WebAnswer, asked

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


_HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXT = frozenset(
    {
        "application/json",
        "application/xml",
        "application/javascript",
        "application/ecmascript",
        "application/x-javascript",
        "application/x-yaml",
        "application/yaml",
        "application/toml",
        "application/sql",
        "application/graphql",
        "application/x-sh",
        "application/x-httpd-php",
        "application/x-ndjson",
        "application/rtf",
        "image/svg+xml",
    }
)
# Servers give these to what they do not know: the bytes decide.
_UNKNOWN = frozenset({"", "application/octet-stream", "binary/octet-stream"})


@dataclass(frozen=True, slots=True)
class Page:
    url: str  # after redirects
    status: int
    text: str
    is_html: bool
    is_cut: bool  # there was more than is taken


async def page(web: Web, request: Request) -> Page:
    """Raises ``ToolRefusal`` for an answer that is no success, and for what is not text."""
    async with asked(web, request) as answer:
        require_success(answer)
        if not _may_be_text(answer.mime_type):
            raise ToolRefusal(
                f"{answer.url} is not text but {answer.mime_type}. Use download to get it as a file."
            )
        body, is_cut = await answer.read(MAX_PAGE_BYTES)
    return await asyncio.to_thread(_decoded, answer, body, is_cut)


def require_success(answer: WebAnswer) -> None:
    if 200 <= answer.status < 300:
        return
    try:
        reason = f" {HTTPStatus(answer.status).phrase}"
    except ValueError:
        reason = ""
    raise ToolRefusal(f"{answer.url} was answered with the status {answer.status}{reason}.")


def _decoded(answer: WebAnswer, body: bytes, is_cut: bool) -> Page:
    head = body[:1024].lstrip().lower()
    says_nothing = not answer.has_type or answer.mime_type in _UNKNOWN
    is_html = answer.mime_type in _HTML or (
        says_nothing and head.startswith((b"<!doctype html", b"<html"))
    )
    text = decoded(body, answer.charset, is_html=is_html, is_cut=is_cut)
    if "\0" in text[:8192] or (says_nothing and text[:8192].count("\ufffd") > 80):
        raise ToolRefusal(f"{answer.url} is not text. Use download to get it as a file.")
    return Page(answer.url, answer.status, text.replace("\0", "\ufffd"), is_html, is_cut)


def _may_be_text(mime_type: str) -> bool:
    return (
        mime_type.startswith("text/")
        or mime_type in _HTML
        or mime_type in _TEXT
        or mime_type in _UNKNOWN
        or mime_type.endswith(("+json", "+xml", "+yaml"))
    )
