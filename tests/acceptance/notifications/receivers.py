"""Receivers of notifications on loopback: a webhook, a mail server, and a browser's push service."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import os
from dataclasses import dataclass, field
from email import message_from_bytes
from typing import Any

import http_ece
import orjson
from aiohttp import web
from aiosmtpd.controller import Controller
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec


class Receiver:
    """An HTTP server that keeps what it gets."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.got: asyncio.Queue[tuple[dict[str, str], bytes]] = asyncio.Queue()
        self.statuses: list[int] = []  # of the next responses; then 204
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def start(self) -> None:
        app = web.Application()
        app.router.add_post("/hook", self._take)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()

    async def _take(self, request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.got.put_nowait((headers, await request.read()))
        return web.Response(status=self.statuses.pop(0) if self.statuses else 204)

    async def next(self) -> tuple[dict[str, str], bytes]:
        async with asyncio.timeout(30):
            return await self.got.get()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()


def is_signed(headers: dict[str, str], body: bytes, secret: str) -> bool:
    """Verifies a webhook as its receivers do."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    return hmac.compare_digest(headers["webhook-signature"], f"v1,{expected}")


@dataclass
class Mails:
    """A mail server that keeps what it gets."""

    port: int
    got: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._controller = Controller(self, hostname="127.0.0.1", port=self.port)
        self._controller.start()

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        mail = message_from_bytes(envelope.content)
        self._loop.call_soon_threadsafe(self.got.put_nowait, (envelope.rcpt_tos, mail))
        return "250 OK"

    async def next(self) -> Any:
        async with asyncio.timeout(30):
            return await self.got.get()

    def stop(self) -> None:
        self._controller.stop()


class PushedBrowser:
    """A browser's push subscription, and the key that decrypts its messages."""

    def __init__(self, endpoint: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._auth = os.urandom(16)
        public = self._key.public_key().public_bytes(
            serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
        )
        self.subscription = {
            "endpoint": endpoint,
            "p256dh": base64.urlsafe_b64encode(public).rstrip(b"=").decode(),
            "auth": base64.urlsafe_b64encode(self._auth).rstrip(b"=").decode(),
        }

    def decrypt(self, body: bytes) -> Any:
        plain = http_ece.decrypt(body, private_key=self._key, auth_secret=self._auth)
        return orjson.loads(plain)
