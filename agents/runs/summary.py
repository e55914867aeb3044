"""Asking the model for a summary of the conversation: its new start."""

from __future__ import annotations

from collections.abc import Sequence

from agents.llm.contract import ModelRequest
from agents.prompts.template import summary_prompt
from agents.runs.brief import Brief
from agents.tools.contract import Todo
from agents.turn.transcript import Message
from agents.turn.window import fitted
from workspaces.log.parts import Role, Text

LONGEST_WORDS = 8_000  # tokens
# Of the window, for the conversation: the rest is for the prompt and the summary's words.
PART_OF_WINDOW = 0.8
PART_WHEN_EXHAUSTED = 0.5  # its size in tokens was underestimated before
ASK = "Write the summary of this conversation now, as you were told."


def summary_request(
    brief: Brief,
    messages: Sequence[Message],
    todos: Sequence[Todo],
    *,
    session_id: str,
    was_exhausted: bool,
) -> ModelRequest:
    """The conversation as it is where it fits, else with its oldest parts cut."""
    window = brief.model.info.context_window
    part = PART_WHEN_EXHAUSTED if was_exhausted else PART_OF_WINDOW
    told = fitted(messages, tokens=int(window * part)) if window > 0 else tuple(messages)
    return brief.model.request(
        summary_prompt(todos),
        (*told, Message("", Role.USER, (Text(ASK),))),
        {},
        session_id=session_id,
        working_dir=brief.working_dir,
        max_tokens=LONGEST_WORDS,
    )
