"""A conversation with the running server, by its HTTP interface."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from agents.llm.sse_lines import SseLines
from agents.runs.answer import Answer
from crushsite.cli.session import (
    FeedBroken,
    Item,
    Pending,
    PromptRefused,
    ServerAway,
    jobs_held_by,
)
from crushsite.server_client import (
    RunningServer,
    ServerGone,
    ServerRefused,
    Stream,
    in_path,
    named_server,
)
from workspaces.log.ids import new_id

EVENT_LIMIT = 256 * 1024 * 1024  # our own server's: whole messages with their attachments


class OverHttp:
    def __init__(self, folder: Path, server: RunningServer, path: str) -> None:
        self._folder = folder
        self._server = server
        self._path = path
        self._client_id = new_id()
        self._workspace_id = ""

    async def open(self) -> None:
        # A server that was started again may listen elsewhere.
        self._server = named_server(self._folder) or self._server
        body = {"path": self._path, "client_id": self._client_id}
        self._workspace_id = (await self._call("POST", "/v1/workspaces", body))["id"]

    async def ensure_session(self, session_id: str) -> str:
        if session_id:
            await self._call("GET", f"{self._v1}/sessions/{in_path(session_id)}")
            return session_id
        session = await self._call("POST", f"{self._v1}/sessions", {"title": ""})
        return str(session["id"])

    async def rename(self, session_id: str, *, title: str) -> None:
        await self._call("PUT", f"{self._v1}/sessions/{in_path(session_id)}", {"title": title})

    async def feed(self, after: int | None) -> AsyncIterator[Item]:
        query = {"client_id": self._client_id}
        if after is not None:
            query["after"] = str(after)
        path = f"/api/workspaces/{in_path(self._workspace_id)}/events"
        try:
            stream = await asyncio.to_thread(self._server.open_stream, path, query)
        except ServerGone as error:
            raise FeedBroken(str(error)) from error
        except ServerRefused as refusal:
            if refusal.status >= 500:
                raise FeedBroken(refusal.sentence) from refusal
            raise PromptRefused(refusal.sentence) from refusal
        chunks: asyncio.Queue[bytes] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def put(chunk: bytes) -> None:
            with suppress(RuntimeError):  # the loop has ended before the thread
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)

        threading.Thread(target=_read, args=(stream, put), name="feed", daemon=True).start()
        lines = SseLines(limit=EVENT_LIMIT)
        try:
            while chunk := await chunks.get():
                for data in lines.feed(chunk):
                    item = orjson.loads(data)
                    if isinstance(item, list):
                        for words in item:
                            yield words
                    else:
                        yield item
        finally:
            stream.close()
        raise FeedBroken("the server closed the stream")

    async def prompt(self, session_id: str, text: str, *, run_id: str) -> None:
        body = {"session_id": session_id, "prompt": text, "run_id": run_id}
        await self._call("POST", f"{self._v1}/agent", body)

    async def answer(self, request_id: str, answer: Answer, *, folder: str = "") -> bool:
        body: dict[str, Any] = {"permission": {"id": request_id}, "action": answer.value}
        if folder:
            body["folder"] = folder
        return bool((await self._call("POST", f"{self._v1}/permissions/grant", body))["resolved"])

    async def answer_batch(
        self, batch_id: str, responses: Sequence[Mapping[str, Any]] | None
    ) -> bool:
        body: dict[str, Any] = {"batch_request_id": batch_id}
        path = f"{self._v1}/questions/{'cancel' if responses is None else 'answer'}"
        if responses is not None:
            body["responses"] = list(responses)
        return bool((await self._call("POST", path, body))["resolved"])

    async def pending(self) -> Pending:
        path = f"/api/workspaces/{in_path(self._workspace_id)}/snapshot"
        snapshot = await self._call("GET", path)
        return Pending(snapshot["permissions"], snapshot["questions"])

    async def jobs_that_end(self) -> list[str]:
        return await asyncio.to_thread(jobs_held_by, self._workspace_id, self._client_id)

    async def wait_for_others(self, note: Callable[[str], None]) -> None:
        """Others have the server."""

    async def cancel(self, session_id: str) -> None:
        await self._call("POST", f"{self._v1}/agent/sessions/{in_path(session_id)}/cancel")

    async def close(self) -> None:
        if not self._workspace_id:
            return
        with suppress(PromptRefused):
            await self._call("DELETE", self._v1, query={"client_id": self._client_id})

    @property
    def _v1(self) -> str:
        return f"/v1/workspaces/{in_path(self._workspace_id)}"

    async def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
    ) -> Any:
        try:
            return await asyncio.to_thread(self._server.call, method, path, body, query=query)
        except ServerGone as error:
            raise ServerAway(f"The server is gone: {error}") from error
        except ServerRefused as refusal:
            if refusal.status >= 500:
                raise ServerAway(refusal.sentence) from refusal
            raise PromptRefused(refusal.sentence) from refusal


def _read(stream: Stream, put: Callable[[bytes], None]) -> None:
    with suppress(ServerGone):
        for chunk in stream.chunks():
            put(chunk)
    put(b"")
