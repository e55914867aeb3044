"""A turn's questions for permission, put to the parent: each waits in a task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from agents.actions.answer import Answer, answer
from agents.fleet.child.run_context import Desk, RunCancelled


class Approvals:
    def __init__(self, desk: Desk, workspace_id: str, *, are_asked: bool) -> None:
        """``are_asked``: the parent answers; else they are denied."""
        self.tasks: set[asyncio.Task[None]] = set()
        self._desk = desk
        self._workspace_id = workspace_id
        self._are_asked = are_asked

    def begin(self, request: Mapping[str, Any]) -> None:
        task = asyncio.create_task(self._relay(request), name="approval")
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _relay(self, request: Mapping[str, Any]) -> None:
        tool, action, path = request["tool_name"], request["action"], request["path"]
        body = {
            "tool_name": tool,
            "permission_type": action,
            "resource": path,
            "question": request["description"] or f"May {tool} {action} {path}?",
        }
        with suppress(RunCancelled):
            approved = self._are_asked and await self._desk.approve(body)
            await answer(
                self._workspace_id,
                request_id=request["id"],
                answer=Answer.ALLOW if approved else Answer.DENY,
            )
