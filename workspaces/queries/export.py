"""Exports a session with its child sessions as JSON lines or as Markdown, a few messages at a time.

JSON lines: a ``session`` line, then a ``message`` line for each of its messages, the same for each
child session, and at last an ``end`` line with the counts. ``workspaces.actions.imports`` reads it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from workspaces.log.attached_data import load_attached
from workspaces.log.reader import read
from workspaces.log.rows import MESSAGE_COLUMNS, MessageRow, message_wire
from workspaces.log.statements import statements
from workspaces.models import Session
from workspaces.queries.sessions import read_session

VERSION = 1
AT_ONCE = 20  # messages; each may have attachments of many megabytes
MARKDOWN_CHARS = 4_000  # of a tool's input or result
_LONGEST_FENCE = re.compile(r"`+")
_PORTABLE = (
    "id",
    "parent_session_id",
    "title",
    "todos",
    "summary_message_id",
    "created_at",
    "updated_at",
)


async def export_lines(workspace_id: str, session_ids: Sequence[str]) -> AsyncIterator[bytes]:
    """Yields lines of JSON. Messages that are still being written are left out."""
    messages = 0
    for session_id in session_ids:
        session = await read(read_session, workspace_id, session_id)
        kept = {name: session[name] for name in _PORTABLE}
        yield _line({"type": "session", "version": VERSION, "session": kept})
        async for found in _batches(session_id):
            messages += len(found)
            yield b"".join(_line({"type": "message", "message": each}) for each in found)
    yield _line({"type": "end", "sessions": len(session_ids), "messages": messages})


async def export_markdown(workspace_id: str, session_ids: Sequence[str]) -> AsyncIterator[bytes]:
    """Yields Markdown for people: prompts, replies, and tool calls with their results in short."""
    for number, session_id in enumerate(session_ids):
        session = await read(read_session, workspace_id, session_id)
        kind = "Child session: " if number else ""
        yield f"# {kind}{_one_line(session['title']) or 'Untitled'}\n".encode()
        async for found in _batches(session_id):
            yield "".join(map(_message, found)).encode()
        yield b"\n"


def read_tree(workspace_id: str, session_id: str) -> list[str]:
    """Returns the session and the child sessions below it, parents first.

    Raises ``SessionUnknown``.
    """
    read_session(workspace_id, session_id)
    tree, level = [session_id], [session_id]
    while level:
        rows = Session.objects.filter(parent_session_id__in=level, is_deleting=False)
        found = rows.exclude(pk__in=tree).order_by("created_at", "pk")
        level = list(found.values_list("pk", flat=True))
        tree += level
    return tree


async def _batches(session_id: str) -> AsyncIterator[list[dict[str, Any]]]:
    position = 0
    while True:
        found = await read(_read_batch, session_id, position)
        if not found:
            return
        yield [message for _, message in found]
        position = found[-1][0]


def _read_batch(session_id: str, after: int) -> list[tuple[int, dict[str, Any]]]:
    with statements() as cursor:
        cursor.execute(
            f"SELECT position, {MESSAGE_COLUMNS} FROM workspaces_message WHERE session_id = %s"
            " AND position > %s AND is_finished = %s ORDER BY position LIMIT %s",
            [session_id, after, True, AT_ONCE],
        )
        rows = [(row[0], MessageRow(*row[1:])) for row in cursor.fetchall()]
        return [
            (position, message_wire(row, orjson.loads(load_attached(cursor, row.parts))))
            for position, row in rows
        ]


def _line(value: Mapping[str, Any]) -> bytes:
    return orjson.dumps(value) + b"\n"


def _message(message: Mapping[str, Any]) -> str:
    pieces = [text for part in message["parts"] if (text := _part(part["type"], part["data"]))]
    if not pieces:
        return ""
    moment = datetime.fromtimestamp(message["created_at"], UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    who = message.get("author", {}).get("name") or message["role"]
    return f"\n## {_one_line(who)}, {moment}\n\n" + "\n\n".join(pieces) + "\n"


def _part(kind: str, data: Mapping[str, Any]) -> str:
    match kind:
        case "text":
            return str(data["text"]).strip()
        case "tool_call":
            return f"Tool `{_one_line(data['name'])}`:\n\n{_fenced(data['input'])}"
        case "tool_result":
            outcome = "Error" if data["is_error"] else "Result"
            return f"{outcome} of `{_one_line(data['name'])}`:\n\n{_fenced(data['content'])}"
        case "shell_command":
            return _fenced(f"$ {data['command']}\n{data['output']}")
        case "binary":
            return f"File `{_one_line(data['Path'])}` ({_one_line(data['MIMEType'])})"
        case "image_url":
            return f"Image: {_one_line(data['url'])}"
        case _:
            return ""  # reasoning, and how the message ended


def _fenced(text: str) -> str:
    cut = text[:MARKDOWN_CHARS]
    if len(text) > MARKDOWN_CHARS:
        cut += f"\n... {len(text) - MARKDOWN_CHARS:,} more characters"
    longest = max((len(run) for run in _LONGEST_FENCE.findall(cut)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{cut}\n{fence}"


def _one_line(text: str) -> str:
    return " ".join(str(text).replace("`", "'").split())
