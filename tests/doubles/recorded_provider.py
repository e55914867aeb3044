"""A provider that answers with what was recorded, and remembers what it was asked.

Speaks HTTP by hand, so that an answer may break off wherever a test wants. It knows
nothing of the code under test.
"""

from __future__ import annotations

import asyncio
import binascii
import json
import struct
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass
class RecordedRequest:
    method: str
    target: str  # as it came over the wire
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Json:
        return dict(json.loads(self.raw))


@dataclass
class Answer:
    pieces: list[bytes] = field(default_factory=list)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    is_cut: bool = False  # the connection ends in the middle of the body


class RecordedProvider:
    """Answers each request with the next answer; the last one for ever."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.requests: list[RecordedRequest] = []
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> RecordedProvider:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.strip().split("\r\n")
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            method, target, _ = first.split(" ")
            self.requests.append(RecordedRequest(method, target, headers, body))
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            lines = {"Transfer-Encoding": "chunked", "Connection": "close", **answer.headers}
            named = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
            writer.write(f"HTTP/1.1 {answer.status} Said\r\n{named}\r\n".encode())
            for piece in answer.pieces:
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
            if not answer.is_cut:
                writer.write(b"0\r\n\r\n")
            await writer.drain()
        finally:
            writer.close()


def sse(events: list[Json], *, done: bool = False) -> Answer:
    pieces = []
    for event in events:
        name = f"event: {event['type']}\n" if isinstance(event.get("type"), str) else ""
        pieces.append(f"{name}data: {json.dumps(event, ensure_ascii=False)}\n\n".encode())
    if done:
        pieces.append(b"data: [DONE]\n\n")
    return Answer(pieces, headers={"Content-Type": "text/event-stream"})


def aws(events: list[Json]) -> Answer:
    """Each event in the binary framing of AWS; an error as the exception that it is there."""
    pieces = []
    for event in events:
        if event["type"] == "error":
            headers = {
                ":message-type": "exception",
                ":exception-type": "serviceUnavailableException",
            }
            payload: Json = {"message": event["error"]["message"]}
        else:
            headers = {":message-type": "event", ":event-type": "chunk"}
            payload = {"bytes": b64encode(json.dumps(event).encode()).decode(), "p": "abcd"}
        pieces.append(_message(headers, json.dumps(payload).encode()))
    return Answer(pieces, headers={"Content-Type": "application/vnd.amazon.eventstream"})


def _message(headers: dict[str, str], payload: bytes) -> bytes:
    head = b"".join(
        struct.pack(f">B{len(name)}sBH", len(name), name.encode(), 7, len(value)) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack(">II", 16 + len(head) + len(payload), len(head))
    message = prelude + struct.pack(">I", binascii.crc32(prelude)) + head + payload
    return message + struct.pack(">I", binascii.crc32(message))


def refusal(status: int, body: Json, headers: dict[str, str]) -> Answer:
    all_headers = {"Content-Type": "application/json", **headers}
    return Answer([json.dumps(body).encode()], status=status, headers=all_headers)
