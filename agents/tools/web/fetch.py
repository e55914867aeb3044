"""Gets one page of the web as Markdown, text or source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from agents.llm.contract import ToolSpec
from agents.tools import arguments, limits
from agents.tools.contract import (
    BadArguments,
    Repetition,
    RequiredPermission,
    ToolContext,
    ToolOutcome,
    load_description,
)
from agents.tools.web.access import refuse_private, web_url

FORMATS = ("text", "markdown", "html")


@dataclass(frozen=True, slots=True)
class FetchArgs:
    url: str
    format: str
    timeout: int = 0  # seconds; 0: the default


class Fetch:
    repetition = Repetition.PURE
    spec = ToolSpec(
        name="fetch",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "url": {"type": "string", "description": "The page, with http:// or https://."},
                "format": {
                    "type": "string",
                    "enum": list(FORMATS),
                    "description": "How to return it.",
                },
                "timeout": {
                    "type": "integer",
                    "description": f"Seconds to wait (default {limits.FETCH_SECONDS}, "
                    f"at most {limits.MAX_FETCH_SECONDS}).",
                },
            },
            "required": ["url", "format"],
        },
    )

    def parse(self, given: Mapping[str, Any]) -> FetchArgs:
        url = arguments.text(given, "url", max_bytes=limits.MAX_URL_BYTES, blank=False)
        written = arguments.text(given, "format", max_bytes=100).strip().lower()
        if written not in FORMATS:
            raise BadArguments(f"format must be one of: {', '.join(FORMATS)}.")
        timeout = arguments.count(given, "timeout", default=0, most=limits.MAX_FETCH_SECONDS)
        return FetchArgs(url.strip(), written, timeout)

    async def required_permission(
        self, args: FetchArgs, context: ToolContext
    ) -> RequiredPermission | None:
        # A URL that cannot be fetched needs no permission request.
        refuse_private(web_url(args.url), context.web_allowed_hosts)
        return RequiredPermission(
            tool_name=self.spec.name,
            action="fetch",
            path=str(context.working_dir),
            description=f"Fetch content from URL: {args.url}",
            params={"url": args.url, "format": args.format, "timeout": args.timeout},
        )

    async def run(self, args: FetchArgs, context: ToolContext) -> ToolOutcome:
        from agents.tools.web import client, pages  # noqa: PLC0415  importing aiohttp is slow

        seconds = args.timeout or limits.FETCH_SECONDS
        got = await pages.page(client.web_of(context), client.Request(args.url, seconds=seconds))
        content = got.text
        if got.is_html and args.format != "html":
            want = cast("Literal['markdown', 'text']", args.format)
            content = (
                await pages.readable(got.text, want=want, url=got.url, context=context)
            ).content
        return ToolOutcome(_bounded(content, is_cut=got.is_cut) or f"{got.url} is empty.")


def _bounded(content: str, *, is_cut: bool) -> str:
    kept = content[: limits.FETCH_CHARS]
    if is_cut:
        return f"{kept}\n\n(The page is longer: only the first {limits.MAX_PAGE_BYTES:,} bytes of its source were read.)"
    if len(kept) < len(content):
        left_out = len(content) - len(kept)
        return f"{kept}\n\n(The page is longer: {left_out:,} more characters were left out.)"
    return kept
