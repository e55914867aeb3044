"""The headers of a request, checked before they are sent. Pure.

A key with a line break in it (a file read whole, say) would otherwise only fail
once the connection stands, or smuggle a header.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from agents.config.settings import ProviderSettings
from agents.llm.errors import BadRequest

NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
VALUE = re.compile(r"[\x20-\x7e\x80-\xff\t]*")

COMMON = {
    "Content-Type": "application/json",
    "Accept": "text/event-stream",
    "Accept-Encoding": "identity",  # a packed stream comes in lumps
    "User-Agent": "crush-server",
}


def request_headers(settings: ProviderSettings, own: Mapping[str, str]) -> dict[str, str]:
    """The common ones, the dialect's own and the configured ones, of which the later win."""
    headers = dict(COMMON)
    for name, value in (*own.items(), *settings.extra_headers.items()):
        if not NAME.fullmatch(name) or not VALUE.fullmatch(value):
            # Neither is quoted: it may be, or hold, a key.
            raise BadRequest(
                f"bad request: api_key or extra_headers of provider '{settings.id}' in crush.json "
                "hold characters that HTTP cannot send."
            )
        same = next((known for known in headers if known.lower() == name.lower()), name)
        headers.pop(same, None)
        headers[name] = value
    return headers


def bearer(key: str) -> dict[str, str]:
    """The usual header; a key may already say that it is a bearer's."""
    key = key.strip()
    if not key:
        return {}
    return {"Authorization": key if key.startswith("Bearer ") else f"Bearer {key}"}
