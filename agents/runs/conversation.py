"""What a run knows of its conversation: the messages, and the calls of its newest reply."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Any

from agents.turn.transcript import Message
from agents.turn.window import estimated_tokens
from workspaces.log.parts import Role, ToolCall, ToolResult, tool_calls


class Conversation:
    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.calls: dict[str, ToolCall] = {}  # of the newest reply that made any
        self.call_message_id = ""
        self.call_ids: set[str] = set()  # of every reply of the run
        self.memo: dict[Hashable, Any] = {}  # what wires keep of it from one request to the next
        self._estimated = 0

    def load(self, messages: Iterable[Message], own: Iterable[Message] = ()) -> None:
        """Begins anew from what is stored. ``own``: what the run itself wrote."""
        self.messages = list(messages)
        self._estimated = estimated_tokens(self.messages)
        for message in own:
            self._remember_calls(message)

    def add_reply(self, message: Message) -> None:
        self._add(message)
        self._remember_calls(message)

    def add_result(self, result: ToolResult) -> None:
        self._add(Message("", Role.TOOL, (result,)))

    def rewrite(self, call: ToolCall) -> None:
        """A call of the newest reply is another one now."""
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

    def tokens(self, told: int) -> int:
        """The size of the conversation: what the provider said, else an estimate."""
        return told or self._estimated

    def _add(self, message: Message) -> None:
        self.messages.append(message)
        self._estimated += estimated_tokens((message,))

    def _remember_calls(self, message: Message) -> None:
        made = tool_calls(message.parts)
        if made:
            self.calls = {call.id: call for call in made}
            self.call_ids |= set(self.calls)
            self.call_message_id = message.id
