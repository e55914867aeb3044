"""Readers of the native interface: server-sent events and the WebSocket, both from a cursor.

They record what arrives and where it stood, and end at an item that does not fit its published
schema; folding items into state is the tests' work.
"""

import asyncio
import json
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests.acceptance.harness.http import Http, UnexpectedStatus
from tests.acceptance.harness.recorder import Recorder
from tests.acceptance.harness.sse import SseParser
from tests.stream_schemas import check_item


@dataclass(frozen=True, slots=True)
class Received:
    """One event, or one delta: `body` is an object for the first and an array for the second."""

    body: Any
    id: str | None  # the cursor that stands after it; deltas have none
    event: str | None
    size: int  # bytes of payload on the wire; of the whole frame, where it held several
    at: float

    @property
    def type(self) -> str:
        return str(self.body.get("type", "")) if isinstance(self.body, dict) else "delta"


class NativeReader:
    """What both transports share: the record and its cursor."""

    def __init__(self, http: Http, workspace_id: str, *, after: str | int | None = None) -> None:
        self.http = http
        self.workspace_id = workspace_id
        self.after = after
        self.record: Recorder[Received] = Recorder(f"native events of {workspace_id}")
        self.payload_bytes = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def received(self) -> list[Received]:
        return self.record.items

    @property
    def cursor(self) -> str | None:
        """The last id that came, else the one that the reader began at: where to resume."""
        for item in reversed(self.received):
            if item.id is not None:
                return item.id
        return None if self.after is None else str(self.after)

    @property
    def ended(self) -> str | None:
        return self.record.ended

    async def wait_for(
        self, predicate: Callable[[Received], bool], timeout: float = 60, *, start: int = 0
    ) -> Received:
        return await self.record.wait_for(predicate, timeout, start=start)

    async def wait_end(self, timeout: float = 60) -> str:
        return await self.record.wait_end(timeout)

    def _query(self) -> dict[str, str]:
        return {} if self.after is None else {"after": str(self.after)}

    async def _finish(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.record.end("closed by the test")


class NativeSse(NativeReader):
    """`GET /api/workspaces/{id}/events`. `by_header` sends the cursor as `Last-Event-ID`."""

    def __init__(
        self,
        http: Http,
        workspace_id: str,
        *,
        after: str | int | None = None,
        by_header: bool = False,
    ) -> None:
        super().__init__(http, workspace_id, after=after)
        self.by_header = by_header
        self.comments: list[str] = []
        self._answer: aiohttp.ClientResponse | None = None

    async def open(self) -> "NativeSse":
        path = f"/api/workspaces/{self.workspace_id}/events"
        headers = {"Accept": "text/event-stream"}
        if self.by_header and self.after is not None:
            headers["Last-Event-ID"] = str(self.after)
        self._answer = await self.http.session.get(
            self.http.url + path, params={} if self.by_header else self._query(), headers=headers
        )
        if self._answer.status != 200:
            text = await self._answer.text()
            raise UnexpectedStatus("GET", path, self._answer.status, text)
        self._task = asyncio.create_task(self._read(self._answer))
        return self

    async def _read(self, answer: aiohttp.ClientResponse) -> None:
        parser = SseParser()
        try:
            async for chunk in answer.content.iter_any():
                at = time.time()
                self.payload_bytes += len(chunk)
                for frame in parser.feed(chunk):
                    if frame.comment is not None:
                        self.comments.append(frame.comment)
                        continue
                    size = len(frame.data)
                    for body in _bodies(json.loads(frame.data) if frame.data else None):
                        check_item(body)
                        self.record.add(Received(body, frame.id, frame.event, size, at))
        except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
            self.record.end(repr(error))
        except Exception as error:  # fail the test that waits, not only the task
            self.record.end(f"unreadable: {error!r}")
        else:
            self.record.end("end of stream")

    async def close(self, *, abort: bool = False) -> None:
        """Leave; with `abort` by a TCP reset."""
        if self._answer is not None:
            connection = self._answer.connection
            if abort and connection is not None and connection.transport is not None:
                connection.transport.abort()
            self._answer.close()
        await self._finish()


class NativeSocket(NativeReader):
    """`ws://…/api/workspaces/{id}/stream`. A message is an array of events and deltas."""

    def __init__(self, http: Http, workspace_id: str, *, after: str | int | None = None) -> None:
        super().__init__(http, workspace_id, after=after)
        self.frames = 0
        self.heartbeats = 0
        self._socket: aiohttp.ClientWebSocketResponse | None = None

    async def open(self, **options: Any) -> "NativeSocket":
        """`options` go to the handshake: `headers`, `origin`."""
        address = self.http.url.replace("http://", "ws://", 1)
        self._socket = await self.http.session.ws_connect(
            f"{address}/api/workspaces/{self.workspace_id}/stream",
            params=self._query(),
            max_msg_size=0,
            autoclose=True,
            **options,
        )
        self._task = asyncio.create_task(self._read(self._socket))
        return self

    async def _read(self, ws: aiohttp.ClientWebSocketResponse) -> None:
        try:
            async for message in ws:
                at = time.time()
                if message.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                    raw = message.data.encode() if isinstance(message.data, str) else message.data
                    self.frames += 1
                    self.payload_bytes += len(raw)
                    bodies = _bodies(json.loads(raw))
                    self.heartbeats += not bodies
                    for body in bodies:
                        check_item(body)
                        self.record.add(Received(body, _cursor(body), None, len(raw), at))
        except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
            self.record.end(repr(error))
        except Exception as error:  # fail the test that waits, not only the task
            self.record.end(f"unreadable: {error!r}")
        else:
            self.record.end(f"closed with {ws.close_code}")

    @property
    def close_code(self) -> int | None:
        return None if self._socket is None else self._socket.close_code

    async def send(self, command: dict[str, Any] | str) -> None:
        """A command as JSON; a string as it stands."""
        assert self._socket is not None
        await self._socket.send_str(command if isinstance(command, str) else json.dumps(command))

    async def close(self, *, abort: bool = False) -> None:
        """Leave with a closing handshake; with `abort` by a TCP reset."""
        if self._socket is not None:
            if abort:
                raw = self._socket.get_extra_info("socket")
                if raw is not None:  # no lingering: closing then sends a reset
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self._socket._response.close()
            elif not self._socket.closed:
                await self._socket.close()
        await self._finish()


def _bodies(decoded: Any) -> list[Any]:
    # Several items travel as an array of objects (events) and arrays (deltas); a heartbeat is empty.
    return decoded if isinstance(decoded, list) else [decoded]


def _cursor(body: Any) -> str | None:
    number = body.get("number") if isinstance(body, dict) else None
    return None if number is None else str(number)
