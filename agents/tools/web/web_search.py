"""Searches the web with DuckDuckGo's page for browsers without scripts, which needs no key."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
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
from agents.tools.web.access import web_url

_ENGINE = "https://html.duckduckgo.com/html/"
_SNIPPET_CHARS = 500


@dataclass(frozen=True, slots=True)
class WebSearchArgs:
    query: str
    max_results: int = limits.WEB_RESULTS


class WebSearch:
    repetition = Repetition.PURE
    spec = ToolSpec(
        name="web_search",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for."},
                "max_results": {
                    "type": "integer",
                    "description": f"How many results (default {limits.WEB_RESULTS}, "
                    f"at most {limits.MAX_WEB_RESULTS}).",
                },
            },
            "required": ["query"],
        },
    )

    def parse(self, given: Mapping[str, Any]) -> WebSearchArgs:
        query = arguments.text(given, "query", max_bytes=limits.MAX_QUERY_BYTES, blank=False)
        most = limits.MAX_WEB_RESULTS
        count = arguments.count(given, "max_results", default=0, most=most) or limits.WEB_RESULTS
        return WebSearchArgs(" ".join(query.split()), count)

    async def required_permission(
        self, _args: WebSearchArgs, _context: ToolContext
    ) -> RequiredPermission | None:
        return None  # the permission covers the whole delegation

    async def run(self, args: WebSearchArgs, context: ToolContext) -> ToolOutcome:
        from agents.tools.web import client, pages  # noqa: PLC0415  importing aiohttp is slow

        own = context.env.get("CRUSH_WEB_SEARCH_URL") or os.environ.get("CRUSH_WEB_SEARCH_URL")
        engine = web_url(own or _ENGINE)
        url = str(engine.update_query(q=args.query))
        # A configured engine may have a private address; its redirects are checked.
        allowed = f"{engine.host}:{engine.port}" if own else ""
        got = await pages.page(
            client.web_of(context, allowed),
            client.Request(url, seconds=limits.FETCH_SECONDS),
        )
        found = await pages.search_page(
            got.text, url=got.url, most=args.max_results, context=context
        )
        if found.results:
            return ToolOutcome(
                "\n\n".join(_result_text(n, r) for n, r in enumerate(found.results, 1))
            )
        if found.is_challenge or got.status == 202:
            raise ToolRefusal(
                "The search engine currently requires proof of a human visitor. "
                "Try again later, or fetch a page with a known address."
            )
        if found.is_empty:
            return ToolOutcome("No results were found. Try other words.")
        raise ToolRefusal(
            "The search engine returned a page in an unknown format: it may have changed. "
            "Fetch a page with a known address instead."
        )


def _result_text(number: int, result: Any) -> str:
    lines = [f"{number}. {result.title[:300]}", f"   {result.url[:2_000]}"]
    if result.snippet:
        lines.append(f"   {result.snippet[:_SNIPPET_CHARS]}")
    return "\n".join(lines)
