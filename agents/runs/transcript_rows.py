"""A session's stored messages as the transcript that models are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from agents.turn.inputs import Asked
from agents.turn.transcript import Message
from workspaces.log.attached_data import load_attached
from workspaces.log.parts import (
    FinishReason,
    Parts,
    Role,
    Text,
    ToolResult,
    finish_of,
    parts_from_wire,
    plain_text,
    tool_calls,
)
from workspaces.log.statements import statements

_MESSAGES = (
    "SELECT m.id, m.role, m.parts, m.model, m.provider, m.run_key, m.is_summary"
    " FROM workspaces_message m WHERE m.session_id = %s AND m.is_finished = %s"
    " AND (m.position >= %s OR (m.run_key = %s AND m.role = 'user'))"
    " AND (m.is_summary = %s OR m.id = %s) ORDER BY m.position"
)
_SUMMARY = (
    "SELECT m.id, m.position FROM workspaces_session s"
    " JOIN workspaces_message m ON m.id = s.summary_message_id WHERE s.id = %s"
)
SUMMARISED = (
    "The conversation so far became too long and was replaced by this summary of it. "
    "Go on from here; do not greet, do not repeat what is done.\n\n<summary>\n{words}\n</summary>"
)

# Without a note the next prompt would merge with this one into one message of the user, and
# the model would carry both out.
CANCELLED_NOTE = "(The user cancelled this before there was an answer.)"
FAILED_NOTE = "(An error ended this before there was an answer.)"
_NOTES = {FinishReason.CANCELED: CANCELLED_NOTE, FinishReason.ERROR: FAILED_NOTE}


@dataclass(frozen=True, slots=True)
class Stored:
    messages: tuple[Message, ...]
    own: tuple[Message, ...]  # those that the run itself wrote


def read_transcript(session_id: str, run_key: int) -> Stored:
    """From the summary on, if there is one. Open messages are left out.

    What the run was asked for stays in the transcript also when it lies before the summary.
    """
    with statements() as cursor:
        cursor.execute(_SUMMARY, [session_id])
        summary_id, start = cursor.fetchone() or ("", 0)
        cursor.execute(_MESSAGES, [session_id, True, start, run_key, False, summary_id])
        rows = [(*row[:2], load_attached(cursor, row[2]), *row[3:]) for row in cursor.fetchall()]
    summary = [_summary(row) for row in rows if row[6]]
    said = [(_message(row), row[5] == run_key) for row in rows if not row[6]]
    return Stored(
        (*summary, *(message for message, _ in said)),
        tuple(message for message, is_own in said if is_own),
    )


def _message(row: Sequence[Any]) -> Message:
    parts = parts_from_wire(orjson.loads(row[2]))
    return with_note(Message(row[0], Role(row[1]), parts, row[3], row[4]))


def with_note(message: Message) -> Message:
    """A reply that was cut before its first word says instead what became of its prompt."""
    finish = finish_of(message.parts)
    if finish is None or message.role is not Role.ASSISTANT or _has_words(message.parts):
        return message
    note = _NOTES.get(finish.reason)
    return replace(message, parts=(Text(note), finish)) if note is not None else message


def _has_words(parts: Parts) -> bool:
    return bool(plain_text(parts).strip()) or bool(tool_calls(parts))


def _summary(row: Sequence[Any]) -> Message:
    words = plain_text(parts_from_wire(orjson.loads(row[2])))
    return Message(row[0], Role.USER, (Text(SUMMARISED.format(words=words)),))


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
