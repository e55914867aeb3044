"""A session's stored messages as the transcript that models are told."""

from __future__ import annotations

from dataclasses import dataclass

import orjson
from django.db import connection

from agents.turn.inputs import Asked
from agents.turn.transcript import Message
from workspaces.events.parts import Role, ToolResult, finish_of, parts_from_wire, tool_calls


@dataclass(frozen=True, slots=True)
class Stored:
    messages: tuple[Message, ...]
    own: tuple[Message, ...]  # those that the run itself wrote


def read_transcript(session_id: str, run_key: int) -> Stored:
    """From the newest summary on, if there is one. Open messages are left out."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT m.id, m.role, m.parts, m.model, m.provider, m.run_key"
            " FROM workspaces_message m WHERE m.session_id = %s AND m.is_finished = %s"
            " AND m.position >= COALESCE((SELECT MAX(s.position) FROM workspaces_message s"
            " WHERE s.session_id = %s AND s.is_summary = %s), 0)"
            " ORDER BY m.position",
            [session_id, True, session_id, True],
        )
        rows = cursor.fetchall()
    messages = [
        (
            Message(row[0], Role(row[1]), parts_from_wire(orjson.loads(row[2])), row[3], row[4]),
            row[5],
        )
        for row in rows
    ]
    return Stored(
        tuple(message for message, _ in messages),
        tuple(message for message, key in messages if key == run_key),
    )


def steps_of(
    own: tuple[Message, ...], parallel: frozenset[str]
) -> tuple[list[list[Asked]], list[tuple[str, str]]]:
    """What the turn machine is rebuilt from: each reply's calls, and the results."""
    steps = [
        [
            Asked(call.id, call.name, call.input, call.name in parallel)
            for call in tool_calls(message.parts)
        ]
        for message in own
        if message.role is Role.ASSISTANT and finish_of(message.parts) is not None
    ]
    results = [
        (part.tool_call_id, part.content)
        for message in own
        if message.role is Role.TOOL
        for part in message.parts
        if isinstance(part, ToolResult)
    ]
    return steps, results
