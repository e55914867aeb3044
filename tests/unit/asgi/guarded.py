"""Calls the guard as a plain ASGI application."""

from __future__ import annotations

import json

from crushsite.asgi.guard import Guard


class Echo:
    """Reads the whole body, then answers with its length."""

    def __init__(self, headers=()):
        self.calls = []
        self.headers = headers

    async def __call__(self, scope, receive, send):
        self.calls.append(scope)
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            return
        if scope["type"] != "http":
            return
        size, more = 0, True
        while more:
            message = await receive()
            size += len(message.get("body", b""))
            more = message.get("more_body", False)
        start = {"type": "http.response.start", "status": 200, "headers": list(self.headers)}
        await send(start)
        await send({"type": "http.response.body", "body": str(size).encode()})


def headers_of(headers):
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]


async def call(guard, headers, *, method="GET", kind="http", body=(b"",)):
    """Returns what the guard sent."""
    scope = {"type": kind, "headers": headers_of(headers), "path": "/"}
    waiting = [
        {"type": "http.request", "body": chunk, "more_body": place < len(body)}
        for place, chunk in enumerate(body, start=1)
    ]
    if kind == "http":
        scope["method"] = method
    else:
        waiting = [{"type": "websocket.connect"}]
    sent = []

    async def receive():
        return waiting.pop(0)

    async def send(message):
        sent.append(message)

    await guard(scope, receive, send)
    return sent


async def status_of(headers, *, app=None, method="GET", body=(b"",), **options):
    app = app or Echo()
    start, answer = await call(Guard(app, **options), headers, method=method, body=body)
    if start["status"] != 200:
        # Whoever is refused is told why, in the manner of the interface, and nothing ran.
        assert app.calls == [] or start["status"] == 413
        assert json.loads(answer["body"])["message"].endswith(".")
        fields = dict(start["headers"])
        assert fields[b"content-type"] == b"application/json"
        assert int(fields[b"content-length"]) == len(answer["body"])
    return start["status"]
