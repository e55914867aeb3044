"""Requests a reply or a summary from the model, receives it, and keeps it until it is written.

The end of a reply becomes an input of the turn machine. The run decides when to write it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agents.llm.contract import ModelRequest
from agents.llm.errors import ContextExhausted, ModelError
from agents.llm.usage import cost_of
from agents.prompts.template import summary_prompt
from agents.runs.calls.file_tracker import DatabaseTodos
from agents.runs.conversation import Conversation, read_transcript
from agents.runs.lease import Lease
from agents.runs.messages import whole_calls
from agents.runs.reply import Checkpoints, Reply
from agents.runs.setup import RunSetup, SetupInUse
from agents.runs.steps import ReplyWrite, Written
from agents.tools.contract import Todo
from agents.turn.inputs import Asked, Input, Replied, ReplyFailed
from agents.turn.transcript import TurnMessage
from agents.turn.window import fitted
from workspaces.delivery.hub import Hub
from workspaces.log.parts import FinishReason, Role, Text, ToolCall, plain_text, tool_calls
from workspaces.log.reader import read

LONGEST_WORDS = 8_000  # tokens
# Of the window, for the conversation: the rest is for the prompt and the summary's words.
PART_OF_WINDOW = 0.8
PART_WHEN_EXHAUSTED = 0.5  # its size in tokens was underestimated before
ASK = "Write the summary of this conversation now, as you were told."


def summary_request(
    brief: RunSetup,
    messages: Sequence[TurnMessage],
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
        (*told, TurnMessage("", Role.USER, (Text(ASK),))),
        {},
        session_id=session_id,
        working_dir=brief.working_dir,
        max_tokens=LONGEST_WORDS,
    )


NO_SUMMARY = "The model gave no summary of the conversation; try again, or begin a new session."


class Speaker:
    def __init__(
        self,
        held: Lease,
        briefing: SetupInUse,
        conversation: Conversation,
        *,
        hub: Hub,
        checkpoints: Checkpoints,
        on_begin: Callable[[], None],
        tell: Callable[[Input], None],
    ) -> None:
        """``on_begin`` is called at the first words of each reply."""
        self._held = held
        self._briefing = briefing
        self._conversation = conversation
        self._hub = hub
        self._checkpoints = checkpoints
        self._on_begin = on_begin
        self._tell = tell
        self._reply: Reply | None = None
        self._usage = (0, 0, 0.0)  # of the reply: prompt tokens, completion tokens, cost
        self._is_summarised = False  # the conversation begins with a summary that was not read yet

    async def begin(self, written: Written, *, is_summary: bool) -> Reply:
        """The reply that a step has begun, still without a word."""
        if written.folded or self._is_summarised:
            stored = await read(read_transcript, self._held.session_id, self._held.key)
            self._conversation.load(stored.messages)
        self._is_summarised = is_summary
        assert written.message is not None  # noqa: S101  a reply was begun in this step
        self._reply = Reply(
            self._held,
            self._hub,
            self._checkpoints,
            written.stream_number,
            written.message,
            frozenset(self._conversation.call_ids),
            on_begin=self._on_begin,
            is_summary=is_summary,
        )
        return self._reply

    async def receive(self, reply: Reply, brief: RunSetup, *, was_exhausted: bool) -> None:
        """Streams it to its end and tells what came of it. Cancelling closes the stream."""
        request = await self._request(reply, brief, was_exhausted=was_exhausted)
        try:
            stopped = await reply.receive(brief.model.provider, request)
        except ModelError as error:
            exhausted = isinstance(error, ContextExhausted) and brief.settings.auto_summarize
            self._tell(ReplyFailed(error.sentence, is_exhausted=exhausted))
            return
        usage = stopped.usage
        prompt_tokens = usage.input + usage.cache_read + usage.cache_write
        self._usage = (prompt_tokens, usage.output, cost_of(usage, brief.model.info))
        parts = reply.parts()
        if reply.is_summary and not plain_text(parts).strip():
            self._tell(ReplyFailed(NO_SUMMARY))
            return
        asked = tuple(
            Asked(call.id, call.name, call.input, self._briefing.is_parallel(call.name))
            for call in tool_calls(parts)
        )
        tokens = self._conversation.tokens(prompt_tokens + usage.output)
        self._tell(Replied(stopped.reason, asked, self._briefing.is_full(tokens)))

    async def _request(self, reply: Reply, brief: RunSetup, *, was_exhausted: bool) -> ModelRequest:
        if reply.is_summary:
            return summary_request(
                brief,
                self._conversation.messages,
                await DatabaseTodos(self._held.workspace_id, self._held.session_id).read(),
                session_id=self._held.session_id,
                was_exhausted=was_exhausted,
            )
        return brief.model.request(
            brief.system,
            tuple(self._conversation.messages),
            brief.tools,
            session_id=self._held.session_id,
            working_dir=brief.working_dir,
            memo=self._conversation.memo,
        )

    def to_write(self, reason: FinishReason) -> ReplyWrite | None:
        """The reply as a step writes it, finished with this reason."""
        if self._reply is None:
            return None
        parts = self._reply.parts()
        if self._reply.is_summary:  # it was given no tools
            parts = tuple(part for part in parts if not isinstance(part, ToolCall))
        elif reason is not FinishReason.TOOL_USE:
            parts = whole_calls(parts)
        prompt_tokens, completion_tokens, cost = self._usage
        return ReplyWrite(
            self._reply.message_id,
            parts,
            reason,
            prompt_tokens,
            completion_tokens,
            cost,
            context_tokens=self._conversation.tokens(prompt_tokens + completion_tokens),
            is_summary=self._reply.is_summary,
        )

    def keep(self, written: ReplyWrite) -> None:
        """The reply was written: it is part of the conversation, and its words come no more."""
        if self._reply is None:
            return
        if not self._reply.is_summary:
            reply = TurnMessage(written.message_id, Role.ASSISTANT, written.parts)
            self._conversation.add_reply(reply)
        self.close()
        self._reply = None
        self._usage = (0, 0, 0.0)

    def close(self) -> None:
        if self._reply is not None:
            self._reply.close()
