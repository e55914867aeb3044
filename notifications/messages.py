"""What messages contain, and how webhooks are signed. Pure.

A message names the request and never its arguments: they may hold secrets, and a message passes
through other companies' servers.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import orjson

TEXT_CHARS = 200
SECRET_PREFIX = "whsec_"  # noqa: S105  the beginning of a secret, as Standard Webhooks writes it
_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class NotificationMessage:
    """A message about one request, for one channel."""

    id: str  # the same in every attempt
    type: str  # "permission.overdue", "question.overdue" or "test"
    workspace_id: str = ""
    workspace: str = ""  # its folder
    session_id: str = ""
    session: str = ""  # its title
    request_id: str = ""
    summary: str = ""  # such as "bash: execute"
    path: str = ""
    waiting_seconds: int = 0
    link: str = ""

    @property
    def title(self) -> str:
        if self.type == "test":
            return "A test message of your Crush server"
        where = _short(self.session or self.workspace)
        return f"{_short(self.summary)} waits for you in {where}"

    @property
    def text(self) -> str:
        """The message for people."""
        if self.type == "test":
            return "Messages about requests that wait for you will arrive here."
        lines = [
            f"Session:   {_short(self.session) or '(untitled)'}",
            f"Workspace: {_short(self.workspace)}",
            f"Request:   {_short(self.summary)}",
        ]
        if self.path:
            lines.append(f"Path:      {_short(self.path)}")
        lines.append(f"Waiting:   {self.waiting_seconds} s")
        if self.link:
            lines += ["", "Look at the request and answer it (once):", self.link]
        return "\n".join(lines)

    @property
    def page(self) -> str:
        """The address of the request in the console, below the server's."""
        if self.type == "test":
            return "/"
        kind = "approval" if self.type.startswith("permission") else "questions"
        session = f"/w/{quote(self.workspace_id, safe='')}/s/{quote(self.session_id, safe='')}"
        return f"{session}?{urlencode({kind: self.request_id})}"

    @property
    def wire(self) -> dict[str, Any]:
        """The body of a webhook."""
        return {
            "type": self.type,
            "title": self.title,
            "workspace": {"id": self.workspace_id, "path": self.workspace},
            "session": {"id": self.session_id, "title": self.session},
            "request": {"id": self.request_id, "summary": self.summary, "path": self.path},
            "waiting_seconds": self.waiting_seconds,
            "link": self.link or None,
        }


def new_secret() -> str:
    """Returns a new secret for the signatures of a webhook."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def signed(
    message: NotificationMessage, secret: str, *, at_seconds: int
) -> tuple[bytes, Mapping[str, str]]:
    """Returns the body and the headers of a webhook, as Standard Webhooks defines them."""
    body = orjson.dumps(message.wire)
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    content = f"{message.id}.{at_seconds}.".encode() + body
    signature = base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
    return body, {
        "Content-Type": "application/json",
        "webhook-id": message.id,
        "webhook-timestamp": str(at_seconds),
        "webhook-signature": f"v1,{signature}",
    }


def push_body(message: NotificationMessage) -> bytes:
    """The content of a browser's notification; push services take 4 KB at most."""
    return orjson.dumps(
        {
            "title": message.title,
            "body": _short(message.path or message.workspace),
            "link": message.link,
            "url": message.page,
            "session_id": message.session_id,
            "request_id": message.request_id,
        }
    )


def _short(text: str) -> str:
    """One printable line: titles and paths come from models."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * TEXT_CHARS]).split())
    return line if len(line) <= TEXT_CHARS else f"{line[: TEXT_CHARS - 1]}…"
