"""Fetches a text page within limits and decodes it.

The module imports aiohttp, so import it on first use.
"""

from __future__ import annotations

import asyncio
import codecs
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal

import orjson

from agents.tools.contract import ToolContext, ToolRefusal
from agents.tools.limits import CONVERT_SECONDS, MAX_PAGE_BYTES
from agents.tools.search.search_process import Collector
from agents.tools.shell.command import run
from agents.tools.shell.environment import marked_environment
from agents.tools.shell.process import ProcessFailed
from agents.tools.web.client import Request, Web, WebAnswer, response_to
from workspaces.storable import storable_text

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
    """Decodes a body. Never raises: invalid bytes become replacement characters."""
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(encoding, errors="replace")
    name = _codec(declared)
    if not name and is_html:
        head = body[:_LOOKED_AT]
        found = _META.search(head) or _DECLARED.search(head)
        name = _codec(found[1].decode("ascii")) if found else ""
        if name.startswith("utf-16"):  # wrong, because the label itself was readable as ASCII
            name = "utf-8"
    if name:
        return body.decode(name, errors="replace")
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        if is_cut and error.reason == "unexpected end of data":
            return body.decode(errors="replace")  # the limit cut a character
        return body.decode("cp1252", errors="replace")


def _codec(label: str) -> str:
    try:
        name = codecs.lookup(label.strip().strip("\"'")).name if label else ""
    except (LookupError, ValueError, UnicodeError):
        return ""
    if not _KNOWN.fullmatch(name):
        return ""
    # On the web both labels mean Windows' larger character set.
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
# Servers send these for unknown content, so the bytes decide.
_UNKNOWN = frozenset({"", "application/octet-stream", "binary/octet-stream"})


@dataclass(frozen=True, slots=True)
class Page:
    url: str  # after redirects
    status: int
    text: str
    is_html: bool
    is_cut: bool  # the page was longer than the limit


async def page(web: Web, request: Request) -> Page:
    """Fetches a page. Raises ``ToolRefusal`` for an error status, or content that is not text."""
    async with response_to(web, request) as answer:
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
    raise ToolRefusal(f"{answer.url} returned status {answer.status}{reason}.")


def _decoded(answer: WebAnswer, body: bytes, is_cut: bool) -> Page:
    head = body[:1024].lstrip().lower()
    is_unspecific = not answer.has_type or answer.mime_type in _UNKNOWN
    is_html = answer.mime_type in _HTML or (
        is_unspecific and head.startswith((b"<!doctype html", b"<html"))
    )
    text = decoded(body, answer.charset, is_html=is_html, is_cut=is_cut)
    if "\0" in text[:8192] or (is_unspecific and text[:8192].count("\ufffd") > 80):
        raise ToolRefusal(f"{answer.url} is not text. Use download to get it as a file.")
    return Page(answer.url, answer.status, storable_text(text), is_html, is_cut)


def _may_be_text(mime_type: str) -> bool:
    return (
        mime_type.startswith("text/")
        or mime_type in _HTML
        or mime_type in _TEXT
        or mime_type in _UNKNOWN
        or mime_type.endswith(("+json", "+xml", "+yaml"))
    )


_CONVERTER = Path(__file__).with_name("convert.py")
_MAX_MADE_BYTES = 4 * MAX_PAGE_BYTES


@dataclass(frozen=True, slots=True)
class Readable:
    title: str
    content: str


@dataclass(frozen=True, slots=True)
class SearchResult:
    title: str
    url: str
    snippet: str


@dataclass(frozen=True, slots=True)
class SearchPage:
    results: tuple[SearchResult, ...]
    is_empty: bool  # the page reports no results
    is_challenge: bool  # the page demands a proof that the client is a person


async def readable(
    html: str,
    *,
    want: Literal["markdown", "text"],
    url: str,
    context: ToolContext,
    content_only: bool = False,
) -> Readable:
    """Converts a page. Raises ``ToolRefusal``.

    ``content_only`` omits menus, forms and similar elements.
    """
    request = {"want": want, "url": url, "content_only": content_only}
    made = await _converted(html, request, context)
    return Readable(made["title"], made["content"])


async def search_page(html: str, *, url: str, most: int, context: ToolContext) -> SearchPage:
    """Parses a page of search results. Raises ``ToolRefusal``."""
    made = await _converted(html, {"want": "results", "url": url, "most": most}, context)
    return SearchPage(
        tuple(SearchResult(**result) for result in made["results"]),
        made["is_empty"],
        made["is_challenge"],
    )


async def _converted(html: str, request: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    made = Collector(_MAX_MADE_BYTES)
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as complaints:
        given = orjson.dumps(request) + b"\n" + html.encode("utf-8", errors="replace")
        await asyncio.to_thread(_put, stdin, given)
        try:
            finished = await run(
                [sys.executable, "-I", str(_CONVERTER)],
                cwd=Path("/"),
                env=marked_environment(context),
                sink=made,
                timeout_seconds=CONVERT_SECONDS,
                stdin=stdin.fileno(),
                stderr=complaints.fileno(),  # not reported: it may quote the page
            )
        except ProcessFailed as failure:
            raise ToolRefusal(f"The page could not be converted: {failure}") from None
    if finished.exit_code != 0:
        raise ToolRefusal(
            "The page could not be converted: it is too large or too deeply nested. "
            "To get its source, use fetch with the format html."
        )
    decoded: dict[str, Any] = orjson.loads(made.content())
    return decoded


def _put(file: Any, content: bytes) -> None:
    file.write(content)
    file.seek(0)
