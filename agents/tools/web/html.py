"""Pages made readable, in a process of their own (``convert.py``), within bounds."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from agents.tools.contract import ToolContext, ToolRefusal
from agents.tools.limits import CONVERT_SECONDS, MAX_PAGE_BYTES
from agents.tools.search.searcher import Collector
from agents.tools.shell.environment import marked_environment
from agents.tools.shell.process import ProcessFailed
from agents.tools.shell.pumped import run

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
    is_empty: bool  # it says that there is nothing
    is_challenge: bool  # it wants to see a person


async def readable(
    html: str,
    *,
    want: Literal["markdown", "text"],
    url: str,
    context: ToolContext,
    content_only: bool = False,
) -> Readable:
    """``content_only`` leaves out menus and the like. Raises ``ToolRefusal``."""
    asked = {"want": want, "url": url, "content_only": content_only}
    made = await _converted(html, asked, context)
    return Readable(made["title"], made["content"])


async def search_page(html: str, *, url: str, most: int, context: ToolContext) -> SearchPage:
    """Raises ``ToolRefusal``."""
    made = await _converted(html, {"want": "results", "url": url, "most": most}, context)
    return SearchPage(
        tuple(SearchResult(**result) for result in made["results"]),
        made["is_empty"],
        made["is_challenge"],
    )


async def _converted(html: str, asked: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    made = Collector(_MAX_MADE_BYTES)
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as complaints:
        given = orjson.dumps(asked) + b"\n" + html.encode("utf-8", errors="replace")
        await asyncio.to_thread(_put, stdin, given)
        try:
            finished = await run(
                [sys.executable, "-I", str(_CONVERTER)],
                cwd=Path("/"),
                env=marked_environment(context),
                sink=made,
                timeout_seconds=CONVERT_SECONDS,
                stdin=stdin.fileno(),
                stderr=complaints.fileno(),  # it may hold parts of the page: not told
            )
        except ProcessFailed as failure:
            raise ToolRefusal(f"The page could not be converted: {failure}") from None
    if finished.exit_code != 0:
        raise ToolRefusal(
            "The page could not be converted: it is too large or too tangled. "
            "Its source can be had where a tool takes the format html."
        )
    decoded: dict[str, Any] = orjson.loads(made.content())
    return decoded


def _put(file: Any, content: bytes) -> None:
    file.write(content)
    file.seek(0)
