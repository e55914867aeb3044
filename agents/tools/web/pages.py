"""A text page of the web: asked for, read within bounds, decoded.

Imports aiohttp: import it on first use.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from http import HTTPStatus

from agents.tools.contract import ToolRefusal
from agents.tools.limits import MAX_PAGE_BYTES
from agents.tools.web import charset
from agents.tools.web.fetching import Answer, Request, Web, asked

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


def require_success(answer: Answer) -> None:
    if 200 <= answer.status < 300:
        return
    try:
        reason = f" {HTTPStatus(answer.status).phrase}"
    except ValueError:
        reason = ""
    raise ToolRefusal(f"{answer.url} was answered with the status {answer.status}{reason}.")


def _decoded(answer: Answer, body: bytes, is_cut: bool) -> Page:
    head = body[:1024].lstrip().lower()
    says_nothing = not answer.has_type or answer.mime_type in _UNKNOWN
    is_html = answer.mime_type in _HTML or (
        says_nothing and head.startswith((b"<!doctype html", b"<html"))
    )
    text = charset.decoded(body, answer.charset, is_html=is_html, is_cut=is_cut)
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
