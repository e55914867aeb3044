"""Starts a delegation for the web: a child session that searches, reads pages and replies."""

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
from agents.states import RunOutcome
from agents.tools import arguments, limits
from agents.tools.contract import (
    ChildResult,
    ChildTask,
    DelegationResult,
    Repetition,
    RequiredPermission,
    ToolContext,
    ToolOutcome,
    ToolRefusal,
    load_description,
)
from agents.tools.web.access import refuse_private, web_url

_FOLDER = "fetches"
_KEPT_SECONDS = 24 * 3600
_SWEPT = 1_000


@dataclass(frozen=True, slots=True)
class AgenticFetchArgs:
    prompt: str
    url: str = ""


class AgenticFetch:
    repetition = Repetition.PURE
    spec = ToolSpec(
        name="agentic_fetch",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "url": {"type": "string", "description": "The page to start from (optional)."},
                "prompt": {"type": "string", "description": "What to find out."},
            },
            "required": ["prompt"],
        },
    )

    def parse(self, given: Mapping[str, Any]) -> AgenticFetchArgs:
        prompt = arguments.text(given, "prompt", max_bytes=limits.MAX_COMMAND_BYTES, blank=False)
        url = arguments.text(given, "url", default="", max_bytes=limits.MAX_URL_BYTES)
        return AgenticFetchArgs(prompt, url.strip())

    async def required_permission(
        self, args: AgenticFetchArgs, context: ToolContext
    ) -> RequiredPermission | None:
        if args.url:
            # A URL that cannot be fetched needs no permission request.
            refuse_private(web_url(args.url), context.web_allowed_hosts)
            description = f"Fetch and analyze content from URL: {args.url}"
        else:
            description = "Search the web and analyze results"
        return RequiredPermission(
            tool_name=self.spec.name,
            action="fetch",
            path=str(context.working_dir),
            description=description,
            params={"url": args.url, "prompt": args.prompt},
        )

    async def delegate(self, args: AgenticFetchArgs, context: ToolContext) -> ChildTask:
        folder = await asyncio.to_thread(_prepared, context)
        prompt = args.prompt
        if args.url:
            prompt += f"\n\nStart with this page; read it with web_fetch: {web_url(args.url)}"
        else:
            prompt += "\n\nStart with web_search."
        return ChildTask(
            kind="fetch", title="Fetch Analysis", prompt=prompt, working_dir=str(folder)
        )

    def settle(self, _args: AgenticFetchArgs, end: DelegationResult) -> ToolOutcome:
        if not isinstance(end, ChildResult):
            return ToolOutcome("The helper's result was lost.", is_error=True)
        if end.outcome == RunOutcome.COMPLETED:
            return ToolOutcome(end.text or "The helper ended without an answer.")
        if end.outcome == RunOutcome.CANCELLED:
            return ToolOutcome("The helper was cancelled.", is_error=True)
        reason = f": {end.error}" if end.error else "."
        return ToolOutcome(f"The helper could not finish{reason}", is_error=True)

    async def run(self, _args: AgenticFetchArgs, _context: ToolContext) -> ToolOutcome:
        raise AssertionError("A delegating tool is never run.")


def _prepared(context: ToolContext) -> Path:
    """Creates the child's folder, the same for the same call, and deletes old folders."""
    data_dir = Path(context.data_dir or context.working_dir / ".crush")
    name = hashlib.sha256(f"{context.session_id}\0{context.message_id}\0{context.call_id}".encode())
    parent = data_dir / _FOLDER
    folder = Path(os.path.realpath(parent / name.hexdigest()[:24]))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (parent / ".gitignore").write_text("*\n")
        # A search must find the pages, even if an enclosing repository ignores them.
        (folder / ".gitignore").write_text("!*\n")
    except OSError as error:
        raise ToolRefusal(f"The helper's folder could not be created: {error.strerror}.") from None
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
