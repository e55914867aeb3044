"""What the indices say of sessions and children, as values and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from agents.fleet.documents import BadDocument, Fields, read_object, written
from agents.fleet.times import as_rfc3339, parse_rfc3339

MOST_BYTES: Final = 64 * 1024 * 1024
_VERSION: Final = 0


class ChildStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    IDLE = "idle"
    COMPLETED = "completed"
    ERROR = "error"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class RootEntry:
    """``updated_at`` is nanoseconds since 1970."""

    session_id: str
    title: str
    updated_at: int


@dataclass(frozen=True, slots=True)
class ChildEntry:
    child_id: str
    subagent_type: str
    status: ChildStatus
    title: str
    responsibility: str
    updated_at: int


@dataclass(frozen=True, slots=True)
class Index:
    roots: tuple[RootEntry, ...] = ()
    child_lookup: Mapping[str, str] = field(default_factory=dict)  # child to parent


def encode_index(index: Index) -> bytes:
    """Raises ``BadDocument``."""
    roots = [
        {
            "session_id": root.session_id,
            "title": root.title,
            "updated_at": as_rfc3339(root.updated_at),
        }
        for root in sorted(index.roots, key=lambda root: root.session_id)
    ]
    lookup = {child: index.child_lookup[child] for child in sorted(index.child_lookup)}
    value = {"version": _VERSION, "roots": roots, "child_lookup": lookup}
    return written(value, pretty=True)


def decode_index(data: bytes) -> Index:
    """Raises ``BadDocument``."""
    fields = read_object(data, what="The index", most_bytes=MOST_BYTES)
    roots = tuple(
        RootEntry(each.text("session_id"), each.text("title", ""), _moment(each, "updated_at"))
        for each in fields.each("roots")
    )
    lookup = fields.fields("child_lookup", optional=True)
    return Index(roots, {child: lookup.text(child) for child in lookup.values})


def encode_children(children: Iterable[ChildEntry]) -> bytes:
    """Raises ``BadDocument``."""
    value = {
        "version": _VERSION,
        "children": [
            {
                "child_id": child.child_id,
                "subagent_type": child.subagent_type,
                "status": child.status.value,
                "title": child.title,
                "responsibility": child.responsibility,
                "updated_at": as_rfc3339(child.updated_at),
            }
            for child in sorted(children, key=lambda child: child.child_id)
        ],
    }
    return written(value, pretty=True)


def decode_children(data: bytes) -> tuple[ChildEntry, ...]:
    """Raises ``BadDocument``."""
    fields = read_object(data, what="The list of children", most_bytes=MOST_BYTES)
    return tuple(
        ChildEntry(
            child_id=each.text("child_id"),
            subagent_type=each.text("subagent_type", ""),
            status=_status(each),
            title=each.text("title", ""),
            responsibility=each.text_or_none("responsibility") or "",
            updated_at=_moment(each, "updated_at"),
        )
        for each in fields.each("children")
    )


def _status(fields: Fields) -> ChildStatus:
    try:
        return ChildStatus(fields.text("status"))
    except BadDocument:
        raise
    except ValueError:
        raise BadDocument(f"{fields.name('status')} is not a status.") from None


def _moment(fields: Fields, key: str) -> int:
    try:
        return parse_rfc3339(fields.text(key))
    except BadDocument:
        raise
    except ValueError:
        raise BadDocument(f"{fields.name(key)} must be an RFC 3339 time.") from None
