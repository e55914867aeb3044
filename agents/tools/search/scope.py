"""The folder or file that a search may read; outside of the workspace only with permission."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.tools.contract import RequiredPermission, ToolContext, ToolRefusal
from agents.tools.files import approval_snapshot
from agents.tools.files.paths import is_inside, is_kernel_path, resolve


@dataclass(frozen=True, slots=True)
class Scope:
    root: Path  # the folder to start in
    name: str = ""  # one file of it, when only that is searched


async def required_permission(
    tool_name: str, action: str, path: str, params: Mapping[str, Any], context: ToolContext
) -> RequiredPermission | None:
    """Returns the permission request, if one is needed. Raises ``ToolRefusal``.

    Whether the path exists is reported only after permission.
    """
    resolved = await asyncio.to_thread(resolve, path, context)
    approval_snapshot.remember(context, resolved)
    if is_inside(resolved, context.working_dir):
        return None
    return RequiredPermission(
        tool_name=tool_name,
        action=action,
        path=str(resolved),
        description=f"Search outside of the working directory: {resolved}",
        params=params,
    )


def scope(path: str, context: ToolContext, *, file_allowed: bool) -> Scope:
    """Returns what to search. Blocks.

    Raises ``ToolRefusal``, also if the path resolves differently than at the request.
    """
    resolved = resolve(path, context)
    approval_snapshot.check(context, resolved)
    if is_kernel_path(resolved):
        raise ToolRefusal(f"{resolved} is not a folder on a disk; it cannot be searched.")
    if resolved.is_dir():
        return Scope(resolved)
    if file_allowed and resolved.is_file():
        return Scope(resolved.parent, resolved.name)
    problem = "is not a directory" if resolved.exists() else "does not exist"
    raise ToolRefusal(f"{resolved} {problem}. Use ls to see the folders.")
