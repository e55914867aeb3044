"""What messages contain, and how webhooks are signed. Pure.

A message names the request and never its arguments, and how a run has ended but neither its prompt
nor its error: they may hold secrets, and a message passes through other companies' servers.
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

from agents.states import RunOutcome

TEXT_CHARS = 200
SECRET_PREFIX = "whsec_"  # noqa: S105  the beginning of a secret, as Standard Webhooks writes it
_SECRET_BYTES = 32


RUN_FINISHED = "run.finished"
# By outcome: the first word of the title, as in the console, and a sentence. A title begins with
# what the server knows, so that no session's title can look like another outcome.
_ENDED: Mapping[str, tuple[str, str]] = {
    RunOutcome.COMPLETED: ("Done", "The agent has finished."),
    RunOutcome.FAILED: ("Failed", "The run ended with an error."),
    RunOutcome.INTERRUPTED: ("Interrupted", "The server stopped in the middle of the run."),
    RunOutcome.OVER_BUDGET: ("Over budget", "The run has reached the budget of its prompt."),
    RunOutcome.CANCELLED: ("Cancelled", "Somebody else has cancelled the run."),
}


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run has ended."""

    key: int
    outcome: str
    run_id: str | None = None  # the name that its sender chose
    cancelled_by: str = ""
    seconds: int = 0  # since it was accepted

    @property
    def word(self) -> str:
        return _ENDED[self.outcome][0]

    @property
    def sentence(self) -> str:
        if self.cancelled_by:
            return f"{_short(self.cancelled_by)} has cancelled the run."
        return _ENDED[self.outcome][1]

    @property
    def wire(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "id": self.run_id,
            "outcome": self.outcome,
            "cancelled_by": self.cancelled_by or None,
            "seconds": self.seconds,
        }


@dataclass(frozen=True, slots=True)
class NotificationMessage:
    """A message about one request or the end of one run, for one channel."""

    id: str  # the same in every attempt
    type: str  # "permission.overdue", "question.overdue", "run.finished" or "test"
    workspace_id: str = ""
    workspace: str = ""  # its folder
    session_id: str = ""
    session: str = ""  # its title
    request_id: str = ""
    summary: str = ""  # such as "bash: execute"
    path: str = ""
    waiting_seconds: int = 0
    link: str = ""
    end: RunEnd | None = None  # of a message about a run

    @property
    def title(self) -> str:
        if self.type == "test":
            return "A test message of your Crush server"
        where = _short(self.session or self.workspace)
        if self.end is not None:
            return f"{self.end.word}: {where}"
        return f"{_short(self.summary)} waits for you in {where}"

    @property
    def text(self) -> str:
        """The message for people."""
        if self.type == "test":
            return "Messages about what waits for you or has ended will arrive here."
        lines = [
            f"Session:   {_short(self.session) or '(untitled)'}",
            f"Workspace: {_short(self.workspace)}",
        ]
        if self.end is not None:
            lines += [f"Result:    {self.end.sentence}", f"Time:      {self.end.seconds} s"]
            return "\n".join([*lines, "", "Open the session:", self.link] if self.link else lines)
        lines.append(f"Request:   {_short(self.summary)}")
        if self.path:
            lines.append(f"Path:      {_short(self.path)}")
        lines.append(f"Waiting:   {self.waiting_seconds} s")
        if self.link:
            lines += ["", "Look at the request and answer it (once):", self.link]
        return "\n".join(lines)

    @property
    def page(self) -> str:
        """The address of the request or the session in the console, below the server's."""
        if self.type == "test":
            return "/"
        session = f"/w/{quote(self.workspace_id, safe='')}/s/{quote(self.session_id, safe='')}"
        if self.end is not None:
            return session
        kind = "approval" if self.type.startswith("permission") else "questions"
        return f"{session}?{urlencode({kind: self.request_id})}"

    @property
    def wire(self) -> dict[str, Any]:
        """The body of a webhook."""
        about: dict[str, Any] = {
            "request": {"id": self.request_id, "summary": self.summary, "path": self.path},
            "waiting_seconds": self.waiting_seconds,
        }
        return {
            "type": self.type,
            "title": self.title,
            "workspace": {"id": self.workspace_id, "path": self.workspace},
            "session": {"id": self.session_id, "title": self.session},
            **(about if self.end is None else {"run": self.end.wire}),
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
            "body": shown_body(message),
            "link": message.link,
            "url": message.page,
            "session_id": message.session_id,
            "request_id": message.request_id,
        }
    )


def shown_body(message: NotificationMessage) -> str:
    """The second line of a browser's notification."""
    if message.end is not None:
        return f"{message.end.sentence} {_short(message.workspace)}"
    return _short(message.path or message.workspace)


def _short(text: str) -> str:
    """One printable line: titles and paths come from models."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * TEXT_CHARS]).split())
    return line if len(line) <= TEXT_CHARS else f"{line[: TEXT_CHARS - 1]}…"
