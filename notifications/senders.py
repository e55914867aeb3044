"""Sends a message: to a webhook, by e-mail, or to a browser through its push service.

Addresses come from users, so only public ones are reached, unless ``CRUSH_NOTIFY_PRIVATE_HOSTS``
lists them. Redirects are not followed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson
from django.conf import settings
from django.core.mail import EmailMessage

from agents.tools.contract import ToolRefusal
from agents.tools.web.access import Access, literal, web_url
from notifications.messages import NotificationMessage, push_body, signed
from notifications.models import ChannelKind, PushKey
from workspaces.log.errors import BadField
from workspaces.log.secrets import box

if TYPE_CHECKING:
    from yarl import URL

SEND_SECONDS = 15.0
PUSH_TTL_SECONDS = 3600
# A push service answers so for a browser that has unsubscribed.
GONE = frozenset({404, 410})


@dataclass(frozen=True, slots=True)
class Sent:
    """The outcome of an attempt."""

    is_delivered: bool
    status: int | None = None
    error: str = ""
    is_gone: bool = False  # the channel will never work again


async def send(kind: str, target: Mapping[str, Any], message: NotificationMessage) -> Sent:
    """Sends the message once. Never raises."""
    try:
        async with asyncio.timeout(SEND_SECONDS):
            match ChannelKind(kind):
                case ChannelKind.WEBHOOK:
                    body, headers = signed(message, target["secret"], at_seconds=int(time.time()))
                    return await _post(target["url"], body, headers)
                case ChannelKind.EMAIL:
                    return await asyncio.to_thread(_mail, target["address"], message)
                case ChannelKind.WEB_PUSH:
                    encode = partial(_encrypted, dict(target), push_body(message))
                    body, headers = await asyncio.to_thread(encode)
                    found = await _post(target["endpoint"], body, headers)
                    is_gone = found.status in GONE
                    return Sent(found.is_delivered, found.status, found.error, is_gone)
    except TimeoutError:
        return Sent(False, error=f"No answer within {SEND_SECONDS:.0f} s.")
    except ToolRefusal as refusal:
        return Sent(False, error=str(refusal))
    except Exception as error:  # noqa: BLE001  of libraries and networks; the attempt has failed
        # Without its text, which may contain the address with its key.
        return Sent(False, error=f"The message could not be sent ({type(error).__name__}).")


def checked_address(field: str, written: str) -> str:
    """Returns an address to which messages may be sent. Raises ``BadField``."""
    try:
        url = web_url(written)
        addresses = [found] if (found := literal(url.host or "")) is not None else []
        _access().check(url.host or "", url.port or 0, addresses)
    except ToolRefusal as refusal:
        raise BadField(f"{field}: {_own_words(str(refusal))}") from None
    if url.scheme != "https" and not _is_listed(url):
        raise BadField(f"{field}: must begin with https://")
    return str(url)


def _access() -> Access:
    return Access(settings.CRUSH_NOTIFY_PRIVATE_HOSTS)


def _is_listed(url: URL) -> bool:
    return f"{url.host}:{url.port}" in settings.CRUSH_NOTIFY_PRIVATE_HOSTS


def _own_words(sentence: str) -> str:
    before, _, _ = sentence.partition(" The web tools")
    return before


async def _post(address: str, body: bytes, headers: Mapping[str, str]) -> Sent:
    # aiohttp takes 0.4 s to import, and most servers send no notifications.
    import aiohttp  # noqa: PLC0415

    from agents.tools.web.client import pinned_connector, system_addresses  # noqa: PLC0415

    url = web_url(address)
    host, port = url.host or "", url.port or 0
    addresses = await system_addresses(host, port)
    _access().check(host, port, addresses)
    async with (
        aiohttp.ClientSession(connector=pinned_connector(host, addresses)) as session,
        session.post(url, data=body, headers=dict(headers), allow_redirects=False) as response,
    ):
        if 200 <= response.status < 300:
            return Sent(True, response.status)
        return Sent(False, response.status, f"The receiver answered with {response.status}.")


def _mail(address: str, message: NotificationMessage) -> Sent:
    mail = EmailMessage(
        subject=message.title,
        body=message.text,
        from_email=settings.DEFAULT_FROM_EMAIL,
        to=[address],
        headers={"Message-ID": f"<{message.id}@crush-server>", "Auto-Submitted": "auto-generated"},
    )
    mail.send()
    return Sent(True)


def _encrypted(target: dict[str, Any], data: bytes) -> tuple[bytes, Mapping[str, str]]:
    """Encrypts for the browser (RFC 8291), and signs for its push service (RFC 8292)."""
    from py_vapid import Vapid02  # noqa: PLC0415  an extra
    from pywebpush import WebPusher  # noqa: PLC0415  the same

    keys = {"p256dh": target["p256dh"], "auth": target["auth"]}
    encoded = WebPusher({"endpoint": target["endpoint"], "keys": keys}).encode(data)
    parts = urlsplit(target["endpoint"])
    claims = {
        "aud": f"{parts.scheme}://{parts.netloc}",
        "exp": int(time.time()) + PUSH_TTL_SECONDS,
        "sub": settings.CRUSH_PUBLIC_URL or "mailto:crush-server@localhost",
    }
    key = Vapid02.from_pem(box().open(PushKey.objects.get().sealed_key).encode())
    return bytes(encoded["body"]), {
        **key.sign(claims),
        "Content-Encoding": "aes128gcm",
        "Content-Type": "application/octet-stream",
        "TTL": str(PUSH_TTL_SECONDS),
        "Urgency": "high",
    }


def seal_target(target: Mapping[str, Any]) -> str:
    return box().seal(orjson.dumps(dict(target)).decode())


def open_target(sealed: str) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(box().open(sealed)) if sealed else {}
    return found
