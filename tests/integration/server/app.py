"""An application that answers, streams, echoes or hangs, as its path says."""

import asyncio
from typing import Any

from tests.integration.server.started import MEGABYTE
from workspaces.delivery.push import push_of


class App:
    """Answers with what came, streams without an end, echoes on sockets, or hangs."""

    def __init__(self) -> None:
        self.sent = 0
        self.is_waiting = asyncio.Event()
        self.was_left = asyncio.Event()
        self.seen: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scope = scope
        self.push = push_of(scope)
        if scope["type"] == "websocket":
            await self._socket(scope["path"], receive, send)
            return
        size = 0
        while True:
            message = await receive()
            size += len(message.get("body", b""))
            if not message.get("more_body"):
                break
        await getattr(self, scope["path"][1:])(size, receive, send)

    async def size(self, size: int, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"%d" % size})

    async def boom(self, size: int, receive: Any, send: Any) -> None:
        raise ValueError("a secret of the server")

    async def nothing(self, size: int, receive: Any, send: Any) -> None:
        pass

    async def half(self, size: int, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})

    async def split(self, size: int, receive: Any, send: Any) -> None:
        headers = [(b"x-split", b"a\r\nset-cookie: b")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ok"})

    async def status(self, size: int, receive: Any, send: Any) -> None:
        """With the status that is the body's length."""
        await send({"type": "http.response.start", "status": size, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    async def empty(self, size: int, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b"ignored"})

    async def two(self, size: int, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"one ", "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        await send({"type": "http.response.body", "body": b"two"})

    async def closing(self, size: int, receive: Any, send: Any) -> None:
        await self._begin_closing(send)
        await send({"type": "http.response.body", "body": b" two"})

    async def closing_half(self, size: int, receive: Any, send: Any) -> None:
        await self._begin_closing(send)

    async def closing_flood(self, size: int, receive: Any, send: Any) -> None:
        await self._begin_closing(send)
        while self.sent < 400 * MEGABYTE:
            await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
            self.sent += 65_536

    async def _begin_closing(self, send: Any) -> None:
        headers = [(b"connection", b"close")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"one", "more_body": True})

    async def pushed(self, size: int, receive: Any, send: Any) -> None:
        """Sends and pushes in turns; ``seen`` says what was taken."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        self.seen.append(f"before its head: {self.push(b'lost')}")
        await send({"type": "http.response.body", "body": b"sent ", "more_body": True})
        self.seen.append(f"begun: {self.push(b'pushed ')}")
        await send({"type": "http.response.body", "body": b"sent "})
        self.seen.append(f"ended: {self.push(b'lost')}")

    async def push_flood(self, size: int, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        while self.push(b"x" * MEGABYTE):
            self.sent += MEGABYTE
        self.seen.append("full")
        self.is_waiting.set()
        await receive()
        self.seen.append(f"left: {self.push(b'lost')}")
        self.was_left.set()

    async def hang(self, size: int, receive: Any, send: Any) -> None:
        self.is_waiting.set()
        await asyncio.Event().wait()

    async def slow(self, size: int, receive: Any, send: Any) -> None:
        self.is_waiting.set()
        await asyncio.sleep(0.3)
        await self.size(size, receive, send)

    async def flood(self, size: int, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        left = asyncio.create_task(receive())
        while not left.done() and self.sent < 400 * MEGABYTE:
            await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
            self.sent += 65_536
            await asyncio.sleep(0)
        left.cancel()
        self.was_left.set()

    async def _socket(self, path: str, receive: Any, send: Any) -> None:
        await receive()
        if path == "/pushed":
            await self._pushed_socket(send)
            return
        if path == "/undecided":
            self.is_waiting.set()
            await receive()
            return
        await send({"type": "websocket.accept"})
        while path == "/flood" and self.sent < 400 * MEGABYTE:
            await send({"type": "websocket.send", "text": "x" * 65_536})
            self.sent += 65_536
            await asyncio.sleep(0)
        while path == "/push_flood" and self.push(b"x" * 65_536):
            self.sent += 65_536
        while path == "/deaf":
            self.is_waiting.set()
            await asyncio.sleep(0.5)
            break
        while (message := await receive())["type"] != "websocket.disconnect":
            self.seen.append(message["text"])
            await send({"type": "websocket.send", "text": message["text"]})
        self.was_left.set()

    async def _pushed_socket(self, send: Any) -> None:
        self.seen.append(f"before it is accepted: {self.push(b'lost')}")
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": "sent"})
        self.seen.append(f"open: {self.push('pushéd'.encode())}")
        self.seen.append(f"too large: {self.push(b'x' * MEGABYTE)}")
        await send({"type": "websocket.close", "code": 4401})
        self.seen.append(f"closed: {self.push(b'lost')}")
