"""Calls an ASGI application in this process, as a server would."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import orjson

from crushsite.asgi.routing import ApiHandler
from workspaces.access import CALLER, OWNER, Caller
from workspaces.client_ids import CONNECTION, ClientConnection


@dataclass(frozen=True)
class Answer:
    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def message(self) -> str:
        assert set(self.json) == {"message"}
        return self.json["message"]


class Api:
    def __init__(self, handler: Any = None) -> None:
        self.handler = handler or ApiHandler()
        self.caller = Caller(OWNER)

    async def call(
        self,
        method: str,
        address: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        content_type: str | None = "application/json",
        headers: Sequence[tuple[bytes, bytes]] = (),
        client: str = "",
    ) -> Answer:
        """``body`` is sent as JSON, ``raw`` as it is. ``client``: whose the connection is."""
        if raw is None:
            raw = b"" if body is None else orjson.dumps(body)
        sent: list[Any] = []
        messages = iter([{"type": "http.request", "body": raw, "more_body": False}])

        async def receive() -> Any:
            message = next(messages, None)
            return message or await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)

        scope = scope_of(method, address, content_type) | {CALLER: self.caller}
        scope["headers"] = [*scope["headers"], *headers]
        if client:
            connection = ClientConnection()
            connection.note(client)
            scope["extensions"] = {CONNECTION: {"connection": connection}}
        await self.handler(scope, receive, send)
        start, *bodies = sent  # a large body comes in parts
        assert start["type"] == "http.response.start"
        found = {name.decode().lower(): value.decode() for name, value in start["headers"]}
        content = b"".join(part.get("body", b"") for part in bodies)
        is_streamed = "body" not in bodies[-1]
        if start["status"] != 304 and not is_streamed:
            assert int(found["content-length"]) == len(content)
        return Answer(start["status"], found.get("content-type", ""), content, found)

    async def stream(self, address: str, send: Any) -> None:
        """Gets an address; ``send`` receives each message of the response."""
        messages = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> Any:
            return next(messages, None) or await asyncio.Event().wait()

        await self.handler(scope_of("GET", address) | {CALLER: self.caller}, receive, send)

    async def get(self, address: str) -> Any:
        answer = await self.call("GET", address)
        assert answer.status == 200, answer
        return answer.json

    async def post(self, address: str, body: Any = None) -> Any:
        answer = await self.call("POST", address, body)
        assert answer.status in {200, 202}, answer
        return answer.json if answer.body else None


def scope_of(method: str, address: str, content_type: str | None = None) -> dict[str, Any]:
    path, _, query = address.partition("?")
    headers = [(b"host", b"127.0.0.1:8000")]
    if content_type is not None:
        headers.append((b"content-type", content_type.encode()))
    return {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode("utf-8", "surrogateescape"),
        "query_string": query.encode("utf-8", "surrogateescape"),
        "headers": headers,
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8000),
        CALLER: Caller(OWNER),
    }
