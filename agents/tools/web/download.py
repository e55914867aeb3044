"""Saves a file from the web, whole or not at all, and reports progress."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.llm.contract import ToolSpec
from agents.tools import arguments, limits
from agents.tools.contract import (
    FileMark,
    Repetition,
    RequiredPermission,
    ToolContext,
    ToolOutcome,
    ToolRefusal,
    load_description,
)
from agents.tools.files import approval_snapshot, text_file
from agents.tools.files.paths import is_inside, is_kernel_path, is_protected_path, resolve
from agents.tools.files.safe_files import Stage
from agents.tools.web.access import refuse_private, web_url

if TYPE_CHECKING:
    from agents.tools.web.client import WebAnswer

_PROGRESS_SECONDS = 0.5
_WRITTEN_AT_ONCE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class DownloadArgs:
    url: str
    file_path: str
    timeout: int = 0  # seconds; 0: the default


class Download:
    repetition = Repetition.EFFECT
    spec = ToolSpec(
        name="download",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "url": {"type": "string", "description": "The file, with http:// or https://."},
                "file_path": {"type": "string", "description": "Where to save it."},
                "timeout": {
                    "type": "integer",
                    "description": f"Seconds to wait (default {limits.DOWNLOAD_SECONDS}, "
                    f"at most {limits.MAX_DOWNLOAD_SECONDS}).",
                },
            },
            "required": ["url", "file_path"],
        },
    )

    def parse(self, given: Mapping[str, Any]) -> DownloadArgs:
        return DownloadArgs(
            arguments.text(given, "url", max_bytes=limits.MAX_URL_BYTES, blank=False).strip(),
            arguments.text(given, "file_path", max_bytes=limits.MAX_PATH_BYTES, blank=False),
            arguments.count(given, "timeout", default=0, most=limits.MAX_DOWNLOAD_SECONDS),
        )

    async def required_permission(
        self, args: DownloadArgs, context: ToolContext
    ) -> RequiredPermission | None:
        # A URL that cannot be fetched needs no permission request.
        refuse_private(web_url(args.url), context.web_allowed_hosts)
        path, mark = await _target(args, context, before_permission=True)
        approval_snapshot.remember(context, path, mark)
        verb = "Download and replace" if mark else "Download to"
        return RequiredPermission(
            tool_name=self.spec.name,
            action="download",
            path=str(path),
            description=f"{verb} {path}: {args.url}",
            params={"url": args.url, "file_path": args.file_path, "timeout": args.timeout},
            files=(str(path),),
            always_asks=await asyncio.to_thread(is_protected_path, path, args.file_path, context),
        )

    async def run(self, args: DownloadArgs, context: ToolContext) -> ToolOutcome:
        from agents.tools.web import client, pages  # noqa: PLC0415  importing aiohttp is slow

        path, expected = await _target(args, context)
        approval_snapshot.check(context, path, expected)
        seconds = args.timeout or limits.DOWNLOAD_SECONDS
        request = client.Request(args.url, seconds=seconds, packed=False)
        async with client.response_to(client.web_of(context), request) as answer:
            pages.require_success(answer)
            if (answer.length or 0) > limits.MAX_DOWNLOAD_BYTES:
                raise _too_large(answer)
            size, mark = await _saved(answer, path, expected, context.progress)
        await context.files.record_read(str(path), mark)
        kind = f", {answer.mime_type}" if answer.has_type else ""
        return ToolOutcome(f"Downloaded {answer.url} to {path} ({size:,} bytes{kind}).")


async def _target(
    args: DownloadArgs, context: ToolContext, *, before_permission: bool = False
) -> tuple[Path, FileMark | None]:
    """Returns the path and the state of its file. Raises ``ToolRefusal``.

    It also refuses an existing file that was not read or has changed since.
    ``before_permission``: for an unread file outside of the workspace the result does not depend
    on whether the file exists.
    """
    path = await asyncio.to_thread(_resolved, args.file_path, context)
    seen = await context.files.read_mark(str(path))
    if before_permission and seen is None and not is_inside(path, context.working_dir):
        return path, None
    mark = await asyncio.to_thread(_mark, path)
    if mark is not None and seen != mark:
        raise ToolRefusal(
            f"{path} exists, and was not read in this session or has changed since. "
            "View it first, or choose another path."
        )
    return path, mark


def _resolved(file_path: str, context: ToolContext) -> Path:
    path = resolve(file_path, context)
    if is_kernel_path(path):
        raise ToolRefusal(f"{path} is not a file on a disk; it cannot be written.")
    return path


def _mark(path: Path) -> FileMark | None:
    try:
        return text_file.mark(path)
    except FileNotFoundError:
        return None


async def _saved(
    answer: WebAnswer, path: Path, expected: FileMark | None, progress: Callable[[str], None]
) -> tuple[int, FileMark]:
    stage = await _on_disk(path, partial(Stage, path, expected=expected))
    try:
        size, reported_at = 0, time.monotonic()
        waiting = bytearray()
        async for piece in answer.pieces():
            waiting += piece
            size += len(piece)
            if size > limits.MAX_DOWNLOAD_BYTES:
                raise _too_large(answer)
            if len(waiting) >= _WRITTEN_AT_ONCE:
                content, waiting = bytes(waiting), bytearray()
                await _on_disk(path, partial(stage.write, content))
            if time.monotonic() - reported_at > _PROGRESS_SECONDS:
                reported_at = time.monotonic()
                progress(_progress(size, answer.length))
        await _on_disk(path, partial(stage.write, bytes(waiting)))
        mark = await _on_disk(path, stage.put)
    finally:
        stage.close()  # without awaiting, so that a cancel cannot prevent it
    progress(_progress(size, size))
    return size, mark


async def _on_disk(path: Path, work: Callable[[], Any]) -> Any:
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        # The thread continues: its stage may be closed only after it has ended.
        await asyncio.wait({task})
        if not task.cancelled() and task.exception() is None and isinstance(task.result(), Stage):
            task.result().close()
        raise
    except OSError as error:
        raise ToolRefusal(f"{path} cannot be written: {error.strerror}.") from None


def _progress(size: int, total: int | None) -> str:
    whole = f" of {total / 1e6:,.1f}" if total else ""
    return f"Downloaded {size / 1e6:,.1f}{whole} MB\n"


def _too_large(answer: WebAnswer) -> ToolRefusal:
    return ToolRefusal(f"{answer.url} is larger than {limits.MAX_DOWNLOAD_BYTES:,} bytes.")
