"""A run's view of its conversation: the messages, and the calls of its newest reply."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from agents.turn.inputs import RequestedCall
from agents.turn.transcript import TurnMessage
from agents.turn.window import estimated_tokens
from workspaces.log.attached_data import load_attached
from workspaces.log.parts import (
    FinishReason,
    Parts,
    Role,
    Text,
    ToolCall,
    ToolResult,
    finish_of,
    parts_from_wire,
    plain_text,
    tool_calls,
)
from workspaces.log.statements import statements

# ``b``: the session's summary, if it has one.
_MESSAGES = (
    "SELECT m.id, m.role, m.parts, m.model, m.provider, m.run_key, m.is_summary, s.message_count"
    " FROM workspaces_session s LEFT JOIN workspaces_message b ON b.id = s.summary_message_id"
    " LEFT JOIN workspaces_message m ON m.session_id = s.id AND m.is_finished = %s"
    " AND (m.position >= COALESCE(b.position, 0) OR (m.run_key = %s AND m.role = 'user'))"
    " AND (m.is_summary = %s OR m.id = b.id) WHERE s.id = %s ORDER BY m.position"
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
    messages: tuple[TurnMessage, ...]
    own: tuple[TurnMessage, ...]  # those that the run itself wrote
    message_count: int  # of the session, with those that are not read


def read_transcript(session_id: str, run_key: int) -> Stored:
    """Returns the finished messages of the session, from its summary on if there is one.

    The run's own prompt is included even if it comes before the summary.
    """
    with statements() as cursor:
        cursor.execute(_MESSAGES, [True, run_key, False, session_id])
        found = cursor.fetchall()
        message_count = found[0][7] if found else 0
        rows = [
            (*row[:2], load_attached(cursor, row[2]), *row[3:])
            for row in found
            if row[0] is not None
        ]
    summary = [_summary(row) for row in rows if row[6]]
    others = [(_message(row), row[5] == run_key) for row in rows if not row[6]]
    return Stored(
        (*summary, *(message for message, _ in others)),
        tuple(message for message, is_own in others if is_own),
        message_count,
    )


def _message(row: Sequence[Any]) -> TurnMessage:
    parts = parts_from_wire(orjson.loads(row[2]))
    return with_note(TurnMessage(row[0], Role(row[1]), parts, row[3], row[4]))


def with_note(message: TurnMessage) -> TurnMessage:
    """Returns the message; an empty reply that was cut gets a note about its cancel or error."""
    finish = finish_of(message.parts)
    if finish is None or message.role is not Role.ASSISTANT or _has_words(message.parts):
        return message
    note = _NOTES.get(finish.reason)
    return replace(message, parts=(Text(note), finish)) if note is not None else message


def _has_words(parts: Parts) -> bool:
    return bool(plain_text(parts).strip()) or bool(tool_calls(parts))


def _summary(row: Sequence[Any]) -> TurnMessage:
    words = plain_text(parts_from_wire(orjson.loads(row[2])))
    return TurnMessage(row[0], Role.USER, (Text(SUMMARISED.format(words=words)),))


def unanswered(own: tuple[TurnMessage, ...]) -> frozenset[str]:
    """Returns the tools of the calls that have no result yet."""
    steps, results = steps_of(own, frozenset())
    answered = {call_id for call_id, _ in results}
    return frozenset(call.name for step in steps for call in step if call.id not in answered)


def steps_of(
    own: tuple[TurnMessage, ...], parallel: frozenset[str]
) -> tuple[list[list[RequestedCall]], list[tuple[str, str]]]:
    """Returns the input of ``rebuild``: the calls of each reply, and the results."""
    steps = [
        [
            RequestedCall(call.id, call.name, call.input, call.name in parallel)
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


class Conversation:
    def __init__(self) -> None:
        self.messages: list[TurnMessage] = []
        self.calls: dict[str, ToolCall] = {}  # of the newest reply that made any
        self.call_message_id = ""
        self.call_ids: set[str] = set()  # of every reply of the run
        self.memo: dict[Hashable, Any] = {}  # what wires cache from one request to the next
        self._estimated = 0

    def load(self, messages: Iterable[TurnMessage], own: Iterable[TurnMessage] = ()) -> None:
        """Replaces the conversation by stored messages. ``own``: those that the run wrote."""
        self.messages = list(messages)
        self._estimated = estimated_tokens(self.messages)
        for message in own:
            self._remember_calls(message)

    def add_reply(self, message: TurnMessage) -> None:
        self._add(message)
        self._remember_calls(message)

    def add_result(self, result: ToolResult) -> None:
        self._add(TurnMessage("", Role.TOOL, (result,)))

    def rewrite(self, call: ToolCall) -> None:
        """Replaces a call of the newest reply, which a hook has changed."""
        self.calls[call.id] = call
        for index in range(len(self.messages) - 1, -1, -1):
            message = self.messages[index]
            if message.id == self.call_message_id:
                parts = tuple(
                    call if isinstance(part, ToolCall) and part.id == call.id else part
                    for part in message.parts
                )
                self.messages[index] = replace(message, parts=parts)
                return

    def tokens(self, reported: int) -> int:
        """Returns the size that the provider reported, or an estimate if it is 0."""
        return reported or self._estimated

    def _add(self, message: TurnMessage) -> None:
        self.messages.append(message)
        self._estimated += estimated_tokens((message,))

    def _remember_calls(self, message: TurnMessage) -> None:
        made = tool_calls(message.parts)
        if made:
            self.calls = {call.id: call for call in made}
            self.call_ids |= set(self.calls)
            self.call_message_id = message.id
