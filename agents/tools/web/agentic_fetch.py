"""Sends a child session to the web with a task: it searches, reads pages, and answers."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.llm.contract import ToolSpec
from agents.tools import arguments, limits
from agents.tools.contract import (
    ChildEnded,
    ChildTask,
    ErrandEnd,
    Question,
    ToolContext,
    ToolOutcome,
    ToolRefusal,
)
from agents.tools.description import load_description
from agents.tools.web.access import refuse_private
from agents.tools.web.urls import web_url

_FOLDER = "fetches"
_KEPT_SECONDS = 24 * 3600
_SWEPT = 1_000


@dataclass(frozen=True, slots=True)
class AgenticFetchArgs:
    prompt: str
    url: str = ""


class AgenticFetch:
    parallel = True
    spec = ToolSpec(
        name="agentic_fetch",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "url": {"type": "string", "description": "The page to begin at, if there is one."},
                "prompt": {"type": "string", "description": "What to find out."},
            },
            "required": ["prompt"],
        },
    )

    def parse(self, given: Mapping[str, Any]) -> AgenticFetchArgs:
        prompt = arguments.text(given, "prompt", max_bytes=limits.MAX_COMMAND_BYTES, blank=False)
        url = arguments.text(given, "url", default="", max_bytes=limits.MAX_URL_BYTES)
        return AgenticFetchArgs(prompt, url.strip())

    async def question(self, args: AgenticFetchArgs, context: ToolContext) -> Question | None:
        if args.url:
            # What cannot be fetched is not asked for.
            refuse_private(web_url(args.url), context.web_allowed_hosts)
            description = f"Fetch and analyze content from URL: {args.url}"
        else:
            description = "Search the web and analyze results"
        return Question(
            tool_name=self.spec.name,
            action="fetch",
            path=str(context.working_dir),
            description=description,
            params={"url": args.url, "prompt": args.prompt},
        )

    async def errand(self, args: AgenticFetchArgs, context: ToolContext) -> ChildTask:
        folder = await asyncio.to_thread(_prepared, context)
        prompt = args.prompt
        if args.url:
            prompt += f"\n\nBegin with this page, which web_fetch gets: {web_url(args.url)}"
        else:
            prompt += "\n\nBegin with web_search."
        return ChildTask(
            kind="fetch", title="Fetch Analysis", prompt=prompt, working_dir=str(folder)
        )

    def settle(self, _args: AgenticFetchArgs, end: ErrandEnd) -> ToolOutcome:
        if not isinstance(end, ChildEnded):
            return ToolOutcome("The helper was lost.", is_error=True)
        if end.outcome == "completed":
            return ToolOutcome(end.text or "The helper ended without an answer.")
        if end.outcome == "cancelled":
            return ToolOutcome("The helper was cancelled.", is_error=True)
        reason = f": {end.error}" if end.error else "."
        return ToolOutcome(f"The helper could not finish{reason}", is_error=True)

    async def run(self, _args: AgenticFetchArgs, _context: ToolContext) -> ToolOutcome:
        raise ToolRefusal("agentic_fetch is done by a child session, never by itself.")


def _prepared(context: ToolContext) -> Path:
    """The child's own folder, the same for the same call. Old ones are swept away here."""
    data_dir = Path(context.data_dir or context.working_dir / ".crush")
    name = hashlib.sha256(f"{context.session_id}\0{context.message_id}\0{context.call_id}".encode())
    parent = data_dir / _FOLDER
    folder = Path(os.path.realpath(parent / name.hexdigest()[:24]))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (parent / ".gitignore").write_text("*\n")
        # A search must see its pages, whatever a repository around ignores.
        (folder / ".gitignore").write_text("!*\n")
    except OSError as error:
        raise ToolRefusal(f"No folder for the helper could be made: {error.strerror}.") from None
    _sweep(parent, keep=folder.name)
    return folder


def _sweep(parent: Path, *, keep: str) -> None:
    old = time.time() - _KEPT_SECONDS
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for _, entry in zip(range(_SWEPT), entries, strict=False):
            if entry.name == keep or not entry.is_dir(follow_symlinks=False):
                continue
            if entry.stat(follow_symlinks=False).st_mtime < old:
                shutil.rmtree(entry.path, ignore_errors=True)
