"""Calls an ASGI application in this process, as a server would."""

import asyncio
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import orjson

from crushsite.asgi.api_handler import ApiHandler


@dataclass(frozen=True)
class Answer:
    status: int
    content_type: str
    body: bytes

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

    async def call(
        self,
        method: str,
        address: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        content_type: str | None = "application/json",
    ) -> Answer:
        """``body`` is sent as JSON, ``raw`` as it is."""
        if raw is None:
            raw = b"" if body is None else orjson.dumps(body)
        sent: list[Any] = []
        messages = iter([{"type": "http.request", "body": raw, "more_body": False}])

        async def receive() -> Any:
            message = next(messages, None)
            return message or await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)

        await self.handler(scope_of(method, address, content_type), receive, send)
        start, end = sent
        assert start["type"] == "http.response.start"
        headers = dict(start["headers"])
        assert int(headers[b"content-length"]) == len(end["body"])
        return Answer(
            start["status"], headers.get(b"content-type", b"").decode(), bytes(end["body"])
        )

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
    }
