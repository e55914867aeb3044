"""A ``/v1`` client's event stream through a bridge, which outlives the network behind it.

The remote server's native stream has a cursor, so nothing is missed while the network is away. Its
items fill a room like one of the server, from which the client gets the ``/v1`` frames. The client
sees a pause with heartbeats.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import orjson
from multidict import CIMultiDict

from agents.llm.sse_lines import SseLines
from crushsite.asgi.guard import Receive, Scope, Send
from crushsite.bridge.remote import (
    AGAIN_SECONDS,
    LONGEST_PAUSE_SECONDS,
    Outgoing,
    OutOfReach,
    RemoteServer,
    WrongCertificate,
    field_of,
)
from workspaces.backoff import Backoff
from workspaces.delivery import v1_frames
from workspaces.delivery.http_stream import HEADERS
from workspaces.delivery.open_message import TEXT_FIELDS, LiveMessage
from workspaces.delivery.readers import V1Reader
from workspaces.delivery.room import Room
from workspaces.error_answers import http_error
from workspaces.log.transaction import RecordedEvent
from workspaces.log.types import CLOSING, Delta, Kind, Output, StreamOnly

EVENT_LIMIT = 256 * 1024 * 1024  # events contain whole messages with their attachments
HEARTBEAT_SECONDS = 10.0
NATIVE_SILENT_SECONDS = 25.0  # the native stream has a heartbeat every 10 s
NOT_OPEN = 404
FAILED = 500

Key = tuple[str, str]  # workspace, client


class Refused(Exception):
    """The remote server refuses the stream."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.body = body


class Openings:
    """With which request each client opened its workspaces, and who has left."""

    def __init__(self) -> None:
        self._bodies: dict[Key, bytes] = {}
        self._open: dict[Key, set[asyncio.Task[None]]] = {}

    def opened(self, workspace_id: str, client_id: str, body: bytes) -> None:
        self._bodies[workspace_id, client_id] = body

    async def open_again(self, key: Key, remote: RemoteServer) -> bool:
        """Opens a workspace that closed while the network was away. Raises ``OutOfReach``."""
        body = self._bodies.get(key)
        if body is None or key not in self._open:
            return False
        headers = CIMultiDict({"Content-Type": "application/json"})
        outgoing = Outgoing("POST", "/v1/workspaces", headers, body, is_repeatable=True)
        answer, _ = await remote.answer_to(outgoing, client_id=key[1])
        return answer.status == 200

    def key_of(self, workspace_id: str, client_id: str) -> Key:
        """Returns the key of a request; where it names no client, of one that streams there."""
        keys = [key for key in self._open if key[0] == workspace_id]
        key = (workspace_id, client_id)
        return keys[0] if keys and key not in keys else key

    def released(self, client_id: str, workspace_id: str | None = None) -> None:
        """Ends the streams of a client that has left: they must not attach it again."""
        for key in [k for k in {*self._bodies, *self._open} if k[1] == client_id]:
            if workspace_id in {None, key[0]}:
                self._bodies.pop(key, None)
                for task in self._open.pop(key, ()):
                    task.cancel()

    def begin(self, key: Key, task: asyncio.Task[None]) -> None:
        self._open.setdefault(key, set()).add(task)

    def end(self, key: Key, task: asyncio.Task[None]) -> None:
        tasks = self._open.get(key, set())
        tasks.discard(task)
        if not tasks:
            self._open.pop(key, None)


class EventStreams:
    """The streams of all clients of a bridge."""

    def __init__(self, remote: RemoteServer) -> None:
        self.openings = Openings()
        self._remote = remote

    async def respond(self, key: Key, _: Scope, receive: Receive, send: Send) -> None:
        """Answers the request of one client for its events."""
        stream = BridgedStream(self._remote, self.openings, key, send)
        pump = asyncio.create_task(stream.run(), name="bridged-stream")
        left = asyncio.create_task(_left(receive), name="bridged-stream-left")
        self.openings.begin(key, pump)
        try:
            await asyncio.wait({pump, left}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.openings.end(key, pump)
            pump.cancel()
            left.cancel()
            await asyncio.gather(pump, left, return_exceptions=True)
        if stream.has_begun:
            # A clean end makes the client reconnect, and read everything again.
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        elif pump.done() and not pump.cancelled() and (error := pump.exception()) is not None:
            raise error


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class BridgedStream:
    """One client's stream."""

    def __init__(self, remote: RemoteServer, openings: Openings, key: Key, send: Send) -> None:
        self._remote = remote
        self._openings = openings
        self._key = key
        self._send = send
        self._room = Room(
            key[0], producers={}, request_events=lambda _: None, request_message=lambda *_: None
        )
        self._reader = V1Reader()
        self._items = asyncio.Event()
        self.has_begun = False

    async def run(self) -> None:
        """Returns when the stream ends for the client."""
        try:
            filling = asyncio.create_task(self._fill(), name="bridged-stream-source")
            writing = asyncio.create_task(self._write(), name="bridged-stream-writer")
            try:
                await asyncio.wait({filling, writing}, return_when=asyncio.FIRST_COMPLETED)
                if self.has_begun and not writing.done():
                    self._reader.close()  # what it has is still sent
                    await asyncio.wait({writing}, timeout=HEARTBEAT_SECONDS)
            finally:
                filling.cancel()
                writing.cancel()
                done = await asyncio.gather(filling, writing, return_exceptions=True)
            for error in done:
                if isinstance(error, Exception):
                    raise error
        except Refused as refusal:
            await self._refuse(refusal.status, refusal.body)
        except OutOfReach as error:
            if not self.has_begun:
                for message in http_error(502, str(error)):
                    await self._send(message)

    async def _refuse(self, status: int, body: bytes) -> None:
        """Refuses the request with the remote server's sentence, in the form of `/v1`."""
        if self.has_begun:
            return
        sentence = field_of(body, "message") or field_of(body, "detail")
        for message in http_error(status, sentence or f"the server refuses the stream: {status}"):
            await self._send(message)

    # -- to the client

    async def _write(self) -> None:
        await self._items.wait()
        start = {"type": "http.response.start", "status": 200}
        await self._send({**start, "headers": [*HEADERS, (b"connection", b"close")]})
        self.has_begun = True
        await self._send({"type": "http.response.body", "body": b"", "more_body": True})
        while True:
            chunk = b""
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    chunk = await self._reader.take(self._room.v1.batch)
            except TimeoutError:
                chunk = v1_frames.HEARTBEAT
            if not chunk:
                return
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    # -- from the remote server

    async def _fill(self) -> None:
        """Fills the room until the stream ends for good. Raises ``Refused``, ``OutOfReach``."""
        pauses = Backoff(first_seconds=AGAIN_SECONDS, limit_seconds=LONGEST_PAUSE_SECONDS)
        clock = asyncio.get_running_loop().time
        until = clock() + self._remote.patience_seconds
        while not self._reader.closed:
            number = self._room.last_number
            try:
                await self._read_once()
            except Refused as refusal:
                is_known = refusal.status == NOT_OPEN and self._room.primed
                if is_known and await self._openings.open_again(self._key, self._remote):
                    continue
                if refusal.status < FAILED:
                    raise
            except WrongCertificate:
                raise
            except OutOfReach as error:
                self._remote.lost(str(error))
                if not self._room.primed and clock() > until:
                    raise
            if self._room.last_number > number:
                pauses = Backoff(first_seconds=AGAIN_SECONDS, limit_seconds=LONGEST_PAUSE_SECONDS)
            await asyncio.sleep(pauses.next_seconds())

    async def _read_once(self) -> None:
        """Reads until the connection ends. Raises ``Refused`` and ``OutOfReach``."""
        workspace_id, client_id = self._key
        target = f"/api/workspaces/{quote(workspace_id, safe='')}/events?client_id={client_id}"
        if self._room.primed:
            target += f"&after={self._room.last_number}"
        headers = CIMultiDict({"Accept": "text/event-stream"})
        async with self._remote.request(
            Outgoing("GET", target, headers),
            client_id=client_id,
            reads_for=NATIVE_SILENT_SECONDS,
        ) as answer:
            if answer.status != 200:
                raise Refused(answer.status, await answer.read())
            lines = SseLines(limit=EVENT_LIMIT)
            is_live = False
            begun: dict[int, LiveMessage] = {}
            async for chunk in answer.content.iter_any():
                for data in lines.feed(chunk):
                    item = orjson.loads(data)
                    if isinstance(item, Mapping) and item["type"] == StreamOnly.OPENED:
                        is_live = True
                        await self._begin(item["data"]["number"], begun)
                    elif isinstance(item, Mapping):
                        self._take(item, begun, is_live=is_live)
                    else:
                        for row in item:
                            self._room.stream(Delta(*row))

    async def _begin(self, number: int, begun: Mapping[int, LiveMessage]) -> None:
        """Is called when the stream is live. The first time, the client's stream begins."""
        if self._room.primed:
            return
        self._room.prime(number, begun)
        self._room.join_v1(self._reader)
        # After joining: a request that is opened in between is sent twice, but none is missed.
        self._reader.offer(await self._pending(), set())
        self._items.set()

    async def _pending(self) -> bytes:
        target = f"/api/workspaces/{quote(self._key[0], safe='')}/snapshot"
        outgoing = Outgoing("GET", target, is_repeatable=True)
        answer, body = await self._remote.answer_to(outgoing, client_id=self._key[1])
        if answer.status != 200:
            raise Refused(answer.status, body)
        snapshot = orjson.loads(body)
        return b"".join(
            [
                *(v1_frames.permission_frames(request) for request in snapshot["permissions"]),
                *(v1_frames.question_frame(batch) for batch in snapshot["questions"]),
            ]
        )

    def _take(
        self, item: Mapping[str, Any], begun: dict[int, LiveMessage], *, is_live: bool
    ) -> None:
        kind, data = item["type"], item["data"]
        if kind == StreamOnly.PROGRESS:
            live = LiveMessage(data["number"], data["message"])
            if self._room.primed:
                self._room.repair(live)
            else:
                begun[live.number] = live
        elif kind == StreamOnly.OUTPUT:
            self._room.output(
                Output(data["session_id"], data["message_id"], data["tool_call_id"], data["text"])
            )
        elif "number" in item:
            self._room.publish(self._event(item, is_live=is_live))

    def _event(self, item: Mapping[str, Any], *, is_live: bool) -> RecordedEvent:
        kind, data = item["type"], item["data"]
        if kind in CLOSING:
            data = self._with_texts(data)
        session_id = _session_of(data)
        event = RecordedEvent(self._key[0], item["number"], kind, session_id, data, b"{}", 0)
        # The workspace was opened again since: its closing must not end this stream.
        is_past = kind == Kind.WORKSPACE_CLOSED and not is_live
        return replace(event, kind=f"{kind}.past") if is_past else event

    def _with_texts(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Adds the texts that the server leaves out, because their deltas were sent."""
        message = data["message"]
        number = self._room.live.number_of(message["id"])
        if number is None:
            return data
        known = self._room.live[number].parts
        parts = [
            _with_text(part, known[index].text()) if "length" in part["data"] else part
            for index, part in enumerate(message["parts"])
        ]
        return {**data, "message": {**message, "parts": parts}}


def _with_text(part: Mapping[str, Any], text: str) -> Mapping[str, Any]:
    rest = {name: value for name, value in part["data"].items() if name != "length"}
    return {"type": part["type"], "data": {**rest, TEXT_FIELDS[part["type"]]: text}}


def _session_of(data: Mapping[str, Any]) -> str:
    for name in ("message", "run", "request", "batch"):
        if name in data:
            return str(data[name].get("session_id", ""))
    return str(data.get("session_id", ""))
