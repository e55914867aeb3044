"""Reads commands from a stream's socket, and replies to them.

Knows no command: they are passed in. A client may send anything: it always gets a reply, and the
stream stays open.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson

from workspaces.bounded_json import parse
from workspaces.log.errors import BadField, Refusal
from workspaces.log.retries import REQUEST_SECONDS, patience

logger = logging.getLogger(__name__)

Body = Mapping[str, Any]
Command = Callable[[str, Body], Awaitable[Mapping[str, Any] | None]]
Reply = Callable[[bytes], Awaitable[None]]

AT_ONCE = 16  # in work on one socket; then the socket is not read
ID_BYTES = 1024  # of a command's id, which its reply repeats


class Commands:
    """The commands of one socket. Those of one session are carried out in their order."""

    def __init__(self, workspace_id: str, commands: Mapping[str, Command], *, reply: Reply) -> None:
        self._workspace_id = workspace_id
        self._commands = commands
        self._reply = reply
        self._places = asyncio.Semaphore(AT_ONCE)
        self._working: set[asyncio.Task[None]] = set()
        self._last: dict[str, asyncio.Task[None]] = {}  # of each session

    async def take(self, text: str | bytes) -> None:
        """Begins what is asked; returns when the next command may come."""
        await self._places.acquire()
        try:
            body = await _parsed(text)
        except BadField as refusal:
            self._begin(self._refuse(refusal), "")
        else:
            session_id = body.get("session_id")
            key = session_id if isinstance(session_id, str) else ""
            self._begin(self._carry_out(body, after=self._last.get(key)), key)

    async def refuse(self, refusal: Refusal) -> None:
        await self._reply(_reply(None, refusal=refusal))

    async def finish(self) -> None:
        """What was begun is carried out, also when its asker has left."""
        if self._working:
            await asyncio.wait(self._working)

    def _begin(self, work: Any, key: str) -> None:
        task = asyncio.create_task(work, name="command")
        self._working.add(task)
        if key:
            self._last[key] = task
        task.add_done_callback(lambda done: self._ended(done, key))

    def _ended(self, task: asyncio.Task[None], key: str) -> None:
        self._places.release()
        self._working.discard(task)
        if self._last.get(key) is task:
            del self._last[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a command's reply failed", exc_info=error)

    async def _refuse(self, refusal: Refusal) -> None:
        await self.refuse(refusal)

    async def _carry_out(self, body: Body, *, after: asyncio.Task[None] | None) -> None:
        if after is not None:
            await asyncio.wait({after})
        await self._reply(await self._result(body))

    async def _result(self, body: Body) -> bytes:
        command_id, name = body.get("id"), body.get("command")
        command = self._commands.get(name) if isinstance(name, str) else None
        if command is None:
            known = ", ".join(sorted(self._commands))
            return _reply(command_id, refusal=BadField(f"command: must be one of {known}"))
        try:
            with patience(REQUEST_SECONDS):
                data = await command(self._workspace_id, body)
        except Refusal as refusal:
            return _reply(command_id, refusal=refusal)
        except Exception:
            logger.exception("the command %s failed", name)
            return _reply(command_id, code="internal_error", message="internal server error")
        return _reply(command_id, data=data)


async def _parsed(text: str | bytes) -> Body:
    try:
        body = await parse(text)
    except ValueError as error:
        raise BadField(f"malformed JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadField("a command must be a JSON object")
    if "id" in body and len(orjson.dumps(body["id"])) > ID_BYTES:
        raise BadField(f"id: must have at most {ID_BYTES} bytes")
    return body


def _reply(
    command_id: Any,
    *,
    refusal: Refusal | None = None,
    code: str = "",
    message: str = "",
    data: Mapping[str, Any] | None = None,
) -> bytes:
    reply: dict[str, Any] = {"type": "reply", "id": command_id, "ok": not (refusal or code)}
    if refusal is not None:
        code, message = refusal.code, refusal.sentence
    if code:
        reply |= {"code": code, "message": message}
    if data is not None:
        reply["data"] = data
    return orjson.dumps([reply])
