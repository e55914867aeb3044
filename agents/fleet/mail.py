"""One message of a mailbox as a value and as a file. Pure."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from agents.fleet.disk import is_safe_name
from agents.fleet.documents import BadDocument, read_object, sorted_keys, written
from agents.fleet.times import as_rfc3339, now_nanos, parse_rfc3339

MOST_BYTES: Final = 16 * 1024 * 1024


class MailKind(StrEnum):
    """What this program sends. It reads any other text too: newer programs have more kinds."""

    TASK = "task"
    ASK = "ask"
    HANDOFF = "handoff"
    REPLY = "reply"
    MCP_REQUEST = "mcp_request"
    MCP_REPLY = "mcp_reply"


class AskMode(StrEnum):
    QUERY = "query"
    STEER = "steer"


@dataclass(frozen=True, slots=True)
class Sender:
    session_id: str
    role: str | None = None


@dataclass(frozen=True, slots=True)
class Mail:
    """``created_at`` is nanoseconds since 1970, and orders the mailbox."""

    sender: Sender
    kind: str
    body: Any = field(repr=False)
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    created_at: int = field(default_factory=now_nanos)
    correlation_id: str | None = None

    @property
    def file_name(self) -> str:
        return f"{self.created_at:020d}-{self.id}.json"


def ask(sender: Sender, question: str, *, mode: AskMode = AskMode.QUERY) -> Mail:
    return Mail(sender, MailKind.ASK, {"question": question, "mode": mode.value})


def reply(sender: Sender, to: Mail, answer: str) -> Mail:
    return Mail(sender, MailKind.REPLY, {"answer": answer}, correlation_id=to.id)


def encode(mail: Mail) -> bytes:
    """Raises ``BadDocument``."""
    if not is_safe_name(mail.id) or mail.created_at < 0:
        raise BadDocument("A message's id must be usable as a file's name.")
    sender = {"session_id": mail.sender.session_id}
    if mail.sender.role is not None:
        sender["role"] = mail.sender.role
    value: dict[str, Any] = {"id": mail.id, "from": sender, "kind": str(mail.kind)}
    value["body"] = sorted_keys(mail.body)
    if mail.correlation_id is not None:
        value["correlation_id"] = mail.correlation_id
    value["created_at"] = as_rfc3339(mail.created_at)
    data = written(value, pretty=True)
    if len(data) > MOST_BYTES:
        raise BadDocument(f"A message may have at most {MOST_BYTES} bytes.")
    return data


def decode(data: bytes) -> Mail:
    """Raises ``BadDocument``."""
    fields = read_object(data, what="The message", most_bytes=MOST_BYTES)
    sender = fields.fields("from")
    if "body" not in fields:
        raise BadDocument("body is missing.")
    try:
        created_at = parse_rfc3339(fields.text("created_at"))
    except BadDocument:
        raise
    except ValueError as error:
        raise BadDocument(f"created_at: {error}") from None
    return Mail(
        sender=Sender(sender.text("session_id"), sender.text_or_none("role")),
        kind=fields.text("kind"),
        body=fields.values["body"],
        id=fields.text("id"),
        created_at=created_at,
        correlation_id=fields.text_or_none("correlation_id"),
    )
