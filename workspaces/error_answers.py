"""The HTTP response to a request that is refused: a status, and one sentence as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

Header = tuple[bytes, bytes]
JSON: Header = (b"content-type", b"application/json")


def error_body(sentence: str, code: str = "") -> bytes:
    return orjson.dumps({"message": sentence} | ({"code": code} if code else {}))


def http_error(
    status: int, sentence: str, headers: Iterable[Header] = (), *, code: str = ""
) -> list[dict[str, Any]]:
    """Returns the ASGI messages of a response to an HTTP request."""
    body = error_body(sentence, code)
    length = (b"content-length", b"%d" % len(body))
    return _messages("http.response", status, [JSON, length, *headers], body)


def websocket_error(
    status: int, sentence: str, headers: Iterable[Header] = (), *, code: str = ""
) -> list[dict[str, Any]]:
    """Returns the messages of a response to a handshake; the server adds the length."""
    body = error_body(sentence, code)
    return _messages("websocket.http.response", status, [JSON, *headers], body)


def _messages(kind: str, status: int, headers: list[Header], body: bytes) -> list[dict[str, Any]]:
    # New objects each time: servers may modify them.
    return [
        {"type": f"{kind}.start", "status": status, "headers": headers},
        {"type": f"{kind}.body", "body": body},
    ]
