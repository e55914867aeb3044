"""Shows lines of a text file, numbered, or an image."""

from __future__ import annotations

import asyncio
import base64
import difflib
import os
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from agents.llm.contract import ToolSpec
from agents.skills.skill import Skill, is_skill_file, skill_of_file
from agents.tools import arguments, limits
from agents.tools.contract import FileMark, Question, ToolContext, ToolOutcome, ToolRefusal
from agents.tools.description import load_description
from agents.tools.files import approval_snapshot, images, text_file
from agents.tools.files.paths import is_inside, resolve

_NAMES_LOOKED_AT = 2_000


@dataclass(frozen=True, slots=True)
class ViewArgs:
    file_path: str
    offset: int
    limit: int


@dataclass(frozen=True, slots=True)
class _Seen:
    path: Path
    mark: FileMark
    outcome: ToolOutcome


class View:
    parallel = True
    spec = ToolSpec(
        name="view",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "file_path": {"type": "string", "description": "The file to read."},
                "offset": {"type": "integer", "description": "Lines to skip (default 0)."},
                "limit": {
                    "type": "integer",
                    "description": f"Lines to show (default {limits.VIEW_LINES}).",
                },
            },
            "required": ["file_path"],
        },
    )

    def parse(self, given: Mapping[str, Any]) -> ViewArgs:
        most = limits.MAX_VIEW_LINES
        return ViewArgs(
            arguments.text(given, "file_path", max_bytes=limits.MAX_PATH_BYTES, blank=False),
            arguments.count(given, "offset", default=0, most=limits.MAX_VIEW_BYTES),
            arguments.count(given, "limit", default=0, most=most) or limits.VIEW_LINES,
        )

    async def question(self, args: ViewArgs, context: ToolContext) -> Question | None:
        path = await asyncio.to_thread(resolve, args.file_path, context)
        approval_snapshot.remember(context, path)
        if is_inside(path, context.working_dir) or is_skill_file(path, context.skills):
            return None
        # Whether it exists is only told after the answer.
        return Question(
            tool_name=self.spec.name,
            action="read",
            path=str(path),
            description=f"Read file outside of the working directory: {path}",
            params={"file_path": args.file_path, "offset": args.offset, "limit": args.limit},
        )

    async def run(self, args: ViewArgs, context: ToolContext) -> ToolOutcome:
        seen = await asyncio.to_thread(_look, args, context)
        await context.files.record_read(str(seen.path), seen.mark)
        context.languages.touch(str(seen.path))
        return seen.outcome


def _look(args: ViewArgs, context: ToolContext) -> _Seen:
    path = resolve(args.file_path, context)
    approval_snapshot.check(context, path)
    try:
        raw, mark = text_file.read_bytes(path, max_bytes=limits.MAX_VIEW_BYTES)
    except FileNotFoundError:
        raise ToolRefusal(f"{path} does not exist.{_suggested(path)}") from None
    kind = images.mime_type(raw)
    if kind:
        return _Seen(path, mark, _picture(path, raw, kind, context))
    if name := images.other_kind(raw):
        raise ToolRefusal(
            f"{path} is a {name} image, which models do not take. Convert it to PNG first."
        )
    metadata = {"file_path": str(path), **_skill_metadata(skill_of_file(path, context.skills))}
    return _Seen(
        path, mark, _numbered(path, text_file.decode(path, raw, mark).text, args, metadata)
    )


def _skill_metadata(skill: Skill | None) -> dict[str, str]:
    """With these, clients show a skill's file as such."""
    if skill is None:
        return {}
    return {
        "resource_type": "skill",
        "resource_name": skill.name,
        "resource_description": skill.description,
    }


def _picture(path: Path, raw: bytes, kind: str, context: ToolContext) -> ToolOutcome:
    if not context.sees_images:
        raise ToolRefusal(
            f"{path} is an image ({kind}, {len(raw):,} bytes), and this model does not see images."
        )
    width, height = images.checked_size(raw, kind)
    return ToolOutcome(
        f"The image {path} ({kind}, {width} x {height} pixels, {len(raw):,} bytes).",
        metadata={"file_path": str(path), "content": ""},
        data=base64.b64encode(raw).decode("ascii"),
        mime_type=kind,
    )


def _numbered(path: Path, text: str, args: ViewArgs, metadata: Mapping[str, str]) -> ToolOutcome:
    lines = text.removesuffix("\n").split("\n") if text else []
    total = len(lines)
    if args.offset and args.offset >= total:
        raise ToolRefusal(
            f"{path} has {total:,} lines; an offset of {args.offset:,} is past its end."
        )
    cut = [
        limits.cut_line(line.removesuffix("\r"), limits.VIEW_LINE_CHARS)
        for line in lines[args.offset : args.offset + args.limit]
    ]
    shown = cut[: bisect_right(list(accumulate(map(len, cut))), limits.VIEW_CHARS)]
    last = args.offset + len(shown)
    numbered = "\n".join(f"{n:>6}|{line}" for n, line in enumerate(shown, start=args.offset + 1))
    content = f"<file>\n{numbered}\n</file>" if shown else f"{path} is empty."
    if last < total:
        content += f"\n\n({total - last:,} more lines follow; use offset {last} to go on.)"
    return ToolOutcome(content, metadata={**metadata, "content": "\n".join(shown)})


def _suggested(path: Path) -> str:
    """Names in the same folder that the model may have meant."""
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in islice(entries, _NAMES_LOOKED_AT)]
    except OSError:
        return " Its folder does not exist either."
    approval_snapshot = path.name.lower()
    by_lower = {name.lower(): name for name in sorted(names)}
    close = difflib.get_close_matches(approval_snapshot, by_lower)
    close += [
        n
        for n in by_lower
        if n not in close
        and min(len(n), len(approval_snapshot)) > 2
        and (approval_snapshot in n or n in approval_snapshot)
    ]
    if not close:
        return ""
    found = ", ".join(str(path.parent / by_lower[name]) for name in close[:3])
    return f" Did you mean: {found}?"
