"""Fetches a page for a child session; a long page becomes a file for it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.llm.contract import ToolSpec
from agents.tools import arguments, limits
from agents.tools.contract import (
    Repetition,
    RequiredPermission,
    ToolContext,
    ToolOutcome,
    ToolRefusal,
    load_description,
)
from agents.tools.files import safe_files, text_file


@dataclass(frozen=True, slots=True)
class WebFetchArgs:
    url: str


class WebFetch:
    repetition = Repetition.PURE
    spec = ToolSpec(
        name="web_fetch",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "url": {"type": "string", "description": "The page, with http:// or https://."}
            },
            "required": ["url"],
        },
    )

    def parse(self, given: Mapping[str, Any]) -> WebFetchArgs:
        url = arguments.text(given, "url", max_bytes=limits.MAX_URL_BYTES, blank=False)
        return WebFetchArgs(url.strip())

    async def required_permission(
        self, _args: WebFetchArgs, _context: ToolContext
    ) -> RequiredPermission | None:
        return None  # the permission covers the whole delegation

    async def run(self, args: WebFetchArgs, context: ToolContext) -> ToolOutcome:
        from agents.tools.web import client, pages  # noqa: PLC0415  importing aiohttp is slow

        got = await pages.page(
            client.web_of(context), client.Request(args.url, seconds=limits.FETCH_SECONDS)
        )
        title, content = "", got.text
        if got.is_html:
            made = await pages.readable(
                got.text, want="markdown", url=got.url, context=context, content_only=True
            )
            title, content = made.title, made.content
        head = f"{title}\n{got.url}" if title else got.url
        if got.is_cut:
            head += f"\n(Only the first {limits.MAX_PAGE_BYTES:,} bytes of its source were read.)"
        if len(content) <= limits.INLINE_PAGE_CHARS:
            return ToolOutcome(f"{head}\n\n{content or '(The page is empty.)'}")
        suffix = ".md" if got.is_html else ".txt"
        path = await asyncio.to_thread(_saved_page, context.working_dir, got.url, content, suffix)
        return ToolOutcome(
            f"{head}\n\nThe page has {len(content):,} characters, too many to be shown at once. "
            f"It is saved in {path}: use grep and view there. It begins:\n\n{content[:1_000]}"
        )


def _saved_page(folder: Path, url: str, content: str, suffix: str) -> Path:
    """Stores a page in one file for each URL, replaced when it is fetched again."""
    digest = hashlib.sha256(url.encode(errors="replace")).hexdigest()[:12]
    path = folder / f"page-{digest}{suffix}"
    try:
        expected = text_file.mark(path)
    except FileNotFoundError:
        expected = None
    try:
        safe_files.place(path, content.encode(errors="replace"), expected=expected)
    except OSError as error:
        raise ToolRefusal(f"The page could not be saved in {folder}: {error.strerror}.") from None
    return path
